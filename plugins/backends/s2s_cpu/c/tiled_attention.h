/* Attention of long sentences in training, in tiles of QUERIES x KEYS weights (Dao, 2023, FlashAttention-2): what both
passes have in common. A query's numbers depend neither on other sentences nor on keys at the end that are BLOCKED. */

#ifndef S2S_TILED_ATTENTION_H
#define S2S_TILED_ATTENTION_H

#include "bf16.h"
#include "block_products.h"
#include "decoder.h"
#include "training_attention.h"

enum { QUERIES = 64, KEYS = 256, ALIGNED = 64 }; /* ALIGNED: bytes */

typedef struct { /* a head of a sentence; sizes are rounded up to SIDE, operands have `bits` bits */
    const TrainingAttention *s;
    int64_t b, a, n; /* sentence, head, number of keys that may be seen */
    int64_t T, S, d_k, d_v, bits;
    const uint32_t *kept; /* [T / 32, S]; null: all weights are */
    float *bias;          /* [S], -INFINITY from the n-th key on */
    float *largest, *inverse; /* [T], statistics */
} Head;

/* The next n values of `bits` bits in memory, whose address is an integer so that it can be 0, to measure sizes. */
static inline void *take(uintptr_t *next, int64_t n, int64_t bits) {
    const uintptr_t at = (*next + ALIGNED - 1) / ALIGNED * ALIGNED;
    *next = at + n * bits / 8;
    return (void *)at;
}

static inline Head head_of(const TrainingAttention *s) {
    return (Head){.s = s, .T = up_to_blocks(s->T), .S = up_to_blocks(s->S), .d_k = up_to_blocks(s->d_k),
                  .d_v = up_to_blocks(s->d_v), .bits = s2s_operand_bits(s->bits)};
}

/* Turns to head `number` of all sentences: its keys that may be seen and their bias, and the weights that are kept. */
static inline void turn_to(Head *m, int64_t number) {
    const TrainingAttention *s = m->s;
    m->b = number / s->h, m->a = number % s->h, m->n = s->S;
    const float *bias = s->bias ? s->bias + m->b * s->S : NULL;
    while (bias && m->n && bias[m->n - 1] <= BLOCKED / 2) m->n--;
    if (!m->n) m->n = s->S;
    for (int64_t i = 0; i < m->S; i++) m->bias[i] = i >= m->n ? -INFINITY : bias ? bias[i] : 0;
    m->kept = s->kept ? s->kept + number * m->T / SIDE * m->S : NULL;
}

/* Where row t of the head begins, in values. */
static inline int64_t row_start(const Head *m, const HeadRows *x, int64_t t) {
    return m->b * x->sentence + m->a * x->head + t * x->row;
}

/* Row t as floats [d]. */
static inline void get_row(const Head *m, const HeadRows *x, int64_t t, int64_t d, float *out) {
    const int64_t at = row_start(m, x, t);
    if (m->s->bits == 16)
        widen((const uint16_t *)x->data + at, d, out);
    else
        memcpy(out, (const float *)x->data + at, d * sizeof(float));
}

/* The first n rows of d values as values of operands, with zeros after them: [rows, d rounded up]. Returns `out`. */
static inline void *get_rows(const Head *m, const HeadRows *x, int64_t n, int64_t d, int64_t rows, void *out) {
    const int64_t width = up_to_blocks(d), bytes = m->bits / 8;
    for (int64_t t = 0; t < n; t++) {
        char *to = (char *)out + t * width * bytes;
        if (m->bits == 16)
            memcpy(to, (const uint16_t *)x->data + row_start(m, x, t), d * bytes);
        else
            get_row(m, x, t, d, (float *)to);
        memset(to + d * bytes, 0, (width - d) * bytes);
    }
    memset((char *)out + n * width * bytes, 0, (rows - n) * width * bytes);
    return out;
}

/* Rows x [n, d rounded up], times `by` -> the head's rows from t on. It changes x. */
static inline void put_rows(const Head *m, float *x, int64_t n, int64_t d, float by, const HeadRows *to, int64_t t) {
    const int64_t width = up_to_blocks(d);
    for (int64_t i = 0; i < n; i++, x += width) {
        const int64_t at = row_start(m, to, t + i);
        for (int64_t j = 0; j < width; j += W) *(vf *)(x + j) *= splat(by);
        if (m->s->bits == 16)
            narrow(x, d, (uint16_t *)to->data + at);
        else
            memcpy((float *)to->data + at, x, d * sizeof(float));
    }
}

/* A vector of an operand's values. */
INLINE void store_values(vf x, int64_t i, int64_t bits, void *out) {
#ifdef BF16_VECTORS
    if (bits == 16) {
        _mm256_storeu_si256((__m256i *)((uint16_t *)out + i), (__m256i)_mm512_cvtneps_pbh((__m512)x));
        return;
    }
#endif
    (void)bits;
    *(vf *)((float *)out + i) = x;
}

#endif
