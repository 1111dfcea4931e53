/* A step of a stream: one more token for each hypothesis of all sentences. The decoder computes all rows together; what
is made of its output is done for a few sentences after the other, so that their logits stay in the caches, or for a few
samples. See stream.h.
R rows, V tokens.
*/

#include "stream.h"

enum { LOGITS_AT_ONCE = 1 << 17, LEAST_ROWS = 64 }; /* of rows whose logits are computed together */

typedef struct { /* rows of hypotheses, sentence by sentence */
    int64_t R, longest;                    /* rows; nodes of the longest path */
    int64_t *token, *node, *length, *path; /* [R], [R], [R], [R, longest] */
    int64_t *place;                        /* [R], in the stream's arrays [B, beam] */
    float *score, *x;                      /* [R], [R, D] */
    int64_t *state, *guide;                /* [R, width], of the automaton and of the guide, if there is one */
    float *guide_vectors;                  /* [R, E], what the guide reads */
    SourceMemory *sources;                 /* of each sentence; of each row if tokens are drawn, so that a sample's */
    int64_t n_sources;                     /* attention, whose sums differ by how many rows it is of, is its own */
    uint8_t *seen;                         /* [S], ones */
    int64_t at_once;                       /* sentences, or samples, whose logits are computed together */
    float *part;                           /* [beam, U], logits of the most columns that a sentence has, if any does */
    int64_t *output;                       /* [R, longest], tokens of outputs so far, if a rule reads them */
    uint8_t *marks, *allowed;              /* [V], zeros; [at_once, beam, V], if a beam search forbids repeats */
    Expansion expansion;                   /* of a beam search */
    Samples samples;                       /* if tokens are drawn */
} Rows;

/* Their sizes, and memory from `at` on; returns its end. */
static uintptr_t arrange(uintptr_t at, const Stream *s, Rows *w) {
    const int64_t V = s->model->output.O, beam = s->settings->beam, n_rows = LOGITS_AT_ONCE / V;
    const int64_t least_rows = s->settings->shortlist ? 0 : LEAST_ROWS; /* 0: each sentence has a product of its own */
    int64_t longest_source = 0, n_columns = 0;
    w->R = w->longest = 0;
    for (int64_t b = 0; b < s->B; b++) {
        w->R += s->n_live[b];
        const int64_t length = s->length[b] + s->n_fed[b];
        w->longest = length > w->longest ? length : w->longest;
        longest_source = s->memory[b].S > longest_source ? s->memory[b].S : longest_source;
        n_columns = s->columns[b] && s->columns[b]->output.O > n_columns ? s->columns[b]->output.O : n_columns;
    }
    const int64_t most = draws(s) ? w->R : s->B, rows = n_rows > least_rows ? n_rows : least_rows;
    w->at_once = draws(s) ? rows : rows / beam;
    w->at_once = w->at_once < 1 ? 1 : w->at_once < most ? w->at_once : most;
    w->token = take(&at, w->R * sizeof(int64_t)), w->node = take(&at, w->R * sizeof(int64_t));
    w->length = take(&at, w->R * sizeof(int64_t)), w->path = take(&at, w->R * w->longest * sizeof(int64_t));
    w->place = take(&at, w->R * sizeof(int64_t));
    w->score = take(&at, w->R * sizeof(float)), w->x = take(&at, w->R * row_width(s->model) * sizeof(float));
    w->state = take(&at, w->R * state_width(s) * sizeof(int64_t));
    w->guide = take(&at, w->R * guide_state_size(s) * sizeof(int64_t));
    w->guide_vectors = take(&at, w->R * s2s_guidance_width(s->model->guidance) * sizeof(float));
    w->n_sources = draws(s) ? w->R : s->B;
    w->sources = take(&at, w->n_sources * sizeof(SourceMemory)), w->seen = take(&at, longest_source);
    w->part = take(&at, beam * n_columns * sizeof(float));
    w->output = take(&at, reads_output(s) ? w->R * w->longest * sizeof(int64_t) : 0);
    w->marks = take(&at, reads_output(s) ? V : 0);
    w->allowed = take(&at, s->settings->repeats.n_gram && !draws(s) ? w->at_once * beam * V : 0);
    if (draws(s)) return s2s_arrange_samples(at, s, w->at_once, &w->samples);
    return s2s_arrange_expansion(at, s->model, s->settings, w->at_once, &w->expansion);
}

/* Rows in the stream's scratch memory, which grows to what they need. */
static int64_t new_rows(Stream *s, Rows *w) {
    const int64_t n_bytes = arrange(0, s, w) + 64;
    if (n_bytes > s->scratch_size) {
        free(s->scratch);
        s->scratch_size = n_bytes + n_bytes / 4;
        if (!(s->scratch = allocate(s->scratch_size))) return s->scratch_size = 0, NO_MEMORY;
    }
    arrange(((uintptr_t)s->scratch + 63) / 64 * 64, s, w);
    if (reads_output(s)) memset(w->marks, 0, s->model->output.O);
    return OK;
}

/* The tokens of row r, a hypothesis of sentence b, behind its starting tokens. */
static void read_output(const Stream *s, int64_t b, int64_t r, Rows *w) {
    const int64_t *path = w->path + r * w->longest + s->n_start[b];
    for (int64_t i = 0; i < s->length[b]; i++) w->output[r * w->longest + i] = s->tree.token[path[i]];
}

/* The hypotheses of all sentences as rows. */
static void gather(const Stream *s, Rows *w) {
    const int64_t beam = s->settings->beam, width = state_width(s), n_guide = guide_state_size(s);
    int64_t r = 0;
    for (int64_t b = 0; b < s->B; b++) {
        SourceMemory memory = s->memory[b];
        memset(w->seen, 1, memory.S);
        memory.K = draws(s) ? 1 : s->n_live[b];
        if (!draws(s)) w->sources[b] = memory;
        for (int64_t at = b * beam; at < (b + 1) * beam; at++) {
            if (s->node[at] == ROOT) continue;
            w->place[r] = at, w->token[r] = s->token[at], w->node[r] = s->node[at], w->score[r] = s->score[at];
            if (width) memcpy(w->state + r * width, s->state + at * width, width * sizeof(int64_t));
            if (n_guide) memcpy(w->guide + r * n_guide, s->guide + at * n_guide, n_guide * sizeof(int64_t));
            w->length[r] = s->length[b] + s->n_fed[b];
            s2s_tree_path(&s->tree, w->node[r], w->length[r], w->path + r * w->longest);
            if (reads_output(s)) read_output(s, b, r, w);
            if (draws(s)) w->sources[r] = memory;
            r++;
        }
    }
}

static int64_t decode(const Stream *s, const Model *m, Rows *w) {
    const Step step = {
        .B = w->R, .K = 1, .L = w->longest, .path = w->path, .length = w->length, .seen = w->seen,
        .stack = s->source->decoder, .sources = w->sources, .n_sources = w->n_sources,
        .guide = w->guide, .guide_vectors = w->guide_vectors,
    };
    return s2s_decode(m, &step, w->token, w->x);
}

/* The finished hypotheses of sentence b become those of row `from` of the expansion. */
static void keep_finished(Stream *s, int64_t b, const Finished *found, int64_t from) {
    const int64_t E = s->settings->E, at = from * E;
    Finished own = {s->finished.score + b * E, s->finished.node + b * E, s->finished.log_prob + b * E};
    for (int64_t e = 0; e < E && found->score[at + e] > -INFINITY; e++) s->tree.n_uses[found->node[at + e]]++;
    for (int64_t e = 0; e < E && own.score[e] > -INFINITY; e++) s2s_tree_release(&s->tree, own.node[e]);
    memcpy(own.score, found->score + at, E * sizeof(float));
    memcpy(own.node, found->node + at, E * sizeof(int64_t));
    memcpy(own.log_prob, found->log_prob + at, E * sizeof(float));
}

/* The live hypotheses of sentence b become those of row `from` of the expansion; guide: the states of those before. */
static void keep_live(Stream *s, int64_t b, const Candidates *found, int64_t from, const int64_t *guide) {
    const int64_t beam = s->settings->beam, n_guide = guide_state_size(s);
    for (int64_t k = 0; k < beam; k++) {
        const int64_t at = from * beam + k, to = b * beam + k;
        s->token[to] = found->token[at], s->score[to] = found->score[at];
        s->node[to] = s2s_tree_add(&s->tree, found->node[at], found->token[at], found->log_prob[at]);
        if (n_guide)
            memcpy(s->guide + to * n_guide, guide + found->parent[at] * n_guide, n_guide * sizeof(int64_t));
    }
    s->n_live[b] = beam;
}

/* The model's logits of n rows from r on; with a shortlist, of its own columns for each sentence, of K rows. */
static int64_t model_logits(const Stream *s, const Model *m, int64_t r, int64_t n, int64_t K, const Rows *w,
                            float *out) {
    const int64_t D = m->output.I;
    if (!s->settings->shortlist) return s2s_logits(m, w->x + r * D, n, K, 0, out);
    Model own = *m;
    for (int64_t i = r; i < r + n; i += K, out += K * m->output.O) {
        const Columns *of = s->columns[w->place[i] / s->settings->beam];
        own.of_columns = of->output, own.columns = of->ids, own.listed = 0;
        if (s2s_logits(&own, w->x + i * D, K, K, w->part, out)) return NO_MEMORY;
    }
    return OK;
}

/* The same as the search changes them. */
static int64_t compute_logits(const Stream *s, const Model *m, int64_t r, int64_t n, int64_t K, const Rows *w,
                              float *out) {
    const Repeats *repeats = &s->settings->repeats;
    const int64_t V = m->output.O;
    if (model_logits(s, m, r, n, K, w, out)) return NO_MEMORY;
    for (int64_t i = r; repeats->penalty > 0 && i < r + n; i++)
        s2s_penalize_repeats(repeats, w->output + i * w->longest, s->length[w->place[i] / s->settings->beam], V,
                             w->marks, out + (i - r) * V);
    s2s_change_logits(s->settings, n, V, out);
    return OK;
}

/* The tokens that may follow each of n rows from r on are those of w->allowed, in place of an automaton's. */
static void forbid(const Stream *s, int64_t r, int64_t n, int64_t V, const Rows *w, Search *part) {
    const int64_t width = state_width(s);
    for (int64_t i = r; i < r + n; i++)
        s2s_allowed_tokens(s->settings, w->output + i * w->longest, s->length[w->place[i] / s->settings->beam],
                           w->state + i * width, V, w->allowed + (i - r) * V);
    part->allowed = w->allowed, part->automaton = 0;
}

/* A step of the n sentences from b on, each with K hypotheses, the rows from r on. */
static int64_t advance(Stream *s, const Model *m, int64_t b, int64_t n, int64_t K, int64_t r, Rows *w) {
    const int64_t E = s->settings->E, V = m->output.O, width = state_width(s);
    Search part = *s->settings;
    Automaton automaton;
    part.score = w->score + r, part.node = w->node + r, part.length = s->length + b, part.limit = s->limit + b;
    part.finished = (Finished){s->finished.score + b * E, s->finished.node + b * E, s->finished.log_prob + b * E};
    if (width) {
        automaton = *part.automaton, automaton.state = w->state + r * width;
        part.automaton = &automaton;
    }
    if (part.repeats.n_gram) forbid(s, r, n * K, V, w, &part);
    if (compute_logits(s, m, r, n * K, K, w, w->expansion.logits)) return NO_MEMORY;
    if (s2s_expand(&part, n, K, V, &w->expansion) || s2s_finish(&part, n, &w->expansion)) return NO_MEMORY;
    if (width) {
        int64_t *after = s->state + b * s->settings->beam * width;
        s2s_advance_states(&automaton, n, K, s->settings->beam, w->expansion.live.parent, w->expansion.live.token,
                           &after);
    }
    for (int64_t i = 0; i < n; i++) {
        keep_finished(s, b + i, &w->expansion.finished, i);
        keep_live(s, b + i, &w->expansion.live, i, w->guide + (r + i * K) * guide_state_size(s));
    }
    return OK;
}

/* Whether the next token of sentence b is a starting token. */
static int has_start(const Stream *s, int64_t b) { return s->n_fed[b] < s->n_start[b]; }

/* guide: the state of its hypothesis, after its last token */
static void feed(Stream *s, int64_t b, const int64_t *guide) {
    const int64_t at = b * s->settings->beam, size = guide_state_size(s);
    if (size) memcpy(s->guide + at * size, guide, size * sizeof(int64_t));
    s->token[at] = s->start[b][s->n_fed[b]++];
    s->node[at] = s2s_tree_add(&s->tree, s->node[at], s->token[at], 0);
}

/* Each hypothesis of every sentence that is not fed a starting token is extended by the best ones. */
static int64_t extend(Stream *s, const Model *m, Rows *w) {
    for (int64_t b = 0, n, K, r = 0; b < s->B; b += n, r += n * K) {
        const int64_t most = s->B - b < w->at_once ? s->B - b : w->at_once;
        for (n = 0, K = s->n_live[b]; n < most && s->n_live[b + n] == K && !has_start(s, b + n);) n++;
        if (n && advance(s, m, b, n, K, r, w)) return NO_MEMORY;
        if (!n) feed(s, b, w->guide + r * guide_state_size(s)), n = 1;
    }
    return OK;
}

/* The same by one that is drawn. */
static int64_t draw(Stream *s, const Model *m, Rows *w) {
    const int64_t beam = s->settings->beam, V = m->output.O, width = state_width(s);
    for (int64_t r = 0, n; r < w->R; r += n) {
        const int64_t most = w->R - r < w->at_once ? w->R - r : w->at_once;
        for (n = 0; n < most && !has_start(s, w->place[r + n] / beam);) n++;
        if (n && compute_logits(s, m, r, n, 1, w, w->samples.logits)) return NO_MEMORY;
        for (int64_t i = r; i < r + n; i++) {
            const Sample from = {
                w->place[i], w->node[i], w->output + i * w->longest, w->samples.logits + (i - r) * V,
                w->state + i * width, w->guide + i * guide_state_size(s),
            };
            if (s2s_draw_token(s, &from, &w->samples)) return NO_MEMORY;
        }
        if (n) continue;
        feed(s, w->place[r] / beam, w->guide + r * guide_state_size(s));
        w->length[r] = 0, n = 1;
    }
    for (int64_t r = 0; r < w->R; r++)
        if (w->length[r]) s->length[w->place[r] / beam] = w->length[r] - s->n_start[w->place[r] / beam] + 1;
    return OK;
}

/* Each hypothesis of every sentence is extended by one token. */
int64_t s2s_stream_step(Stream *s) {
    Rows w;
    Model m = *s->model;
    if (s2s_tree_reserve(&s->tree, s->B * s->settings->beam) || new_rows(s, &w)) return NO_MEMORY;
    gather(s, &w);
    m.layers = s->tree.layers;
    if (decode(s, &m, &w)) return NO_MEMORY;
    if (draws(s) ? draw(s, &m, &w) : extend(s, &m, &w)) return NO_MEMORY;
    for (int64_t r = 0; r < w.R; r++) s2s_tree_release(&s->tree, w.node[r]);
    return OK;
}
