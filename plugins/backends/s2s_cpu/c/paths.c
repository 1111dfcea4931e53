/* Paths of hypotheses in trees of tokens. B sentences, K hypotheses of each, L room for tokens. */

#include "beam_search.h"

/* Appends a new node, numbered from n_nodes[b] on, to each path [B, K, L]. */
int64_t s2s_extend_paths(int64_t *path, const int64_t *length, const int64_t *n_nodes, int64_t B, int64_t K,
                         int64_t L) {
    for (int64_t b = 0; b < B; b++)
        for (int64_t k = 0; k < K; k++) path[(b * K + k) * L + length[b]] = n_nodes[b] + k;
    return OK;
}

/* Path k of sentence b becomes a copy of path parents[b, k]: [B, K, L] -> [B, n, L]; pointers may be null if L is 0. */
int64_t s2s_reorder_paths(const int64_t *path, const int64_t *parents, int64_t B, int64_t K, int64_t n, int64_t L,
                          int64_t *out) {
    for (int64_t b = 0; L && b < B; b++)
        for (int64_t k = 0; k < n; k++, out += L)
            memcpy(out, path + (b * K + parents[b * n + k]) * L, L * sizeof(int64_t));
    return OK;
}
