/* Several steps of a beam search with a model as one call; results have the same bits as those of single steps. For one
thread; see beam_search.h.
*/

#include "beam_search.h"

typedef struct {
    Expansion expansion;
    float *x, *part;
    int64_t *paths, *states; /* spare ones */
    uint8_t *done;
} Scratch;

/* Points it to memory from `at` on, and returns its end. */
static uintptr_t arrange(uintptr_t at, const Model *m, const Search *s, const Step *step, Scratch *w) {
    const int64_t B = step->B, R = B * s->beam;
    at = s2s_arrange_expansion(at, m, s, B, &w->expansion);
    w->x = take(&at, R * row_width(m) * sizeof(float)), w->part = take(&at, R * m->of_columns.O * sizeof(float));
    w->paths = take(&at, R * step->L * sizeof(int64_t)), w->done = take(&at, B);
    w->states = take(&at, s->automaton ? R * s->automaton->width * sizeof(int64_t) : 0);
    return at;
}

/* The n best continuations of each sentence's hypotheses. */
static int64_t expand(const Model *m, Search *s, Step *step, Scratch *w) {
    int64_t B = step->B, K = step->K, R = B * K;
    s2s_extend_paths(s->path, s->n_cached, s->n_nodes, B, K, step->L);
    for (int64_t b = 0; b < B; b++) s->n_cached[b]++, s->n_nodes[b] += K;
    step->path = s->path;
    if (s2s_decode(m, step, s->token, w->x)) return NO_MEMORY;
    if (s2s_logits(m, w->x, R, K, w->part, w->expansion.logits)) return NO_MEMORY;
    s2s_change_logits(s, R, m->output.O, w->expansion.logits);
    return s2s_expand(s, B, K, m->output.O, &w->expansion);
}

/* Candidates that end are finished; the best `beam` of the others live on. */
static int64_t advance(Search *s, Step *step, Scratch *w) {
    int64_t B = step->B, R = B * s->beam, n_finished = B * s->E;
    const Candidates *live = &w->expansion.live;
    const Finished *finished = &w->expansion.finished;
    if (s2s_finish(s, B, &w->expansion)) return NO_MEMORY;
    memcpy(s->finished.score, finished->score, n_finished * sizeof(float));
    memcpy(s->finished.node, finished->node, n_finished * sizeof(int64_t));
    memcpy(s->finished.log_prob, finished->log_prob, n_finished * sizeof(float));
    memcpy(s->score, live->score, R * sizeof(float));
    memcpy(s->token, live->token, R * sizeof(int64_t));
    memcpy(s->new_token + s->n_new, live->token, R * sizeof(int64_t));
    memcpy(s->new_log_prob + s->n_new, live->log_prob, R * sizeof(float));
    memcpy(s->new_parent + s->n_new, live->node, R * sizeof(int64_t));
    for (int64_t r = 0; r < R; r++) s->node[r] = s->first_node + s->n_new++;
    memcpy(s->parent, live->parent, R * sizeof(int64_t));
    if (s->automaton) s2s_advance_states(s->automaton, B, step->K, s->beam, live->parent, live->token, &w->states);
    s2s_reorder_paths(s->path, live->parent, B, step->K, s->beam, step->L, w->paths);
    int64_t *before = s->path;
    s->path = w->paths, w->paths = before, step->K = s->beam;
    return OK;
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
    s2s_mark_done(s, before, step->K, done);
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
    char *memory = allocate(arrange(0, m, s, step, &w) + 64);
    if (!memory) return NO_MEMORY;
    arrange(((uintptr_t)memory + 63) / 64 * 64, m, s, step, &w);
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
