/* The guide of a model: a stack of brackets over the source's words, and what a decoder reads at its items. See
s2s.Guide and s2s.nn.Guidance; states and items are those of s2s_parsing/stack_guide.py.

A state is four numbers and a stack, whose first slot stays empty. An item is one number, (left + 1) * n_labels + label;
0 is none. left: its first word, from 0. label: 0 none, 1 a word, above that brackets. Shapes: R rows, W words of a
source, P places, E width of what is read at a place: D for the decoder's input, and the rest for its output.
*/

#include "decoder.h"

/* words; open brackets; whether the last token finished an item; the last child of the innermost bracket */
enum { TAKEN, DEPTH, FINISHED, TOP, STACK };
enum { WORD = 1 }; /* a label */
enum { NOTHING, TAKES, OPENS, WRAPS, CLOSES };

/* Numbers of a state. */
int64_t s2s_guide_state_size(const Guidance *g) { return g ? STACK + g->depth + 2 : 0; }

/* E */
int64_t s2s_guidance_width(const Guidance *g) { return g ? g->maps.O / g->n_places : 0; }

/* The state after a token; brackets beyond `depth` are forgotten. */
static void advance_state(const Guidance *g, int64_t token, int64_t *state) {
    const int64_t effect = g->effect[token], next = (state[TAKEN] + 1) * g->n_labels;
    int64_t *stack = state + STACK, depth = state[DEPTH];
    switch (effect) {
    case NOTHING: return;
    case TAKES: state[TOP] = next + WORD, state[TAKEN]++; break;
    case OPENS: stack[depth + 1] = next + g->label[token], state[TOP] = 0, depth++; break;
    case WRAPS: stack[depth + 1] = state[TOP] / g->n_labels * g->n_labels + g->label[token], depth++; break;
    case CLOSES: state[TOP] = stack[depth], depth--; break;
    }
    state[FINISHED] = effect == TAKES || effect == CLOSES;
    state[DEPTH] = depth < 0 ? 0 : depth > g->depth ? g->depth : depth;
}

/* sum [E], of the words at the places and of the kinds of the items there */
static void read_state(const Guidance *g, const int64_t *state, const SourceMemory *source, float *sum) {
    const int64_t E = s2s_guidance_width(g), L = g->n_labels, *stack = state + STACK, depth = state[DEPTH];
    const int64_t items[] = {state[TOP], stack[depth], stack[depth ? depth - 1 : 0]};
    const int64_t rows[] = {state[TAKEN] + 1, state[TAKEN], items[0] / L, items[1] / L, items[2] / L};
    memset(sum, 0, E * sizeof(float));
    for (int64_t p = 0; p < g->n_places; p++) {
        const int64_t row = rows[p] > source->n_words ? 0 : rows[p];
        add(sum, 1, source->words + (row * g->n_places + p) * E, E);
    }
    if (!g->kinds) return;
    for (int i = 0; i < 3; i++) add(sum, 1, g->kinds + (i * L + items[i] % L) * E, E);
    add(sum, 1, g->kinds + (3 * L + state[FINISHED]) * E, E);
}

/* The states of the step become those after its tokens [R]; what is read there is added to x [R, D], and kept for
s2s_read_out. */
void s2s_guide(const Guidance *g, const Step *step, const int64_t *token, float *x) {
    const int64_t E = s2s_guidance_width(g), D = E - g->out.O, width = s2s_guide_state_size(g);
    int64_t *state = step->guide;
    float *sum = step->guide_vectors;
    for (const SourceMemory *one = step->sources; one < step->sources + step->n_sources; one++)
        for (int64_t k = 0; k < one->K; k++, token++, state += width, sum += E, x += D) {
            advance_state(g, *token, state);
            read_state(g, state, one, sum);
            add(x, 1, sum, D);
        }
}

/* The decoder's output x [R, O] becomes tanh(out(x) + what the guide adds). */
int64_t s2s_read_out(const Guidance *g, const Step *step, float *x) {
    const int64_t R = step->B * step->K, O = g->out.O, E = s2s_guidance_width(g);
    float *mapped = allocate(R * O * sizeof(float));
    if (!mapped || s2s_linear(&g->out, x, R, mapped)) return free(mapped), NO_MEMORY;
    for (int64_t r = 0; r < R; r++) {
        const float *from = mapped + r * O, *beside = step->guide_vectors + (r + 1) * E - O;
        for (int64_t i = 0; i < O; i += W) {
            const vf sum = load_part(from + i, O - i) + load_part(beside + i, O - i);
            store_part(hyperbolic_tangent(sum), O - i, x + r * O + i);
        }
    }
    free(mapped);
    return OK;
}

/* What is read at each place: for no word, and for each of W words x [W, .] -> [1 + W, P, E] */
int64_t s2s_guide_words(const Guidance *g, const float *x, int64_t n_words, float *out) {
    memcpy(out, g->nothing, g->maps.O * sizeof(float));
    return s2s_linear(&g->maps, x, n_words, out + g->maps.O);
}
