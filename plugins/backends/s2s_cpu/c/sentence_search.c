/* A beam search of one sentence as one call, from the tokens of its source to those of its outputs; results have the
same bits as those of the encoder, the keys and values, and the steps, called one after the other. For one thread; see
beam_search.h. S source tokens, D width.
*/

#include "beam_search.h"

/* The next n_bytes of memory, on lines of 64 bytes; `at` moves behind them. */
static void *take(uintptr_t *at, int64_t n_bytes) {
    uintptr_t begin = *at;
    *at += (n_bytes + 63) / 64 * 64;
    return (void *)begin;
}

/* Points what steps write to memory from `at` on, and returns its end; L steps, N nodes. */
static uintptr_t arrange(uintptr_t at, const Stack *stack, Step *step, Search *s, Layer *layers, int64_t n_layers) {
    const int64_t beam = s->beam, N = step->N, S = step->S, keys = stack->h * stack->d_k, values = stack->h * stack->d_v;
    step->seen = take(&at, S);
    step->path = s->path = take(&at, beam * step->L * sizeof(int64_t));
    s->token = take(&at, beam * sizeof(int64_t)), s->node = take(&at, beam * sizeof(int64_t));
    s->score = take(&at, beam * sizeof(float)), s->parent = take(&at, beam * sizeof(int64_t));
    s->finished.score = take(&at, s->E * sizeof(float)), s->finished.node = take(&at, s->E * sizeof(int64_t));
    s->finished.log_prob = take(&at, s->E * sizeof(float));
    s->new_token = take(&at, N * sizeof(int64_t)), s->new_parent = take(&at, N * sizeof(int64_t));
    s->new_log_prob = take(&at, N * sizeof(float));
    for (Layer *layer = layers; layer < layers + n_layers; layer++) {
        layer->node_width = layer->forget.weight ? stack->D : keys + values;
        layer->nodes = take(&at, N * layer->node_width * sizeof(float));
        layer->keys = take(&at, S * keys * sizeof(float)), layer->values = take(&at, S * values * sizeof(float));
    }
    return at;
}

/* The encoder's output x [S, D]; pad: S zeros */
static int64_t encode(const SourceModel *source, const Linear *output, const Sentence *of, const uint8_t *pad,
                      float *x) {
    const int64_t S = of->S, D = source->stack->D;
    s2s_embed(source->embedding, output, source->scale, of->token, S, D, x);
    for (int64_t i = 0; of->src_positions && i < S * D; i++) x[i] += of->src_positions[i];
    return s2s_encoder(source->layers, source->n_layers, &(Encoding){1, S, pad, source->stack}, x);
}

/* A layer's keys [h, S, d_k] and values [h, S, d_v] of x [S, D], using `scratch` [S, h * (d_k + d_v)] */
static int64_t keys_values(const Linear *linear, const Stack *stack, int64_t S, const float *x, float *scratch,
                           Layer *layer) {
    const int64_t d_k = stack->d_k, d_v = stack->d_v;
    if (s2s_linear(linear, x, S, scratch)) return NO_MEMORY;
    for (int64_t t = 0; t < S; t++, scratch += linear->O)
        for (int64_t a = 0; a < stack->h; a++) {
            memcpy(layer->keys + (a * S + t) * d_k, scratch + a * d_k, d_k * sizeof(float));
            memcpy(layer->values + (a * S + t) * d_v, scratch + stack->h * d_k + a * d_v, d_v * sizeof(float));
        }
    return OK;
}

/* The tokens from the first to that of a node, and their log-probabilities; returns how many. */
static int64_t trace(const Search *s, int64_t node, int64_t *token, float *log_prob) {
    int64_t n = 0;
    for (int64_t i = node; i >= 0; i = s->new_parent[i]) n++;
    for (int64_t i = node, t = n - 1; i >= 0; i = s->new_parent[i], t--)
        token[t] = s->new_token[i], log_prob[t] = s->new_log_prob[i];
    return n;
}

static void write_outputs(const Search *s, const Sentence *of) {
    for (int64_t i = 0; i < of->n; i++) {
        float *log_prob = of->log_prob + i * (of->limit + 1);
        of->score[i] = s->finished.score[i], of->length[i] = -1;
        if (of->score[i] == -INFINITY) continue;
        of->length[i] = trace(s, s->finished.node[i], of->output + i * of->limit, log_prob);
        log_prob[of->length[i]] = s->finished.log_prob[i];
    }
}

/* Of `given` only the settings count. */
int64_t s2s_search_sentence(const SourceModel *source, const Model *model, const Search *given, const Sentence *of) {
    const int64_t S = of->S, n_steps = of->limit + 1, D = source->stack->D, wide = source->keys_values->O;
    int64_t sentence = 0, n_source = S, limit = of->limit, length = 0, n_cached = 0, n_nodes = 0;
    Model m = *model;
    Search s = *given;
    Step step = {1, 1, s.beam * n_steps, n_steps, S, .length = &n_cached, .stack = source->decoder};
    Layer *layers = allocate(m.n_layers * sizeof(Layer));
    if (!layers) return NO_MEMORY;
    memcpy(layers, m.layers, m.n_layers * sizeof(Layer));
    m.layers = layers, m.positions = of->tgt_positions;
    const int64_t n_bytes = arrange(0, source->decoder, &step, &s, layers, m.n_layers);
    char *memory = allocate(n_bytes + S * (D + wide) * sizeof(float) + S + 4 * 64);
    int64_t failed = !memory;
    if (memory) {
        uintptr_t at = ((uintptr_t)memory + 63) / 64 * 64;
        at = arrange(at, source->decoder, &step, &s, layers, m.n_layers);
        float *x = take(&at, S * D * sizeof(float)), *scratch = take(&at, S * wide * sizeof(float));
        uint8_t *pad = memset(take(&at, S), 0, S);
        memset(step.seen, 1, S);
        s.sentence = &sentence, s.n_source = &n_source, s.limit = &limit, s.length = &length;
        s.n_cached = &n_cached, s.n_nodes = &n_nodes;
        s.token[0] = of->start, s.node[0] = -1, s.score[0] = 0;
        for (int64_t e = 0; e < s.E; e++)
            s.finished.score[e] = s.finished.log_prob[e] = -INFINITY, s.finished.node[e] = 0;
        failed = encode(source, &m.output, of, pad, x);
        for (int64_t i = 0; i < m.n_layers && !failed; i++)
            failed = keys_values(source->keys_values + i, source->decoder, S, x, scratch, layers + i);
        failed = failed || s2s_beam_search_steps(&m, &step, &s, n_steps);
        if (!failed) write_outputs(&s, of);
    }
    free(memory);
    free(layers);
    return failed ? NO_MEMORY : OK;
}
