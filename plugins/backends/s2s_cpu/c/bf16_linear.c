/* Linear maps of training, for any number of rows: values are rounded to bf16, sums are in fp32.

R rows, I inputs, O outputs; K is the dimension that is summed over.
*/

#include "bf16_blocks.h"
#include "decoder.h"

#ifdef BF16_VECTORS
enum {
    MAX_ROWS = 512,    /* laid out at once, with MAX_DEPTH values each: half a megabyte */
    MAX_DEPTH = 512,
    FAR_STRIDE = 4096, /* values from row to row, as in logits, from which each row of a tile has its own page */
    STRIP = 4,         /* blocks of columns processed together: neighbouring cache lines of a row */
};

typedef struct { /* what is done to sums [R, N] before they are rounded */
    const float *bias;     /* [N], added; null: none */
    int64_t relu;          /* whether negative ones become 0 */
    const uint16_t *where; /* [R, N] in bf16: sums become 0 where it is not positive; null: none does */
} Finish;

/* Both halves of a row of sums, finished; `lanes` of its columns from c on exist. */
INLINE void finish(const Finish *f, int64_t at, int64_t c, __mmask32 lanes, __m512 x[2]) {
    if (f->bias) {
        x[0] = _mm512_add_ps(x[0], _mm512_maskz_loadu_ps(lanes, f->bias + c));
        x[1] = _mm512_add_ps(x[1], _mm512_maskz_loadu_ps(lanes >> W, f->bias + c + W));
    }
    if (f->relu) { /* of NaN, the second operand is the result */
        x[0] = _mm512_max_ps(_mm512_setzero_ps(), x[0]);
        x[1] = _mm512_max_ps(_mm512_setzero_ps(), x[1]);
    }
    if (f->where) { /* positive, or NaN of any sign */
        const __m512i y = _mm512_maskz_loadu_epi16(lanes, f->where + at);
        const __m512i magnitude = _mm512_and_si512(y, _mm512_set1_epi16(0x7fff));
        const __mmask32 kept = _mm512_cmpgt_epi16_mask(y, _mm512_setzero_si512()) |
                               _mm512_cmpgt_epi16_mask(magnitude, _mm512_set1_epi16(0x7f80));
        x[0] = _mm512_maskz_mov_ps(kept, x[0]), x[1] = _mm512_maskz_mov_ps(kept >> W, x[1]);
    }
}

/* Writes n rows of a block of sums, finished, to those of the matrix m from row r and column c on. It writes whole
cache lines: to write half of one, the processor would read it first. */
static void store_sums(const float *sums, int64_t stride, const Finish *f, int64_t n, int64_t r, int64_t c,
                       const Matrix *m) {
    const int64_t columns = m->columns - c;
    const __mmask32 lanes = columns < SIDE ? (1u << columns) - 1 : ~0u;
    for (int64_t at = r * m->stride + c, end = at + n * m->stride; at < end; at += m->stride, sums += stride) {
        __m512 x[2] = {_mm512_loadu_ps(sums), _mm512_loadu_ps(sums + W)};
        finish(f, at, c, lanes, x);
        float *wide = (float *)m->values + at;
        uint16_t *narrow = (uint16_t *)m->values + at;
        if (m->bits == 32 && columns >= SIDE)
            _mm512_storeu_ps(wide, x[0]), _mm512_storeu_ps(wide + W, x[1]);
        else if (m->bits == 32)
            _mm512_mask_storeu_ps(wide, lanes, x[0]), _mm512_mask_storeu_ps(wide + W, lanes >> W, x[1]);
        else if (columns >= SIDE)
            _mm512_storeu_si512(narrow, (Row)_mm512_cvtne2ps_pbh(x[1], x[0]));
        else
            _mm512_mask_storeu_epi16(narrow, lanes, (Row)_mm512_cvtne2ps_pbh(x[1], x[0]));
    }
}

/* Prefetches the first line of each of n rows of a block, which `store_sums` will write: each is on a page of its own
if rows are long. */
static inline void prefetch_rows(const Matrix *m, int64_t r, int64_t n, int64_t c) {
    const char *at = (const char *)m->values + (r * m->stride + c) * (m->bits / 8);
    for (int64_t i = 0; i < n; i++, at += m->stride * (m->bits / 8)) __builtin_prefetch(at, 1);
}

typedef struct { /* a right operand [K, N]: a matrix, how to pack a block of it, and perhaps all packed blocks */
    const Matrix *m;
    PackBlock *pack_block;
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
    right->packed = allocate(blocks(right->K) * blocks(right->N) * BLOCK * sizeof(uint16_t));
    if (right->packed) s2s_pack_right(right->m, right->pack_block, right->K, right->N, right->packed);
    return right->packed != 0;
}

/* How many of n blocks of a left operand can be read in place from the matrix: whole ones, in bf16, whose rows do not
map to the same place in the cache, nor, where tiles load 16 rows at once, are so far apart that each costs a TLB
miss. */
static inline int64_t n_in_place(const Matrix *x, int64_t r, int64_t k, int64_t n) {
    const int is_near = x->stride < FAR_STRIDE || !s2s_may_use_tiles();
    const int may_be = x->bits == 16 && x->stride % 512 && is_near && r + SIDE <= x->rows;
    return may_be ? smaller(n, (x->columns - k) / DEPTH) : 0;
}

/* Adds the products of n blocks of the rows from r on: first those read in place, then those laid out. */
static void add_block(const Matrix *x, int64_t r, int64_t k, int64_t n, const uint16_t *laid_out,
                      const uint16_t *right, float *sums, int64_t stride) {
    const int64_t whole = n_in_place(x, r, k, n);
    if (whole) {
        const Left left = {(const uint16_t *)x->values + r * x->stride + k, whole, x->stride, DEPTH};
        s2s_add_blocks(&left, right, k == 0, sums, stride);
    }
    if (n > whole) {
        const Left left = {laid_out + whole * BLOCK, n - whole, DEPTH, BLOCK};
        s2s_add_blocks(&left, right + whole * BLOCK, k == 0 && !whole, sums, stride);
    }
}

/* x [R, K] times a right operand [K, N], finished -> out [R, N] */
static int64_t multiply(const Matrix *x, Right *right, const Finish *f, const Matrix *out) {
    const int64_t K = right->K, deep = smaller(blocks(K), MAX_DEPTH / DEPTH), wide = blocks(right->N) * SIDE;
    const int64_t rows = smaller(blocks(x->rows) * SIDE, MAX_ROWS), in_parts = blocks(K) > deep;
    const int64_t stride = in_parts ? wide : SIDE;
    float own[SIDE * SIDE], *sums = in_parts ? allocate(rows * wide * sizeof(float)) : own;
    uint16_t *left = allocate((rows + STRIP * SIDE) * deep * DEPTH * sizeof(uint16_t));
    uint16_t *scratch = left + rows * deep * DEPTH; /* for panels of a strip */
    const int allocated = sums && left && pack_right(right, x->rows);
    if (allocated) s2s_begin_blocks();
    for (int64_t first = 0; allocated && first < x->rows; first += rows)
        for (int64_t k = 0; k < K; k += deep * DEPTH) {
            const int64_t n_rows = smaller(rows, x->rows - first), n = smaller(deep, blocks(K - k));
            for (int64_t r = 0; r < n_rows; r += SIDE)
                for (int64_t d = n_in_place(x, first + r, k, n); d < n; d++)
                    s2s_rows_to_left(x, first + r, k + d * DEPTH, left + (r / SIDE * n + d) * BLOCK);
            for (int64_t strip = 0; strip < right->N; strip += STRIP * SIDE) {
                const int64_t end = smaller(right->N, strip + STRIP * SIDE);
                const uint16_t *weights[STRIP];
                for (int64_t c = strip, s = 0; c < end; c += SIDE, s++)
                    weights[s] = panel(right, k, n, c, scratch + s * deep * BLOCK);
                for (int64_t r = 0; r < n_rows; r += SIDE)
                    for (int64_t c = strip, s = 0; c < end; c += SIDE, s++) {
                        float *block = in_parts ? sums + r * stride + c : own;
                        if (k + n * DEPTH >= K) prefetch_rows(out, first + r, smaller(SIDE, n_rows - r), c);
                        add_block(x, first + r, k, n, left + r / SIDE * n * BLOCK, weights[s], block, stride);
                        if (k + n * DEPTH >= K)
                            store_sums(block, stride, f, smaller(SIDE, n_rows - r), first + r, c, out);
                    }
            }
        }
    if (allocated) s2s_end_blocks();
    if (in_parts) free(sums);
    free(left), free(right->packed);
    return allocated ? OK : NO_MEMORY;
}

/* g [R, O], x [R, I] -> dw [O, I], the sum of outer products of their rows, and db [O], the sum of g's rows, unless
null; I is a multiple of SIDE. */
static int64_t sum_outer_products(const Matrix *g, const Matrix *x, float *dw, float *db) {
    const int64_t R = g->rows, O = g->columns, I = x->columns, most = smaller(blocks(R), MAX_ROWS / DEPTH);
    uint16_t *left = allocate(STRIP * most * BLOCK * sizeof(uint16_t)), *right = allocate(most * I * DEPTH * 2);
    float *last = allocate(SIDE * I * sizeof(float)); /* for the columns of g after the last whole block */
    const int allocated = left && right && last;
    if (allocated && !R) memset(dw, 0, O * I * sizeof(float)), memset(last, 0, SIDE * I * sizeof(float));
    if (allocated) s2s_begin_blocks();
    if (db) memset(db, 0, O * sizeof(float));
    for (int64_t r = 0; allocated && r < R; r += most * DEPTH) {
        const int64_t n = smaller(most, blocks(R - r));
        for (int64_t i = 0; i < I; i += SIDE)
            for (int64_t k = 0; k < n; k++)
                s2s_columns_to_right(x, r + k * DEPTH, i, right + (i / SIDE * n + k) * BLOCK);
        for (int64_t o = 0; o < O; o += STRIP * SIDE) {
            const int64_t in_strip = smaller(STRIP, blocks(O - o));
            for (int64_t k = 0; k < n; k++)
                for (int64_t s = 0; s < in_strip; s++)
                    s2s_columns_to_left(g, o + s * SIDE, r + k * DEPTH, left + (s * n + k) * BLOCK);
            for (int64_t s = 0; s < in_strip; s++)
                for (int64_t i = 0; i < I; i += SIDE) {
                    const int64_t at = o + s * SIDE;
                    const Left of_strip = {left + s * n * BLOCK, n, DEPTH, BLOCK};
                    float *sums = at + SIDE <= O ? dw + at * I : last;
                    s2s_add_blocks(&of_strip, right + i / SIDE * n * BLOCK, r == 0, sums + i, I);
                }
        }
        if (db) s2s_add_rows(g, r, smaller(R, r + n * DEPTH), db);
    }
    if (allocated) s2s_end_blocks();
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

/* x [R, I] of `bits` bits, w [O, I], bias [O] or null -> out [R, O], negative ones 0 if `relu` */
int64_t s2s_bf16_linear(const void *x, int64_t bits, int64_t R, int64_t I, const float *w, int64_t O,
                        const float *bias, int64_t relu, uint16_t *out) {
#ifdef BF16_VECTORS
    const Matrix rows = {x, R, I, I, bits}, weight = {w, O, I, I, 32}, into = {out, R, O, O, 16};
    Right right = {&weight, s2s_rows_to_right, I, O, 0};
    const Finish f = {bias, relu, 0};
    return multiply(&rows, &right, &f, &into);
#else
    (void)x, (void)bits, (void)R, (void)I, (void)w, (void)O, (void)bias, (void)relu, (void)out;
    return NO_INSTRUCTIONS;
#endif
}

/* g [R, O], w [O, I] -> dx [R, I] of `bits` bits, 0 where `where` [R, I], unless null, is not positive */
int64_t s2s_bf16_linear_dx(const uint16_t *g, int64_t R, int64_t O, const float *w, int64_t I, const uint16_t *where,
                           void *dx, int64_t bits) {
#ifdef BF16_VECTORS
    const Matrix rows = {g, R, O, O, 16}, weight = {w, O, I, I, 32}, into = {dx, R, I, I, bits};
    Right right = {&weight, s2s_columns_to_right, O, I, 0};
    const Finish f = {0, 0, where};
    return multiply(&rows, &right, &f, &into);
#else
    (void)g, (void)R, (void)O, (void)w, (void)I, (void)where, (void)dx, (void)bits;
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
