/* Linear maps with prepacked weights, for one thread.

The outputs are cut into panels of C columns. A panel's weights lie in the order in which they are read, so that few
rows, which are bound by memory, run at its bandwidth. A block of sums of up to ROWS rows stays in registers, so that
many rows run at the rate of arithmetic; they take some inputs and GROUP panels at a time, so that inputs and sums stay
in the caches: with a vocabulary of 256,000, sums fill 131 MB for 128 rows. Weights are floats, or
bf16 in half the bytes, which are widened to floats where the processor cannot multiply them (unit_linear.c). The order
of a sum depends on I alone, not on R, so that a row's result has the same bits whatever the other rows are. R rows, I
inputs, O outputs.
*/

#include "tile_sums.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

/* Least inputs and values of rows at a time; panels of a group. */
enum { DEPTH = 256, AT_ONCE = 128 * DEPTH, GROUP = 8 };

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

/* Stores sums as outputs: all C columns of a panel, or the first `columns` of the last one. Unrolled, and through a
copy of the row where an address is taken; otherwise the sums of all rows would be kept in memory, not in registers. */
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

/* Loads the sums that `put` stored. */
INLINE void get(const int n, vf sums[ROWS][PARTS], const float *out, int64_t stride, int64_t columns) {
    UNROLLED for (int r = 0; r < n; r++) {
        vf row[PARTS] = {0};
        memcpy(row, out + r * stride, (columns < C ? columns : C) * sizeof(float));
        UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] = row[c];
    }
}

/* The weights of an input for a panel. In bf16 each 32 bits hold the weight of an even input in the lower half and that
of the next, odd input in the upper half: a shift or a mask makes a float of either. */
INLINE void get_weights(const int bits, const int odd, const char *weight, vf w[PARTS]) {
    if (odd) __asm__("" : "+r"(weight)); /* read again: if they stayed in registers, sums would not */
    UNROLLED for (int c = 0; c < PARTS; c++) {
        const vi read = *(const vi *)(weight + c * sizeof(vi));
        w[c] = (vf)(bits == 32 ? read : odd ? read & (int32_t)0xffff0000 : read << 16);
    }
    if (!odd)
        UNROLLED for (int ahead = 0; ahead < C * 4; ahead += 64) __builtin_prefetch(weight + AHEAD + ahead);
}

/* Adds the share of one input of the rows x [n, I] to their sums. */
INLINE void add_input(const int n, const int bits, const int odd, vf sums[ROWS][PARTS], const char *weight,
                      const float *x, int64_t I) {
    vf w[PARTS];
    get_weights(bits, odd, weight, w);
    UNROLLED for (int r = 0; r < n; r++) {
        vf y = splat(x[r * I]);
        UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] += y * w[c];
    }
}

/* The same for inputs first to last - 1; in bf16 `first` is even. */
INLINE void add_inputs(const int n, const int bits, vf sums[ROWS][PARTS], const char *weight, int64_t first,
                       int64_t last, const float *x, int64_t I) {
    if (bits == 16)
        for (int64_t i = first; i < last; i += 2) {
            add_input(n, 16, 0, sums, weight + i * C * 2, x + i, I);
            if (i + 1 < last) add_input(n, 16, 1, sums, weight + i * C * 2, x + i + 1, I);
        }
    else if (n > 4)
        for (int64_t i = first; i < last; i++) add_input(n, 32, 0, sums, weight + i * C * 4, x + i, I);
    else /* 1.3 times as fast for 4 rows, but spills registers for 6 */
        _Pragma("GCC unroll 2") for (int64_t i = first; i < last; i++)
            add_input(n, 32, 0, sums, weight + i * C * 4, x + i, I);
}

/* Adds the share of inputs first to last - 1 of n rows to a panel's outputs from o on, or if first is 0 to the bias. */
INLINE void add_to_panel(const int n, const int bits, const Linear *linear, int64_t o, int64_t first, int64_t last,
                         const float *x, float *out) {
    const int64_t units = bits == 32 ? linear->I : tiles_along(linear) * TILE_BYTES / 4; /* of four bytes */
    const char *weight = (const char *)linear->weight + o * units * 4;
    const float *bias = linear->bias + o;
    vf sums[ROWS][PARTS];
    if (first)
        get(n, sums, out, linear->O, linear->O - o);
    else
        UNROLLED for (int r = 0; r < n; r++)
            UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] = load(bias + c * W);
    add_inputs(n, bits, sums, weight, first, last, x, linear->I);
    put(n, sums, out, linear->O, linear->O - o);
}

/* Inputs that all rows take at a time. */
INLINE int64_t depth_for(const Linear *linear, int64_t R) {
    if (R <= ROWS) return linear->I;
    return R < AT_ONCE / DEPTH ? AT_ONCE / R / 2 * 2 : DEPTH;
}

/* With weights of 32 or 16 bits. */
INLINE void float_linear(const int bits, const Linear *linear, const float *x, int64_t R, float *out) {
    const int64_t depth = depth_for(linear, R), blocks = (R + ROWS - 1) / ROWS, group = GROUP * C;
    for (int64_t start = 0; start < linear->O; start += group)
        for (int64_t first = 0; first < linear->I; first += depth) {
            const int64_t last = first + depth < linear->I ? first + depth : linear->I;
            for (int64_t o = start; o < start + group && o < linear->O; o += C)
                for (int64_t b = 0, r = 0, n; b < blocks; b++, r += n)
                    switch (n = (R - r + blocks - b - 1) / (blocks - b)) {
#define CASE(n)                                                                                                        \
    case n:                                                                                                            \
        add_to_panel(n, bits, linear, o, first, last, x + r * linear->I, out + r * linear->O + o);                     \
        break;
                        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
                    }
        }
}

/* x [R, I] -> [R, O] */
int64_t s2s_linear(const Linear *linear, const float *x, int64_t R, float *out) {
    if (linear->bits == 8 || (linear->bits == 16 && s2s_rounds_rows_to_bf16()))
        return s2s_unit_linear(linear, x, R, out);
    if (linear->bits == 16)
        float_linear(16, linear, x, R, out);
    else
        float_linear(32, linear, x, R, out);
    return OK;
}
