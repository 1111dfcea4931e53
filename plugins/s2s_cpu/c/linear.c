/* Linear maps with prepacked weights, for one thread.

The outputs are cut into panels of C columns. A panel's weights lie in the order in which they are read, so that few
rows, which are bound by memory, run at its bandwidth; a tile of up to ROWS rows stays in registers, so that many run
at the rate of arithmetic, DEPTH inputs at a time, so that they stay in the caches. Weights are floats, or bf16, half of
the bytes, widened to floats when they are read. Each number is the sum over the inputs in their order, from the bias
on: a row has the same bits in a tile of any size. R rows, I inputs, O outputs.
*/

#include "decoder.h"
#include "panels.h"

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

/* The weights of an input for a panel. In bf16 each 32 bits hold a weight of the first half of the columns, in the lower
16, and its counterpart of the second: a shift or a mask makes each the float that it is the upper half of. */
INLINE void get_weights(const int bits, const char *weight, vf w[PARTS]) {
    if (bits == 32)
        UNROLLED for (int c = 0; c < PARTS; c++) w[c] = load((const float *)weight + c * W);
    else
        UNROLLED for (int c = 0; c < PARTS / 2; c++) {
            vi pairs = *(const vi *)(weight + c * sizeof(vi));
            w[c] = (vf)(pairs << 16), w[c + PARTS / 2] = (vf)(pairs & (int32_t)0xffff0000);
        }
    UNROLLED for (int at = 0; at < C * bits / 8; at += 64) __builtin_prefetch(weight + AHEAD + at);
}

/* To the sums of n rows, x across [n, I], one input's share. */
INLINE void add_input(const int n, const int bits, vf sums[ROWS][PARTS], const char *weight, const float *x,
                      int64_t I) {
    vf w[PARTS];
    get_weights(bits, weight, w);
    UNROLLED for (int r = 0; r < n; r++) {
        vf y = splat(x[r * I]);
        UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] += y * w[c];
    }
}

/* What inputs first to last - 1 of n rows add to the outputs of a panel from o on; the first of all, to the bias. */
INLINE void tile(const int n, const int bits, const Linear *linear, int64_t o, int64_t first, int64_t last,
                 const float *x, float *out) {
    const int64_t I = linear->I, step = C * bits / 8;
    const char *weight = (const char *)linear->weight + o * I * bits / 8;
    const float *bias = linear->bias + o;
    vf sums[ROWS][PARTS];
    if (first)
        get(n, sums, out, linear->O, linear->O - o);
    else
        UNROLLED for (int r = 0; r < n; r++)
            UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] = load(bias + c * W);
    if (n > 4)
        for (int64_t i = first; i < last; i++) add_input(n, bits, sums, weight + i * step, x + i, I);
    else /* 1.3 times as fast for 4 rows, but spills registers for 6 */
        _Pragma("GCC unroll 2") for (int64_t i = first; i < last; i++)
            add_input(n, bits, sums, weight + i * step, x + i, I);
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

/* x [R, I] -> [R, O] */
int64_t s2s_linear(const Linear *linear, const float *x, int64_t R, float *out) {
    if (linear->bits == 8) return s2s_int8_linear(linear, x, R, out);
    if (linear->bits == 16)
        float_linear(16, linear, x, R, out);
    else
        float_linear(32, linear, x, R, out);
    return OK;
}
