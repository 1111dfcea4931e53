/* The gradient of attention of long sentences: it goes over the queries of a block of keys, and computes the weights
again from the statistics of each query. Tiles are transposed, [KEYS, QUERIES], so that only one of five products has an
operand to transpose. */

#include "tiled_attention.h"

typedef struct { /* a head's operands, tiles and sums */
    void *rows, *k, *v;                                  /* rows of operands */
    RightOperand q, k_right, d_out, q_transposed, d_out_transposed;
    void *weights, *d_scores, *transposed;
    float *scores, *d_weights;
    float *means;                  /* [T]: of the gradients of a query's weights, by weight */
    float *grad_q, *grad_k, *grad_v; /* [T, d_k], [KEYS, d_k], [KEYS, d_v] */
    float *row;
} Buffers;

static int64_t lay_out(Head *m, Buffers *f, uintptr_t memory) {
    uintptr_t next = memory;
    const int64_t longest = m->T > m->S ? m->T : m->S, widest = m->d_k > m->d_v ? m->d_k : m->d_v;
    m->bias = take(&next, m->S, 32);
    m->largest = take(&next, m->T, 32);
    m->inverse = take(&next, m->T, 32);
    f->means = take(&next, m->T, 32);
    f->rows = take(&next, longest * widest, m->bits);
    f->k = take(&next, m->S * m->d_k, m->bits);
    f->v = take(&next, m->S * m->d_v, m->bits);
    f->q.data = take(&next, m->T * m->d_k, m->bits);
    f->k_right.data = take(&next, m->S * m->d_k, m->bits);
    f->d_out.data = take(&next, m->T * m->d_v, m->bits);
    f->q_transposed.data = take(&next, m->T * m->d_k, m->bits);
    f->d_out_transposed.data = take(&next, m->T * m->d_v, m->bits);
    f->weights = take(&next, KEYS * QUERIES, m->bits);
    f->d_scores = take(&next, KEYS * QUERIES, m->bits);
    f->transposed = take(&next, KEYS * QUERIES, m->bits);
    f->scores = take(&next, KEYS * QUERIES, 32);
    f->d_weights = take(&next, KEYS * QUERIES, 32);
    f->grad_q = take(&next, m->T * m->d_k, 32);
    f->grad_k = take(&next, KEYS * m->d_k, 32);
    f->grad_v = take(&next, KEYS * m->d_v, 32);
    f->row = take(&next, 2 * m->d_v, 32);
    return next - memory;
}

static void begin(Head *m, Buffers *f) {
    const TrainingAttention *s = m->s;
    const float *statistics = s->statistics + (m->b * s->h + m->a) * 2 * s->T;
    get_rows(m, &s->k, m->n, s->d_k, m->S, f->k);
    get_rows(m, &s->v, m->n, s->d_v, m->S, f->v);
    f->k_right = s2s_right(f->k, m->S, m->d_k, m->bits, (void *)f->k_right.data);
    get_rows(m, &s->q, s->T, s->d_k, m->T, f->rows);
    f->q = s2s_right(f->rows, m->T, m->d_k, m->bits, (void *)f->q.data);
    f->q_transposed = s2s_transposed_right(f->rows, m->T, m->d_k, m->bits, (void *)f->q_transposed.data);
    get_rows(m, &s->d_out, s->T, s->d_v, m->T, f->rows);
    f->d_out = s2s_right(f->rows, m->T, m->d_v, m->bits, (void *)f->d_out.data);
    f->d_out_transposed = s2s_transposed_right(f->rows, m->T, m->d_v, m->bits, (void *)f->d_out_transposed.data);
    memset(f->grad_q, 0, m->T * m->d_k * sizeof(float));
    for (int64_t t = 0; t < m->T; t++) { /* those after the last have no weights */
        m->largest[t] = t < s->T ? statistics[t] : INFINITY;
        m->inverse[t] = t < s->T ? statistics[s->T + t] : 0;
        f->means[t] = 0;
        if (t >= s->T) continue;
        get_row(m, &s->out, t, s->d_v, f->row);
        get_row(m, &s->d_out, t, s->d_v, f->row + m->d_v);
        f->means[t] = dot(f->row, f->row + m->d_v, s->d_v);
    }
}

/* Of key s and the queries from t on, of which those from the n-th on see it: the scores x and the gradients y of their
weights after dropout -> the weights after dropout, without its factor, and the gradients of the scaled scores. */
INLINE void weigh(const Head *m, const Buffers *f, const int64_t bits, int64_t s, int64_t t, int64_t n, int64_t columns,
                  const float *x, const float *y, void *weights, void *d_scores) {
    const vf scale = splat((float)m->s->scale), bias = splat(m->bias[s]), by = splat((float)m->s->kept_factor);
    for (int64_t j = 0; j < columns; j += W) {
        vf weight = exponential(load(x + j) * scale + bias - load(m->largest + t + j)) * load(m->inverse + t + j);
        vf gradient = load(y + j);
        if (j < n) weight = choose(lanes() < (int32_t)(n - j) - (vi){0}, splat(0), weight);
        vf after = weight;
        if (m->kept) {
            const int32_t word = m->kept[(t + j) / SIDE * m->S + s] >> (t + j) % SIDE;
            const vi is_kept = -(((word - (vi){0}) >> lanes()) & 1);
            after = (vf)((vi)weight & is_kept);
            gradient = (vf)((vi)(gradient * by) & is_kept);
        }
        store_values(after, j, bits, weights);
        store_values(weight * (gradient - load(f->means + t + j)), j, bits, d_scores);
    }
}

INLINE void weigh_tile(const Head *m, const Buffers *f, const int64_t bits, int64_t s, int64_t n_keys, int64_t t,
                       int64_t columns) {
    for (int64_t i = 0; i < n_keys; i++)
        weigh(m, f, bits, s + i, t, m->s->causal ? s + i - t : 0, columns, f->scores + i * QUERIES,
              f->d_weights + i * QUERIES, value_at(f->weights, i * QUERIES, bits),
              value_at(f->d_scores, i * QUERIES, bits));
}

/* Of the gradients that are wanted: those of n keys and values from s on, and what they add to those of all queries. */
static void attend(const Head *m, const Buffers *f, int64_t s, int64_t n) {
    const int64_t bits = m->bits, d_k = m->d_k, d_v = m->d_v;
    const LeftOperand k = left_from(rows_as_left(f->k, d_k), s, bits), v = left_from(rows_as_left(f->v, d_v), s, bits);
    const LeftOperand weights = rows_as_left(f->weights, QUERIES), d_scores = rows_as_left(f->d_scores, QUERIES);
    memset(f->grad_k, 0, KEYS * d_k * sizeof(float));
    memset(f->grad_v, 0, KEYS * d_v * sizeof(float));
    const int64_t end = s < m->n ? m->s->T : 0; /* no query sees keys from the n-th on */
    for (int64_t t = m->s->causal ? s / QUERIES * QUERIES : 0; t < end; t += QUERIES) {
        const int64_t columns = up_to_blocks(smaller(QUERIES, m->s->T - t));
        const int64_t rows = up_to_blocks(m->s->causal ? smaller(n, t + QUERIES - s) : n);
        s2s_add_product(k, right_from(f->q_transposed, 0, t, bits), rows, d_k, columns, bits, 1, f->scores, QUERIES);
        s2s_add_product(v, right_from(f->d_out_transposed, 0, t, bits), rows, d_v, columns, bits, 1, f->d_weights,
                        QUERIES);
        if (bits == 16)
            weigh_tile(m, f, 16, s, rows, t, columns);
        else
            weigh_tile(m, f, 32, s, rows, t, columns);
        if (m->s->grad_k.data) {
            s2s_add_product(weights, right_from(f->d_out, t, 0, bits), rows, columns, d_v, bits, 0, f->grad_v, d_v);
            s2s_add_product(d_scores, right_from(f->q, t, 0, bits), rows, columns, d_k, bits, 0, f->grad_k, d_k);
        }
        if (!m->s->grad_q.data) continue;
        const LeftOperand by_query = s2s_transposed_left(f->d_scores, rows, QUERIES, bits, f->transposed);
        s2s_add_product(by_query, right_from(f->k_right, s, 0, bits), columns, rows, d_k, bits, 0, f->grad_q + t * d_k,
                        d_k);
    }
    if (!m->s->grad_k.data) return;
    put_rows(m, f->grad_k, n, m->s->d_k, m->s->scale, &m->s->grad_k, s);
    put_rows(m, f->grad_v, n, m->s->d_v, m->s->kept_factor, &m->s->grad_v, s);
}

/* The gradients that are wanted (of q, of k and v, or of all) of heads first to last - 1 of all sentences. */
int64_t s2s_tiled_attention_backward(const TrainingAttention *s, int64_t first, int64_t last) {
    Head m = head_of(s);
    Buffers f;
    void *memory = allocate(lay_out(&m, &f, 0) + ALIGNED);
    if (!memory) return NO_MEMORY;
    lay_out(&m, &f, (uintptr_t)memory);
    s2s_begin_products(m.bits);
    for (int64_t number = first; number < last; number++) {
        turn_to(&m, number);
        begin(&m, &f);
        for (int64_t i = 0; i < s->S; i += KEYS) attend(&m, &f, i, smaller(KEYS, s->S - i));
        if (s->grad_q.data) put_rows(&m, f.grad_q, s->T, s->d_k, s->scale, &s->grad_q, 0);
    }
    s2s_end_products(m.bits);
    free(memory);
    return OK;
}
