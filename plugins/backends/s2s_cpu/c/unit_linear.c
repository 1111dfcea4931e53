/* Linear maps with prepacked weights in 8-bit integers or bf16, for one thread, on processors that multiply such
values.

Rows and weights lie in units of four bytes: n = 4 integers or 2 values in bf16. A panel of C outputs is [I / n, C, n]:
for n inputs at a time, the weights of all outputs. AMX tiles and vectors read this layout. Rows are converted here.
Sums of integers are exact, so that tiles and vectors give the same bits; those of bf16 have the same order for any
number of rows, but tiles and vectors may differ. R rows, I inputs, O outputs.
*/

#include "vector_sums.h"

int64_t s2s_has_int8(void) {
#ifdef INT8_VECTORS
    return 1;
#else
    return 0;
#endif
}

/* Whether products with weights in bf16 round the rows to bf16, too. */
int64_t s2s_rounds_rows_to_bf16(void) {
#ifdef BF16_VECTORS
    return 1;
#else
    return 0;
#endif
}

#if defined(INT8_VECTORS) || defined(BF16_VECTORS)
enum { ZERO = 128 }; /* the unsigned integer that stands for 0 */

#ifdef BF16_VECTORS
/* x [R, I] rounded to bf16 */
static void round_rows(const float *x, int64_t I, PaddedRows *rows) {
    for (int64_t r = 0; r < rows->R; r++, x += I)
        for (int64_t i = 0; i < rows->n_tiles * 2 * W; i += 2 * W) {
            const uint32_t lanes = I - i >= 2 * W ? ~0u : (1u << (I - i)) - 1;
            const __m512 low = _mm512_maskz_loadu_ps(lanes, x + i), high = _mm512_maskz_loadu_ps(lanes >> W, x + i + W);
            _mm512_store_si512(rows->x + r * rows->stride + 2 * i, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
}
#endif

#ifdef INT8_PAIRS
/* Widens 8-bit integers to 16 bits, in the order in which vector_sums.h reads them. Returns 0 if memory runs out. */
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

/* Rows x [R, I] times one multiplier, rounded, as unsigned 8-bit integers around ZERO. Scales [R] are 1; that of a row
with NaN or infinity is NaN. */
static void quantize_by(float multiplier, const float *x, int64_t R, int64_t I, int64_t stride, uint8_t *out,
                        float *scale) {
    for (int64_t r = 0; r < R; r++, x += I, out += stride) {
        float no_number = 0; /* 0, or NaN */
        for (int64_t i = 0; i < I; i++) {
            float y = x[i] * multiplier;
            y = y > -127 ? y : -127; /* also of NaN */
            y = y < 127 ? y : 127;
            no_number += x[i] * 0;
            out[i] = (uint8_t)((int32_t)rintf(y) + ZERO);
        }
        memset(out + I, 0, stride - I);
        scale[r] = 1 + no_number;
    }
}

/* x [R, I] as rows for products with weights of `bits` bits; scale [R]: those of integers. Returns 0 if memory runs
out. */
static int64_t convert_rows(const Linear *linear, const float *x, int64_t R, PaddedRows *rows, float *scale) {
    if (!padded_rows(linear, R, rows)) return 0;
#ifdef BF16_VECTORS
    if (linear->bits == 16) {
        round_rows(x, linear->I, rows);
        return 1;
    }
#endif
    if (linear->multiplier != 0)
        quantize_by((float)linear->multiplier, x, R, linear->I, rows->stride, (uint8_t *)rows->x, scale);
    else
        s2s_quantize_rows(x, R, linear->I, rows->stride, ZERO, (uint8_t *)rows->x, scale);
#ifdef INT8_PAIRS
    return widen_rows(rows);
#else
    return 1;
#endif
}

/* Stores a row's sums (int32 or float) as its outputs from o on; out: all of its outputs. */
INLINE void put_row(const int bits, const Linear *linear, int64_t o, float scale, const vi sums[PARTS], float *out) {
    UNROLLED for (int c = 0; c < PARTS; c++) {
        const int64_t at = o + c * W;
        vf found = (vf)sums[c];
        if (bits == 8) {
            const vi whole = sums[c] - *(const vi *)(linear->zero + at);
            found = __builtin_convertvector(whole, vf) * load(linear->scale + at) * splat(scale);
        }
        found += load(linear->bias + at);
        if (at < linear->O) store_part(found, linear->O - at, out + at);
    }
}

/* n rows from x on times a panel, whose first output is o. */
INLINE void multiply_block(const int bits, const int n, const Linear *linear, int64_t o, const char *weight,
                           const char *x, int64_t stride, const float *scale, float *out) {
    vi sums[ROWS][PARTS];
    vector_sums(bits, n, x, stride, weight, (linear->I * bits / 8 + 3) / 4, sums);
    UNROLLED for (int r = 0; r < n; r++) put_row(bits, linear, o, scale[r], sums[r], out + r * linear->O);
}

INLINE void multiply_by_vectors(const int bits, const Linear *linear, const PaddedRows *rows, const float *scale,
                                float *out) {
    const char *weight = linear->weight;
    for (int64_t o = 0; o < linear->O; o += C, weight += rows->n_tiles * PANEL_TILE)
        for (int64_t r = 0; r < rows->R; r += ROWS)
            switch (rows->R - r < ROWS ? rows->R - r : ROWS) {
#define CASE(n)                                                                                                        \
    case n:                                                                                                            \
        multiply_block(bits, n, linear, o, weight, rows->x + r * rows->stride, rows->stride, scale + r,                \
                       out + r * linear->O);                                                                           \
        break;
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
            }
}

#if defined(INT8_TILES) || defined(BF16_TILES)
/* Whether R rows are multiplied by tiles; few rows of integers take less time by vectors. */
INLINE int64_t uses_tiles(const int bits, int64_t R) {
#ifdef INT8_TILES
    if (bits == 8) return R > ROWS && s2s_may_use_tiles();
#endif
#ifdef BF16_TILES
    if (bits == 16) return s2s_may_use_tiles();
#endif
    (void)bits, (void)R;
    return 0;
}

INLINE void multiply_by_tiles(const int bits, const Linear *linear, const PaddedRows *rows, const float *scale,
                              float *out) {
    const char *weight = linear->weight;
    int32_t sums[TILE_ROWS][C];
    configure_tiles(rows->R);
    for (int64_t o = 0; o < linear->O; o += C, weight += rows->n_tiles * PANEL_TILE)
        for (int64_t r = 0; r < rows->R; r += TILE_ROWS) {
            const int64_t n = rows->R - r < TILE_ROWS ? rows->R - r : TILE_ROWS;
            s2s_tile_sums(bits, rows, r, weight, sums);
            for (int64_t i = 0; i < n; i++)
                put_row(bits, linear, o, scale[r + i], (const vi *)sums[i], out + (r + i) * linear->O);
        }
    _tile_release();
}
#endif

INLINE void multiply(const int bits, const Linear *linear, const PaddedRows *rows, const float *scale, float *out) {
#if defined(INT8_TILES) || defined(BF16_TILES)
    if (uses_tiles(bits, rows->R)) {
        multiply_by_tiles(bits, linear, rows, scale, out);
        return;
    }
#endif
    multiply_by_vectors(bits, linear, rows, scale, out);
}
#endif

/* x [R, I] -> [R, O], with weights in 8-bit integers or bf16; NO_INSTRUCTIONS if this processor does not multiply
them */
int64_t s2s_unit_linear(const Linear *linear, const float *x, int64_t R, float *out) {
#if defined(INT8_VECTORS) || defined(BF16_VECTORS)
#ifndef BF16_VECTORS
    if (linear->bits == 16) return NO_INSTRUCTIONS;
#endif
    if (!R) return OK;
    PaddedRows rows = {0};
    float *scale = allocate(R * sizeof(float));
    const int64_t allocated = scale && convert_rows(linear, x, R, &rows, scale);
    if (allocated && linear->bits == 8) multiply(8, linear, &rows, scale, out);
#ifdef BF16_VECTORS
    if (allocated && linear->bits == 16) multiply(16, linear, &rows, scale, out);
#endif
    free(rows.memory), free(scale);
    return allocated ? OK : NO_MEMORY;
#else
    (void)linear, (void)x, (void)R, (void)out;
    return NO_INSTRUCTIONS;
#endif
}
