/* A step of a whole decoder as one call, for one thread: where rows are few and narrow, calls take longer than
arithmetic. R = B * K rows; see decoder.h.
*/

#include "training_attention.h"
#include "stream.h"

/* The size of structure `which` of the headers, in the order of structs.py; -1 if there is none. */
int64_t s2s_struct_size(int64_t which) {
    const int64_t sizes[] = {sizeof(Linear),       sizeof(Norm),       sizeof(Layer),
                             sizeof(Step),         sizeof(Model),      sizeof(Search),
                             sizeof(EncoderLayer), sizeof(Encoding),   sizeof(TokenLists),
                             sizeof(Automaton),    sizeof(HeadRows),   sizeof(TrainingAttention),
                             sizeof(Stack),        sizeof(SourceModel), sizeof(Admission),
                             sizeof(Found),        sizeof(Shortlist),   sizeof(SamplingRule),
                             sizeof(RecurrentLayer), sizeof(Guidance)};
    return which >= 0 && which < 20 ? sizes[which] : -1;
}

static int64_t self_attention(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const Layer *layer = of;
    const Step *step = given;
    const Stack *s = step->stack;
    int64_t R = step->B * step->K, width = layer->qkv.O, keys = s->h * s->d_k;
    const float *q = scratch, *k = q + keys, *v = k + keys;
    float *found = scratch + R * width;
    if (s2s_linear(&layer->qkv, x, R, scratch)) return NO_MEMORY;
    if (s2s_tree_attention(q, k, v, width, width, width, layer->nodes, step->path, step->length, step->B, step->K,
                           step->N, step->L, s->h, s->d_k, s->d_v, s->scale, s->relative.table ? &s->relative : 0,
                           found))
        return NO_MEMORY;
    return s2s_linear(&layer->out, found, R, out);
}

/* q [R, h, d_k] -> out [R, h, d_v], each row over its own source. */
static int64_t attend_sources(const Layer *layer, const Step *step, const float *q, float *out) {
    const Stack *s = step->stack;
    const int64_t n_keys = s->h * s->d_k, n_values = s->h * s->d_v;
    for (const SourceMemory *one = step->sources; one < step->sources + step->n_sources; one++) {
        const float *keys = one->keys_values + layer->number * one->S * (n_keys + n_values);
        if (s2s_source_attention(q, keys, keys + one->S * n_keys, step->seen, 1, one->K, one->S, s->h, s->d_k, s->d_v,
                                 s->scale, out))
            return NO_MEMORY;
        q += one->K * n_keys, out += one->K * n_values;
    }
    return OK;
}

static int64_t cross_attention(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const Layer *layer = of;
    const Step *step = given;
    const Stack *s = step->stack;
    int64_t R = step->B * step->K;
    float *found = scratch + R * layer->query.O;
    if (s2s_linear(&layer->query, x, R, scratch)) return NO_MEMORY;
    if (step->sources ? attend_sources(layer, step, scratch, found)
                      : s2s_source_attention(scratch, layer->keys, layer->values, step->seen, step->B, step->K, step->S,
                                             s->h, s->d_k, s->d_v, s->scale, found))
        return NO_MEMORY;
    return s2s_linear(&layer->source_out, found, R, out);
}

static int64_t feed_forward(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const Layer *layer = of;
    const Step *step = given;
    return s2s_feed_forward(&layer->feed_forward, step->stack->activation, x, step->B * step->K, scratch, out);
}

/* x [R, D] becomes norm(x + sublayer(x)), or x + sublayer(norm(x)); the sub-layer's scratch begins 2 R D later. */
int64_t s2s_residual(Sublayer sublayer, const void *layer, const void *given, const Norm *norm, const Stack *stack,
                     int64_t R, float *x, float *scratch) {
    int64_t D = stack->D, n = R * D;
    float *normed = scratch, *found = scratch + n;
    scratch += 2 * n;
    if (!stack->pre_norm) {
        if (sublayer(layer, given, x, scratch, found)) return NO_MEMORY;
        return s2s_add_norm(x, found, R, D, norm, x);
    }
    s2s_norm(x, R, D, norm, normed);
    if (sublayer(layer, given, normed, scratch, found)) return NO_MEMORY;
    for (int64_t i = 0; i < n; i++) x[i] += found[i];
    return OK;
}

/* The most floats for each row that a sub-layer needs as scratch. */
static int64_t scratch_width(const Layer *layer, const Stack *s) {
    int64_t self = layer->forget.weight ? 2 * s->D : layer->qkv.O + s->h * s->d_v;
    int64_t cross = layer->query.O + s->h * s->d_v, widest = s2s_feed_forward_width(&layer->feed_forward);
    widest = self > widest ? self : widest;
    return cross > widest ? cross : widest;
}

/* x [R, D] becomes the last layer's output, normalised if there is a norm; each layer writes to its nodes. All layers
are cells, or none is. */
int64_t s2s_decoder_step(const Layer *layers, int64_t n_layers, const Step *step, float *x) {
    const Layer *end = layers + n_layers;
    const Stack *s = step->stack;
    int64_t R = step->B * step->K, widest = 0, failed = 0;
    if (layers->cell.hidden.weight) return s2s_recurrent_steps(layers, n_layers, step, x);
    for (const Layer *layer = layers; layer < end; layer++) {
        int64_t width = scratch_width(layer, s);
        widest = width > widest ? width : widest;
    }
    float *scratch = allocate(R * (2 * s->D + widest) * sizeof(float));
    if (!scratch) return NO_MEMORY;
    for (const Layer *layer = layers; layer < end && !failed; layer++) {
        Sublayer first = layer->forget.weight ? s2s_recurrent_unit : self_attention;
        failed = s2s_residual(first, layer, step, &layer->attention_norm, s, R, x, scratch) ||
                 s2s_residual(cross_attention, layer, step, &layer->cross_attention_norm, s, R, x, scratch) ||
                 s2s_residual(feed_forward, layer, step, &layer->feed_forward_norm, s, R, x, scratch);
    }
    if (!failed && s->norm.weight) s2s_norm(x, R, s->D, &s->norm, x);
    free(scratch);
    return failed ? NO_MEMORY : OK;
}
