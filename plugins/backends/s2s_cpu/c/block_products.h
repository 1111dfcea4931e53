/* Products of operands in floats or, where the processor multiplies such values, in bf16. All sizes are multiples of
SIDE.

A right operand [K, C] lies in panels of SIDE columns, each of K * SIDE values. Every sum adds its terms in the same
order wherever it stands, so that a row's result has the same bits in a product of any size. */

#ifndef S2S_BLOCK_PRODUCTS_H
#define S2S_BLOCK_PRODUCTS_H

#include "bf16_blocks.h"

typedef struct { /* values that lie `row` and `column` apart in a block, and blocks `down` and `along` apart */
    const void *data;
    int64_t row, column, down, along; /* column: 1 in bf16; along: of floats SIDE * column */
} LeftOperand;

typedef struct {
    const void *data;
    int64_t panel; /* values from one panel to the next */
} RightOperand;

static inline int64_t up_to_blocks(int64_t n) { return blocks(n) * SIDE; }
static inline void *value_at(const void *data, int64_t i, int64_t bits) { return (char *)data + i * (bits / 8); }

/* x [n, d], rows of d values. */
static inline LeftOperand rows_as_left(const void *x, int64_t d) { return (LeftOperand){x, d, 1, SIDE * d, SIDE}; }
/* An operand from row r, or from value k of column c on. */
static inline LeftOperand left_from(LeftOperand a, int64_t r, int64_t bits) {
    a.data = value_at(a.data, r / SIDE * a.down, bits);
    return a;
}
static inline RightOperand right_from(RightOperand b, int64_t k, int64_t c, int64_t bits) {
    b.data = value_at(b.data, c / SIDE * b.panel + k * SIDE, bits);
    return b;
}

/* The bits of an operand's values, for tensors of this many bits: 16 or 32. */
int64_t s2s_operand_bits(int64_t tensor_bits);
/* x [n, d], rows of d values of `bits` bits -> the right operand x or its transpose, laid out in `out`, [n, d]. */
RightOperand s2s_right(const void *x, int64_t n, int64_t d, int64_t bits, void *out);
RightOperand s2s_transposed_right(const void *x, int64_t n, int64_t d, int64_t bits, void *out);
/* The transpose as a left operand, perhaps laid out in `out`. */
LeftOperand s2s_transposed_left(const void *x, int64_t n, int64_t d, int64_t bits, void *out);
/* a [R, K] times b [K, C], added to out [R, C] unless it is the `first`; rows of out are `stride` floats apart. Between
s2s_begin_products and s2s_end_products. */
void s2s_add_product(LeftOperand a, RightOperand b, int64_t R, int64_t K, int64_t C, int64_t bits, int first,
                     float *out, int64_t stride);
void s2s_begin_products(int64_t bits);
void s2s_end_products(int64_t bits);

#endif
