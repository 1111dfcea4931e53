/* Attention of long sentences in training: for each block of queries it goes over the keys, and corrects its sums
whenever it meets a larger score. */

#include "tiled_attention.h"

#include <float.h>

typedef struct { /* operands of a head, a tile of scores, and the same as an operand; sums of a block of queries */
    void *rows, *q, *k, *v, *weights;
    float *scores, *out, *totals; /* [QUERIES, KEYS], [QUERIES, d_v], [QUERIES] */
} Buffers;

static int64_t lay_out(Head *m, Buffers *f, uintptr_t memory) {
    uintptr_t next = memory;
    m->bias = take(&next, m->S, 32);
    m->largest = take(&next, QUERIES, 32);
    f->rows = take(&next, m->S * (m->d_k > m->d_v ? m->d_k : m->d_v), m->bits);
    f->q = take(&next, m->T * m->d_k, m->bits);
    f->k = take(&next, m->S * m->d_k, m->bits);
    f->v = take(&next, m->S * m->d_v, m->bits);
    f->weights = take(&next, QUERIES * KEYS, m->bits);
    f->scores = take(&next, QUERIES * KEYS, 32);
    f->out = take(&next, QUERIES * m->d_v, 32);
    f->totals = take(&next, QUERIES, 32);
    return next - memory;
}

/* Query t's scores x [columns] of keys from s on, of which it sees the first n -> weights over the largest score so
far, which is `largest`, and their sum, added to `total`. Returns the factor of what was summed before. */
INLINE float weigh(const Head *m, const int64_t bits, int64_t t, int64_t s, int64_t n, int64_t columns, float *x,
                   void *weights, float *most, float *total) {
    const vf scale = splat((float)m->s->scale);
    const uint32_t *kept = m->kept ? m->kept + t / SIDE * m->S + s : NULL;
    vf highest = splat(-INFINITY), all = splat(0);
    for (int64_t j = 0; j < columns; j += W) {
        vf score = load(x + j) * scale + load(m->bias + s + j);
        if (n - j < W) score = choose(lanes() >= (int32_t)(n - j) - (vi){0}, splat(-INFINITY), score);
        *(vf *)(x + j) = score;
        highest = larger(score, highest);
    }
    const float before = *most, now = larger(splat(before), splat(largest(highest)))[0];
    for (int64_t j = 0; j < columns; j += W) {
        vf weight = exponential(load(x + j) - splat(now));
        all += weight;
        if (kept) weight = (vf)((vi)weight & -((*(const vi *)(kept + j) >> (int32_t)(t % SIDE)) & 1));
        store_values(weight, j, bits, weights);
    }
    const float by = exponential(splat(before - now))[0];
    *most = now;
    *total = *total * by + sum(all);
    return by;
}

/* A tile of n queries from t on and n_keys from s on: its scores become weights, and earlier sums are corrected. */
INLINE void weigh_tile(const Head *m, const Buffers *f, const int64_t bits, int64_t t, int64_t n, int64_t s,
                       int64_t n_keys) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t seen = m->s->causal ? smaller(n_keys, t + i + 1 - s) : n_keys;
        const float by = weigh(m, bits, t + i, s, seen, up_to_blocks(n_keys), f->scores + i * KEYS,
                               value_at(f->weights, i * KEYS, bits), m->largest + i, f->totals + i);
        for (int64_t j = 0; by != 1 && j < m->d_v; j += W) *(vf *)(f->out + i * m->d_v + j) *= splat(by);
    }
}

/* The output of n queries from t on, and their statistics. */
static void attend(const Head *m, const Buffers *f, int64_t t, int64_t n) {
    const int64_t rows = up_to_blocks(n), end = m->s->causal ? smaller(m->n, t + n) : m->n, bits = m->bits;
    const LeftOperand q = left_from(rows_as_left(f->q, m->d_k), t, bits), weights = rows_as_left(f->weights, KEYS);
    const RightOperand k = {f->k, m->d_k * SIDE}, v = {f->v, m->S * SIDE};
    memset(f->out, 0, QUERIES * m->d_v * sizeof(float));
    memset(f->totals, 0, QUERIES * sizeof(float));
    for (int64_t i = 0; i < QUERIES; i++) m->largest[i] = -FLT_MAX; /* finite for tiles of -INFINITY alone */
    for (int64_t s = 0; s < end; s += KEYS) {
        const int64_t n_keys = smaller(KEYS, end - s), columns = up_to_blocks(n_keys);
        s2s_add_product(q, right_from(k, 0, s, bits), rows, m->d_k, columns, bits, 1, f->scores, KEYS);
        if (bits == 16)
            weigh_tile(m, f, 16, t, n, s, n_keys);
        else
            weigh_tile(m, f, 32, t, n, s, n_keys);
        s2s_add_product(weights, right_from(v, s, 0, bits), rows, columns, m->d_v, bits, 0, f->out, m->d_v);
    }
    float *statistics = m->s->statistics ? m->s->statistics + (m->b * m->s->h + m->a) * 2 * m->s->T + t : NULL;
    for (int64_t i = 0; i < n; i++) {
        const float inverse = 1 / f->totals[i];
        if (statistics) statistics[i] = m->largest[i], statistics[m->s->T + i] = inverse;
        put_rows(m, f->out + i * m->d_v, 1, m->s->d_v, inverse * (float)m->s->kept_factor, &m->s->out, t + i);
    }
}

/* `out` of heads first to last - 1 of all sentences, and statistics if the backward pass needs them. */
int64_t s2s_tiled_attention(const TrainingAttention *s, int64_t first, int64_t last) {
    Head m = head_of(s);
    Buffers f;
    void *memory = allocate(lay_out(&m, &f, 0) + ALIGNED);
    if (!memory) return NO_MEMORY;
    lay_out(&m, &f, (uintptr_t)memory);
    memset(f.weights, 0, QUERIES * KEYS * m.bits / 8); /* those of rows beyond the last query stay */
    s2s_begin_products(m.bits);
    for (int64_t number = first; number < last; number++) {
        turn_to(&m, number);
        get_rows(&m, &s->q, s->T, s->d_k, m.T, f.q);
        s2s_transposed_right(get_rows(&m, &s->k, m.n, s->d_k, m.S, f.rows), m.S, m.d_k, m.bits, f.k);
        s2s_right(get_rows(&m, &s->v, m.n, s->d_v, m.S, f.rows), m.S, m.d_v, m.bits, f.v);
        for (int64_t t = 0; t < s->T; t += QUERIES) attend(&m, &f, t, smaller(QUERIES, s->T - t));
    }
    s2s_end_products(m.bits);
    free(memory);
    return OK;
}

/* Random numbers of n rows, each of S, from the first on of all [B, h, T] -> bits, 0 before, of those that are at least
`threshold`, as TrainingAttention has them. */
int64_t s2s_pack_kept(const int16_t *random, int64_t first, int64_t n, int64_t T, int64_t S, int64_t threshold,
                      uint32_t *kept) {
    const int64_t width = up_to_blocks(S);
    for (int64_t row = first; row < first + n; row++, random += S) {
        uint32_t *out = kept + (row / T * blocks(T) + row % T / SIDE) * width;
        for (int64_t s = 0; s < S; s++) out[s] |= (uint32_t)(random[s] >= threshold) << (row % T % SIDE);
    }
    return OK;
}
