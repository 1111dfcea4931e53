/* Linear maps in 8-bit integers, for one thread: weights prepacked, rows quantized here, sums exact.

A panel of C outputs is [I / 4, C, 4]: of four inputs at a time the weights of all outputs, which is what both the dot
products of AVX-512 VNNI and the tiles of AMX read. A tile of AMX has 16 rows or outputs, of 64 bytes each. Since sums of
integers are exact, a row has the same bits by either of them. R rows, I inputs, O outputs.
*/

#include "decoder.h"
#include "panels.h"
#include "tiles.h"

enum { ZERO = 128, BLOCK = 16, DEPTH = 64 }; /* rows of a block of sums; inputs of a tile */

int64_t s2s_has_int8(void) {
#ifdef __AVX512VNNI__
    return 1;
#else
    return 0;
#endif
}

#ifdef __AVX512VNNI__
typedef struct { /* quantized rows x [R, width], zeros from R on to a whole block; each is worth `scale` */
    uint8_t *x;
    float *scale;
    int64_t R, width;
} Rows;

/* To a row's sums, four unsigned times four signed bytes for each column. As one piece: the compiler reads the inputs of all
rows first, so that the sums of six rows no longer fit into registers, and its own name for the product moves them twice. */
INLINE void add_fours(vi sums[PARTS], const uint8_t *x, const vi w[PARTS]) {
    vi four;
    __asm__("vpbroadcastd %5, %4\n\t"
            "vpdpbusd %6, %4, %0\n\t"
            "vpdpbusd %7, %4, %1\n\t"
            "vpdpbusd %8, %4, %2\n\t"
            "vpdpbusd %9, %4, %3"
            : "+v"(sums[0]), "+v"(sums[1]), "+v"(sums[2]), "+v"(sums[3]), "=&v"(four)
            : "m"(*(const uint8_t(*)[4])x), "v"(w[0]), "v"(w[1]), "v"(w[2]), "v"(w[3]));
}

/* Sums of n rows with a panel's weights. */
INLINE void dot_products(const int n, const uint8_t *x, int64_t width, const int8_t *weight, int64_t fours,
                         int32_t sums[BLOCK][C]) {
    vi found[ROWS][PARTS], w[PARTS];
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < PARTS; c++) found[r][c] = (vi){0};
    for (int64_t i = 0; i < fours; i++, weight += 4 * C) {
        UNROLLED for (int c = 0; c < PARTS; c++) {
            w[c] = *(const vi *)(weight + c * 64);
            __builtin_prefetch(weight + AHEAD + c * 64);
        }
        UNROLLED for (int r = 0; r < n; r++) add_fours(found[r], x + r * width + i * 4, w);
    }
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < PARTS; c++) *(vi *)(sums[r] + c * W) = found[r][c];
}

/* Those of a block of rows from `first` on. */
static void sums_of_vectors(const Rows *rows, int64_t first, const int8_t *weight, int64_t fours,
                            int32_t sums[BLOCK][C]) {
    int64_t n = rows->R - first < BLOCK ? rows->R - first : BLOCK;
    for (int64_t r = 0; r < n; r += ROWS) {
        const uint8_t *x = rows->x + (first + r) * rows->width;
        switch (n - r < ROWS ? n - r : ROWS) {
#define CASE(n) case n: dot_products(n, x, rows->width, weight, fours, sums + r); break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
        }
    }
}

#ifdef INT8_TILES
/* Tiles 0 to 3 are for sums, 4 for rows and 5 for weights of 64 inputs, 6 and 7 for those of the inputs that are left. */
#define MULTIPLY(x_tile, w_tile)                                                                                        \
    _tile_loadd(x_tile, x, rows->width);                                                                               \
    _tile_loadd(w_tile, weight, 4 * C);                                                                                \
    _tile_dpbusd(0, x_tile, w_tile);                                                                                   \
    _tile_loadd(w_tile, weight + 64, 4 * C);                                                                           \
    _tile_dpbusd(1, x_tile, w_tile);                                                                                   \
    _tile_loadd(w_tile, weight + 128, 4 * C);                                                                          \
    _tile_dpbusd(2, x_tile, w_tile);                                                                                   \
    _tile_loadd(w_tile, weight + 192, 4 * C);                                                                          \
    _tile_dpbusd(3, x_tile, w_tile)

/* The same as `sums_of_vectors`; `next` are lines of the panel that comes after this one, so many for 64 inputs. */
static void sums_of_tiles(const Rows *rows, int64_t first, const int8_t *weight, int64_t fours, const int8_t *next,
                          int64_t lines, int32_t sums[BLOCK][C]) {
    const uint8_t *x = rows->x + first * rows->width;
    STORED;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = fours; i >= DEPTH / 4; i -= DEPTH / 4, x += DEPTH, weight += DEPTH * C) {
        for (int64_t line = 0; line < lines; line++, next += 64) __builtin_prefetch(next, 0, 2);
        MULTIPLY(4, 5);
    }
    if (fours % (DEPTH / 4)) {
        MULTIPLY(6, 7);
    }
    _tile_stored(0, sums[0], 4 * C);
    _tile_stored(1, sums[0] + W, 4 * C);
    _tile_stored(2, sums[0] + 2 * W, 4 * C);
    _tile_stored(3, sums[0] + 3 * W, 4 * C);
}
#endif

/* Sums of integers to outputs from o on of the rows of a block. */
static void put_block(const Linear *linear, int64_t o, const float *scale, int64_t n, int32_t sums[BLOCK][C],
                      float *out) {
    int64_t columns = linear->O - o < C ? linear->O - o : C;
    for (int64_t r = 0; r < n; r++, out += linear->O) {
        vf row[PARTS];
        UNROLLED for (int c = 0; c < PARTS; c++) {
            int64_t at = o + c * W;
            vi whole = *(const vi *)(sums[r] + c * W) - *(const vi *)(linear->zero + at);
            row[c] = __builtin_convertvector(whole, vf) * load(linear->scale + at) * splat(scale[r]);
            row[c] += load(linear->bias + at);
        }
        if (columns == C)
            UNROLLED for (int c = 0; c < PARTS; c++) *(vf *)(out + c * W) = row[c];
        else
            memcpy(out, row, columns * sizeof(float));
    }
}

/* Tiles take as long for 16 rows as for one: a few are quicker by vectors. */
static void multiply(const Linear *linear, const Rows *rows, float *out) {
    const int64_t fours = (linear->I + 3) / 4, R = rows->R;
    const int8_t *weight = linear->weight;
    int32_t sums[BLOCK][C];
#ifdef INT8_TILES
    const int64_t blocks = (R + BLOCK - 1) / BLOCK, lines = (C + blocks - 1) / blocks;
    const int tiles = R > ROWS && may_use_tiles();
    if (tiles) configure_tiles(fours % (DEPTH / 4));
#endif
    for (int64_t o = 0; o < linear->O; o += C, weight += 4 * C * fours)
        for (int64_t r = 0; r < R; r += BLOCK) {
#ifdef INT8_TILES
            if (tiles)
                sums_of_tiles(rows, r, weight, fours, weight + (C + r / BLOCK * lines) * 4 * fours, lines, sums);
            else
#endif
                sums_of_vectors(rows, r, weight, fours, sums);
            put_block(linear, o, rows->scale + r, R - r < BLOCK ? R - r : BLOCK, sums, out + r * linear->O + o);
        }
#ifdef INT8_TILES
    if (tiles) _tile_release();
#endif
}
#endif

/* x [R, I] -> [R, O] */
int64_t s2s_int8_linear(const Linear *linear, const float *x, int64_t R, float *out) {
    if (!R) return OK;
#ifdef __AVX512VNNI__
    int64_t width = (linear->I + 3) / 4 * 4, n = (R + BLOCK - 1) / BLOCK * BLOCK;
    Rows rows = {.x = allocate(n * width), .scale = allocate(R * sizeof(float)), .R = R, .width = width};
    if (!rows.x || !rows.scale) {
        free(rows.x), free(rows.scale);
        return NO_MEMORY;
    }
    s2s_quantize_rows(x, R, linear->I, width, ZERO, rows.x, rows.scale);
    memset(rows.x + R * width, 0, (n - R) * width);
    multiply(linear, &rows, out);
    free(rows.x), free(rows.scale);
#else
    (void)linear, (void)x, (void)out;
#endif
    return OK;
}
