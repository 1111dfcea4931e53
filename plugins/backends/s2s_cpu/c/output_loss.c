/* The label-smoothed loss of logits that are products of rows and a matrix, and the gradients of both, for one thread.

Of a chunk of rows only the exponentials of logits are kept, in bf16. The gradient of a logit is e / total - on_each,
minus on_target at the target, where e is its exponential and total the sum of its row's. So rows and the matrix are
multiplied by e alone, and the products scaled; the rest are sums of rows. At the target e counts as 0: its gradient is
added in floats. R rows, D inputs, V vocabulary. */

#include "bf16.h"
#include "bf16_blocks.h"
#include "decoder.h"

#ifdef BF16_VECTORS
enum {
    CHUNK = 512,          /* rows whose exponentials are kept */
    PANEL = CHUNK * SIDE, /* values of a block of columns in a right operand [CHUNK, V] */
    STRIP = 8,            /* blocks of columns whose logits are computed at once */
    WIDTH = STRIP * SIDE,
    FAR = 40, /* how far a row's largest logit may be from what is subtracted from all of them */
};

typedef struct {
    Matrix x, w;           /* [R, D], [V, D] */
    const int64_t *target; /* [R] */
    float on_target, on_each;
    int64_t D, V, n_inputs, n_columns;    /* the last two in blocks */
    uint16_t *forward, *back;             /* w as the right operands [D, V] and [V, D] */
    uint16_t *left, *scaled, *transposed; /* a chunk's rows: as left operand, scaled, as the left operand [D, CHUNK] */
    uint16_t *exps;                       /* the right operand [CHUNK, V] */
    float *dx, *dw;                       /* sums of products with e: [CHUNK, D]; [D, SIDE] for each of the columns */
    float *sum_of_w, *sum_of_x;           /* [D] */
    float *at_target;                     /* [R], logits of targets, then what is added to their gradients */
    vf max[CHUNK], total[CHUNK];
    float shift[CHUNK];     /* what is subtracted from a row's logits: 0 unless they are far from it */
    int64_t rows[CHUNK], n; /* which rows of x the chunk has */
} OutputLoss;

/* The exponentials of logits of the chunk's rows r and r + 1, WIDTH apart, in n blocks, of which the last has
`lanes`. */
INLINE void exponentials(OutputLoss *o, int64_t r, const float *logits, int64_t n, __mmask32 lanes, uint16_t *left,
                         uint16_t *right) {
    vf max[2] = {o->max[r], o->max[r + 1]}, total[2] = {o->total[r], o->total[r + 1]};
    for (int64_t s = 0; s < n; s++, logits += SIDE, left += BLOCK, right += PANEL) {
        const __mmask32 kept = s < n - 1 ? ~0u : lanes;
        Row both[2];
        UNROLLED for (int i = 0; i < 2; i++) {
            vf e[2];
            UNROLLED for (int half = 0; half < 2; half++) {
                const vf x = load(logits + i * WIDTH + half * W);
                max[i] = (vf)_mm512_mask_max_ps(max[i], kept >> half * W, x, max[i]);
                e[half] = (vf)_mm512_maskz_mov_ps(kept >> half * W, exponential(x - splat(o->shift[r + i])));
                total[i] += e[half];
            }
            both[i] = (Row)_mm512_cvtne2ps_pbh(e[1], e[0]);
            _mm512_storeu_si512(left + i * DEPTH, both[i]);
        }
        Row low, high;
        interleave(both[0], both[1], &low, &high);
        _mm512_storeu_si512(right, low), _mm512_storeu_si512(right + BLOCK / 2, high);
    }
    for (int i = 0; i < 2; i++) o->max[r + i] = max[i], o->total[r + i] = total[i];
}

/* Keeps the logit of row r's target, if it is one of n columns from c on, and sets its exponential to 0. */
static void take_target(OutputLoss *o, int64_t r, int64_t c, int64_t n, const float *logits, uint16_t *left,
                        uint16_t *right) {
    const int64_t at = o->target[o->rows[r]] - c, i = r % SIDE, lane = at % SIDE;
    if (at < 0 || at >= n) return;
    o->at_target[o->rows[r]] = logits[i * WIDTH + at];
    left[at / SIDE * BLOCK + i * DEPTH + lane] = 0;
    right[at / SIDE * PANEL + lane / W * (BLOCK / 2) + i / 2 * DEPTH + lane % W * 2 + i % 2] = 0;
}

/* All exponentials of the chunk, and their products with w. */
static void multiply_exponentials(OutputLoss *o) {
    float logits[SIDE * WIDTH];
    uint16_t left[STRIP * BLOCK];
    for (int64_t r = 0; r < CHUNK; r++) o->max[r] = splat(-INFINITY), o->total[r] = splat(0);
    for (int64_t c = 0; c < o->V; c += WIDTH) {
        const int64_t first = c / SIDE, columns = smaller(WIDTH, o->V - c), n = blocks(columns);
        const __mmask32 lanes = columns % SIDE ? (1u << columns % SIDE) - 1 : ~0u;
        for (int64_t r = 0; r < o->n; r += SIDE) {
            uint16_t *right = o->exps + first * PANEL + r * SIDE;
            const Left inputs = {o->left + r * o->D, o->n_inputs, DEPTH, BLOCK}, exps = {left, n, DEPTH, BLOCK};
            for (int64_t s = 0; s < n; s++)
                s2s_add_blocks(&inputs, o->forward + (first + s) * o->n_inputs * BLOCK, 1, logits + s * SIDE, WIDTH);
            for (int64_t i = 0; i < SIDE; i += 2)
                exponentials(o, r + i, logits + i * WIDTH, n, lanes, left + i * DEPTH, right + i / 2 * DEPTH);
            for (int64_t i = r; i < smaller(r + SIDE, o->n); i++) take_target(o, i, c, columns, logits, left, right);
            for (int64_t d = 0; d < o->n_inputs; d++)
                s2s_add_blocks(&exps, o->back + (d * o->n_columns + first) * BLOCK, c == 0, o->dx + r * o->D + d * SIDE,
                               o->D);
        }
    }
}

/* Whether all exponentials are accurate; in rows where they might not be, the largest logit is subtracted from now
on. */
static int are_accurate(OutputLoss *o) {
    int accurate = 1;
    for (int64_t r = 0; r < o->n; r++) {
        const float max = largest(o->max[r]);
        if (fabsf(max - o->shift[r]) > FAR) o->shift[r] = max, accurate = 0;
    }
    return accurate;
}

/* Lays out the chunk's rows, the rest of the last block with zeros. */
static void lay_out_rows(OutputLoss *o) {
    for (int64_t r = 0; r < blocks(o->n) * SIDE; r++)
        for (int64_t d = 0; d < o->n_inputs; d++) {
            const Row x = r < o->n ? row_of(&o->x, o->rows[r], d * DEPTH) : _mm512_setzero_si512();
            _mm512_storeu_si512(o->left + r / SIDE * SIDE * o->D + d * BLOCK + r % SIDE * DEPTH, x);
        }
    memset(o->shift, 0, sizeof o->shift);
}

/* The loss and -log p[y] of the chunk's row r, its gradient, and the row scaled. */
static void finish_row(OutputLoss *o, int64_t r, float *loss, float *nll, void *dx) {
    const int64_t row = o->rows[r], at = row * o->D, bits = o->x.bits;
    const float *w = (const float *)o->w.values + o->target[row] * o->D;
    const float total = sum(o->total[r]), lse = logf(total) + o->shift[r], of_target = o->at_target[row];
    const float more = o->at_target[row] = expf(of_target - lse) - o->on_target;
    const vf scale = splat(1 / total), each = splat(o->on_each);
    vf all = splat(0); /* the sum of all logits */
    for (int64_t d = 0; d < o->D; d += W) {
        const vf x = load_from(o->x.values, at + d, bits), sum_of_w = load(o->sum_of_w + d);
        all += x * sum_of_w;
        store_to(dx, at + d, bits, load(o->dx + r * o->D + d) * scale - sum_of_w * each + load(w + d) * splat(more));
        narrow_vector(x * scale, o->scaled + r * o->D + d);
        *(vf *)(o->sum_of_x + d) = load(o->sum_of_x + d) + x;
    }
    nll[row] = lse - of_target;
    loss[row] = o->on_target * nll[row] - o->on_each * (sum(all) - o->V * lse);
}

/* Adds the chunk's products of scaled rows and exponentials. */
static void add_outer_products(OutputLoss *o) {
    const int64_t n = blocks(o->n);
    const Matrix scaled = {o->scaled, o->n, o->D, o->D, 16};
    for (int64_t d = 0; d < o->n_inputs; d++)
        for (int64_t k = 0; k < n; k++)
            s2s_columns_to_left(&scaled, d * SIDE, k * DEPTH, o->transposed + (d * n + k) * BLOCK);
    for (int64_t c = 0; c < o->n_columns; c++)
        for (int64_t d = 0; d < o->n_inputs; d++) {
            const Left rows = {o->transposed + d * n * BLOCK, n, DEPTH, BLOCK};
            s2s_add_blocks(&rows, o->exps + c * PANEL, 0, o->dw + (c * o->n_inputs + d) * SIDE * SIDE, SIDE);
        }
}

/* The gradient dw [V, D] of all rows, from the blocks of its transpose. */
static void finish_weight(const OutputLoss *o, const uint8_t *counts, float *dw) {
    for (int64_t c = 0; c < o->V; c += W)
        for (int64_t d = 0; d < o->D; d += W) {
            const float *block = o->dw + (c / SIDE * o->n_inputs + d / SIDE) * SIDE * SIDE + d % SIDE * SIDE + c % SIDE;
            vf x[W];
            for (int i = 0; i < W; i++) x[i] = load(block + i * SIDE);
            transpose_vectors(x);
            const vf less = load(o->sum_of_x + d) * splat(o->on_each);
            for (int64_t i = 0; i < smaller(W, o->V - c); i++) *(vf *)(dw + (c + i) * o->D + d) = x[i] - less;
        }
    for (int64_t r = 0; r < o->x.rows; r++)
        for (int64_t d = 0; counts[r] && d < o->D; d += W) {
            float *to = dw + o->target[r] * o->D + d;
            *(vf *)to = load(to) + splat(o->at_target[r]) * load_from(o->x.values, r * o->D + d, o->x.bits);
        }
}

/* Scratch memory in one block, which begins at `forward`, null if memory runs out. */
static void *allocate_all(OutputLoss *o) {
    const int64_t all = o->n_columns * SIDE * o->D, n_halves[] = {all, all, CHUNK * o->D, CHUNK * o->D, CHUNK * o->D,
                                                                  o->n_columns * PANEL};
    const int64_t n_floats[] = {CHUNK * o->D, all, o->D, o->D, o->x.rows};
    uint16_t **halves[] = {&o->forward, &o->back, &o->left, &o->scaled, &o->transposed, &o->exps};
    float **floats[] = {&o->dx, &o->dw, &o->sum_of_w, &o->sum_of_x, &o->at_target};
    int64_t bytes = 0;
    for (int i = 0; i < 6; i++) bytes += n_halves[i] * sizeof(uint16_t);
    for (int i = 0; i < 5; i++) bytes += n_floats[i] * sizeof(float);
    char *next = aligned_alloc(64, (bytes + 63) / 64 * 64), *block = next;
    if (!block) return 0;
    for (int i = 0; i < 6; i++) *halves[i] = (uint16_t *)next, next += n_halves[i] * sizeof(uint16_t);
    for (int i = 0; i < 5; i++) *floats[i] = (float *)next, next += n_floats[i] * sizeof(float);
    memset(o->sum_of_w, 0, 2 * o->D * sizeof(float));
    memset(o->dw, 0, all * sizeof(float));
    return block;
}
#endif

/* x [R, D] of `bits` bits, w [V, D], target and counts [R] -> loss and -log p[target] [R], and the gradients dx of
`bits` bits and dw of the sum; all are 0 for a row that does not count. D is a multiple of 32. */
int64_t s2s_output_loss(const void *x, int64_t bits, int64_t R, int64_t D, const float *w, int64_t V,
                        const int64_t *target, const uint8_t *counts, float on_target, float on_each, float *loss,
                        float *nll, void *dx, float *dw) {
#ifdef BF16_VECTORS
    OutputLoss *o = aligned_alloc(64, (sizeof *o + 63) / 64 * 64);
    if (!o) return NO_MEMORY;
    *o = (OutputLoss){.x = {x, R, D, D, bits}, .w = {w, V, D, D, 32}, .target = target, .on_target = on_target,
                      .on_each = on_each, .D = D, .V = V, .n_inputs = blocks(D), .n_columns = blocks(V)};
    void *memory = allocate_all(o);
    if (!memory) return free(o), NO_MEMORY;
    s2s_pack_right(&o->w, s2s_rows_to_right, D, V, o->forward);
    s2s_pack_right(&o->w, s2s_columns_to_right, V, D, o->back);
    s2s_add_rows(&o->w, 0, V, o->sum_of_w);
    s2s_begin_blocks();
    memset(loss, 0, R * sizeof *loss), memset(nll, 0, R * sizeof *nll), memset(dx, 0, R * D * (bits / 8));
    for (int64_t r = 0; r < R;) {
        for (o->n = 0; r < R && o->n < CHUNK; r++)
            if (counts[r]) o->rows[o->n++] = r;
        lay_out_rows(o);
        do {
            multiply_exponentials(o);
        } while (!are_accurate(o));
        for (int64_t i = 0; i < o->n; i++) finish_row(o, i, loss, nll, dx);
        add_outer_products(o);
    }
    s2s_end_blocks();
    finish_weight(o, counts, dw);
    free(memory), free(o);
    return OK;
#else
    (void)x, (void)bits, (void)R, (void)D, (void)w, (void)V, (void)target, (void)counts, (void)on_target, (void)on_each;
    (void)loss, (void)nll, (void)dx, (void)dw;
    return NO_INSTRUCTIONS;
#endif
}
