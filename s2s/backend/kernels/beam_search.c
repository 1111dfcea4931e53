/* What a beam search does between the steps of a model, for one thread.

Shapes: B sentences, K hypotheses of each, m continuations of each, n candidates, E outputs that have ended, T room for
symbols. Of equal scores the first comes first; -inf is the score of what is not there.
*/

#include "vectors.h"

/* The n best of all continuations [B, K, m] of a sentence, with the parent, the symbol, its log-probability and the
number of the one before it, all [B, n]; score and node belong to the hypotheses [B, K]. */
void s2s_join(const float *log_probs, const int64_t *tokens, const float *score, const int64_t *node, int64_t B,
              int64_t K, int64_t m, int64_t n, float *best, int64_t *parent, int64_t *token, float *log_prob,
              int64_t *before) {
    for (int64_t b = 0; b < B; b++, log_probs += K * m, tokens += K * m, score += K, node += K) {
        int count = 0;
        for (int64_t i = 0; i < K * m; i++) {
            float total = score[i / m] + log_probs[i];
            if (total > -INFINITY && (count < n || total > best[count - 1]))
                count = insert(best, parent, count, n, total, i);
        }
        for (int64_t i = 0; i < n; i++, best++, parent++, token++, log_prob++, before++) {
            int64_t place = i < count ? *parent : 0;
            if (i >= count) *best = -INFINITY;
            *parent = place / m, *token = tokens[place], *log_prob = log_probs[place], *before = node[place / m];
        }
    }
}

typedef struct { /* [B, n], best first */
    float *score;
    int64_t *parent, *token;
    float *log_prob;
    int64_t *node;
} Candidates;

typedef struct { /* [B, E], best first */
    float *score;
    int64_t *node;
    float *log_prob;
} Finished;

/* The finished hypotheses [B, E] with those of the first `counted` candidates [B, n] that end. One of length[b] tokens
scores its log-probability over penalty[length[b]]. */
void s2s_merge_finished(const Candidates *from, const Finished *before, int64_t B, int64_t n, int64_t E, int64_t eos,
                        int64_t counted, const float *penalty, const int64_t *length, Finished *after) {
    int64_t index[E];
    for (int64_t b = 0; b < B; b++) {
        const float *score = from->score + b * n;
        const int64_t *token = from->token + b * n;
        float *value = after->score + b * E;
        int count = 0;
        for (int64_t e = 0; e < E && before->score[b * E + e] > -INFINITY; e++)
            count = insert(value, index, count, E, before->score[b * E + e], e);
        for (int64_t i = 0; i < counted && score[i] > -INFINITY; i++) {
            float worth = score[i] / penalty[length[b]];
            if (token[i] == eos && (count < E || worth > value[E - 1]))
                count = insert(value, index, count, E, worth, E + i);
        }
        for (int64_t e = 0; e < E; e++) {
            int64_t at = e < count ? index[e] : 0, to = b * E + e;
            if (e >= count) value[e] = -INFINITY;
            after->node[to] = at < E ? before->node[b * E + at] : from->node[b * n + at - E];
            after->log_prob[to] = at < E ? before->log_prob[b * E + at] : from->log_prob[b * n + at - E];
        }
    }
}

/* The first K candidates [B, K] of [B, n] that do not end. */
void s2s_unfinished(const Candidates *from, int64_t B, int64_t n, int64_t K, int64_t eos, Candidates *live) {
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
}

/* Write the number of its newest node, from n_nodes[b] on, to the end of each path [B, K, T]. */
void s2s_grow_paths(int64_t *path, const int64_t *length, const int64_t *n_nodes, int64_t B, int64_t K, int64_t T) {
    for (int64_t b = 0; b < B; b++)
        for (int64_t k = 0; k < K; k++) path[(b * K + k) * T + length[b]] = n_nodes[b] + k;
}

/* Path k of sentence b becomes a copy of path parents[b, k]: [B, K, T] -> [B, n, T] */
void s2s_select_paths(const int64_t *path, const int64_t *parents, int64_t B, int64_t K, int64_t n, int64_t T,
                      int64_t *out) {
    for (int64_t b = 0; b < B; b++)
        for (int64_t k = 0; k < n; k++, out += T)
            memcpy(out, path + (b * K + parents[b * n + k]) * T, T * sizeof(int64_t));
}

/* Which sentences are done: those of whose outputs the first n are worth no less than any that may come, which is the
best live score over the larger of the penalties of the soonest and the latest end. */
void s2s_over(const float *live, const float *ended, const int64_t *length, const int64_t *limit, const float *penalty,
              int64_t B, int64_t K, int64_t E, int64_t n, uint8_t *over) {
    for (int64_t b = 0; b < B; b++) {
        float soonest = penalty[length[b] + 1], latest = penalty[limit[b] + 1];
        over[b] = ended[b * E + n - 1] >= live[b * K] / (soonest > latest ? soonest : latest);
    }
}
