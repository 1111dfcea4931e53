/* What beam search does between the steps of a model, for one thread.

Shapes: B sentences, K hypotheses of each, m continuations of each, n candidates, E finished hypotheses. Of equal scores
the first comes first; -inf is the score of an empty place.
*/

#include "beam_search.h"

/* The n best of all continuations [B, K, m] of a sentence, with the parent, the token, its log-probability and the
preceding token's node, all [B, n]; score and node are those of the hypotheses [B, K]. */
int64_t s2s_merge_candidates(const float *log_probs, const int64_t *tokens, const float *score, const int64_t *node,
                             int64_t B, int64_t K, int64_t m, int64_t n, float *best, int64_t *parent, int64_t *token,
                             float *log_prob, int64_t *before) {
    for (int64_t b = 0; b < B; b++, log_probs += K * m, tokens += K * m, score += K, node += K) {
        int64_t count = 0;
        for (int64_t i = 0; i < K * m; i++) {
            float total = score[i / m] + log_probs[i];
            if (total > -INFINITY) count = keep_best(best, parent, count, n, total, i);
        }
        sort_best(best, parent, count);
        for (int64_t i = 0; i < n; i++, best++, parent++, token++, log_prob++, before++) {
            int64_t at = i < count ? *parent : 0;
            if (i >= count) *best = -INFINITY;
            *parent = at / m, *token = tokens[at], *log_prob = log_probs[at], *before = node[at / m];
        }
    }
    return OK;
}

/* Adds those of the first `n_finishable` candidates [B, n] that end to the finished hypotheses [B, E]. In sentence b
their scores are divided by penalty[length[b]]. */
int64_t s2s_merge_finished(const Candidates *from, const Finished *before, int64_t B, int64_t n, int64_t E, int64_t eos,
                           int64_t n_finishable, const float *penalty, const int64_t *length, Finished *after) {
    int64_t *index = allocate(E * sizeof(int64_t));
    if (!index) return NO_MEMORY;
    for (int64_t b = 0; b < B; b++) {
        const float *score = from->score + b * n;
        const int64_t *token = from->token + b * n;
        float *value = after->score + b * E;
        int count = 0;
        for (int64_t e = 0; e < E && before->score[b * E + e] > -INFINITY; e++)
            count = insert(value, index, count, E, before->score[b * E + e], e);
        for (int64_t i = 0; i < n_finishable && i < n && score[i] > -INFINITY; i++) {
            float penalised = score[i] / penalty[length[b]];
            if (token[i] == eos && (count < E || penalised > value[E - 1]))
                count = insert(value, index, count, E, penalised, E + i);
        }
        for (int64_t e = 0; e < E; e++) {
            int64_t at = e < count ? index[e] : 0, to = b * E + e;
            if (e >= count) value[e] = -INFINITY;
            after->node[to] = at < E ? before->node[b * E + at] : from->node[b * n + at - E];
            after->log_prob[to] = at < E ? before->log_prob[b * E + at] : from->log_prob[b * n + at - E];
        }
    }
    free(index);
    return OK;
}

/* The first K candidates [B, K] of [B, n] that do not end. */
int64_t s2s_unfinished_candidates(const Candidates *from, int64_t B, int64_t n, int64_t K, int64_t eos,
                                  Candidates *live) {
    for (int64_t b = 0; b < B; b++) {
        int64_t count = 0;
        for (int64_t i = b * n; i < (b + 1) * n && count < K && from->score[i] > -INFINITY; i++) {
            if (from->token[i] == eos) continue;
            int64_t to = b * K + count++;
            live->score[to] = from->score[i], live->parent[to] = from->parent[i], live->token[to] = from->token[i];
            live->log_prob[to] = from->log_prob[i], live->node[to] = from->node[i];
        }
        for (int64_t to = b * K + count; to < (b + 1) * K; to++) {
            live->score[to] = -INFINITY, live->parent[to] = from->parent[b * n], live->token[to] = from->token[b * n];
            live->log_prob[to] = from->log_prob[b * n], live->node[to] = from->node[b * n];
        }
    }
    return OK;
}

/* Which sentences are done: those whose n-th finished score no live hypothesis can still exceed. The bound is the best
live score over the larger of the penalties of the earliest and the latest end. */
int64_t s2s_search_finished(const float *live, const float *finished, const int64_t *length, const int64_t *limit,
                            const float *penalty, int64_t B, int64_t K, int64_t E, int64_t n, uint8_t *done) {
    for (int64_t b = 0; b < B; b++) {
        float soonest = penalty[length[b] + 1], latest = penalty[limit[b] + 1];
        done[b] = finished[b * E + n - 1] >= live[b * K] / (soonest > latest ? soonest : latest);
    }
    return OK;
}
