/* Linear maps with prepacked weights, for one thread.

The outputs are cut into panels of C columns. A panel's weights lie in the order in which they are read, so that few
rows, which are bound by memory, run at its bandwidth. A block of sums of up to ROWS rows stays in registers, so that
many rows run at the rate of arithmetic; they take DEPTH inputs at a time, which stay in the caches. Weights are floats,
or bf16 in half the bytes. With AVX512-BF16, rows are rounded to bf16 as well and multiplied by AMX tiles or by vectors;
without, weights are widened to floats. The order of a sum depends on I alone, not on R, so that a row's result has the
same bits whatever the other rows are. R rows, I inputs, O outputs.
*/

#include "vector_sums.h"

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

/* With weights of 32 or 16 bits. */
INLINE void float_linear(const int bits, const Linear *linear, const float *x, int64_t R, float *out) {
    int64_t depth = R > ROWS ? DEPTH : linear->I, blocks = (R + ROWS - 1) / ROWS;
    for (int64_t first = 0; first < linear->I; first += depth) {
        int64_t last = first + depth < linear->I ? first + depth : linear->I;
        for (int64_t o = 0; o < linear->O; o += C)
            for (int64_t b = 0, r = 0, n; b < blocks; b++, r += n) switch (n = (R - r + blocks - b - 1) / (blocks - b)) {
#define CASE(n)                                                                                                        \
    case n:                                                                                                            \
        add_to_panel(n, bits, linear, o, first, last, x + r * linear->I, out + r * linear->O + o);                     \
        break;
                    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
                }
    }
}

#ifdef BF16_VECTORS
/* x [R, I] rounded to bf16 */
static void round_rows(const float *x, int64_t I, PaddedRows *rows) {
    for (int64_t r = 0; r < rows->R; r++, x += I)
        for (int64_t i = 0; i < rows->n_tiles * 2 * W; i += 2 * W) {
            const uint32_t there = I - i >= 2 * W ? ~0u : (1u << (I - i)) - 1;
            const __m512 low = _mm512_maskz_loadu_ps(there, x + i), high = _mm512_maskz_loadu_ps(there >> W, x + i + W);
            _mm512_store_si512(rows->x + r * rows->stride + 2 * i, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
}

/* Stores sums plus biases as the outputs of n rows from o on. */
static void put_sums(const Linear *linear, int64_t o, int64_t n, const float sums[][C], float *out) {
    const int64_t columns = linear->O - o < C ? linear->O - o : C;
    for (int64_t r = 0; r < n; r++, out += linear->O) {
        vf row[PARTS];
        UNROLLED for (int c = 0; c < PARTS; c++) row[c] = load(sums[r] + c * W) + load(linear->bias + o + c * W);
        memcpy(out, row, columns * sizeof(float));
    }
}

static void multiply_by_vectors(const Linear *linear, const PaddedRows *rows, float *out) {
    const char *weight = linear->weight;
    float sums[ROWS][C];
    for (int64_t o = 0; o < linear->O; o += C, weight += rows->n_tiles * PANEL_TILE)
        for (int64_t r = 0, n; r < rows->R; r += n) {
            n = vector_sums(16, rows, r, weight, (linear->I + 1) / 2, (int32_t(*)[C])sums);
            put_sums(linear, o, n, sums, out + r * linear->O + o);
        }
}

#ifdef BF16_TILES
static void multiply_by_tiles(const Linear *linear, const PaddedRows *rows, float *out) {
    const char *weight = linear->weight;
    float sums[TILE_ROWS][C];
    configure_tiles(rows->R);
    for (int64_t o = 0; o < linear->O; o += C, weight += rows->n_tiles * PANEL_TILE)
        for (int64_t r = 0; r < rows->R; r += TILE_ROWS) {
            const int64_t n = rows->R - r < TILE_ROWS ? rows->R - r : TILE_ROWS;
            s2s_tile_sums(16, rows, r, weight, (int32_t(*)[C])sums);
            put_sums(linear, o, n, sums, out + r * linear->O + o);
        }
    _tile_release();
}
#endif

static int64_t bf16_linear(const Linear *linear, const float *x, int64_t R, float *out) {
    PaddedRows rows;
    if (!R) return OK;
    if (!padded_rows(linear, R, &rows)) return NO_MEMORY;
    round_rows(x, linear->I, &rows);
#ifdef BF16_TILES
    if (s2s_may_use_tiles())
        multiply_by_tiles(linear, &rows, out);
    else
#endif
        multiply_by_vectors(linear, &rows, out);
    free(rows.memory);
    return OK;
}
#endif

/* Whether products with weights in bf16 round the rows to bf16, too. */
int64_t s2s_rounds_rows_to_bf16(void) {
#ifdef BF16_VECTORS
    return 1;
#else
    return 0;
#endif
}

/* x [R, I] -> [R, O] */
int64_t s2s_linear(const Linear *linear, const float *x, int64_t R, float *out) {
    if (linear->bits == 8) return s2s_int8_linear(linear, x, R, out);
#ifdef BF16_VECTORS
    if (linear->bits == 16) return bf16_linear(linear, x, R, out);
#endif
    if (linear->bits == 16)
        float_linear(16, linear, x, R, out);
    else
        float_linear(32, linear, x, R, out);
    return OK;
}
