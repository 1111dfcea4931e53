/* The layers of an encoder as one call, for one thread.

Shapes: B sentences of S tokens, padding included, R = B * S rows, h heads of d_k and d_v, D width.
*/

#include "decoder.h"

enum { CHUNK = 120 }; /* rows whose inner activations are held at once: they stay in the caches */

/* x [B, S, D] -> out, using `scratch` [R, 1 + qkv.O + h * d_v]. */
static int64_t attention(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const EncoderLayer *layer = of;
    const Encoding *e = given;
    int64_t R = e->B * e->S, width = layer->qkv.O, keys = e->h * e->d_k;
    const int64_t strides[] = {e->S * width, e->d_k, width}, of_values[] = {e->S * width, e->d_v, width};
    float *bias = scratch, *q = bias + R, *found = q + R * width;
    for (int64_t r = 0; r < R; r++) bias[r] = e->pad[r] ? BLOCKED : 0;
    if (s2s_linear(&layer->qkv, x, R, q)) return NO_MEMORY;
    if (s2s_padded_attention(q, q + keys, q + 2 * keys, strides, strides, of_values, bias, e->B, e->h, e->S, e->S,
                             e->d_k, e->d_v, 1 / sqrtf(e->d_k), found))
        return NO_MEMORY;
    return s2s_linear(&layer->out, found, R, out);
}

/* The same, using `scratch` [CHUNK, inner.O]. */
static int64_t feed_forward(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const EncoderLayer *layer = of;
    const Encoding *e = given;
    int64_t R = e->B * e->S, failed = 0;
    for (int64_t r = 0; r < R && !failed; r += CHUNK)
        failed = s2s_feed_forward(&layer->inner, &layer->outer, x + r * e->D, R - r < CHUNK ? R - r : CHUNK, scratch,
                                  out + r * e->D);
    return failed;
}

static int64_t residual(Sublayer sublayer, const Norm *norm, const EncoderLayer *layer, const Encoding *e, float *x,
                        float *scratch) {
    return s2s_residual(sublayer, layer, e, norm, e->pre_norm, e->B * e->S, e->D, x, scratch);
}

/* x [B, S, D] becomes the last layer's output, normalised if there is a norm. */
int64_t s2s_encoder(const EncoderLayer *layers, int64_t n_layers, const Encoding *e, float *x) {
    const EncoderLayer *end = layers + n_layers;
    int64_t R = e->B * e->S, scratch_size = 0, failed = 0;
    for (const EncoderLayer *layer = layers; layer < end; layer++) {
        int64_t of_attention = R * (1 + layer->qkv.O + e->h * e->d_v), inner = CHUNK * layer->inner.O;
        scratch_size = of_attention > scratch_size ? of_attention : scratch_size;
        scratch_size = inner > scratch_size ? inner : scratch_size;
    }
    float *scratch = allocate((2 * R * e->D + scratch_size) * sizeof(float));
    if (!scratch) return NO_MEMORY;
    for (const EncoderLayer *layer = layers; layer < end && !failed; layer++)
        failed = residual(attention, &layer->attention_norm, layer, e, x, scratch) ||
                 residual(feed_forward, &layer->feed_forward_norm, layer, e, x, scratch);
    if (!failed && e->norm.weight) s2s_norm(x, R, e->D, e->norm.weight, e->norm.bias, e->norm.eps, x);
    free(scratch);
    return failed ? NO_MEMORY : OK;
}
