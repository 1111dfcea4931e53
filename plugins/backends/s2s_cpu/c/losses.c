/* Losses of logits and their gradients, computed while a row is in the cache. V is the vocabulary. */

#include "bf16.h"
#include "decoder.h"
#include "panels.h"

/* The bits of a number in bf16 as an integer, in the order of the numbers: those of a negative number but its sign are
inverted. Applied twice, it gives the bits again. */
#define ORDERED(bits) ((bits) ^ ((bits) >> 15 & 0x7fff))

/* The largest logit x [V] in bf16, compared as integers, of which a vector holds twice as many. */
static float maximum_in_16_bits(const uint16_t *x, int64_t V) {
    typedef int16_t vw __attribute__((vector_size(4 * W), aligned(2)));
    enum { N = 2 * W };
    int16_t lanes[N], max = INT16_MIN;
    vw m = max - (vw){0};
    int64_t i = 0;
    for (; i + N <= V; i += N) {
        const vw bits = *(const vw *)(x + i), ordered = ORDERED(bits), more = ordered > m;
        m = (ordered & more) | (m & ~more);
    }
    memcpy(lanes, &m, sizeof lanes);
    for (int64_t k = 0; k < N; k++) max = lanes[k] > max ? lanes[k] : max;
    for (; i < V; i++) {
        const int16_t bits = x[i], ordered = ORDERED(bits);
        max = ordered > max ? ordered : max;
    }
    return widened(ORDERED(max));
}

/* The softmax of a row: the largest logit (max), exps [V] = exp(x - max), their sum and its log. */
typedef struct {
    float *x; /* the logits as floats, only for functions of two rows */
    float *exps, max, total, lse;
} Softmax;

static inline float value_of(const void *x, int64_t i, int64_t bits) {
    return bits == 16 ? widened(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

/* Computes all from logits x [V] of `bits` bits, which may be the same row as exps; returns the sum of x - max. */
INLINE float softmax(Softmax *s, const void *x, const int64_t bits, int64_t V) {
    float max = s->max = bits == 16 ? maximum_in_16_bits(x, V) : largest_of(x, V);
    vf exps = splat(0), all = splat(0), shift = splat(max);
    int64_t i = 0;
    for (; i + W <= V; i += W) {
        vf shifted = load_from(x, i, bits) - shift, e = exponential(shifted);
        *(vf *)(s->exps + i) = e;
        exps += e;
        all += shifted;
    }
    float total = sum(exps), shifted = sum(all);
    for (; i < V; i++) {
        const float less = value_of(x, i, bits) - max;
        shifted += less;
        total += s->exps[i] = expf(less);
    }
    s->total = total;
    s->lse = logf(total);
    return shifted;
}

/* Stores W values of a gradient from the i-th on; in bf16 subnormal ones may become 0. */
static inline void store_gradient(void *out, int64_t i, int64_t bits, vf x) {
#ifdef BF16_VECTORS
    if (bits == 16) {
        _mm256_storeu_si256((__m256i *)((uint16_t *)out + i), (__m256i)_mm512_cvtneps_pbh((__m512)x));
        return;
    }
#endif
    store_to(out, i, bits, x);
}

/* Replaces logits x by the gradient of the loss -on_target log p[y] - on_each sum(log p); stores it and -log p[y].
exps: V floats; of logits in floats, x itself. */
INLINE void label_smoothing(void *x, const int64_t bits, int64_t V, int64_t y, float on_target, float on_each,
                            float *exps, float *loss, float *nll) {
    const float of_target = value_of(x, y, bits);
    Softmax s = {.exps = exps};
    const float shifted = softmax(&s, x, bits, V), at_target = s.exps[y] / s.total - on_each - on_target;
    *nll = s.lse - (of_target - s.max);
    *loss = on_target * *nll - on_each * (shifted - V * s.lse);
    const vf scale = splat(1 / s.total), each = splat(on_each);
    int64_t i = 0;
    for (; i + W <= V; i += W) store_gradient(x, i, bits, load(exps + i) * scale - each);
    for (; i < V; i++) {
        const float d = exps[i] / s.total - on_each;
        if (bits == 16)
            ((uint16_t *)x)[i] = narrowed(d);
        else
            ((float *)x)[i] = d;
    }
    if (bits == 16)
        ((uint16_t *)x)[y] = narrowed(at_target);
    else
        ((float *)x)[y] = at_target;
}

/* Replaces each row of logits x [R, V], in floats or in bf16, with target [R], by its gradient, and stores the sums
[R]; all are 0 for a row that does not count [R]. scratch: V floats. */
int64_t s2s_label_smoothing(void *x, int64_t bits, int64_t R, int64_t V, const int64_t *target,
                            const uint8_t *counts, float on_target, float on_each, float *scratch, float *loss,
                            float *nll) {
    for (int64_t r = 0; r < R; r++) {
        void *row = (char *)x + r * V * (bits / 8);
        if (!counts[r]) {
            loss[r] = nll[r] = 0;
            memset(row, 0, V * bits / 8);
        } else if (bits == 16) {
            label_smoothing(row, 16, V, target[r], on_target, on_each, scratch, loss + r, nll + r);
        } else {
            label_smoothing(row, 32, V, target[r], on_target, on_each, row, loss + r, nll + r);
        }
    }
    return OK;
}

/* The difference of the logits minus log p / q. */
static float log_ratio_offset(const Softmax *p, const Softmax *q) { return (p->max - q->max) + (p->lse - q->lse); }

/* KL(p || q) and KL(q || p); replaces exps by probabilities. */
static void divergences(const Softmax *p, const Softmax *q, int64_t V, float *kl) {
    float less = log_ratio_offset(p, q), kl_p = 0, kl_q = 0;
    vf shift = splat(less), p_scale = splat(1 / p->total), q_scale = splat(1 / q->total);
    vf of_p = splat(0), of_q = splat(0);
    int64_t i = 0;
    for (; i + W <= V; i += W) {
        vf ratio = load(p->x + i) - load(q->x + i) - shift;
        vf a = load(p->exps + i) * p_scale, b = load(q->exps + i) * q_scale;
        *(vf *)(p->exps + i) = a;
        *(vf *)(q->exps + i) = b;
        of_p += a * ratio;
        of_q -= b * ratio;
    }
    for (; i < V; i++) {
        float ratio = p->x[i] - q->x[i] - less;
        p->exps[i] /= p->total, q->exps[i] /= q->total;
        kl_p += p->exps[i] * ratio, kl_q -= q->exps[i] * ratio;
    }
    kl[0] = kl_p + sum(of_p), kl[1] = kl_q + sum(of_q);
}

/* Their weights in the loss: cross-entropies of p and q, KL(p || q), KL(q || p). */
typedef struct {
    float ce[2], kl[2];
} Weights;

/* The gradient for p's logits: ce (p - smoothed label) + to p (log p / q - KL(p || q)) + from (p - q). */
static vf consistency_gradient(vf p, vf q, vf ratio, float ce, float on_each, float to, float kl, float from) {
    return splat(ce) * (p - splat(on_each)) + splat(to) * p * (ratio - splat(kl)) + splat(from) * (p - q);
}

static void consistency_gradients(Softmax *p, Softmax *q, int64_t V, int64_t y, float on_each, float on_target,
                                  const Weights *w, const float *kl) {
    vf less = splat(log_ratio_offset(p, q));
    for (int64_t i = 0; i < V; i += W) {
        float rest[4][W] = {0};
        int64_t n = V - i < W ? V - i : W;
        float *at[4] = {p->x + i, q->x + i, p->exps + i, q->exps + i};
        if (n < W)
            for (int k = 0; k < 4; k++) at[k] = memcpy(rest[k], at[k], n * sizeof(float));
        vf ratio = load(at[0]) - load(at[1]) - less, a = load(at[2]), b = load(at[3]);
        *(vf *)at[0] = consistency_gradient(a, b, ratio, w->ce[0], on_each, w->kl[0], kl[0], w->kl[1]);
        *(vf *)at[1] = consistency_gradient(b, a, -ratio, w->ce[1], on_each, w->kl[1], kl[1], w->kl[0]);
        if (n < W) memcpy(p->x + i, at[0], n * sizeof(float)), memcpy(q->x + i, at[1], n * sizeof(float));
    }
    p->x[y] -= w->ce[0] * on_target;
    q->x[y] -= w->ce[1] * on_target;
}

/* Replaces each pair of rows of logits x [R, 2, V], in floats or in bf16, with one target [R], by its gradient, and
stores the loss [R], which is the weighted sum, and -log p[target] [R, 2] and divergences [R, 2]; all are 0 for a pair
that does not count [R]. scratch: 4 V floats. */
int64_t s2s_consistency(void *x, int64_t bits, int64_t R, int64_t V, const int64_t *target, const uint8_t *counts,
                        float on_target, float on_each, const float *weights, float *scratch, float *loss, float *nll,
                        float *kl) {
    const Weights *w = (const Weights *)weights;
    for (int64_t r = 0; r < R; r++) {
        uint16_t *narrow_rows = (uint16_t *)x + 2 * r * V;
        float *rows = bits == 16 ? scratch + 2 * V : (float *)x + 2 * r * V;
        loss[r] = nll[2 * r] = nll[2 * r + 1] = kl[2 * r] = kl[2 * r + 1] = 0;
        if (!counts[r]) {
            memset(bits == 16 ? (void *)narrow_rows : rows, 0, 2 * V * bits / 8);
            continue;
        }
        if (bits == 16) widen(narrow_rows, 2 * V, rows);
        Softmax of[2] = {{.x = rows, .exps = scratch}, {.x = rows + V, .exps = scratch + V}};
        for (int k = 0; k < 2; k++) {
            float shifted = softmax(of + k, of[k].x, 32, V), own = of[k].lse - (of[k].x[target[r]] - of[k].max);
            nll[2 * r + k] = own;
            loss[r] += w->ce[k] * (on_target * own - on_each * (shifted - V * of[k].lse));
        }
        divergences(of, of + 1, V, kl + 2 * r);
        for (int k = 0; k < 2; k++) loss[r] += w->kl[k] * kl[2 * r + k];
        consistency_gradients(of, of + 1, V, target[r], on_each, on_target, w, kl + 2 * r);
        if (bits == 16) narrow(rows, 2 * V, narrow_rows);
    }
    return OK;
}
