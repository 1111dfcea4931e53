/* Linear maps with prepacked weights, for one thread.

The outputs are cut into panels of C columns. A panel's weights lie in the order in which they are read, so that few
rows, which are bound by memory, run at its bandwidth; a tile of up to ROWS rows stays in registers, so that many run
at the rate of arithmetic. Each number is the sum over the inputs in their order, from the bias on: a
row has the same bits in a tile of any size. R rows, I inputs, O outputs.
*/

#include "decoder.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#ifdef __AVX512F__
enum { ROWS = 6, PARTS = 4 }; /* 24 of 32 registers hold sums */
#else
enum { ROWS = 6, PARTS = 1 };
#endif
#define UNROLLED _Pragma("GCC unroll 8") /* or sums are not kept in registers */
enum { C = PARTS * W, AHEAD = 32, ZERO = 128 };

int64_t s2s_panel_width(void) { return C; }

int64_t s2s_has_int8(void) {
#ifdef __AVX512VNNI__
    return 1;
#else
    return 0;
#endif
}

/* Ask for huge pages: a product reads more pages than the TLB holds. */
int64_t s2s_huge_pages(void *memory, int64_t n_bytes) {
#ifdef MADV_HUGEPAGE
    madvise(memory, n_bytes, MADV_HUGEPAGE);
#else
    (void)memory, (void)n_bytes;
#endif
    return OK;
}

/* Sums to outputs: all C columns of a panel, or the first of them if it is the last. */
static inline __attribute__((always_inline)) void put(const int n, vf sums[ROWS][PARTS], float *out, int64_t stride,
                                                      int64_t columns) {
    for (int r = 0; r < n; r++, out += stride)
        if (columns >= C)
            for (int c = 0; c < PARTS; c++) *(vf *)(out + c * W) = sums[r][c];
        else
            memcpy(out, sums[r], columns * sizeof(float));
}

static inline __attribute__((always_inline)) void tile(const int n, const Linear *linear, int64_t o, const float *x,
                                                       float *out) {
    const float *weight = (const float *)linear->weight + o * linear->I, *bias = linear->bias + o;
    vf sums[ROWS][PARTS];
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] = load(bias + c * W);
    for (int64_t i = 0; i < linear->I; i++, weight += C) {
        vf w[PARTS];
        UNROLLED for (int c = 0; c < PARTS; c++) {
            w[c] = load(weight + c * W);
            __builtin_prefetch(weight + AHEAD * C + c * W);
        }
        UNROLLED for (int r = 0; r < n; r++)
            UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] += splat(x[r * linear->I + i]) * w[c];
    }
    put(n, sums, out, linear->O, linear->O - o);
}

#ifdef __AVX512VNNI__
/* To each sum, four unsigned times four signed bytes; the compiler's own name for it moved every sum twice. */
static inline void add_fours(vi *sum, vi x, vi w) { __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(x), "v"(w)); }

/* The same in 8-bit integers, four inputs [I / 4] at a time; x are unsigned, around ZERO, and worth `scale` each. */
static inline __attribute__((always_inline)) void int8_tile(const int n, const Linear *linear, int64_t o,
                                                            const uint8_t *x, const float *scale, float *out) {
    int64_t fours = (linear->I + 3) / 4;
    const int8_t *weight = (const int8_t *)linear->weight + o * 4 * fours;
    vi sums[ROWS][PARTS];
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] = (vi){0};
    for (int64_t i = 0; i < fours; i++, weight += 4 * C) {
        vi w[PARTS];
        UNROLLED for (int c = 0; c < PARTS; c++) {
            w[c] = *(const vi *)(weight + c * 64);
            __builtin_prefetch(weight + AHEAD * 4 * C + c * 64);
        }
        UNROLLED for (int r = 0; r < n; r++) {
            int32_t four;
            memcpy(&four, x + (r * fours + i) * 4, 4);
            UNROLLED for (int c = 0; c < PARTS; c++) add_fours(&sums[r][c], four - (vi){0}, w[c]);
        }
    }
    vf found[ROWS][PARTS];
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < PARTS; c++) {
            int64_t at = o + c * W;
            vi whole = sums[r][c] - *(const vi *)(linear->zero + at);
            found[r][c] = __builtin_convertvector(whole, vf) * load(linear->scale + at) * splat(scale[r]);
            found[r][c] += load(linear->bias + at);
        }
    put(n, found, out, linear->O, linear->O - o);
}

static int64_t int8_linear(const Linear *linear, const float *x, int64_t R, float *out) {
    int64_t width = (linear->I + 3) / 4 * 4;
    uint8_t *rows = allocate(R * width);
    float *scale = allocate(R * sizeof(float));
    if (!rows || !scale) {
        free(rows), free(scale);
        return NO_MEMORY;
    }
    s2s_quantize_rows(x, R, linear->I, width, ZERO, rows, scale);
    for (int64_t o = 0; o < linear->O; o += C)
        for (int64_t r = 0; r < R; r += ROWS) switch (R - r < ROWS ? R - r : ROWS) {
#define CASE(n) case n: int8_tile(n, linear, o, rows + r * width, scale + r, out + r * linear->O + o); break;
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
            }
    free(rows), free(scale);
    return OK;
}
#endif

/* x [R, I] -> [R, O] */
int64_t s2s_linear(const Linear *linear, const float *x, int64_t R, float *out) {
#ifdef __AVX512VNNI__
    if (linear->scale) return int8_linear(linear, x, R, out);
#endif
    for (int64_t o = 0; o < linear->O; o += C)
        for (int64_t r = 0; r < R; r += ROWS) switch (R - r < ROWS ? R - r : ROWS) {
#define CASE(n) case n: tile(n, linear, o, x + r * linear->I, out + r * linear->O + o); break;
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
            }
    return OK;
}
