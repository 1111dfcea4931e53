/* Operands of products in bf16, in blocks of SIDE x DEPTH values, each of two tiles: a tile of the left operand is 16
rows of 32 values, one of the right operand 16 pairs of values of 16 columns. K is the dimension that is summed over. */

#ifndef S2S_BF16_BLOCKS_H
#define S2S_BF16_BLOCKS_H

#include "panels.h"
#include "tiles.h"

enum {
    DEPTH = 32,           /* values of K in a tile */
    SIDE = 2 * TILE_ROWS, /* rows and columns of a block of sums */
    BLOCK = SIDE * DEPTH, /* values of an operand's block */
};
_Static_assert(SIDE == DEPTH, "blocks are square");

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
/* How many blocks n rows, columns or values of K take. */
static inline int64_t blocks(int64_t n) { return (n + SIDE - 1) / SIDE; }

#ifdef BF16_VECTORS
typedef __m512i Row; /* 32 values in bf16 */

typedef struct { /* [rows, columns], in 16 bits or 32 */
    const void *values;
    int64_t rows, columns, stride, bits;
} Matrix;

typedef struct { /* n blocks of a left operand along K: their start, and how far apart rows and blocks are */
    const uint16_t *values;
    int64_t n, stride, step;
} Left;

/* 32 values of row r from column c on, 0 beyond the matrix. */
static inline Row row_of(const Matrix *m, int64_t r, int64_t c) {
    int64_t n = m->columns - c, at = r * m->stride + c;
    if (r >= m->rows || n <= 0) return _mm512_setzero_si512();
    __mmask32 lanes = n >= DEPTH ? ~0u : (1u << n) - 1;
    if (m->bits == 16) return _mm512_maskz_loadu_epi16(lanes, (const uint16_t *)m->values + at);
    const float *x = (const float *)m->values + at;
    __m512 low = _mm512_maskz_loadu_ps(lanes, x), high = _mm512_maskz_loadu_ps(lanes >> 16, x + W);
    return (Row)_mm512_cvtne2ps_pbh(high, low);
}

/* Pairs of values of two rows in the same column: those of the first half of the columns, and of the second. */
static inline void interleave(Row even, Row odd, Row *low, Row *high) {
    static const uint16_t first[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const Row to_low = _mm512_loadu_si512(first), to_high = _mm512_add_epi16(to_low, _mm512_set1_epi16(16));
    *low = _mm512_permutex2var_epi16(even, to_low, odd);
    *high = _mm512_permutex2var_epi16(even, to_high, odd);
}

/* The block of a left or right operand whose rows or columns are the matrix's rows, or the matrix's columns. */
void s2s_rows_to_left(const Matrix *m, int64_t r, int64_t c, uint16_t *out);
void s2s_rows_to_right(const Matrix *m, int64_t c, int64_t r, uint16_t *out);
void s2s_columns_to_right(const Matrix *m, int64_t r, int64_t c, uint16_t *out);
void s2s_columns_to_left(const Matrix *m, int64_t c, int64_t r, uint16_t *out);

/* Makes the block of a right operand [K, N] from value k and column n on. */
typedef void PackBlock(const Matrix *m, int64_t k, int64_t n, uint16_t *out);
/* All blocks of a right operand [K, N], panel by panel. */
void s2s_pack_right(const Matrix *m, PackBlock *pack_block, int64_t K, int64_t N, uint16_t *out);

/* Adds rows r to end - 1 to out [columns]. */
void s2s_add_rows(const Matrix *m, int64_t r, int64_t end, float *out);

/* Adds the products of both operands' blocks to a block of sums [SIDE, SIDE], which begin as 0 if it is the `first`. */
void s2s_add_blocks(const Left *left, const uint16_t *right, int first, float *sums, int64_t stride);
/* Before and after calls of s2s_add_blocks. */
void s2s_begin_blocks(void);
void s2s_end_blocks(void);
#endif

#endif
