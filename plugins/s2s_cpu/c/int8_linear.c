/* Linear maps in 8-bit integers, for one thread: weights prepacked, rows quantized here, sums exact.

A panel of C outputs is [I / 4, C, 4]: for four inputs at a time, the weights of all outputs. The dot products of AVX-512
VNNI, AMX tiles, and products of 16-bit integers where neither exists read this layout. Since sums of integers are exact,
a row's result has the same bits by each. R rows, I inputs, O outputs.
*/

#include "vector_sums.h"

enum { ZERO = 128 };

int64_t s2s_has_int8(void) {
#ifdef INT8_VECTORS
    return 1;
#else
    return 0;
#endif
}

#ifdef INT8_PAIRS
/* Widens rows to 16 bits, in the order in which vector_sums.h reads them. Returns 0 if memory runs out. */
static int64_t widen_rows(PaddedRows *rows) {
    const int64_t n = rows->R * rows->stride / 4;
    const uint32_t *from = (const uint32_t *)rows->x;
    uint32_t(*to)[2] = allocate(n * ROW_UNIT);
    if (!to) return 0;
    for (int64_t i = 0; i < n; i++) to[i][0] = from[i] & 0xff00ff, to[i][1] = from[i] >> 8 & 0xff00ff;
    free(rows->memory);
    rows->x = rows->memory = to;
    rows->stride *= 2;
    return 1;
}
#endif

#ifdef INT8_VECTORS
/* Converts the integer sums of a block of rows to their outputs from o on. */
static void put_block(const Linear *linear, int64_t o, const float *scale, int64_t n, int32_t sums[][C],
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

/* By dot products of vectors, which take less time than tiles for a few rows. */
static void multiply_by_vectors(const Linear *linear, const PaddedRows *rows, const float *scale, float *out) {
    const char *weight = linear->weight;
    int32_t sums[ROWS][C];
    for (int64_t o = 0; o < linear->O; o += C, weight += rows->n_tiles * PANEL_TILE)
        for (int64_t r = 0, n; r < rows->R; r += n) {
            n = vector_sums(8, rows, r, weight, (linear->I + 3) / 4, sums);
            put_block(linear, o, scale + r, n, sums, out + r * linear->O + o);
        }
}

#ifdef INT8_TILES
static void multiply_by_tiles(const Linear *linear, const PaddedRows *rows, const float *scale, float *out) {
    const char *weight = linear->weight;
    int32_t sums[TILE_ROWS][C];
    configure_tiles(rows->R);
    for (int64_t o = 0; o < linear->O; o += C, weight += rows->n_tiles * PANEL_TILE)
        for (int64_t r = 0; r < rows->R; r += TILE_ROWS) {
            const int64_t n = rows->R - r < TILE_ROWS ? rows->R - r : TILE_ROWS;
            s2s_tile_sums(8, rows, r, weight, sums);
            put_block(linear, o, scale + r, n, sums, out + r * linear->O + o);
        }
    _tile_release();
}
#endif
#endif

/* x [R, I] -> [R, O] */
int64_t s2s_int8_linear(const Linear *linear, const float *x, int64_t R, float *out) {
    if (!R) return OK;
#ifdef INT8_VECTORS
    PaddedRows rows;
    float *scale = allocate(R * sizeof(float));
    int64_t there = padded_rows(linear, R, &rows) && scale;
    if (there) s2s_quantize_rows(x, R, linear->I, rows.stride, ZERO, (uint8_t *)rows.x, scale);
#ifdef INT8_PAIRS
    there = there && widen_rows(&rows);
#endif
    if (there) {
#ifdef INT8_TILES
        if (R > ROWS && s2s_may_use_tiles())
            multiply_by_tiles(linear, &rows, scale, out);
        else
#endif
            multiply_by_vectors(linear, &rows, scale, out);
    }
    free(rows.memory), free(scale);
    return there ? OK : NO_MEMORY;
#else
    (void)linear, (void)x, (void)out;
    return NO_INSTRUCTIONS;
#endif
}
