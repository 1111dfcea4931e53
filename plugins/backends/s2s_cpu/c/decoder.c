/* A step of a whole decoder as one call, for one thread: where rows are few and narrow, calls take longer than
arithmetic. R = B * K rows; see decoder.h.
*/

#include "beam_search.h"
#include "short_attention.h"

/* The size of structure `which` of decoder.h and beam_search.h, in the order of structs.py; -1 if there is none. */
int64_t s2s_struct_size(int64_t which) {
    const int64_t sizes[] = {sizeof(Linear),       sizeof(Norm),       sizeof(Layer),
                             sizeof(Step),         sizeof(Model),      sizeof(Search),
                             sizeof(EncoderLayer), sizeof(Encoding),   sizeof(TokenLists),
                             sizeof(Automaton),    sizeof(HeadRows),   sizeof(ShortAttention)};
    return which >= 0 && which < 12 ? sizes[which] : -1;
}

static int64_t self_attention(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const Layer *layer = of;
    const Step *s = given;
    int64_t R = s->B * s->K, width = layer->qkv.O, keys = s->h * s->d_k;
    const float *q = scratch, *k = q + keys, *v = k + keys;
    float *found = scratch + R * width;
    if (s2s_linear(&layer->qkv, x, R, scratch)) return NO_MEMORY;
    if (s2s_tree_attention(q, k, v, width, width, width, layer->nodes, s->path, s->length, s->B, s->K, s->N, s->L,
                           s->h, s->d_k, s->d_v, 1 / sqrtf(s->d_k), found))
        return NO_MEMORY;
    return s2s_linear(&layer->out, found, R, out);
}

static int64_t cross_attention(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const Layer *layer = of;
    const Step *s = given;
    int64_t R = s->B * s->K;
    float *found = scratch + R * layer->query.O;
    if (s2s_linear(&layer->query, x, R, scratch)) return NO_MEMORY;
    if (s2s_source_attention(scratch, layer->keys, layer->values, s->seen, s->B, s->K, s->S, s->h, s->d_k, s->d_v,
                             1 / sqrtf(s->d_k), found))
        return NO_MEMORY;
    return s2s_linear(&layer->source_out, found, R, out);
}

/* max(0, x W1 + b1) W2 + b2 of rows x [R, D], using `scratch` [R, inner->O] */
int64_t s2s_feed_forward(const Linear *inner, const Linear *outer, const float *x, int64_t R, float *scratch,
                         float *out) {
    if (s2s_linear(inner, x, R, scratch)) return NO_MEMORY;
    for (int64_t i = 0; i < R * inner->O; i++) scratch[i] = scratch[i] > 0 ? scratch[i] : 0;
    return s2s_linear(outer, scratch, R, out);
}

static int64_t feed_forward(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const Layer *layer = of;
    const Step *s = given;
    return s2s_feed_forward(&layer->inner, &layer->outer, x, s->B * s->K, scratch, out);
}

/* x [R, D] becomes norm(x + sublayer(x)), or x + sublayer(norm(x)); the sub-layer's scratch begins 2 R D later. */
int64_t s2s_residual(Sublayer sublayer, const void *layer, const void *given, const Norm *norm, int64_t pre_norm,
                     int64_t R, int64_t D, float *x, float *scratch) {
    int64_t n = R * D;
    float *normed = scratch, *found = scratch + n;
    scratch += 2 * n;
    if (!pre_norm) {
        if (sublayer(layer, given, x, scratch, found)) return NO_MEMORY;
        return s2s_add_norm(x, found, R, D, norm->weight, norm->bias, norm->eps, x);
    }
    s2s_norm(x, R, D, norm->weight, norm->bias, norm->eps, normed);
    if (sublayer(layer, given, normed, scratch, found)) return NO_MEMORY;
    for (int64_t i = 0; i < n; i++) x[i] += found[i];
    return OK;
}

static int64_t residual(Sublayer sublayer, const Norm *norm, const Layer *layer, const Step *s, float *x,
                        float *scratch) {
    return s2s_residual(sublayer, layer, s, norm, s->pre_norm, s->B * s->K, s->D, x, scratch);
}

/* x [R, D] becomes the last layer's output, normalised if there is a norm; each layer writes keys and values to its
nodes. */
int64_t s2s_decoder_step(const Layer *layers, int64_t n_layers, const Step *s, float *x) {
    const Layer *end = layers + n_layers;
    int64_t widest = 0, failed = 0;
    for (const Layer *layer = layers; layer < end; layer++) {
        int64_t attention = layer->qkv.O + s->h * s->d_v;
        widest = attention > widest ? attention : widest;
        widest = layer->inner.O > widest ? layer->inner.O : widest;
    }
    float *scratch = allocate(s->B * s->K * (2 * s->D + widest) * sizeof(float));
    if (!scratch) return NO_MEMORY;
    for (const Layer *layer = layers; layer < end && !failed; layer++)
        failed = residual(self_attention, &layer->self_attention_norm, layer, s, x, scratch) ||
                 residual(cross_attention, &layer->cross_attention_norm, layer, s, x, scratch) ||
                 residual(feed_forward, &layer->feed_forward_norm, layer, s, x, scratch);
    if (!failed && s->norm.weight)
        s2s_norm(x, s->B * s->K, s->D, s->norm.weight, s->norm.bias, s->norm.eps, x);
    free(scratch);
    return failed ? NO_MEMORY : OK;
}
