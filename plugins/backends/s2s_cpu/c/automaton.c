/* A constraint as an automaton: counters that tokens add to, and a stack of labels; see s2s.decoding.StackAutomaton.

Shapes: G counters; the last counter of a state, G - 1, is the height of the stack.
*/

#include "beam_search.h"

/* The list of allowed tokens for each of R states. */
void s2s_allowed_lists(const Automaton *a, int64_t R, int64_t *list) {
    const int64_t *state = a->state;
    for (int64_t r = 0; r < R; r++, state += a->width) {
        int64_t code = 0, height = a->width > a->G ? state[a->G - 1] : 0;
        for (int64_t g = 0; g < a->G; g++) code |= (int64_t)(state[g] > 0) << g;
        list[r] = a->allowed[((height ? state[a->G - 1 + height] : 0) << a->G) + code];
    }
}

/* The states of K hypotheses of each of B sentences become those of `beam`, which extend `parent` by `token`. They are
written to `spare`, which then changes places with the old ones. */
void s2s_advance_states(Automaton *a, int64_t B, int64_t K, int64_t beam, const int64_t *parent, const int64_t *token,
                        int64_t **spare) {
    int64_t G = a->G, *after = *spare;
    for (int64_t r = 0; r < B * beam; r++, after += a->width) {
        const int64_t *before = a->state + (r / beam * K + parent[r]) * a->width;
        const int64_t *keep = a->keep + token[r] * G, *add = a->add + token[r] * G;
        memcpy(after, before, a->width * sizeof(int64_t));
        if (a->width > G) after[G + before[G - 1]] = a->label[token[r]];
        for (int64_t g = 0; g < G; g++) {
            int64_t x = before[g] * keep[g] + add[g], min = a->bounds[g], max = a->bounds[G + g];
            after[g] = x < min ? min : x > max ? max : x;
        }
    }
    after = *spare, *spare = a->state, a->state = after;
}
