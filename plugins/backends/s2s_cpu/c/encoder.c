/* The layers of an encoder as one call, for one thread.

Padding after a sentence is not computed: the rows of all sentences lie one after the other, R of them. Shapes: B
sentences of up to S tokens, h heads of d_k and d_v, D width.
*/

#include "decoder.h"

enum { CHUNK = 120 }; /* rows whose inner activations are held at once: they stay in the caches */

typedef struct { /* rows begin[b] to begin[b + 1] - 1 are sentence b of B */
    const Stack *stack;
    const int64_t *begin; /* [B + 1] */
    int64_t B, S;
    const uint8_t *pad; /* [B, S], where a sentence has no token; null: nowhere */
} Rows;

static int64_t n_rows(const Rows *rows) { return rows->begin[rows->B]; }

/* x [R, D] -> out, using `scratch` [R, 1 + qkv.O + h * d_v]. */
static int64_t attention(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const EncoderLayer *layer = of;
    const Rows *rows = given;
    const Stack *s = rows->stack;
    int64_t R = n_rows(rows), width = layer->qkv.O, keys = s->h * s->d_k, failed = 0;
    const int64_t strides[] = {0, s->d_k, width}, of_values[] = {0, s->d_v, width};
    float *bias = scratch, *first = bias + R, *found = first + R * width;
    if (s2s_linear(&layer->qkv, x, R, first)) return NO_MEMORY;
    for (int64_t b = 0; b < rows->B && !failed; b++) {
        const int64_t begin = rows->begin[b], n = rows->begin[b + 1] - begin;
        const float *q = first + begin * width;
        for (int64_t t = 0; t < n; t++) bias[t] = rows->pad && rows->pad[b * rows->S + t] ? BLOCKED : 0;
        failed = s2s_padded_attention(q, q + keys, q + 2 * keys, strides, strides, of_values, bias, 1, s->h, n, n,
                                      s->d_k, s->d_v, s->scale, s->relative.table ? &s->relative : 0,
                                      found + begin * s->h * s->d_v);
    }
    return failed ? NO_MEMORY : s2s_linear(&layer->out, found, R, out);
}

/* The same, using `scratch` of CHUNK rows. */
static int64_t feed_forward(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const EncoderLayer *layer = of;
    const Rows *rows = given;
    const Stack *s = rows->stack;
    int64_t R = n_rows(rows), failed = 0;
    for (int64_t r = 0; r < R && !failed; r += CHUNK)
        failed = s2s_feed_forward(&layer->feed_forward, s->activation, x + r * s->D, R - r < CHUNK ? R - r : CHUNK,
                                  scratch, out + r * s->D);
    return failed;
}

static int64_t encode(const EncoderLayer *layers, int64_t n_layers, const Rows *rows, float *x) {
    const EncoderLayer *end = layers + n_layers;
    const Stack *s = rows->stack;
    int64_t R = n_rows(rows), scratch_size = 0, failed = 0;
    for (const EncoderLayer *layer = layers; layer < end; layer++) {
        int64_t of_attention = R * (1 + layer->qkv.O + s->h * s->d_v);
        int64_t inner = CHUNK * s2s_feed_forward_width(&layer->feed_forward);
        scratch_size = of_attention > scratch_size ? of_attention : scratch_size;
        scratch_size = inner > scratch_size ? inner : scratch_size;
    }
    float *scratch = allocate((2 * R * s->D + scratch_size) * sizeof(float));
    if (!scratch) return NO_MEMORY;
    for (const EncoderLayer *layer = layers; layer < end && !failed; layer++)
        failed = s2s_residual(attention, layer, rows, &layer->attention_norm, s, R, x, scratch) ||
                 s2s_residual(feed_forward, layer, rows, &layer->feed_forward_norm, s, R, x, scratch);
    if (!failed && s->norm.weight) s2s_norm(x, R, s->D, &s->norm, x);
    free(scratch);
    return failed;
}

/* x, the rows of B sentences, becomes the last layer's output, normalised if there is a norm. */
int64_t s2s_encode_rows(const EncoderLayer *layers, int64_t n_layers, const Stack *stack, const int64_t *begin,
                        int64_t B, float *x) {
    return encode(layers, n_layers, &(Rows){.stack = stack, .begin = begin, .B = B}, x);
}

/* x [B, S, D] becomes the last layer's output, normalised if there is a norm, with zeros at padding after a
sentence. */
int64_t s2s_encoder(const EncoderLayer *layers, int64_t n_layers, const Encoding *e, float *x) {
    const int64_t S = e->S, D = e->stack->D;
    int64_t *begin = allocate((e->B + 1) * sizeof(int64_t));
    if (!begin) return NO_MEMORY;
    begin[0] = 0;
    for (int64_t b = 0; b < e->B; b++) {
        int64_t n = S;
        while (n > 0 && e->pad[b * S + n - 1]) n--;
        begin[b + 1] = begin[b] + n;
        memmove(x + begin[b] * D, x + b * S * D, n * D * sizeof(float));
    }
    int64_t failed = encode(layers, n_layers, &(Rows){e->stack, begin, e->B, S, e->pad}, x);
    for (int64_t b = e->B; b-- > 0;) {
        const int64_t n = begin[b + 1] - begin[b];
        memmove(x + b * S * D, x + begin[b] * D, n * D * sizeof(float));
        memset(x + (b * S + n) * D, 0, (S - n) * D * sizeof(float));
    }
    free(begin);
    return failed ? NO_MEMORY : OK;
}
