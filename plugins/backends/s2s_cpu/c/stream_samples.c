/* A stream's step where tokens are drawn: each place of a sentence is a sample, whose node is ROOT once it has ended.
See stream.h.
*/

#include "stream.h"

/* Points what drawing writes to memory from `at` on, and returns its end. */
uintptr_t s2s_arrange_samples(uintptr_t at, const Stream *s, int64_t at_once, Samples *w) {
    const int64_t V = s->model->output.O, beam = s->settings->beam;
    w->logits = take(&at, at_once * V * sizeof(float)), w->allowed = take(&at, V);
    w->random = take(&at, beam * sizeof(double)), w->token = take(&at, beam * sizeof(int64_t));
    w->log_prob = take(&at, beam * sizeof(float));
    return at;
}

/* Sample k of sentence b has another token; -inf: none is possible. */
static void keep(Stream *s, int64_t b, int64_t k, const Sample *from, int64_t token, float log_prob) {
    const int64_t at = b * s->settings->beam + k, width = state_width(s), n_guide = guide_state_size(s);
    s->node[at] = ROOT;
    if (log_prob == -INFINITY) return;
    if (token == s->settings->eos) {
        s->finished.score[at] = 0, s->finished.node[at] = from->node, s->finished.log_prob[at] = log_prob;
        s->tree.n_uses[from->node]++;
        return;
    }
    s->token[at] = token, s->node[at] = s2s_tree_add(&s->tree, from->node, token, log_prob);
    s->n_live[b]++;
    if (n_guide) memcpy(s->guide + at * n_guide, from->guide, n_guide * sizeof(int64_t));
    if (!width) return;
    Automaton automaton = *s->settings->automaton;
    int64_t parent = 0, *after = s->state + at * width;
    automaton.state = from->state;
    s2s_advance_states(&automaton, 1, 1, 1, &parent, &token, &after);
}

/* allowed [V], the tokens that may come next in a sample of sentence b; null: all may. */
static const uint8_t *allowed_tokens(const Stream *s, int64_t b, const Sample *from, uint8_t *allowed) {
    const Search *of = s->settings;
    const int is_last = s->length[b] == s->limit[b], too_short = is_short(of, s->length[b], s->limit[b]);
    const int64_t V = s->model->output.O;
    if (!of->automaton && !of->repeats.n_gram && !is_last && !too_short) return 0;
    s2s_allowed_tokens(of, from->output, s->length[b], from->state, V, allowed);
    const uint8_t may_end = allowed[of->eos] && !too_short;
    if (is_last) memset(allowed, 0, V);
    allowed[of->eos] = may_end;
    return allowed;
}

/* One more token for a sample; before the first token, for all of its sentence. */
int64_t s2s_draw_token(Stream *s, const Sample *from, Samples *w) {
    const Search *of = s->settings;
    const int64_t V = s->model->output.O, b = from->place / of->beam, length = s->length[b];
    const int64_t first = length ? from->place % of->beam : 0, n = length ? 1 : s->n_best[b];
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = s->key[b * of->beam + first + i], golden = 0x9e3779b97f4a7c15;
        uint64_t number;
        s2s_random_numbers(key + length * golden, 1, &number); /* that which follows as many numbers as `length` */
        w->random[i] = (number >> 11) * 0x1p-53;
    }
    const uint8_t *allowed = allowed_tokens(s, b, from, w->allowed);
    if (s2s_sample(from->logits, 1, V, allowed, of->banned, of->n_banned, of->normalize, &of->sampling, w->random, n,
                   w->token, w->log_prob))
        return NO_MEMORY;
    s->n_live[b]--;
    for (int64_t i = 0; i < n; i++) keep(s, b, first + i, from, w->token[i], w->log_prob[i]);
    return OK;
}
