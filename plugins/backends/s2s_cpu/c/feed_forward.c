/* The feed-forward sub-layer, its activations, and a recurrent unit in place of self-attention, for one thread. A row's
result has the same bits whatever the other rows are. R rows, D width.
*/

#include "decoder.h"
#include "panels.h"

/* Of negative x, phi(x) = exp(-x^2 / 2) p(t) / 2, where t = 1 / (1 - 0.3275911 x / sqrt(2)): Abramowitz and Stegun
(1964), 7.1.26, accurate to 1e-7. */
INLINE vf normal_distribution(vf x) {
    const vf distance = magnitude(x) * splat(0.70710678f), t = splat(1) / (splat(1) + splat(0.3275911f) * distance);
    vf p = splat(1.061405429f);
    p = p * t + splat(-1.453152027f);
    p = p * t + splat(1.421413741f);
    p = p * t + splat(-0.284496736f);
    p = p * t + splat(0.254829592f);
    p = splat(0.5f) * p * t * exponential(-distance * distance);
    return choose(x > splat(0), splat(1) - p, p);
}

INLINE vf relu(vf x) { return larger(splat(0), x); }
INLINE vf silu(vf x) { return x * sigmoid(x); }
INLINE vf gelu(vf x) { return x * normal_distribution(x); }
INLINE vf gelu_tanh(vf x) { return x * sigmoid(splat(1.5957691216f) * (x + splat(0.044715f) * x * x * x)); }

/* x = f(x), times the gate unless it is null. */
INLINE void each(vf (*f)(vf), const float *gate, int64_t n, float *x) {
    for (int64_t i = 0; i < n; i += W) {
        vf y = f(load_part(x + i, n - i));
        if (gate) y *= load_part(gate + i, n - i);
        store_part(y, n - i, x + i);
    }
}

static void activate(int64_t which, const float *gate, int64_t n, float *x) {
    switch (which) {
    case RELU: each(relu, gate, n, x); break;
    case GELU: each(gelu, gate, n, x); break;
    case GELU_TANH: each(gelu_tanh, gate, n, x); break;
    case SILU: each(silu, gate, n, x); break;
    }
}

/* Floats of scratch for each row. */
int64_t s2s_feed_forward_width(const FeedForward *f) { return f->inner.O * (f->gate.weight ? 2 : 1); }

int64_t s2s_feed_forward(const FeedForward *f, int64_t activation, const float *x, int64_t R, float *scratch,
                         float *out) {
    const int64_t n = R * f->inner.O;
    float *gate = f->gate.weight ? scratch + n : 0;
    if (s2s_linear(&f->inner, x, R, scratch)) return NO_MEMORY;
    if (gate && s2s_linear(&f->gate, x, R, gate)) return NO_MEMORY;
    activate(activation, gate, n, scratch);
    return s2s_linear(&f->outer, scratch, R, out);
}

/* c = f * before + (1 - f) * new, where f = sigmoid(forget), and out = max(0, c): [D] each; before null: 0. */
INLINE void recur(const float *forget, const float *new, const float *before, int64_t D, float *c, float *out) {
    for (int64_t i = 0; i < D; i += W) {
        const vf f = sigmoid(load_part(forget + i, D - i));
        vf now = (splat(1) - f) * load_part(new + i, D - i);
        if (before) now += f * load_part(before + i, D - i);
        store_part(now, D - i, c + i);
        store_part(relu(now), D - i, out + i);
    }
}

/* The simpler simple recurrent unit (Kim et al., 2019): c is written to the nodes in which the paths end, and read from
those before them. Uses `scratch` [2, R, D]. */
int64_t s2s_recurrent_unit(const void *of, const void *given, const float *x, float *scratch, float *out) {
    const Layer *layer = of;
    const Step *s = given;
    const int64_t D = layer->node_width, R = s->B * s->K;
    const float *forget = scratch, *new = scratch + R * D;
    if (s2s_linear(&layer->forget, x, R, scratch)) return NO_MEMORY;
    if (s2s_linear(&layer->new, x, R, scratch + R * D)) return NO_MEMORY;
    for (int64_t r = 0; r < R; r++) {
        float *nodes = layer->nodes + r / s->K * s->N * D;
        const int64_t *last = s->path + r * s->L + s->length[r / s->K] - 1;
        const float *before = s->length[r / s->K] > 1 ? nodes + last[-1] * D : 0;
        recur(forget + r * D, new + r * D, before, D, nodes + last[0] * D, out + r * D);
    }
    return OK;
}
