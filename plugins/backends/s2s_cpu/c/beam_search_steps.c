/* Several steps of a beam search with a model as one call; results have the same bits as those of single steps. For one
thread; see beam_search.h.
*/

#include "beam_search.h"
#include "panels.h"

/* out [n, D] = scale * embedding of each token, in rows of `table`, or if that is null of the fp32 map `packed`. Functions
that add to it are apart: otherwise the compiler would contract both and round once instead of twice. */
__attribute__((noinline)) void s2s_embed(const float *table, const Linear *packed, float scale, const int64_t *token,
                                         int64_t n, int64_t D, float *out) {
    for (int64_t r = 0; r < n; r++, out += D) {
        const int64_t panel = token[r] / C * C * D, column = token[r] % C;
        if (table)
            for (int64_t j = 0; j < D; j++) out[j] = table[token[r] * D + j] * scale;
        else
            for (int64_t j = 0; j < D; j++) out[j] = ((const float *)packed->weight)[panel + j * C + column] * scale;
    }
}

static void embed(const Model *m, const Search *s, const Step *step, float *x) {
    const int64_t R = step->B * step->K, D = step->stack->D;
    s2s_embed(m->embedding, &m->output, m->scale, s->token, R, D, x);
    for (int64_t r = 0; m->zero_start && r < R; r++)
        if (s->n_cached[r / step->K] == 1) memset(x + r * D, 0, D * sizeof(float));
}

static __attribute__((noinline)) void add_positions(const Model *m, const Search *s, const Step *step, float *x) {
    const int64_t D = step->stack->D;
    for (int64_t b = 0; b < step->B; b++) {
        const float *position = m->positions + (s->n_cached[b] - 1) * D;
        for (int64_t k = 0; k < step->K; k++, x += D)
            for (int64_t j = 0; j < D; j++) x[j] += position[j];
    }
}

/* Logits [R, V] of the last norm's output x [R, D] where a sentence lists the token, elsewhere -inf, using
`part` [R, of_columns.O] */
static int64_t listed_logits(const Model *m, const Step *step, const float *x, float *part, float *out) {
    const int64_t V = m->output.O, n = m->of_columns.O, R = step->B * step->K;
    if (s2s_linear(&m->of_columns, x, R, part)) return NO_MEMORY;
    for (int64_t r = 0; r < R; r++, out += V, part += n) {
        const uint8_t *listed = m->listed + r / step->K * V;
        for (int64_t i = 0; i < V; i++) out[i] = -INFINITY;
        for (int64_t i = 0; i < n; i++)
            if (listed[m->columns[i]]) out[m->columns[i]] = part[i];
    }
    return OK;
}

/* The newest tokens' logits [R, V], using `x` [R, D] and, with a shortlist, `part` */
static int64_t logits(const Model *m, const Search *s, const Step *step, float *x, float *part, float *out) {
    const int64_t R = step->B * step->K, D = step->stack->D;
    const float scale = m->output_scale;
    embed(m, s, step, x);
    if (m->positions) add_positions(m, s, step, x);
    if (m->embedding_norm.weight) s2s_norm(x, R, D, &m->embedding_norm, x);
    if (s2s_decoder_step(m->layers, m->n_layers, step, x)) return NO_MEMORY;
    if (scale != 1)
        for (int64_t i = 0; i < R * D; i++) x[i] *= scale;
    return m->of_columns.weight ? listed_logits(m, step, x, part, out) : s2s_linear(&m->output, x, R, out);
}

typedef struct { /* n candidates of a sentence, m continuations of a hypothesis */
    int64_t n, m;
    float *x, *logits, *sums, *log_probs, *part;
    int64_t *tokens, *spare, *list, *spare_states;
    Candidates all, live;
    Finished finished;
    uint8_t *done;
} Scratch;

/* Its memory is one block of 8-byte numbers, then one of 4-byte numbers, then bytes; the caller frees it. */
static void *scratch_for(const Model *m, const Search *s, const Step *step, Scratch *w) {
    int64_t B = step->B, R = B * s->beam, V = m->output.O;
    w->m = s->n + s->n_banned < V ? s->n + s->n_banned : V;
    int64_t n = B * s->n, of_automaton = s->automaton ? R * (1 + s->automaton->width) : 0;
    int64_t wide = R * w->m + R * step->L + 3 * (n + R) + B * s->E + of_automaton;
    int64_t narrow = R * (step->stack->D + V + 1 + w->m + m->of_columns.O) + 2 * (n + R) + 2 * B * s->E;
    int64_t *i = allocate(8 * wide + 4 * narrow + B);
    if (!i) return 0;
    float *f = (float *)(i + wide);
    w->tokens = i, w->spare = w->tokens + R * w->m, i = w->spare + R * step->L;
    w->all = (Candidates){.parent = i, .token = i + n, .node = i + 2 * n}, i += 3 * n;
    w->live = (Candidates){.parent = i, .token = i + R, .node = i + 2 * R}, i += 3 * R;
    w->finished.node = i, w->list = i + B * s->E, w->spare_states = w->list + R;
    w->x = f, w->logits = w->x + R * step->stack->D, w->sums = w->logits + R * V, w->log_probs = w->sums + R;
    f = w->log_probs + R * w->m;
    w->all.score = f, w->all.log_prob = f + n, f += 2 * n;
    w->live.score = f, w->live.log_prob = f + R, f += 2 * R;
    w->finished.score = f, w->finished.log_prob = f + B * s->E, w->part = f + 2 * B * s->E;
    w->done = (uint8_t *)(w->part + R * m->of_columns.O);
    return w->tokens;
}

static int may_end(const Search *s, const Scratch *w, int64_t r, int64_t V) {
    if (s->allowed) return s->allowed[r * V + s->eos];
    if (!s->automaton) return 1;
    const TokenLists *lists = &s->automaton->lists;
    for (int64_t i = lists->begin[w->list[r]]; i < lists->begin[w->list[r] + 1]; i++)
        if (lists->token[i] == s->eos) return 1;
    return 0;
}

/* At its limit a hypothesis can only end: eos is its only continuation. */
static void force_eos(const Model *m, const Search *s, const Step *step, Scratch *w) {
    for (int64_t r = 0; r < step->B * step->K; r++) {
        if (s->length[r / step->K] < s->limit[r / step->K]) continue;
        float sum = s->normalize ? w->sums[r] : 0, log_prob = w->logits[r * m->output.O + s->eos] - sum;
        for (int64_t i = 0; i < w->m; i++) w->log_probs[r * w->m + i] = -INFINITY, w->tokens[r * w->m + i] = 0;
        if (!may_end(s, w, r, m->output.O)) continue;
        w->tokens[r * w->m] = s->eos;
        if (isfinite(sum) && log_prob > -INFINITY) w->log_probs[r * w->m] = log_prob;
    }
}

/* In functions apart, as the products and the sums are rounded by themselves. */
static __attribute__((noinline)) void scale_logits(const float *scale, int64_t R, int64_t V, float *logits) {
    for (int64_t r = 0; r < R; r++, logits += V)
        for (int64_t i = 0; i < V; i++) logits[i] *= scale[i];
}

static __attribute__((noinline)) void add_bias(const float *bias, int64_t R, int64_t V, float *logits) {
    for (int64_t r = 0; r < R; r++, logits += V)
        for (int64_t i = 0; i < V; i++) logits[i] += bias[i];
}

/* The w->m best continuations of each hypothesis, or those of them that can be among the w->n best of a sentence. */
static int64_t best_tokens(const Model *m, const Search *s, int64_t R, int64_t K, Scratch *w) {
    float *sums = s->normalize ? w->sums : 0;
    if (!s->automaton)
        return s2s_top_k(w->logits, R, m->output.O, w->m, s->allowed, s->banned, s->n_banned, s->score, K, w->n, sums,
                         w->log_probs, w->tokens);
    s2s_allowed_lists(s->automaton, R, w->list);
    return s2s_top_k_of_lists(w->logits, R, m->output.O, w->m, &s->automaton->lists, w->list, s->banned, s->n_banned,
                              s->score, K, w->n, sums, w->log_probs, w->tokens);
}

/* The n best continuations of each sentence's hypotheses. */
static int64_t expand(const Model *m, Search *s, Step *step, Scratch *w) {
    int64_t B = step->B, K = step->K, R = B * K;
    w->n = s->n < K * w->m ? s->n : K * w->m;
    s2s_extend_paths(s->path, s->n_cached, s->n_nodes, B, K, step->L);
    for (int64_t b = 0; b < B; b++) s->n_cached[b]++, s->n_nodes[b] += K;
    step->path = s->path;
    if (logits(m, s, step, w->x, w->part, w->logits)) return NO_MEMORY;
    if (s->logit_scale) scale_logits(s->logit_scale, R, m->output.O, w->logits);
    if (s->logit_bias) add_bias(s->logit_bias, R, m->output.O, w->logits);
    if (best_tokens(m, s, R, K, w)) return NO_MEMORY;
    force_eos(m, s, step, w);
    return s2s_merge_candidates(w->log_probs, w->tokens, s->score, s->node, B, K, w->m, w->n, w->all.score,
                                w->all.parent, w->all.token, w->all.log_prob, w->all.node);
}

/* Candidates that end are finished; the best `beam` of the others live on. */
static int64_t advance(Search *s, Step *step, Scratch *w) {
    int64_t B = step->B, R = B * s->beam, n_finished = B * s->E;
    for (int64_t b = 0; b < B; b++) s->length[b]++;
    if (s2s_merge_finished(&w->all, &s->finished, B, w->n, s->E, s->eos, s->n_finishable, s->penalty, s->length,
                           &w->finished))
        return NO_MEMORY;
    memcpy(s->finished.score, w->finished.score, n_finished * sizeof(float));
    memcpy(s->finished.node, w->finished.node, n_finished * sizeof(int64_t));
    memcpy(s->finished.log_prob, w->finished.log_prob, n_finished * sizeof(float));
    s2s_unfinished_candidates(&w->all, B, w->n, s->beam, s->eos, &w->live);
    memcpy(s->score, w->live.score, R * sizeof(float));
    memcpy(s->token, w->live.token, R * sizeof(int64_t));
    memcpy(s->new_token + s->n_new, w->live.token, R * sizeof(int64_t));
    memcpy(s->new_log_prob + s->n_new, w->live.log_prob, R * sizeof(float));
    memcpy(s->new_parent + s->n_new, w->live.node, R * sizeof(int64_t));
    for (int64_t r = 0; r < R; r++) s->node[r] = s->first_node + s->n_new++;
    memcpy(s->parent, w->live.parent, R * sizeof(int64_t));
    if (s->automaton)
        s2s_advance_states(s->automaton, B, step->K, s->beam, w->live.parent, w->live.token, &w->spare_states);
    s2s_reorder_paths(s->path, w->live.parent, B, step->K, s->beam, step->L, w->spare);
    int64_t *before = s->path;
    s->path = w->spare, w->spare = before, step->K = s->beam;
    return OK;
}

static void mark_done(const Search *s, const Step *step, uint8_t *done) {
    int64_t B = step->B, K = step->K;
    if (s->at_present)
        for (int64_t b = 0; b < B; b++)
            done[b] = s->finished.score[b * s->E + s->stop_rank - 1] >= s->score[b * K] / s->penalty[s->length[b]];
    else if (!s->first_k)
        s2s_search_finished(s->score, s->finished.score, s->length, s->limit, s->penalty, B, K, s->E, s->stop_rank,
                            done);
    else
        for (int64_t b = 0; b < B; b++)
            done[b] = s->finished.score[(b + 1) * s->E - 1] > -INFINITY || s->score[b * K] == -INFINITY;
}

static void swap_rows(void *rows, int64_t n_bytes, int64_t a, int64_t b) {
    char *x = (char *)rows + a * n_bytes, *y = (char *)rows + b * n_bytes;
    for (int64_t i = 0; i < n_bytes; i++) {
        char of_x = x[i];
        x[i] = y[i], y[i] = of_x;
    }
}

/* Copies the first n_used bytes of a row. */
static void copy_row(void *rows, int64_t n_bytes, int64_t from, int64_t to, int64_t n_used) {
    if (from != to) memcpy((char *)rows + to * n_bytes, (char *)rows + from * n_bytes, n_used);
}

/* Removes sentence b, which is done: the last sentence moves to its row, and what holds its results to the last row. */
static void remove_sentence(const Model *m, Search *s, Step *step, int64_t b) {
    const Stack *stack = step->stack;
    int64_t last = --step->B, K = step->K, n_values = stack->h * stack->d_v, n_keys = stack->h * stack->d_k;
    int64_t *numbers[] = {s->sentence, s->n_source, s->limit, s->length, s->n_cached};
    for (int i = 0; i < 5; i++) swap_rows(numbers[i], sizeof(int64_t), b, last);
    swap_rows(s->token, K * sizeof(int64_t), b, last), swap_rows(s->node, K * sizeof(int64_t), b, last);
    swap_rows(s->score, K * sizeof(float), b, last);
    swap_rows(s->finished.score, s->E * sizeof(float), b, last);
    swap_rows(s->finished.node, s->E * sizeof(int64_t), b, last);
    swap_rows(s->finished.log_prob, s->E * sizeof(float), b, last);
    copy_row(s->path, K * step->L * sizeof(int64_t), last, b, K * step->L * sizeof(int64_t));
    copy_row(step->seen, step->S, last, b, step->S);
    if (m->listed) copy_row(m->listed, m->output.O, last, b, m->output.O);
    if (s->automaton) {
        int64_t states = K * s->automaton->width * sizeof(int64_t);
        copy_row(s->automaton->state, states, last, b, states);
    }
    for (const Layer *layer = m->layers; layer < m->layers + m->n_layers; layer++) {
        int64_t node = layer->node_width * sizeof(float), keys = n_keys * step->S * sizeof(float);
        int64_t values = n_values * step->S * sizeof(float);
        copy_row(layer->nodes, step->N * node, last, b, s->n_nodes[last] * node);
        copy_row(layer->keys, keys, last, b, keys), copy_row(layer->values, values, last, b, values);
    }
    swap_rows(s->n_nodes, sizeof(int64_t), b, last);
}

/* Removes the sentences that are done. Returns whether there were any and at most `admission_threshold` source tokens
remain. */
static int remove_done(const Model *m, Search *s, Step *step, uint8_t *done) {
    int64_t before = step->B, n_source = 0;
    mark_done(s, step, done);
    for (int64_t b = before; b-- > 0;)
        if (done[b]) remove_sentence(m, s, step, b);
    for (int64_t b = 0; b < step->B; b++) n_source += s->n_source[b];
    return step->B < before && n_source <= s->admission_threshold;
}

/* Runs up to `max_steps` steps, and ends after the first step in which a sentence is done and the others have no more
than `admission_threshold` source tokens. Then the B sentences of `step` are those that are not done, and the others
follow them; with `allowed` all stay where they are, since the caller computes the next states. */
int64_t s2s_beam_search_steps(const Model *m, Step *step, Search *s, int64_t max_steps) {
    Scratch w;
    Automaton *automaton = s->automaton;
    int64_t *own = s->path, *own_states = automaton ? automaton->state : 0, failed = 0;
    void *memory = scratch_for(m, s, step, &w);
    if (!memory) return NO_MEMORY;
    for (int done = 0; s->n_steps < max_steps && !done && !failed; s->n_steps++) {
        failed = expand(m, s, step, &w) || advance(s, step, &w);
        done = !failed && !s->allowed && remove_done(m, s, step, w.done);
    }
    if (s->path != own) memcpy(own, s->path, step->B * step->K * step->L * sizeof(int64_t));
    if (automaton && automaton->state != own_states)
        memcpy(own_states, automaton->state, step->B * step->K * automaton->width * sizeof(int64_t));
    free(memory);
    return failed ? NO_MEMORY : OK;
}
