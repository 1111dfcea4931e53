/* Powers of two, and with them the logarithm of a sum of exponentials. */

#ifndef S2S_LOG_SUM_EXP_H
#define S2S_LOG_SUM_EXP_H

#include "vectors.h"

/* 2^x of x <= 0; 0 far below, NaN for NaN; accurate to 1e-7. The minimax polynomial of degree 5 in the difference
between x and the nearest integer. */
static inline vf power_of_two(vf x) {
    const vf low = splat(-126.0f), shift = splat(12582912.0f + 127); /* 1.5 * 2^23: the last bits hold the integer */
    x = larger(low, x);
    vf whole = x + shift, f = x - (whole - shift), p = splat(1.3276471990e-3f);
    p = p * f + splat(9.6755413344e-3f);
    p = p * f + splat(5.5507132735e-2f);
    p = p * f + splat(2.4022119724e-1f);
    p = p * f + splat(6.9314696706e-1f);
    p = p * f + splat(1.0000000717f);
    return p * (vf)((vi)whole << 23);
}

/* log(sum(exp(x))) of V numbers, the largest of which is max; not finite if that or the sum is not. */
static inline float log_sum_exp(const float *x, int64_t V, float max) {
    const float log2e = 1.44269504f;
    vf sums[4] = {splat(0), splat(0), splat(0), splat(0)};
    int64_t i = 0;
    for (; i + 4 * W <= V; i += 4 * W)
        for (int j = 0; j < 4; j++)
            sums[j] += power_of_two((load(x + i + j * W) - splat(max)) * splat(log2e));
    float s = sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < V; i++) s += expf(x[i] - max);
    return max + logf(s);
}

#endif
