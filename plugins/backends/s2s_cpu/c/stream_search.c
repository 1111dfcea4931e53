/* A beam search, or sampling, of sentences that come and go, for one thread; see stream.h. Results have the same bits
as those of single steps, in sampling of single samples, whatever sentences are searched beside them. If memory runs
out, a stream can only be freed.
*/

#include "stream.h"

/* A stream without sentences, which its maker frees. */
int64_t s2s_stream_new(const SourceModel *source, const Model *model, const Search *settings, Stream **out) {
    Stream *s = calloc(1, sizeof(Stream));
    if (!s) return NO_MEMORY;
    s->source = source, s->model = model, s->settings = settings;
    if (s2s_tree_new(&s->tree, model, source->decoder)) {
        free(s);
        return NO_MEMORY;
    }
    *out = s;
    return OK;
}

/* Makes room for n more sentences. */
static int64_t reserve(Stream *s, int64_t n) {
    const int64_t beam = s->settings->beam, E = s->settings->E, larger = s->room + s->room / 2;
    const int64_t width = state_width(s);
    if (s->B + n <= s->room) return OK;
    const int64_t room = s->B + n > larger ? s->B + n : larger;
    int64_t **numbers[] = {&s->index,  &s->n_source, &s->limit,   &s->n_best,
                           &s->length, &s->n_live,   &s->n_start, &s->n_fed};
    for (int i = 0; i < 8; i++)
        if (s2s_resize(numbers[i], room * sizeof(int64_t))) return NO_MEMORY;
    if (s2s_resize(&s->memory, room * sizeof(SourceMemory)) || s2s_resize(&s->start, room * sizeof(int64_t *)) ||
        s2s_resize(&s->columns, room * sizeof(Columns *)) ||
        s2s_resize(&s->token, room * beam * sizeof(int64_t)) ||
        s2s_resize(&s->node, room * beam * sizeof(int64_t)) || s2s_resize(&s->score, room * beam * sizeof(float)) ||
        s2s_resize(&s->state, room * beam * width * sizeof(int64_t)) ||
        s2s_resize(&s->guide, room * beam * guide_state_size(s) * sizeof(int64_t)) ||
        s2s_resize(&s->key, draws(s) * room * beam * sizeof(int64_t)) ||
        s2s_resize(&s->finished.score, room * E * sizeof(float)) ||
        s2s_resize(&s->finished.node, room * E * sizeof(int64_t)) ||
        s2s_resize(&s->finished.log_prob, room * E * sizeof(float)))
        return NO_MEMORY;
    s->room = room;
    return OK;
}

/* Sentence i of those that are admitted, before its first token; its source and starting tokens, and the keys of its
samples. */
static int64_t append(Stream *s, const Admission *of, int64_t i, const int64_t *source, const int64_t *start,
                      const int64_t *key) {
    const Shortlist *lists = s->settings->shortlist;
    const int64_t b = s->B++, at = b * s->settings->beam, E = s->settings->E, width = state_width(s);
    const int64_t n_guide = guide_state_size(s);
    s->index[b] = of->index[i], s->n_source[b] = of->n_source[i], s->limit[b] = of->limit[i];
    s->n_best[b] = of->n_best[i], s->length[b] = 0, s->n_live[b] = s->n_fed[b] = 1, s->n_start[b] = of->n_start[i];
    s->token[at] = start[0], s->score[at] = 0;
    for (int64_t k = 1; k < s->settings->beam; k++) s->node[at + k] = ROOT;
    if (draws(s)) memcpy(s->key + at, key, of->n_best[i] * sizeof(int64_t));
    s->node[at] = s2s_tree_add(&s->tree, ROOT, start[0], 0);
    if (width) memcpy(s->state + at * width, of->state + i * width, width * sizeof(int64_t));
    if (n_guide) memset(s->guide + at * n_guide, 0, n_guide * sizeof(int64_t));
    for (int64_t e = b * E; e < (b + 1) * E; e++)
        s->finished.score[e] = s->finished.log_prob[e] = -INFINITY, s->finished.node[e] = 0;
    s->columns[b] = lists ? s2s_columns_of(lists, &s->model->output, source, of->n_source[i]) : 0;
    if (!(s->start[b] = allocate(of->n_start[i] * sizeof(int64_t))) || (lists && !s->columns[b])) return NO_MEMORY;
    memcpy(s->start[b], start, of->n_start[i] * sizeof(int64_t));
    return OK;
}

/* Encodes sentences, which join the others. */
int64_t s2s_stream_admit(Stream *s, const Admission *of) {
    if (!of->n) return OK;
    if (reserve(s, of->n) || s2s_tree_reserve(&s->tree, of->n)) return NO_MEMORY;
    memset(s->memory + s->B, 0, of->n * sizeof(SourceMemory));
    int64_t failed = s2s_stream_encode(s->source, s->model, of, s->memory + s->B);
    const int64_t *source = of->token, *start = of->start, *key = of->key;
    for (int64_t i = 0; i < of->n; i++) {
        if (append(s, of, i, source, start, key)) failed = NO_MEMORY;
        source += of->n_source[i], start += of->n_start[i];
        if (draws(s)) key += of->n_best[i];
    }
    return failed;
}

/* Frees the memory that sentence b alone has. */
static void free_sentence(Stream *s, int64_t b) {
    const SourceMemory *memory = s->memory + b;
    free(memory->keys_values), free(memory->words), free(memory->labels), free(s->start[b]), free(s->columns[b]);
}

/* Frees what only sentence b uses. */
static void release(Stream *s, int64_t b) {
    const int64_t beam = s->settings->beam, E = s->settings->E;
    for (int64_t k = 0; k < beam; k++) s2s_tree_release(&s->tree, s->node[b * beam + k]);
    for (int64_t e = b * E; e < (b + 1) * E; e++)
        if (s->finished.score[e] > -INFINITY) s2s_tree_release(&s->tree, s->finished.node[e]);
    free_sentence(s, b);
}

/* Moves sentence `from` to the place of `to`. */
static void move(Stream *s, int64_t from, int64_t to) {
    const int64_t beam = s->settings->beam, E = s->settings->E, n_state = beam * state_width(s);
    const int64_t n_guide = beam * guide_state_size(s);
    int64_t *numbers[] = {s->index, s->n_source, s->limit, s->n_best, s->length, s->n_live, s->n_start, s->n_fed};
    for (int i = 0; i < 8; i++) numbers[i][to] = numbers[i][from];
    s->memory[to] = s->memory[from], s->start[to] = s->start[from], s->columns[to] = s->columns[from];
    memcpy(s->token + to * beam, s->token + from * beam, beam * sizeof(int64_t));
    memcpy(s->node + to * beam, s->node + from * beam, beam * sizeof(int64_t));
    memcpy(s->score + to * beam, s->score + from * beam, beam * sizeof(float));
    if (draws(s)) memcpy(s->key + to * beam, s->key + from * beam, beam * sizeof(int64_t));
    if (n_state) memcpy(s->state + to * n_state, s->state + from * n_state, n_state * sizeof(int64_t));
    if (n_guide) memcpy(s->guide + to * n_guide, s->guide + from * n_guide, n_guide * sizeof(int64_t));
    memcpy(s->finished.score + to * E, s->finished.score + from * E, E * sizeof(float));
    memcpy(s->finished.node + to * E, s->finished.node + from * E, E * sizeof(int64_t));
    memcpy(s->finished.log_prob + to * E, s->finished.log_prob + from * E, E * sizeof(float));
}

/* Removes the sentences of which `leaves` [B] is not 0; without any the nodes take no memory. */
static void remove_sentences(Stream *s, const uint8_t *leaves) {
    int64_t n = 0;
    for (int64_t b = 0; b < s->B; b++)
        if (leaves[b])
            release(s, b);
        else if (b != n++)
            move(s, b, n - 1);
    s->B = n;
    if (!n) s2s_tree_free(&s->tree);
}

static int64_t n_source(const Stream *s) {
    int64_t n = 0;
    for (int64_t b = 0; b < s->B; b++) n += s->n_source[b];
    return n;
}

static int64_t longest(const Stream *s) {
    int64_t n = 0;
    for (int64_t b = 0; b < s->B; b++) {
        const int64_t own = s->length[b] + s->n_fed[b] - 1;
        n = own > n ? own : n;
    }
    return n;
}

static uint8_t is_done(const Stream *s, int64_t b) {
    Search of = *s->settings;
    uint8_t done;
    if (draws(s)) return !s->n_live[b];
    of.score = s->score + b * of.beam, of.finished.score = s->finished.score + b * of.E;
    of.length = s->length + b, of.limit = s->limit + b;
    if (!of.stop_rank) of.stop_rank = s->n_best[b];
    s2s_mark_done(&of, 1, of.beam, &done);
    return done;
}

/* Writes the results of the sentences that are done, and removes these. done: [B]. */
static int64_t take_done(Stream *s, uint8_t *done) {
    for (int64_t b = 0; b < s->B; b++)
        if ((done[b] = is_done(s, b)) && s2s_write_result(s, b)) return NO_MEMORY;
    remove_sentences(s, done);
    return OK;
}

/* Runs up to `max_steps` steps, and ends after the first step in which a sentence is done and the others have no more
than `admission_threshold` source tokens, or if there are no others. */
int64_t s2s_stream_run(Stream *s, int64_t max_steps, Found *found) {
    uint8_t *done = allocate(s->B);
    int64_t failed = !done;
    s->results.n_numbers = s->results.n_values = 0;
    for (int64_t ends = 0; max_steps-- > 0 && s->B && !ends && !failed;) {
        const int64_t before = s->B;
        failed = s2s_stream_step(s) || take_done(s, done);
        ends = s->B < before && n_source(s) <= s->settings->admission_threshold;
    }
    free(done);
    const Results *r = &s->results;
    *found = (Found){r->n_numbers, r->numbers, r->values, r->n_values, s->B, n_source(s), longest(s)};
    return failed ? NO_MEMORY : OK;
}

/* Removes the sentences with these n indices, as far as they are not done. */
int64_t s2s_stream_cancel(Stream *s, const int64_t *index, int64_t n) {
    uint8_t *leaves = allocate(s->B);
    if (!leaves) return NO_MEMORY;
    for (int64_t b = 0; b < s->B; b++) {
        leaves[b] = 0;
        for (int64_t i = 0; i < n; i++) leaves[b] |= s->index[b] == index[i];
    }
    remove_sentences(s, leaves);
    free(leaves);
    return OK;
}

int64_t s2s_stream_free(Stream *s) {
    for (int64_t b = 0; b < s->B; b++) free_sentence(s, b);
    s2s_tree_free(&s->tree);
    free(s->tree.layers), free(s->memory), free(s->columns), free(s->scratch);
    free(s->index), free(s->n_source), free(s->limit), free(s->n_best), free(s->length), free(s->n_live);
    free(s->n_start), free(s->n_fed), free(s->start);
    free(s->token), free(s->node), free(s->score), free(s->state), free(s->guide), free(s->key);
    free(s->finished.score), free(s->finished.node), free(s->finished.log_prob);
    free(s->results.numbers), free(s->results.values);
    free(s);
    return OK;
}
