/* The layers of an encoder as one call, for one thread.

Shapes: B sentences of S tokens, padding included, R = B * S rows, h heads of d_k and d_v, D width.
*/

#include "decoder.h"

enum { CHUNK = 120 }; /* rows whose inner activations are held at once: they stay in the caches */

/* x [B, S, D] -> out, using `scratch` [R, 1 + qkv.O + h * d_v]. */
static int64_t attention(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const EncoderLayer *layer = of;
    const Encoding *e = given;
    const Stack *s = e->stack;
    int64_t R = e->B * e->S, width = layer->qkv.O, keys = s->h * s->d_k;
    const int64_t strides[] = {e->S * width, s->d_k, width}, of_values[] = {e->S * width, s->d_v, width};
    float *bias = scratch, *q = bias + R, *found = q + R * width;
    for (int64_t r = 0; r < R; r++) bias[r] = e->pad[r] ? BLOCKED : 0;
    if (s2s_linear(&layer->qkv, x, R, q)) return NO_MEMORY;
    if (s2s_padded_attention(q, q + keys, q + 2 * keys, strides, strides, of_values, bias, e->B, s->h, e->S, e->S,
                             s->d_k, s->d_v, s->scale, s->relative.table ? &s->relative : 0, found))
        return NO_MEMORY;
    return s2s_linear(&layer->out, found, R, out);
}

/* The same, using `scratch` of CHUNK rows. */
static int64_t feed_forward(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const EncoderLayer *layer = of;
    const Encoding *e = given;
    int64_t R = e->B * e->S, D = e->stack->D, failed = 0;
    for (int64_t r = 0; r < R && !failed; r += CHUNK)
        failed = s2s_feed_forward(&layer->feed_forward, e->stack->activation, x + r * D, R - r < CHUNK ? R - r : CHUNK,
                                  scratch, out + r * D);
    return failed;
}

/* x [B, S, D] becomes the last layer's output, normalised if there is a norm. */
int64_t s2s_encoder(const EncoderLayer *layers, int64_t n_layers, const Encoding *e, float *x) {
    const EncoderLayer *end = layers + n_layers;
    const Stack *s = e->stack;
    int64_t R = e->B * e->S, scratch_size = 0, failed = 0;
    for (const EncoderLayer *layer = layers; layer < end; layer++) {
        int64_t of_attention = R * (1 + layer->qkv.O + s->h * s->d_v);
        int64_t inner = CHUNK * s2s_feed_forward_width(&layer->feed_forward);
        scratch_size = of_attention > scratch_size ? of_attention : scratch_size;
        scratch_size = inner > scratch_size ? inner : scratch_size;
    }
    float *scratch = allocate((2 * R * s->D + scratch_size) * sizeof(float));
    if (!scratch) return NO_MEMORY;
    for (const EncoderLayer *layer = layers; layer < end && !failed; layer++)
        failed = s2s_residual(attention, layer, e, &layer->attention_norm, s, R, x, scratch) ||
                 s2s_residual(feed_forward, layer, e, &layer->feed_forward_norm, s, R, x, scratch);
    if (!failed && s->norm.weight) s2s_norm(x, R, s->D, &s->norm, x);
    free(scratch);
    return failed ? NO_MEMORY : OK;
}
