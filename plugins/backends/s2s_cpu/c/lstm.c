/* All steps of an LSTM layer for one thread, and their gradient. A sentence's result has the same bits whatever the
others are. T steps, B sentences, which are rows of steps of `stride` sentences; H, the width, is a multiple of the
floats in a vector. `bits` is 16 for values in bf16 and 32 for floats. The gates are stored one after the other: input,
forget, cell, output. */

#include "bf16.h"
#include "decoder.h"
#include "panels.h"

/* One step: part of `bits` bits and product [B, 4 H], cell state `before` it [B, H] -> cell state c and output h
[B, H], and the gates [B, 4 H] themselves, unless null. */
INLINE void step(const void *part, const int64_t bits, const float *product, int64_t B, int64_t H, const float *before,
                 float *gates, float *c, float *h) {
    for (int64_t b = 0; b < B; b++)
        for (int64_t j = 0; j < H; j += W) {
            int64_t at = b * H + j, gate = 4 * b * H + j;
            vf x[4];
            for (int k = 0; k < 4; k++) x[k] = load_from(part, gate + k * H, bits) + load(product + gate + k * H);
            vf i = sigmoid(x[0]), f = sigmoid(x[1]), g = hyperbolic_tangent(x[2]), o = sigmoid(x[3]);
            vf cell = f * load(before + at) + i * g;
            *(vf *)(c + at) = cell;
            *(vf *)(h + at) = o * hyperbolic_tangent(cell);
            if (!gates) continue;
            *(vf *)(gates + gate) = i, *(vf *)(gates + gate + H) = f;
            *(vf *)(gates + gate + 2 * H) = g, *(vf *)(gates + gate + 3 * H) = o;
        }
}

/* The same in floats, and without the gates. */
void s2s_lstm_gates(const float *part, const float *product, int64_t B, int64_t H, const float *before, float *c,
                    float *h) {
    step(part, 32, product, B, H, before, 0, c, h);
}

/* parts [T, B, 4 H], recurrent weights [4 H, H], initial output h and cell state c [B, H] -> cell states and outputs
[T, B, H], and the gates [T, B, 4 H] unless null. */
int64_t s2s_lstm(const Linear *weight, const void *parts, int64_t bits, int64_t T, int64_t B, int64_t stride, int64_t H,
                 const float *h, const float *c, float *gates, float *cells, float *outputs) {
    float *product = allocate(4 * B * H * sizeof(float));
    int64_t failure = product ? OK : NO_MEMORY;
    for (int64_t t = 0; t < T && !failure; t++) {
        const int64_t at = t * stride * H;
        const char *part = (const char *)parts + 4 * at * bits / 8;
        failure = s2s_linear(weight, h, B, product);
        if (bits == 16)
            step(part, 16, product, B, H, c, gates ? gates + 4 * at : 0, cells + at, outputs + at);
        else
            step(part, 32, product, B, H, c, gates ? gates + 4 * at : 0, cells + at, outputs + at);
        h = outputs + at, c = cells + at;
    }
    free(product);
    return failure;
}

/* The gradient d_gates [B, 4 H] of a step's part and product. d_output, d_cell [B, H] are the gradients of its output
and cell state (null: none), d_h and d_c those that come to them from the next step. d_c is overwritten by the gradient
of the cell state before this step. */
static void step_backward(const float *d_output, const float *d_cell, const float *d_h, int64_t B, int64_t H,
                          const float *gates, const float *before, const float *c, float *d_c, float *d_gates) {
    for (int64_t b = 0; b < B; b++)
        for (int64_t j = 0; j < H; j += W) {
            int64_t at = b * H + j, gate = 4 * b * H + j;
            vf i = load(gates + gate), f = load(gates + gate + H), g = load(gates + gate + 2 * H);
            vf o = load(gates + gate + 3 * H), one = splat(1), t = hyperbolic_tangent(load(c + at));
            vf dh = load(d_h + at), dc = load(d_c + at);
            if (d_output) dh += load(d_output + at);
            if (d_cell) dc += load(d_cell + at);
            dc += dh * o * (one - t * t);
            *(vf *)(d_c + at) = dc * f;
            *(vf *)(d_gates + gate) = dc * g * i * (one - i);
            *(vf *)(d_gates + gate + H) = dc * load(before + at) * f * (one - f);
            *(vf *)(d_gates + gate + 2 * H) = dc * i * (one - g * g);
            *(vf *)(d_gates + gate + 3 * H) = dh * t * o * (one - o);
        }
}

/* The gradients d_parts [T, B, 4 H] of `bits` bits, and those of the initial output and cell state, d_h, d_c [B, H],
which are 0 before. d_outputs, d_cells [T, B, H]: those of outputs and cell states (null: none); weight: the recurrent
weights transposed, [H, 4 H]; c: the initial cell state. */
int64_t s2s_lstm_backward(const Linear *weight, const float *d_outputs, const float *d_cells, int64_t bits, int64_t T,
                          int64_t B, int64_t stride, int64_t H, const float *gates, const float *c, const float *cells,
                          float *d_h, float *d_c, void *d_parts) {
    float *d_gates = allocate(4 * B * H * sizeof(float));
    int64_t failure = d_gates ? OK : NO_MEMORY;
    for (int64_t t = T - 1; t >= 0 && !failure; t--) {
        const int64_t at = t * stride * H;
        const float *before = t ? cells + at - stride * H : c;
        const float *d_output = d_outputs ? d_outputs + at : 0, *d_cell = d_cells ? d_cells + at : 0;
        step_backward(d_output, d_cell, d_h, B, H, gates + 4 * at, before, cells + at, d_c, d_gates);
        if (bits == 16)
            narrow(d_gates, 4 * B * H, (uint16_t *)d_parts + 4 * at);
        else
            memcpy((float *)d_parts + 4 * at, d_gates, 4 * B * H * sizeof(float));
        failure = s2s_linear(weight, d_gates, B, d_h);
    }
    free(d_gates);
    return failure;
}
