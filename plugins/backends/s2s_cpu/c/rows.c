/* Operations on rows of floats, for one thread. A row's result has the same bits whatever the other rows are. */

#include "decoder.h"

static float mean_of(const float *x, int64_t D) {
    vf s = splat(0);
    int64_t i = 0;
    for (; i + W <= D; i += W) s += load(x + i);
    float total = sum(s);
    for (; i < D; i++) total += x[i];
    return total / D;
}

/* Layer normalisation of rows x [R, D], or by the root mean square if the norm has no bias; out may be x. */
int64_t s2s_norm(const float *x, int64_t R, int64_t D, const Norm *norm, float *out) {
    const float *weight = norm->weight, *bias = norm->bias;
    for (int64_t r = 0; r < R; r++, x += D, out += D) {
        float mean = bias ? mean_of(x, D) : 0, square;
        vf squares = splat(0);
        int64_t i = 0;
        for (; i + W <= D; i += W) squares += (load(x + i) - splat(mean)) * (load(x + i) - splat(mean));
        for (square = sum(squares); i < D; i++) square += (x[i] - mean) * (x[i] - mean);
        float factor = 1 / sqrtf(square / D + (float)norm->eps);
        if (bias)
            for (i = 0; i < D; i++) out[i] = (x[i] - mean) * factor * weight[i] + bias[i];
        else
            for (i = 0; i < D; i++) out[i] = x[i] * factor * weight[i];
    }
    return OK;
}

/* The same for x + y. */
int64_t s2s_add_norm(const float *x, const float *y, int64_t R, int64_t D, const Norm *norm, float *out) {
    for (int64_t r = 0; r < R; r++, x += D, y += D, out += D) {
        for (int64_t i = 0; i < D; i++) out[i] = x[i] + y[i];
        s2s_norm(out, 1, D, norm, out);
    }
    return OK;
}

/* Rows x [R, I] as unsigned 8-bit integers around `zero`, `stride` bytes apart, and their scales [R]; the scale of a row
with NaN or infinity is NaN. */
int64_t s2s_quantize_rows(const float *x, int64_t R, int64_t I, int64_t stride, int64_t zero, uint8_t *out,
                          float *scale) {
    for (int64_t r = 0; r < R; r++, x += I, out += stride) {
        vf largest_each = splat(1e-12f * 127), zeros = splat(0);
        int64_t i = 0;
        for (; i + W <= I; i += W) {
            vf y = (vf)((vi)load(x + i) & 0x7fffffff); /* its absolute value */
            largest_each = choose(y > largest_each, y, largest_each);
            zeros += y * splat(0);
        }
        float max = largest(largest_each), no_number = sum(zeros); /* 0, or NaN */
        for (; i < I; i++) max = fabsf(x[i]) > max ? fabsf(x[i]) : max, no_number += x[i] * 0;
        float factor = 127 / max;
        scale[r] = max / 127 + no_number;
        if (no_number != 0)
            memset(out, (int)zero, I);
        else
            for (i = 0; i < I; i++) out[i] = (uint8_t)(int32_t)(x[i] * factor + ((float)zero + 0.5f));
        memset(out + I, 0, stride - I);
    }
    return OK;
}

/* x [R, O] times scale [R] plus bias [O], in place. */
int64_t s2s_dequantize_rows(float *x, int64_t R, int64_t O, const float *scale, const float *bias) {
    for (int64_t r = 0; r < R; r++, x += O)
        for (int64_t i = 0; i < O; i++) x[i] = x[i] * scale[r] + bias[i];
    return OK;
}
