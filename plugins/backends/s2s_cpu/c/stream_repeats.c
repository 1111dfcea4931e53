/* Which tokens may follow an output, and how those that it already has change the logits of the next one; see stream.h.
V tokens.
*/

#include "log_sum_exp.h"
#include "stream.h"

enum { WINDOW = 512 }; /* tokens of an output in which no n-gram may come twice */

static void to_log_probs(int64_t V, float *logits) {
    float max = -INFINITY;
    for (int64_t i = 0; i < V; i++) max = logits[i] > max ? logits[i] : max;
    const float sum = log_sum_exp(logits, V, max);
    for (int64_t i = 0; i < V; i++) logits[i] -= sum;
}

static void penalize(float penalty, const int64_t *token, int64_t n, uint8_t *marks, float *logits) {
    for (int64_t i = 0; i < n; i++) {
        float *x = logits + token[i];
        if (!marks[token[i]]) *x = *x > 0 ? *x / penalty : *x * penalty;
        marks[token[i]] = 1;
    }
}

/* Logits [V], or log-probabilities, of the n tokens of an output become smaller. marks [V]: zeros, also afterwards. */
void s2s_penalize_repeats(const Repeats *r, const int64_t *output, int64_t n, int64_t V, uint8_t *marks,
                          float *logits) {
    if (r->of_log_probs) to_log_probs(V, logits);
    penalize((float)r->penalty, r->always, r->n_always, marks, logits);
    penalize((float)r->penalty, output, n, marks, logits);
    for (int64_t i = 0; i < r->n_always; i++) marks[r->always[i]] = 0;
    for (int64_t i = 0; i < n; i++) marks[output[i]] = 0;
}

/* Tokens that would repeat a sequence of n_gram tokens are no longer allowed. */
static void forbid_repeats(int64_t n_gram, const int64_t *output, int64_t n, uint8_t *allowed) {
    const int64_t n_before = n_gram - 1, first = n > WINDOW ? n - WINDOW : 0;
    const int64_t *newest = output + n - n_before;
    for (int64_t i = first; n_before <= n - first && i + n_before < n; i++)
        if (!memcmp(output + i, newest, n_before * sizeof(int64_t))) allowed[output[i + n_before]] = 0;
}

/* allowed [V]: the tokens that a state of the automaton allows, if there is one, and none that repeats an n-gram of the
output, which has n tokens. */
void s2s_allowed_tokens(const Search *of, const int64_t *output, int64_t n, int64_t *state, int64_t V,
                        uint8_t *allowed) {
    memset(allowed, !of->automaton, V);
    if (of->automaton) {
        Automaton automaton = *of->automaton;
        int64_t list;
        automaton.state = state;
        s2s_allowed_lists(&automaton, 1, &list);
        for (int64_t i = automaton.lists.begin[list]; i < automaton.lists.begin[list + 1]; i++)
            allowed[automaton.lists.token[i]] = 1;
    }
    if (of->repeats.n_gram) forbid_repeats(of->repeats.n_gram, output, n, allowed);
}
