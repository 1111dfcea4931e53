/* A step of an LSTM layer for one thread, and its gradient: all but the matrix products. A sentence's result has the
same bits whatever the others are. H is a multiple of the floats in a vector. `bits` is 16 for values in bf16 and 32 for
floats. The gates are stored one after the other: input, forget, cell, output. */

#include "bf16.h"
#include "decoder.h"
#include "panels.h"

static inline vf magnitude(vf x) { return (vf)((vi)x & 0x7fffffff); }

static inline vf sigmoid(vf x) {
    vf e = exponential(-magnitude(x));
    return choose(x < splat(0), e, splat(1)) / (splat(1) + e);
}

static inline vf hyperbolic_tangent(vf x) { /* absolute error 1e-7, not relative */
    vf e = exponential(magnitude(x) * splat(-2)), y = (splat(1) - e) / (splat(1) + e);
    return (vf)((vi)y | ((vi)x & (int32_t)0x80000000));
}

INLINE void step(const void *part, const void *product, const int64_t bits, int64_t B, int64_t H, const float *before,
                 float *gates, float *c, float *h, void *narrow_h) {
    for (int64_t b = 0; b < B; b++)
        for (int64_t j = 0; j < H; j += W) {
            int64_t at = b * H + j, gate = 4 * b * H + j;
            vf x[4];
            for (int k = 0; k < 4; k++)
                x[k] = load_from(part, gate + k * H, bits) + load_from(product, gate + k * H, bits);
            vf i = sigmoid(x[0]), f = sigmoid(x[1]), g = hyperbolic_tangent(x[2]), o = sigmoid(x[3]);
            vf memory = f * load(before + at) + i * g, out = o * hyperbolic_tangent(memory);
            *(vf *)(c + at) = memory;
            *(vf *)(h + at) = out;
            if (bits == 16) store_to(narrow_h, at, 16, out);
            if (!gates) continue;
            *(vf *)(gates + gate) = i, *(vf *)(gates + gate + H) = f;
            *(vf *)(gates + gate + 2 * H) = g, *(vf *)(gates + gate + 3 * H) = o;
        }
}

/* part and product [B, 4 H], memory `before` the step [B, H] -> memory c and output h [B, H], a copy narrow_h of h in
bf16 if `bits` is 16, and the gates [B, 4 H] themselves, unless null. */
int64_t s2s_lstm_step(const void *part, const void *product, int64_t bits, int64_t B, int64_t H, const float *before,
                      float *gates, float *c, float *h, void *narrow_h) {
    if (bits == 16)
        step(part, product, 16, B, H, before, gates, c, h, narrow_h);
    else
        step(part, product, 32, B, H, before, gates, c, h, narrow_h);
    return OK;
}

INLINE void step_backward(const float *dh, const float *dc, const void *dh_next, const int64_t bits, int64_t B,
                          int64_t H, const float *gates, const float *before, const float *c, float *dc_next,
                          void *d_gates) {
    for (int64_t b = 0; b < B; b++)
        for (int64_t j = 0; j < H; j += W) {
            int64_t at = b * H + j, gate = 4 * b * H + j;
            vf i = load(gates + gate), f = load(gates + gate + H), g = load(gates + gate + 2 * H);
            vf o = load(gates + gate + 3 * H), one = splat(1), t = hyperbolic_tangent(load(c + at));
            vf of_h = load_from(dh_next, at, bits), of_c = load(dc_next + at);
            if (dh) of_h += load(dh + at);
            if (dc) of_c += load(dc + at);
            of_c += of_h * o * (one - t * t);
            *(vf *)(dc_next + at) = of_c * f;
            store_to(d_gates, gate, bits, of_c * g * i * (one - i));
            store_to(d_gates, gate + H, bits, of_c * load(before + at) * f * (one - f));
            store_to(d_gates, gate + 2 * H, bits, of_c * i * (one - g * g));
            store_to(d_gates, gate + 3 * H, bits, of_h * t * o * (one - o));
        }
}

/* The gradient d_gates [B, 4 H] of part and product. dh, dc [B, H] are the gradients of this step's output and memory
(null: none), and `dh_next` and `dc_next` those that come to them from the next step. `dc_next` is overwritten by the
gradient of the memory before this step. */
int64_t s2s_lstm_step_backward(const float *dh, const float *dc, const void *dh_next, int64_t bits, int64_t B,
                               int64_t H, const float *gates, const float *before, const float *c, float *dc_next,
                               void *d_gates) {
    if (bits == 16)
        step_backward(dh, dc, dh_next, 16, B, H, gates, before, c, dc_next, d_gates);
    else
        step_backward(dh, dc, dh_next, 32, B, H, gates, before, c, dc_next, d_gates);
    return OK;
}
