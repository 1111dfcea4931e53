/* Products of operands in floats or in bf16: how they are laid out, and how a block is added. */

#include "block_products.h"

enum { HEIGHT = W == 16 ? 8 : 4, VECTORS = 2 }; /* rows and vectors whose sums the registers hold */

int64_t s2s_operand_bits(int64_t tensor_bits) {
#ifdef BF16_VECTORS
    return tensor_bits;
#else
    (void)tensor_bits;
    return 32;
#endif
}

RightOperand s2s_transposed_right(const void *x, int64_t n, int64_t d, int64_t bits, void *out) {
    const RightOperand result = {out, d * SIDE};
#ifdef BF16_VECTORS
    if (bits == 16) {
        s2s_pack_right(&(Matrix){x, n, d, d, 16}, s2s_rows_to_right, d, n, out);
        return result;
    }
#endif
    const float *from = x;
    float *to = out;
    for (int64_t c = 0; c < n; c += W)
        for (int64_t k = 0; k < d; k += W) {
            vf rows[W];
            for (int r = 0; r < W; r++) rows[r] = load(from + (c + r) * d + k);
            transpose_vectors(rows);
            for (int r = 0; r < W; r++) *(vf *)(to + c / SIDE * d * SIDE + (k + r) * SIDE + c % SIDE) = rows[r];
        }
    (void)bits;
    return result;
}

RightOperand s2s_right(const void *x, int64_t n, int64_t d, int64_t bits, void *out) {
    const RightOperand result = {out, n * SIDE};
#ifdef BF16_VECTORS
    if (bits == 16) {
        s2s_pack_right(&(Matrix){x, n, d, d, 16}, s2s_columns_to_right, n, d, out);
        return result;
    }
#endif
    const float *from = x;
    float *to = out;
    for (int64_t c = 0; c < d; c += SIDE)
        for (int64_t k = 0; k < n; k++, to += SIDE) memcpy(to, from + k * d + c, SIDE * sizeof(float));
    (void)bits;
    return result;
}

LeftOperand s2s_transposed_left(const void *x, int64_t n, int64_t d, int64_t bits, void *out) {
#ifdef BF16_VECTORS
    if (bits == 16) {
        const Matrix m = {x, n, d, d, 16};
        uint16_t *to = out;
        for (int64_t c = 0; c < d; c += SIDE)
            for (int64_t k = 0; k < n; k += DEPTH, to += BLOCK) s2s_columns_to_left(&m, c, k, to);
        return (LeftOperand){out, DEPTH, 1, n * SIDE, BLOCK};
    }
#endif
    (void)n, (void)bits, (void)out;
    return (LeftOperand){x, 1, d, SIDE, SIDE * d};
}

/* HEIGHT rows and VECTORS vectors of a product. */
INLINE void add_tile(const float *a, int64_t row, int64_t column, const float *b, int64_t K, int first, float *out,
                     int64_t stride) {
    vf sums[HEIGHT][VECTORS];
    UNROLLED for (int i = 0; i < HEIGHT; i++)
        UNROLLED for (int c = 0; c < VECTORS; c++) sums[i][c] = first ? splat(0) : load(out + i * stride + c * W);
    for (int64_t k = 0; k < K; k++, a += column, b += SIDE) {
        vf right[VECTORS];
        UNROLLED for (int c = 0; c < VECTORS; c++) right[c] = load(b + c * W);
        UNROLLED for (int i = 0; i < HEIGHT; i++) {
            const vf left = splat(a[i * row]);
            UNROLLED for (int c = 0; c < VECTORS; c++) sums[i][c] += left * right[c];
        }
    }
    UNROLLED for (int i = 0; i < HEIGHT; i++)
        UNROLLED for (int c = 0; c < VECTORS; c++) *(vf *)(out + i * stride + c * W) = sums[i][c];
}

void s2s_add_product(LeftOperand a, RightOperand b, int64_t R, int64_t K, int64_t C_, int64_t bits, int first,
                     float *out, int64_t stride) {
    for (int64_t c = 0; c < C_; c += SIDE) {
        const void *panel = value_at(b.data, c / SIDE * b.panel, bits);
#ifdef BF16_VECTORS
        for (int64_t r = 0; bits == 16 && r < R; r += SIDE) {
            const Left left = {(const uint16_t *)a.data + r / SIDE * a.down, K / DEPTH, a.row, a.along};
            s2s_add_blocks(&left, panel, first, out + r * stride + c, stride);
        }
        if (bits == 16) continue;
#endif
        for (int64_t r = 0; r < R; r += HEIGHT)
            for (int64_t at = 0; at < SIDE; at += VECTORS * W)
                add_tile((const float *)a.data + r / SIDE * a.down + r % SIDE * a.row, a.row, a.column,
                         (const float *)panel + at, K, first, out + r * stride + c + at, stride);
    }
}

void s2s_begin_products(int64_t bits) {
#ifdef BF16_VECTORS
    if (bits == 16) s2s_begin_blocks();
#endif
    (void)bits;
}

void s2s_end_products(int64_t bits) {
#ifdef BF16_VECTORS
    if (bits == 16) s2s_end_blocks();
#endif
    (void)bits;
}
