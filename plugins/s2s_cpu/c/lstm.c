/* All steps of an LSTM layer for one thread, and their gradient. A sentence's result has the same bits whatever the
others are. T steps, B sentences, which are rows of steps of `stride` sentences; H, the width, is a multiple of the
floats in a vector. `bits` is 16 for values in bf16 and 32 for floats. The gates are stored one after the other: input,
forget, cell, output. */

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

/* One step: part of `bits` bits and product [B, 4 H], memory `before` it [B, H] -> memory c and output h [B, H], and the
gates [B, 4 H] themselves, unless null. */
INLINE void step(const void *part, const int64_t bits, const float *product, int64_t B, int64_t H, const float *before,
                 float *gates, float *c, float *h) {
    for (int64_t b = 0; b < B; b++)
        for (int64_t j = 0; j < H; j += W) {
            int64_t at = b * H + j, gate = 4 * b * H + j;
            vf x[4];
            for (int k = 0; k < 4; k++) x[k] = load_from(part, gate + k * H, bits) + load(product + gate + k * H);
            vf i = sigmoid(x[0]), f = sigmoid(x[1]), g = hyperbolic_tangent(x[2]), o = sigmoid(x[3]);
            vf memory = f * load(before + at) + i * g;
            *(vf *)(c + at) = memory;
            *(vf *)(h + at) = o * hyperbolic_tangent(memory);
            if (!gates) continue;
            *(vf *)(gates + gate) = i, *(vf *)(gates + gate + H) = f;
            *(vf *)(gates + gate + 2 * H) = g, *(vf *)(gates + gate + 3 * H) = o;
        }
}

/* parts [T, B, 4 H], recurrent weights [4 H, H], first output h and memory c [B, H] -> memories and outputs [T, B, H],
and the gates [T, B, 4 H] unless null. */
int64_t s2s_lstm(const Linear *weight, const void *parts, int64_t bits, int64_t T, int64_t B, int64_t stride, int64_t H,
                 const float *h, const float *c, float *gates, float *memories, float *outputs) {
    float *product = allocate(4 * B * H * sizeof(float));
    int64_t failure = product ? OK : NO_MEMORY;
    for (int64_t t = 0; t < T && !failure; t++) {
        const int64_t at = t * stride * H;
        const char *part = (const char *)parts + 4 * at * bits / 8;
        failure = s2s_linear(weight, h, B, product);
        if (bits == 16)
            step(part, 16, product, B, H, c, gates ? gates + 4 * at : 0, memories + at, outputs + at);
        else
            step(part, 32, product, B, H, c, gates ? gates + 4 * at : 0, memories + at, outputs + at);
        h = outputs + at, c = memories + at;
    }
    free(product);
    return failure;
}

/* The gradient d_gates [B, 4 H] of a step's part and product. dh, dc [B, H] are the gradients of its output and memory
(null: none), dh_next and dc_next those that come to them from the next step. dc_next is overwritten by the gradient of
the memory before this step. */
static void step_backward(const float *dh, const float *dc, const float *dh_next, int64_t B, int64_t H,
                          const float *gates, const float *before, const float *c, float *dc_next, float *d_gates) {
    for (int64_t b = 0; b < B; b++)
        for (int64_t j = 0; j < H; j += W) {
            int64_t at = b * H + j, gate = 4 * b * H + j;
            vf i = load(gates + gate), f = load(gates + gate + H), g = load(gates + gate + 2 * H);
            vf o = load(gates + gate + 3 * H), one = splat(1), t = hyperbolic_tangent(load(c + at));
            vf of_h = load(dh_next + at), of_c = load(dc_next + at);
            if (dh) of_h += load(dh + at);
            if (dc) of_c += load(dc + at);
            of_c += of_h * o * (one - t * t);
            *(vf *)(dc_next + at) = of_c * f;
            *(vf *)(d_gates + gate) = of_c * g * i * (one - i);
            *(vf *)(d_gates + gate + H) = of_c * load(before + at) * f * (one - f);
            *(vf *)(d_gates + gate + 2 * H) = of_c * i * (one - g * g);
            *(vf *)(d_gates + gate + 3 * H) = of_h * t * o * (one - o);
        }
}

/* The gradients d_parts [T, B, 4 H] of `bits` bits, and d_h, d_c [B, H], which are 0 before. dh, dc [T, B, H]: those of
outputs and memories (null: none); weight: the recurrent weights transposed, [H, 4 H]; c: the first memory. */
int64_t s2s_lstm_backward(const Linear *weight, const float *dh, const float *dc, int64_t bits, int64_t T, int64_t B,
                          int64_t stride, int64_t H, const float *gates, const float *c, const float *memories,
                          float *d_h, float *d_c, void *d_parts) {
    float *d_gates = allocate(4 * B * H * sizeof(float));
    int64_t failure = d_gates ? OK : NO_MEMORY;
    for (int64_t t = T - 1; t >= 0 && !failure; t--) {
        const int64_t at = t * stride * H;
        const float *before = t ? memories + at - stride * H : c;
        step_backward(dh ? dh + at : 0, dc ? dc + at : 0, d_h, B, H, gates + 4 * at, before, memories + at, d_c, d_gates);
        if (bits == 16)
            narrow(d_gates, 4 * B * H, (uint16_t *)d_parts + 4 * at);
        else
            memcpy((float *)d_parts + 4 * at, d_gates, 4 * B * H * sizeof(float));
        failure = s2s_linear(weight, d_gates, B, d_h);
    }
    free(d_gates);
    return failure;
}
