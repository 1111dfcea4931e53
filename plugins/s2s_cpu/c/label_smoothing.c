/* From logits to what label smoothing makes of them, while a row of them is in the cache. V is the vocabulary. */

#include "bf16.h"
#include "decoder.h"

static float maximum(const float *x, int64_t V) {
    vf m = splat(-INFINITY);
    int64_t i = 0;
    for (; i + W <= V; i += W) m = choose(load(x + i) > m, load(x + i), m);
    float most = largest(m);
    for (; i < V; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* A row's logits x to the gradient of -on_target log p[y] - on_each sum(log p), and to that sum and -log p[y]. */
static void smoothed(float *x, int64_t V, int64_t y, float on_target, float on_each, float *loss, float *nll) {
    float most = maximum(x, V), of_target = x[y] - most;
    vf exps = splat(0), all = splat(0), shift = splat(most);
    int64_t i = 0;
    for (; i + W <= V; i += W) {
        vf shifted = load(x + i) - shift, e = exponential(shifted);
        *(vf *)(x + i) = e;
        exps += e;
        all += shifted;
    }
    float total = sum(exps), shifted = sum(all);
    for (; i < V; i++) {
        shifted += x[i] - most;
        total += x[i] = expf(x[i] - most);
    }
    float lse = logf(total);
    *nll = lse - of_target;
    *loss = on_target * *nll - on_each * (shifted - V * lse);
    vf scale = splat(1 / total), each = splat(on_each);
    for (i = 0; i + W <= V; i += W) *(vf *)(x + i) = load(x + i) * scale - each;
    for (; i < V; i++) x[i] = x[i] / total - on_each;
    x[y] -= on_target;
}

/* Each row of logits x [R, V], in floats or in bf16, with target [R]: the gradient in the logits' place, and the sums
[R]; all 0 where it does not count [R]. scratch: V floats. */
int64_t s2s_label_smoothing(void *x, int64_t is_bf16, int64_t R, int64_t V, const int64_t *target,
                            const uint8_t *counts, float on_target, float on_each, float *scratch, float *loss,
                            float *nll) {
    for (int64_t r = 0; r < R; r++) {
        uint16_t *narrow_row = (uint16_t *)x + r * V;
        float *row = is_bf16 ? scratch : (float *)x + r * V;
        if (!counts[r]) {
            loss[r] = nll[r] = 0;
            memset(is_bf16 ? (void *)narrow_row : row, 0, V * (is_bf16 ? 2 : 4));
            continue;
        }
        if (is_bf16) widen(narrow_row, V, row);
        smoothed(row, V, target[r], on_target, on_each, loss + r, nll + r);
        if (is_bf16) narrow(row, V, narrow_row);
    }
    return OK;
}
