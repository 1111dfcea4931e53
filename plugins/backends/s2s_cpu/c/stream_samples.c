/* A stream's step where tokens are drawn: each place of a sentence is a sample, whose node is ROOT once it has ended.
See stream.h.
*/

#include "stream.h"

/* Points what drawing writes to memory from `at` on, and returns its end. */
uintptr_t s2s_arrange_samples(uintptr_t at, const Stream *s, int64_t at_once, Samples *w) {
    const int64_t V = s->model->output.O, beam = s->settings->beam;
    w->logits = take(&at, at_once * V * sizeof(float)), w->only_eos = take(&at, V);
    w->random = take(&at, beam * sizeof(double)), w->token = take(&at, beam * sizeof(int64_t));
    w->log_prob = take(&at, beam * sizeof(float));
    return at;
}

/* Sample k of sentence b has another token behind `node`; -inf: none is possible. */
static void keep(Stream *s, int64_t b, int64_t k, int64_t node, int64_t token, float log_prob) {
    const int64_t at = b * s->settings->beam + k;
    s->node[at] = ROOT;
    if (log_prob == -INFINITY) return;
    if (token == s->settings->eos) {
        s->finished.score[at] = 0, s->finished.node[at] = node, s->finished.log_prob[at] = log_prob;
        s->tree.n_uses[node]++;
        return;
    }
    s->token[at] = token, s->node[at] = s2s_tree_add(&s->tree, node, token, log_prob);
    s->n_live[b]++;
}

/* One more token for the sample in a place, whose logits are given; before the first token, for all of its sentence. */
int64_t s2s_draw_token(Stream *s, int64_t place, int64_t node, const float *logits, Samples *w) {
    const Search *of = s->settings;
    const int64_t V = s->model->output.O, b = place / of->beam, length = s->length[b];
    const int64_t first = length ? place % of->beam : 0, n = length ? 1 : s->n_best[b];
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = s->key[b * of->beam + first + i], golden = 0x9e3779b97f4a7c15;
        uint64_t number;
        s2s_random_numbers(key + length * golden, 1, &number); /* that which follows as many numbers as `length` */
        w->random[i] = (number >> 11) * 0x1p-53;
    }
    const int is_last = length == s->limit[b];
    if (is_last) memset(w->only_eos, 0, V), w->only_eos[of->eos] = 1;
    if (s2s_sample(logits, 1, V, is_last ? w->only_eos : 0, of->banned, of->n_banned, of->normalize,
                   &of->sampling, w->random, n, w->token, w->log_prob))
        return NO_MEMORY;
    s->n_live[b]--;
    for (int64_t i = 0; i < n; i++) keep(s, b, first + i, node, w->token[i], w->log_prob[i]);
    return OK;
}
