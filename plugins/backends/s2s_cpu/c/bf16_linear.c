/* Linear maps of training, for any number of rows: values are rounded to bf16, sums are in fp32.

The processor multiplies by AMX tiles or, where it has none, by vectors. A sum of products takes two operands, in blocks
of SIDE x DEPTH values, each of two tiles: a tile of the left operand is 16 rows of 32 values, one of the right operand 16
pairs of values of 16 columns. K is the dimension that is summed over.
R rows, I inputs, O outputs.
*/

#include "decoder.h"
#include "panels.h"
#include "tiles.h"

#ifdef BF16_VECTORS
enum {
    DEPTH = 32,              /* values of K in a tile */
    SIDE = 2 * TILE_ROWS,    /* rows and columns of a block of sums */
    BLOCK = SIDE * DEPTH,    /* values of an operand's block */
    MAX_ROWS = 512,          /* laid out at once, with MAX_DEPTH values each: half a megabyte */
    MAX_DEPTH = 512,
    AHEAD_ALONG = 8 * DEPTH, /* how far to prefetch: values along a row, rows down a column */
    AHEAD_DOWN = 2 * DEPTH,
    FAR_STRIDE = 4096,       /* values from row to row, as in logits, from which each row of a block has its own page */
    GROUP = 8,               /* rows whose sums the registers hold */
    STRIP = 4,               /* blocks of columns processed together: neighbouring cache lines of a row */
};
typedef __m512i Row; /* 32 values in bf16 */

typedef struct { /* [rows, columns], in 16 bits or 32 */
    const void *values;
    int64_t rows, columns, stride, bits;
} Matrix;

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
/* How many blocks n rows, columns or values of K take. */
static inline int64_t blocks(int64_t n) { return (n + SIDE - 1) / SIDE; }
_Static_assert(SIDE == DEPTH, "blocks are square");

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
static void rows_to_left(const Matrix *m, int64_t r, int64_t c, uint16_t *out) {
    for (int i = 0; i < SIDE; i++) {
        prefetch_row(m, r + i, c + AHEAD_ALONG);
        _mm512_storeu_si512(out + i * DEPTH, row_of(m, r + i, c));
    }
}

/* The block of a right operand whose columns are the matrix's rows. */
static void rows_to_right(const Matrix *m, int64_t c, int64_t r, uint16_t *out) {
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
    static const uint16_t first[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const Row to_low = _mm512_loadu_si512(first), to_high = _mm512_add_epi16(to_low, _mm512_set1_epi16(16));
    for (int i = 0; i < TILE_ROWS; i++) {
        prefetch_row(m, r + 2 * i + AHEAD_DOWN, c);
        prefetch_row(m, r + 2 * i + 1 + AHEAD_DOWN, c);
        Row even = row_of(m, r + 2 * i, c), odd = row_of(m, r + 2 * i + 1, c);
        low[i] = _mm512_permutex2var_epi16(even, to_low, odd);
        high[i] = _mm512_permutex2var_epi16(even, to_high, odd);
    }
}

/* The block of a right operand whose columns are the matrix's. */
static void columns_to_right(const Matrix *m, int64_t r, int64_t c, uint16_t *out) {
    Row low[TILE_ROWS], high[TILE_ROWS];
    interleave_pairs(m, r, c, low, high);
    store_tile(low, out), store_tile(high, out + BLOCK / 2);
}

/* The block of a left operand whose rows are the matrix's columns. */
static void columns_to_left(const Matrix *m, int64_t c, int64_t r, uint16_t *out) {
    Row low[TILE_ROWS], high[TILE_ROWS];
    interleave_pairs(m, r, c, low, high);
    transpose(low), transpose(high);
    store_tile(low, out), store_tile(high, out + BLOCK / 2);
}

typedef struct { /* n blocks of a left operand along K: their start, and how far apart rows and blocks are */
    const uint16_t *values;
    int64_t n, stride, step;
} Left;

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

static void add_by_vectors(const Left *left, const uint16_t *right, int first, float *sums, int64_t stride) {
    for (int64_t r = 0; r < SIDE; r += GROUP) {
        const uint16_t *x = left->values + r * left->stride, *y = right;
        float *out = sums + r * stride;
        __m512 found[GROUP][2];
        UNROLLED for (int i = 0; i < GROUP; i++)
            UNROLLED for (int half = 0; half < 2; half++)
                found[i][half] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(out + i * stride + half * W);
        for (int64_t n = left->n; n; n--, x += left->step, y += BLOCK)
            for (int64_t k = 0; k < DEPTH; k += 2) add_pairs(x + k, left->stride, y + k * W, found);
        UNROLLED for (int i = 0; i < GROUP; i++)
            UNROLLED for (int half = 0; half < 2; half++) _mm512_storeu_ps(out + i * stride + half * W, found[i][half]);
    }
}

/* Adds the products of both operands' blocks to a block of sums [SIDE, SIDE], which begin as 0 if it is the `first`. */
static void add_products(const Left *left, const uint16_t *right, int first, float *sums, int64_t stride) {
#ifdef BF16_TILES
    if (s2s_may_use_tiles()) {
        add_by_tiles(left, right, first, sums, stride);
        return;
    }
#endif
    add_by_vectors(left, right, first, sums, stride);
}

/* Before and after calls of add_products. */
static void begin_products(void) {
#ifdef BF16_TILES
    if (s2s_may_use_tiles()) configure_tiles(TILE_ROWS);
#endif
}

static void end_products(void) {
#ifdef BF16_TILES
    if (s2s_may_use_tiles()) _tile_release();
#endif
}

/* Writes n rows of a block of sums, plus biases if there are any, to rows of the matrix m, of which `out` is the first,
from column c on. It writes whole cache lines: to write half of one, the processor would read it first. */
static void store_sums(const float *sums, int64_t stride, const float *bias, int64_t n, int64_t c, const Matrix *m,
                       void *out) {
    const int64_t columns = m->columns - c;
    const __mmask32 lanes = columns < SIDE ? (1u << columns) - 1 : ~0u;
    const __m512 low = bias ? _mm512_maskz_loadu_ps(lanes, bias + c) : _mm512_setzero_ps();
    const __m512 high = bias ? _mm512_maskz_loadu_ps(lanes >> W, bias + c + W) : _mm512_setzero_ps();
    for (int64_t r = 0; r < n; r++, sums += stride) {
        const __m512 x = _mm512_add_ps(_mm512_loadu_ps(sums), low), y = _mm512_add_ps(_mm512_loadu_ps(sums + W), high);
        const int64_t at = r * m->stride + c;
        float *wide = (float *)out + at;
        uint16_t *narrow = (uint16_t *)out + at;
        if (m->bits == 32 && columns >= SIDE)
            _mm512_storeu_ps(wide, x), _mm512_storeu_ps(wide + W, y);
        else if (m->bits == 32)
            _mm512_mask_storeu_ps(wide, lanes, x), _mm512_mask_storeu_ps(wide + W, lanes >> W, y);
        else if (columns >= SIDE)
            _mm512_storeu_si512(narrow, (Row)_mm512_cvtne2ps_pbh(y, x));
        else
            _mm512_mask_storeu_epi16(narrow, lanes, (Row)_mm512_cvtne2ps_pbh(y, x));
    }
}

static inline void *row_at(const Matrix *m, int64_t r) { return (char *)m->values + r * m->stride * (m->bits / 8); }

typedef struct { /* a right operand [K, N]: a matrix, how to pack a block of it, and perhaps all packed blocks */
    const Matrix *m;
    void (*pack_block)(const Matrix *, int64_t k, int64_t n, uint16_t *);
    int64_t K, N;
    uint16_t *packed;
} Right;

/* n blocks of a right operand along K, from value k and column c on. */
static const uint16_t *panel(const Right *right, int64_t k, int64_t n, int64_t c, uint16_t *own) {
    if (right->packed) return right->packed + (c / SIDE * blocks(right->K) + k / DEPTH) * BLOCK;
    for (int64_t i = 0; i < n; i++) right->pack_block(right->m, k + i * DEPTH, c, own + i * BLOCK);
    return own;
}

/* Packs all of a right operand if there are enough rows for that to pay off; 0 if memory runs out. */
static int pack_right(Right *right, int64_t R) {
    if (R <= MAX_ROWS) return 1;
    uint16_t *at = right->packed = allocate(blocks(right->K) * blocks(right->N) * BLOCK * sizeof(uint16_t));
    for (int64_t c = 0; at && c < right->N; c += SIDE)
        for (int64_t k = 0; k < right->K; k += DEPTH, at += BLOCK) right->pack_block(right->m, k, c, at);
    return right->packed != 0;
}

/* How many of n blocks of a left operand can be read in place from the matrix: whole ones, in bf16, whose rows neither
map to the same place in the cache nor are so far apart that each would cost a TLB miss. */
static inline int64_t n_in_place(const Matrix *x, int64_t r, int64_t k, int64_t n) {
    const int may_be = x->bits == 16 && x->stride % 512 && x->stride < FAR_STRIDE && r + SIDE <= x->rows;
    return may_be ? smaller(n, (x->columns - k) / DEPTH) : 0;
}

/* Adds the products of n blocks of the rows from r on: first those read in place, then those laid out. */
static void add_block(const Matrix *x, int64_t r, int64_t k, int64_t n, const uint16_t *laid_out,
                      const uint16_t *right, float *sums, int64_t stride) {
    const int64_t whole = n_in_place(x, r, k, n);
    if (whole) {
        const Left left = {(const uint16_t *)x->values + r * x->stride + k, whole, x->stride, DEPTH};
        add_products(&left, right, k == 0, sums, stride);
    }
    if (n > whole) {
        const Left left = {laid_out + whole * BLOCK, n - whole, DEPTH, BLOCK};
        add_products(&left, right + whole * BLOCK, k == 0 && !whole, sums, stride);
    }
}

/* x [R, K] times a right operand [K, N], plus biases [N] or null -> out [R, N] */
static int64_t multiply(const Matrix *x, Right *right, const float *bias, const Matrix *out) {
    const int64_t K = right->K, deep = smaller(blocks(K), MAX_DEPTH / DEPTH), wide = blocks(right->N) * SIDE;
    const int64_t rows = smaller(blocks(x->rows) * SIDE, MAX_ROWS), in_parts = blocks(K) > deep;
    const int64_t stride = in_parts ? wide : SIDE;
    float own[SIDE * SIDE], *sums = in_parts ? allocate(rows * wide * sizeof(float)) : own;
    uint16_t *left = allocate((rows + STRIP * SIDE) * deep * DEPTH * sizeof(uint16_t));
    uint16_t *scratch = left + rows * deep * DEPTH; /* for panels of a strip */
    const int allocated = sums && left && pack_right(right, x->rows);
    if (allocated) begin_products();
    for (int64_t first = 0; allocated && first < x->rows; first += rows)
        for (int64_t k = 0; k < K; k += deep * DEPTH) {
            const int64_t n_rows = smaller(rows, x->rows - first), n = smaller(deep, blocks(K - k));
            for (int64_t r = 0; r < n_rows; r += SIDE)
                for (int64_t d = n_in_place(x, first + r, k, n); d < n; d++)
                    rows_to_left(x, first + r, k + d * DEPTH, left + (r / SIDE * n + d) * BLOCK);
            for (int64_t strip = 0; strip < right->N; strip += STRIP * SIDE) {
                const int64_t end = smaller(right->N, strip + STRIP * SIDE);
                const uint16_t *weights[STRIP];
                for (int64_t c = strip, s = 0; c < end; c += SIDE, s++)
                    weights[s] = panel(right, k, n, c, scratch + s * deep * BLOCK);
                for (int64_t r = 0; r < n_rows; r += SIDE)
                    for (int64_t c = strip, s = 0; c < end; c += SIDE, s++) {
                        float *block = in_parts ? sums + r * stride + c : own;
                        add_block(x, first + r, k, n, left + r / SIDE * n * BLOCK, weights[s], block, stride);
                        if (k + n * DEPTH >= K)
                            store_sums(block, stride, bias, smaller(SIDE, n_rows - r), c, out, row_at(out, first + r));
                    }
            }
        }
    if (allocated) end_products();
    if (in_parts) free(sums);
    free(left), free(right->packed);
    return allocated ? OK : NO_MEMORY;
}

/* Adds rows r to end - 1, in the columns from c on, to sums [SIDE]. */
static void add_rows(const Matrix *m, int64_t r, int64_t end, int64_t c, float *sums) {
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

/* Adds rows r to end - 1 to db [columns]. */
static void add_all_rows(const Matrix *m, int64_t r, int64_t end, float *db) {
    for (int64_t c = 0; c < m->columns; c += SIDE) {
        const int64_t bytes = smaller(SIDE, m->columns - c) * sizeof(float);
        float own[SIDE] = {0};
        memcpy(own, db + c, bytes);
        add_rows(m, r, end, c, own);
        memcpy(db + c, own, bytes);
    }
}

/* g [R, O], x [R, I] -> dw [O, I], the sum of outer products of their rows, and db [O], the sum of g's rows, unless
null; I is a multiple of SIDE. */
static int64_t sum_outer_products(const Matrix *g, const Matrix *x, float *dw, float *db) {
    const int64_t R = g->rows, O = g->columns, I = x->columns, most = smaller(blocks(R), MAX_ROWS / DEPTH);
    uint16_t *left = allocate(STRIP * most * BLOCK * sizeof(uint16_t)), *right = allocate(most * I * DEPTH * 2);
    float *last = allocate(SIDE * I * sizeof(float)); /* for the columns of g after the last whole block */
    const int allocated = left && right && last;
    if (allocated && !R) memset(dw, 0, O * I * sizeof(float)), memset(last, 0, SIDE * I * sizeof(float));
    if (allocated) begin_products();
    if (db) memset(db, 0, O * sizeof(float));
    for (int64_t r = 0; allocated && r < R; r += most * DEPTH) {
        const int64_t n = smaller(most, blocks(R - r));
        for (int64_t i = 0; i < I; i += SIDE)
            for (int64_t k = 0; k < n; k++) columns_to_right(x, r + k * DEPTH, i, right + (i / SIDE * n + k) * BLOCK);
        for (int64_t o = 0; o < O; o += STRIP * SIDE) {
            const int64_t in_strip = smaller(STRIP, blocks(O - o));
            for (int64_t k = 0; k < n; k++)
                for (int64_t s = 0; s < in_strip; s++)
                    columns_to_left(g, o + s * SIDE, r + k * DEPTH, left + (s * n + k) * BLOCK);
            for (int64_t s = 0; s < in_strip; s++)
                for (int64_t i = 0; i < I; i += SIDE) {
                    const int64_t at = o + s * SIDE;
                    const Left of_strip = {left + s * n * BLOCK, n, DEPTH, BLOCK};
                    float *sums = at + SIDE <= O ? dw + at * I : last;
                    add_products(&of_strip, right + i / SIDE * n * BLOCK, r == 0, sums + i, I);
                }
        }
        if (db) add_all_rows(g, r, smaller(R, r + n * DEPTH), db);
    }
    if (allocated) end_products();
    const int64_t whole = O / SIDE * SIDE;
    if (allocated) memcpy(dw + whole * I, last, (O - whole) * I * sizeof(float));
    free(left), free(right), free(last);
    return allocated ? OK : NO_MEMORY;
}
#endif

int64_t s2s_has_bf16_linear(void) {
#ifdef BF16_VECTORS
    return 1;
#else
    return 0;
#endif
}

/* x [R, I] of `bits` bits, w [O, I], bias [O] or null -> out [R, O] */
int64_t s2s_bf16_linear(const void *x, int64_t bits, int64_t R, int64_t I, const float *w, int64_t O,
                        const float *bias, uint16_t *out) {
#ifdef BF16_VECTORS
    const Matrix rows = {x, R, I, I, bits}, weight = {w, O, I, I, 32}, into = {out, R, O, O, 16};
    Right right = {&weight, rows_to_right, I, O, 0};
    return multiply(&rows, &right, bias, &into);
#else
    (void)x, (void)bits, (void)R, (void)I, (void)w, (void)O, (void)bias, (void)out;
    return NO_INSTRUCTIONS;
#endif
}

/* g [R, O], w [O, I] -> dx [R, I] of `bits` bits */
int64_t s2s_bf16_linear_dx(const uint16_t *g, int64_t R, int64_t O, const float *w, int64_t I, void *dx,
                           int64_t bits) {
#ifdef BF16_VECTORS
    const Matrix rows = {g, R, O, O, 16}, weight = {w, O, I, I, 32}, into = {dx, R, I, I, bits};
    Right right = {&weight, columns_to_right, O, I, 0};
    return multiply(&rows, &right, 0, &into);
#else
    (void)g, (void)R, (void)O, (void)w, (void)I, (void)dx, (void)bits;
    return NO_INSTRUCTIONS;
#endif
}

/* g [R, O] with rows `stride` apart, x [R, I] of `bits` bits -> dw [O, I], and db [O] if it is not null */
int64_t s2s_bf16_linear_dw(const uint16_t *g, int64_t stride, int64_t R, int64_t O, const void *x, int64_t bits,
                           int64_t I, float *dw, float *db) {
#ifdef BF16_VECTORS
    const Matrix gradients = {g, R, O, stride, 16}, rows = {x, R, I, I, bits};
    return sum_outer_products(&gradients, &rows, dw, db);
#else
    (void)g, (void)stride, (void)R, (void)O, (void)x, (void)bits, (void)I, (void)dw, (void)db;
    return NO_INSTRUCTIONS;
#endif
}
