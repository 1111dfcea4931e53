/* Linear maps with prepacked weights, for one thread.

The outputs are cut into panels of C columns. A panel's weights lie in the order in which they are read, so that few
rows, which are bound by memory, run at its bandwidth; a tile of up to ROWS rows stays in registers, so that many run
at the rate of arithmetic, DEPTH inputs at a time, so that they stay in the caches. Weights are floats, or bf16, half of
the bytes. Those are multiplied by the tiles of AMX, where there are any, for which rows are rounded to bf16, too; or else
widened to floats when they are read. Each number is the sum over the inputs in their order: a row has the same bits
whatever the others are, and however many. R rows, I inputs, O outputs.
*/

#include "tile_sums.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

enum { DEPTH = 256 };

int64_t s2s_panel_width(void) { return C; }

/* Ask for huge pages: a product reads more pages than the TLB holds. */
int64_t s2s_huge_pages(void *memory, int64_t n_bytes) {
#ifdef MADV_HUGEPAGE
    madvise(memory, n_bytes, MADV_HUGEPAGE);
#else
    (void)memory, (void)n_bytes;
#endif
    return OK;
}

/* Sums to outputs: all C columns of a panel, or the first of them if it is the last. Unrolled, and by way of a row of
its own where an address is taken, or the sums of all rows would be kept in memory, not in registers. */
INLINE void put(const int n, vf sums[ROWS][PARTS], float *out, int64_t stride, int64_t columns) {
    UNROLLED for (int r = 0; r < n; r++) {
        vf row[PARTS];
        if (columns >= C) {
            UNROLLED for (int c = 0; c < PARTS; c++) *(vf *)(out + r * stride + c * W) = sums[r][c];
            continue;
        }
        UNROLLED for (int c = 0; c < PARTS; c++) row[c] = sums[r][c];
        memcpy(out + r * stride, row, columns * sizeof(float));
    }
}

/* The sums that `put` left. */
INLINE void get(const int n, vf sums[ROWS][PARTS], const float *out, int64_t stride, int64_t columns) {
    UNROLLED for (int r = 0; r < n; r++) {
        vf row[PARTS] = {0};
        memcpy(row, out + r * stride, (columns < C ? columns : C) * sizeof(float));
        UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] = row[c];
    }
}

/* The weights of input i for a panel. In bf16 each 32 bits hold a weight of an even input, in the lower 16, and that of the
next one: a shift or a mask makes each the float that it is the upper half of. */
INLINE void get_weights(const int bits, const char *weight, int64_t i, vf w[PARTS]) {
    const char *at = weight + (bits == 32 ? i : i / 2) * C * sizeof(float);
    UNROLLED for (int c = 0; c < PARTS; c++) {
        vi read = *(const vi *)(at + c * sizeof(vi));
        w[c] = (vf)(bits == 32 ? read : i % 2 ? read & (int32_t)0xffff0000 : read << 16);
    }
    if (bits == 32 || !(i % 2))
        UNROLLED for (int ahead = 0; ahead < C * (int)sizeof(float); ahead += LINE)
            __builtin_prefetch(at + AHEAD + ahead);
}

/* To the sums of n rows, x across [n, I], one input's share. */
INLINE void add_input(const int n, const int bits, vf sums[ROWS][PARTS], const char *weight, int64_t i, const float *x,
                      int64_t I) {
    vf w[PARTS];
    get_weights(bits, weight, i, w);
    UNROLLED for (int r = 0; r < n; r++) {
        vf y = splat(x[r * I + i]);
        UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] += y * w[c];
    }
}

/* What inputs first to last - 1 of n rows add to the outputs of a panel from o on; the first of all, to the bias. */
INLINE void tile(const int n, const int bits, const Linear *linear, int64_t o, int64_t first, int64_t last,
                 const float *x, float *out) {
    const int64_t I = linear->I, units = bits == 32 ? I : depth_of(linear) * LINE / 4; /* of four bytes */
    const char *weight = (const char *)linear->weight + o * units * sizeof(float);
    const float *bias = linear->bias + o;
    vf sums[ROWS][PARTS];
    if (first)
        get(n, sums, out, linear->O, linear->O - o);
    else
        UNROLLED for (int r = 0; r < n; r++)
            UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] = load(bias + c * W);
    if (n > 4 && bits == 32)
        for (int64_t i = first; i < last; i++) add_input(n, bits, sums, weight, i, x, I);
    else /* 1.3 times as fast for 4 rows, but spills registers for 6; an even input of bf16 and the next one */
        _Pragma("GCC unroll 2") for (int64_t i = first; i < last; i++) add_input(n, bits, sums, weight, i, x, I);
    put(n, sums, out, linear->O, linear->O - o);
}

/* With weights of 32 or 16 bits. */
INLINE void float_linear(const int bits, const Linear *linear, const float *x, int64_t R, float *out) {
    int64_t depth = R > ROWS ? DEPTH : linear->I, tiles = (R + ROWS - 1) / ROWS;
    for (int64_t first = 0; first < linear->I; first += depth) {
        int64_t last = first + depth < linear->I ? first + depth : linear->I;
        for (int64_t o = 0; o < linear->O; o += C)
            for (int64_t t = 0, r = 0, n; t < tiles; t++, r += n) switch (n = (R - r + tiles - t - 1) / (tiles - t)) {
#define CASE(n) case n: tile(n, bits, linear, o, first, last, x + r * linear->I, out + r * linear->O + o); break;
                    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
                }
    }
}

#ifdef BF16_TILES
/* [R, I] in bf16 */
static void round_rows(const float *x, int64_t I, PaddedRows *rows) {
    for (int64_t r = 0; r < rows->R; r++, x += I)
        for (int64_t i = 0; i < rows->depth * 2 * W; i += 2 * W) {
            const uint32_t there = I - i >= 2 * W ? ~0u : (1u << (I - i)) - 1;
            const __m512 low = _mm512_maskz_loadu_ps(there, x + i), high = _mm512_maskz_loadu_ps(there >> W, x + i + W);
            _mm512_store_si512(rows->x + r * rows->stride + 2 * i, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
}

/* Sums plus biases to outputs from o on of n rows. */
static void put_sums(const Linear *linear, int64_t o, int64_t n, const float sums[][C], float *out) {
    const int64_t columns = linear->O - o < C ? linear->O - o : C;
    for (int64_t r = 0; r < n; r++, out += linear->O) {
        vf row[PARTS];
        UNROLLED for (int c = 0; c < PARTS; c++) row[c] = load(sums[r] + c * W) + load(linear->bias + o + c * W);
        memcpy(out, row, columns * sizeof(float));
    }
}

static int64_t bf16_linear(const Linear *linear, const float *x, int64_t R, float *out) {
    const char *weight = linear->weight;
    PaddedRows rows;
    float sums[BLOCK][C];
    if (!padded_rows(linear, R, &rows)) return NO_MEMORY;
    round_rows(x, linear->I, &rows);
    configure_tiles(R);
    for (int64_t o = 0; o < linear->O; o += C, weight += rows.depth * PANEL_TILE)
        for (int64_t first = 0; first < R; first += BLOCK) {
            const int64_t n = R - first < BLOCK ? R - first : BLOCK;
            s2s_tile_sums(16, &rows, first, weight, (int32_t(*)[C])sums);
            put_sums(linear, o, n, sums, out + first * linear->O + o);
        }
    _tile_release();
    free(rows.memory);
    return OK;
}
#endif

/* x [R, I] -> [R, O] */
int64_t s2s_linear(const Linear *linear, const float *x, int64_t R, float *out) {
    if (linear->bits == 8) return s2s_int8_linear(linear, x, R, out);
#ifdef BF16_TILES
    if (linear->bits == 16 && may_use_tiles()) return R ? bf16_linear(linear, x, R, out) : OK;
#endif
    if (linear->bits == 16)
        float_linear(16, linear, x, R, out);
    else
        float_linear(32, linear, x, R, out);
    return OK;
}
