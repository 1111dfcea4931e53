/* Operands of products in bf16, and their products by AMX tiles or, where there are none, by vectors. */

#include "bf16_blocks.h"

#ifdef BF16_VECTORS
enum {
    AHEAD_ALONG = 8 * DEPTH, /* how far to prefetch: values along a row, rows down a column */
    AHEAD_DOWN = 2 * DEPTH,
    GROUP = 8, /* rows whose sums the registers hold */
};

/* Transposes 16 rows of 16 pairs of values. */
static inline void transpose(Row x[TILE_ROWS]) {
    Row y[TILE_ROWS];
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int k = 0; k < 2; k++) {
            x[i + 2 * k] = _mm512_unpacklo_epi64(y[i + k], y[i + k + 2]);
            x[i + 2 * k + 1] = _mm512_unpackhi_epi64(y[i + k], y[i + k + 2]);
        }
    for (int i = 0; i < 4; i++) {
        Row even[2], odd[2];
        for (int k = 0; k < 2; k++) {
            even[k] = _mm512_shuffle_i32x4(x[8 * k + i], x[8 * k + 4 + i], 0x88);
            odd[k] = _mm512_shuffle_i32x4(x[8 * k + i], x[8 * k + 4 + i], 0xdd);
        }
        y[i] = _mm512_shuffle_i32x4(even[0], even[1], 0x88);
        y[4 + i] = _mm512_shuffle_i32x4(odd[0], odd[1], 0x88);
        y[8 + i] = _mm512_shuffle_i32x4(even[0], even[1], 0xdd);
        y[12 + i] = _mm512_shuffle_i32x4(odd[0], odd[1], 0xdd);
    }
    memcpy(x, y, sizeof y);
}

static inline void store_tile(const Row *x, uint16_t *tile) { memcpy(tile, x, TILE_ROWS * TILE_BYTES); }

/* Prefetches 32 values of row r from column c on, perhaps beyond the matrix. */
static inline void prefetch_row(const Matrix *m, int64_t r, int64_t c) {
    const char *at = (const char *)m->values + (r * m->stride + c) * (m->bits / 8);
    __builtin_prefetch(at);
    if (m->bits == 32) __builtin_prefetch(at + 64);
}

/* The block of a left operand whose rows are the matrix's. */
void s2s_rows_to_left(const Matrix *m, int64_t r, int64_t c, uint16_t *out) {
    for (int i = 0; i < SIDE; i++) {
        prefetch_row(m, r + i, c + AHEAD_ALONG);
        _mm512_storeu_si512(out + i * DEPTH, row_of(m, r + i, c));
    }
}

/* The block of a right operand whose columns are the matrix's rows. */
void s2s_rows_to_right(const Matrix *m, int64_t c, int64_t r, uint16_t *out) {
    for (int half = 0; half < 2; half++) {
        Row x[TILE_ROWS];
        for (int i = 0; i < TILE_ROWS; i++) {
            prefetch_row(m, r + half * TILE_ROWS + i, c + AHEAD_ALONG);
            x[i] = row_of(m, r + half * TILE_ROWS + i, c);
        }
        transpose(x);
        store_tile(x, out + half * BLOCK / 2);
    }
}

/* Interleaves pairs of the matrix's rows from r on, in columns from c on, as the two tiles of a right operand. */
static inline void interleave_pairs(const Matrix *m, int64_t r, int64_t c, Row low[TILE_ROWS], Row high[TILE_ROWS]) {
    for (int i = 0; i < TILE_ROWS; i++) {
        prefetch_row(m, r + 2 * i + AHEAD_DOWN, c);
        prefetch_row(m, r + 2 * i + 1 + AHEAD_DOWN, c);
        Row even = row_of(m, r + 2 * i, c), odd = row_of(m, r + 2 * i + 1, c);
        interleave(even, odd, low + i, high + i);
    }
}

/* The block of a right operand whose columns are the matrix's. */
void s2s_columns_to_right(const Matrix *m, int64_t r, int64_t c, uint16_t *out) {
    Row low[TILE_ROWS], high[TILE_ROWS];
    interleave_pairs(m, r, c, low, high);
    store_tile(low, out), store_tile(high, out + BLOCK / 2);
}

/* The block of a left operand whose rows are the matrix's columns. */
void s2s_columns_to_left(const Matrix *m, int64_t c, int64_t r, uint16_t *out) {
    Row low[TILE_ROWS], high[TILE_ROWS];
    interleave_pairs(m, r, c, low, high);
    transpose(low), transpose(high);
    store_tile(low, out), store_tile(high, out + BLOCK / 2);
}

void s2s_pack_right(const Matrix *m, PackBlock *pack_block, int64_t K, int64_t N, uint16_t *out) {
    for (int64_t n = 0; n < N; n += SIDE)
        for (int64_t k = 0; k < K; k += DEPTH, out += BLOCK) pack_block(m, k, n, out);
}

/* Adds rows r to end - 1, in the columns from c on, to sums [SIDE]. */
static void add_columns(const Matrix *m, int64_t r, int64_t end, int64_t c, float *sums) {
    __m512 low = _mm512_loadu_ps(sums), high = _mm512_loadu_ps(sums + W);
    for (; r < end; r++) {
        Row x = row_of(m, r, c);
        __m512i even = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(x));
        __m512i odd = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(x, 1));
        low = _mm512_add_ps(low, (__m512)_mm512_slli_epi32(even, 16));
        high = _mm512_add_ps(high, (__m512)_mm512_slli_epi32(odd, 16));
    }
    _mm512_storeu_ps(sums, low), _mm512_storeu_ps(sums + W, high);
}

void s2s_add_rows(const Matrix *m, int64_t r, int64_t end, float *out) {
    for (int64_t c = 0; c < m->columns; c += SIDE) {
        const int64_t bytes = smaller(SIDE, m->columns - c) * sizeof(float);
        float own[SIDE] = {0};
        memcpy(own, out + c, bytes);
        add_columns(m, r, end, c, own);
        memcpy(out + c, own, bytes);
    }
}

#ifdef BF16_TILES
static void add_by_tiles(const Left *left, const uint16_t *right, int first, float *sums, int64_t stride) {
    const int64_t bytes = stride * sizeof(float), apart = left->stride * sizeof(uint16_t);
    const uint16_t *upper = left->values, *lower = upper + TILE_ROWS * left->stride;
    float *below = sums + TILE_ROWS * stride;
    STORED;
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, sums, bytes);
        _tile_loadd(1, sums + W, bytes);
        _tile_loadd(2, below, bytes);
        _tile_loadd(3, below + W, bytes);
    }
    for (int64_t n = left->n; n; n--, upper += left->step, lower += left->step, right += BLOCK) {
        _tile_loadd(4, upper, apart);
        _tile_loadd(5, lower, apart);
        _tile_loadd(6, right, TILE_BYTES);
        _tile_loadd(7, right + BLOCK / 2, TILE_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, bytes);
    _tile_stored(1, sums + W, bytes);
    _tile_stored(2, below, bytes);
    _tile_stored(3, below + W, bytes);
    STORED;
}
#endif

/* Adds the products of a pair of values of GROUP rows, `stride` values apart, and of all columns. */
INLINE void add_pairs(const uint16_t *x, int64_t stride, const uint16_t *right, __m512 sums[GROUP][2]) {
    const __m512i low = _mm512_loadu_si512(right), high = _mm512_loadu_si512(right + BLOCK / 2);
    UNROLLED for (int r = 0; r < GROUP; r++) {
        int32_t pair;
        memcpy(&pair, x + r * stride, sizeof pair);
        const __m512bh both = (__m512bh)_mm512_set1_epi32(pair);
        sums[r][0] = _mm512_dpbf16_ps(sums[r][0], both, (__m512bh)low);
        sums[r][1] = _mm512_dpbf16_ps(sums[r][1], both, (__m512bh)high);
    }
}

/* Prefetches GROUP rows of sums, perhaps beyond their matrix: those that come next if blocks follow along a row. */
INLINE void prefetch_sums(const float *sums, int64_t stride) {
    for (int i = 0; i < GROUP; i++)
        for (int half = 0; half < 2; half++) __builtin_prefetch(sums + i * stride + half * W, 1);
}

static void add_by_vectors(const Left *left, const uint16_t *right, int first, float *sums, int64_t stride) {
    for (int64_t r = 0; r < SIDE; r += GROUP) {
        const uint16_t *x = left->values + r * left->stride, *y = right;
        float *out = sums + r * stride;
        __m512 found[GROUP][2];
        prefetch_sums(r + GROUP < SIDE || stride == SIDE ? out + GROUP * stride : sums + SIDE, stride);
        UNROLLED for (int i = 0; i < GROUP; i++)
            UNROLLED for (int half = 0; half < 2; half++)
                found[i][half] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(out + i * stride + half * W);
        for (int64_t n = left->n; n; n--, x += left->step, y += BLOCK)
            for (int64_t k = 0; k < DEPTH; k += 2) add_pairs(x + k, left->stride, y + k * W, found);
        UNROLLED for (int i = 0; i < GROUP; i++)
            UNROLLED for (int half = 0; half < 2; half++) _mm512_storeu_ps(out + i * stride + half * W, found[i][half]);
    }
}

void s2s_add_blocks(const Left *left, const uint16_t *right, int first, float *sums, int64_t stride) {
#ifdef BF16_TILES
    if (s2s_may_use_tiles()) {
        add_by_tiles(left, right, first, sums, stride);
        return;
    }
#endif
    add_by_vectors(left, right, first, sums, stride);
}

void s2s_begin_blocks(void) {
#ifdef BF16_TILES
    if (s2s_may_use_tiles()) configure_tiles(TILE_ROWS);
#endif
}

void s2s_end_blocks(void) {
#ifdef BF16_TILES
    if (s2s_may_use_tiles()) _tile_release();
#endif
}
#endif
