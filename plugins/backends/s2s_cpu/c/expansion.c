/* What a step of a beam search makes of its logits: continuations, those that end and those that live on. For one
thread; see beam_search.h.
*/

#include "beam_search.h"

/* Points what expanding B sentences writes to memory from `at` on, and returns its end. */
uintptr_t s2s_arrange_expansion(uintptr_t at, const Model *m, const Search *s, int64_t B, Expansion *w) {
    const int64_t R = B * s->beam, n = B * s->n, V = m->output.O, n_banned = s->n_banned + (s->min_len > 0);
    const int64_t n_continuations = s->n + n_banned;
    w->m = n_continuations < V ? n_continuations : V;
    w->logits = take(&at, R * V * sizeof(float)), w->sums = take(&at, R * sizeof(float));
    w->log_probs = take(&at, R * w->m * sizeof(float)), w->tokens = take(&at, R * w->m * sizeof(int64_t));
    w->list = take(&at, s->automaton ? R * sizeof(int64_t) : 0);
    w->banned = take(&at, n_banned * sizeof(int64_t));
    Candidates *candidates[] = {&w->all, &w->live};
    for (int i = 0; i < 2; i++) {
        const int64_t size = i ? R : n;
        Candidates *c = candidates[i];
        c->score = take(&at, size * sizeof(float)), c->log_prob = take(&at, size * sizeof(float));
        c->parent = take(&at, size * sizeof(int64_t)), c->token = take(&at, size * sizeof(int64_t));
        c->node = take(&at, size * sizeof(int64_t));
    }
    w->finished.score = take(&at, B * s->E * sizeof(float)), w->finished.node = take(&at, B * s->E * sizeof(int64_t));
    w->finished.log_prob = take(&at, B * s->E * sizeof(float));
    return at;
}

static int may_end(const Search *s, const Expansion *w, int64_t r, int64_t V) {
    if (s->allowed) return s->allowed[r * V + s->eos];
    if (!s->automaton) return 1;
    const TokenLists *lists = &s->automaton->lists;
    for (int64_t i = lists->begin[w->list[r]]; i < lists->begin[w->list[r] + 1]; i++)
        if (lists->token[i] == s->eos) return 1;
    return 0;
}

/* At its limit a hypothesis can only end: eos is its only continuation. */
static void force_eos(const Search *s, int64_t B, int64_t K, int64_t V, Expansion *w) {
    for (int64_t r = 0; r < B * K; r++) {
        if (s->length[r / K] < s->limit[r / K]) continue;
        float sum = s->normalize ? w->sums[r] : 0, log_prob = w->logits[r * V + s->eos] - sum;
        for (int64_t i = 0; i < w->m; i++) w->log_probs[r * w->m + i] = -INFINITY, w->tokens[r * w->m + i] = 0;
        if (!may_end(s, w, r, V)) continue;
        w->tokens[r * w->m] = s->eos;
        if (isfinite(sum) && log_prob > -INFINITY) w->log_probs[r * w->m] = log_prob;
    }
}

/* The w->m best continuations, none of which is banned, of R hypotheses from r on, K of each sentence; or those of them
that can be among the w->n best of a sentence. */
static int64_t best_tokens(const Search *s, int64_t r, int64_t R, int64_t K, int64_t V, const int64_t *banned,
                           int64_t n_banned, Expansion *w) {
    const float *logits = w->logits + r * V, *score = s->score + r;
    float *sums = s->normalize ? w->sums + r : 0, *log_probs = w->log_probs + r * w->m;
    int64_t *tokens = w->tokens + r * w->m;
    if (!s->automaton)
        return s2s_top_k(logits, R, V, w->m, s->allowed ? s->allowed + r * V : 0, banned, n_banned, score, K, w->n,
                         sums, log_probs, tokens);
    return s2s_top_k_of_lists(logits, R, V, w->m, &s->automaton->lists, w->list + r, banned, n_banned, score, K, w->n,
                              sums, log_probs, tokens);
}

/* The same of all hypotheses; eos is banned in outputs that are too short. */
static int64_t continuations(const Search *s, int64_t B, int64_t K, int64_t V, Expansion *w) {
    if (s->automaton) s2s_allowed_lists(s->automaton, B * K, w->list);
    if (!s->min_len) return best_tokens(s, 0, B * K, K, V, s->banned, s->n_banned, w);
    for (int64_t i = 0; i < s->n_banned; i++) w->banned[i] = s->banned[i];
    w->banned[s->n_banned] = s->eos;
    for (int64_t b = 0; b < B; b++) {
        const int64_t n_banned = s->n_banned + is_short(s, s->length[b], s->limit[b]);
        if (best_tokens(s, b * K, K, K, V, w->banned, n_banned, w)) return NO_MEMORY;
    }
    return OK;
}

/* The n best continuations of the K hypotheses of each of B sentences, by their logits [B * K, V]. */
int64_t s2s_expand(const Search *s, int64_t B, int64_t K, int64_t V, Expansion *w) {
    w->n = s->n < K * w->m ? s->n : K * w->m;
    if (continuations(s, B, K, V, w)) return NO_MEMORY;
    force_eos(s, B, K, V, w);
    return s2s_merge_candidates(w->log_probs, w->tokens, s->score, s->node, B, K, w->m, w->n, w->all.score,
                                w->all.parent, w->all.token, w->all.log_prob, w->all.node);
}

/* Candidates that end are among the finished ones of the expansion; the best `beam` of the others are its live ones. */
int64_t s2s_finish(const Search *s, int64_t B, Expansion *w) {
    for (int64_t b = 0; b < B; b++) s->length[b]++;
    if (s2s_merge_finished(&w->all, &s->finished, B, w->n, s->E, s->eos, s->n_finishable, s->penalty, s->length,
                           &w->finished))
        return NO_MEMORY;
    return s2s_unfinished_candidates(&w->all, B, w->n, s->beam, s->eos, &w->live);
}

/* Which of B sentences with K live hypotheses are done: [B] */
void s2s_mark_done(const Search *s, int64_t B, int64_t K, uint8_t *done) {
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
