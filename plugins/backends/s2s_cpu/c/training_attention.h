/* Attention in training: its inputs and its results. */

#ifndef S2S_TRAINING_ATTENTION_H
#define S2S_TRAINING_ATTENTION_H

#include <stdint.h>

typedef struct { /* [B, h, T, d], contiguous along d; strides in elements; no tensor if data is null */
    void *data;
    int64_t sentence, head, row;
} HeadRows;

typedef struct { /* B sentences, h heads, T queries, S keys */
    HeadRows q, k, v, out, d_out;
    HeadRows grad_q, grad_k, grad_v; /* grad_k and grad_v: both or neither */
    const float *bias;       /* [B, S], added to the scores; null: none */
    const int16_t *random;   /* [B, h, T, S]: a weight with a number below `threshold` is dropped; null: none is */
    float *weights;          /* [B, h, T, S rounded up to ROW_MULTIPLE], negative if dropped; null: not kept */
    const uint32_t *kept;    /* [B, h, T / 32, S], both rounded up: bit t % 32 is set where dropout keeps the weight of
                                query t; null: it keeps all */
    float *statistics;       /* [B, h, 2, T]: of each query the largest score, and the inverse of the sum of all weights
                                over the largest; null: not kept */
    int64_t B, h, T, S, d_k, d_v, bits, causal, threshold;
    double scale, kept_factor; /* factors of the scores, and of weights that dropout keeps */
} TrainingAttention;

#endif
