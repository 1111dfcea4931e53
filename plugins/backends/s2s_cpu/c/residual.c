/* Dropout, the residual sum and its layer normalisation, in one pass over memory each way. A row's result has the same
bits whatever the other rows are.

Random numbers have 16 bits; a value is kept, times `scale`, where its number is at least `threshold`. Without random
numbers (null) all values are kept as they are. `bits` is 16 for values in bf16 and 32 for floats. */

#include "bf16.h"
#include "decoder.h"

typedef uint64_t vq __attribute__((vector_size(4 * W), aligned(8)));

static inline vq mixed(vq x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* The first n numbers of SplitMix64 (Steele et al., 2014). */
int64_t s2s_random_numbers(uint64_t seed, int64_t n, uint64_t *out) {
    enum { N = W / 2 };
    const uint64_t golden = 0x9e3779b97f4a7c15;
    vq x;
    for (int i = 0; i < N; i++) x[i] = seed + (i + 1) * golden;
    int64_t i = 0;
    for (; i + N <= n; i += N, x += N * golden) *(vq *)(out + i) = mixed(x);
    x = mixed(x);
    memcpy(out + i, &x, (n - i) * sizeof *out);
    return OK;
}

typedef int16_t vs __attribute__((vector_size(2 * W), aligned(2)));

/* The factors of W values from the i-th on. */
static inline vf factors(const int16_t *random, int64_t i, int64_t threshold, float scale) {
    if (!random) return splat(1);
    vi numbers = __builtin_convertvector(*(const vs *)(random + i), vi);
    return (vf)((numbers >= (int32_t)threshold) & (vi)splat(scale));
}

static inline __attribute__((always_inline)) void add_dropped(const float *x, const void *y, int64_t y_bits, int64_t n,
                                                              const int16_t *random, int64_t threshold, float scale,
                                                              void *out, int64_t out_bits) {
    for (int64_t i = 0; i + W <= n; i += W) {
        vf to = x ? load(x + i) : splat(-0.0f); /* the zero that changes no value; always a sum, rounded alike */
        store_to(out, i, out_bits, to + load_from(y, i, y_bits) * factors(random, i, threshold, scale));
    }
}

/* Dropout of n values y, added to x unless it is null. */
int64_t s2s_dropout(const float *x, const void *y, int64_t y_bits, int64_t n, const int16_t *random, int64_t threshold,
                    float scale, void *out, int64_t out_bits) {
    if (y_bits == 16 && out_bits == 16)
        add_dropped(x, y, 16, n, random, threshold, scale, out, 16);
    else if (y_bits == 16)
        add_dropped(x, y, 16, n, random, threshold, scale, out, 32);
    else if (out_bits == 16)
        add_dropped(x, y, 32, n, random, threshold, scale, out, 16);
    else
        add_dropped(x, y, 32, n, random, threshold, scale, out, 32);
    int64_t rest = n % W, done = n - rest, y_bytes = y_bits / 8, out_bytes = out_bits / 8;
    if (rest) { /* as a whole vector, since sums of single floats might round differently */
        float last_x[W] = {0}, last_y[W] = {0}, last_out[W];
        int16_t last_random[W] = {0};
        if (x) memcpy(last_x, x + done, rest * sizeof *x);
        memcpy(last_y, (const char *)y + done * y_bytes, rest * y_bytes);
        memcpy(last_random, random + done, rest * sizeof *random);
        s2s_dropout(x ? last_x : NULL, last_y, y_bits, W, last_random, threshold, scale, last_out, out_bits);
        memcpy((char *)out + done * out_bytes, last_out, rest * out_bytes);
    }
    return OK;
}

static inline __attribute__((always_inline)) void normalize_rows(const float *x, const void *y, int64_t bits, int64_t R,
                                                                 int64_t D, const int16_t *random, int64_t threshold,
                                                                 float scale, const float *weight, const float *bias,
                                                                 float eps, float *total, float *statistics,
                                                                 float *out) {
    for (int64_t r = 0; r < R; r++, x += D, total += D, out += D) {
        vf all = splat(0), squares = splat(0);
        for (int64_t i = 0; i < D; i += W) {
            vf z = load(x + i) + load_from(y, r * D + i, bits) * factors(random, r * D + i, threshold, scale);
            *(vf *)(total + i) = z;
            all += z;
        }
        float mean = sum(all) / D;
        for (int64_t i = 0; i < D; i += W) squares += (load(total + i) - splat(mean)) * (load(total + i) - splat(mean));
        float by = 1 / sqrtf(sum(squares) / D + eps);
        for (int64_t i = 0; i < D; i += W)
            *(vf *)(out + i) = (load(total + i) - splat(mean)) * splat(by) * load(weight + i) + load(bias + i);
        statistics[2 * r] = mean, statistics[2 * r + 1] = by;
    }
}

/* Rows x and y [R, D], with D a multiple of W -> their sum after dropout of y (total), its mean and the inverse of its
standard deviation (statistics [R, 2]), and its normalisation with weight and bias [D] (out). */
int64_t s2s_dropout_norm(const float *x, const void *y, int64_t bits, int64_t R, int64_t D, const int16_t *random,
                         int64_t threshold, float scale, const float *weight, const float *bias, float eps,
                         float *total, float *statistics, float *out) {
    if (bits == 16)
        normalize_rows(x, y, 16, R, D, random, threshold, scale, weight, bias, eps, total, statistics, out);
    else
        normalize_rows(x, y, 32, R, D, random, threshold, scale, weight, bias, eps, total, statistics, out);
    return OK;
}

/* The gradients dx, dy [R, D] and d_weight, d_bias [D] from that of the output, d_out [R, D]. */
int64_t s2s_dropout_norm_backward(const float *d_out, int64_t bits, int64_t R, int64_t D, const int16_t *random,
                                  int64_t threshold, float scale, const float *weight, const float *total,
                                  const float *statistics, float *dx, void *dy, float *d_weight, float *d_bias) {
    memset(d_weight, 0, 4 * D);
    memset(d_bias, 0, 4 * D);
    for (int64_t r = 0; r < R; r++, d_out += D, total += D, dx += D) {
        vf mean = splat(statistics[2 * r]), by = splat(statistics[2 * r + 1]), all = splat(0), along = splat(0);
        for (int64_t i = 0; i < D; i += W) {
            vf d = load(d_out + i), normal = (load(total + i) - mean) * by, weighted = d * load(weight + i);
            *(vf *)(d_weight + i) = load(d_weight + i) + d * normal;
            *(vf *)(d_bias + i) = load(d_bias + i) + d;
            all += weighted;
            along += weighted * normal;
        }
        vf a = splat(sum(all) / D), b = splat(sum(along) / D);
        for (int64_t i = 0; i < D; i += W) {
            vf normal = (load(total + i) - mean) * by;
            vf d = (load(d_out + i) * load(weight + i) - a - normal * b) * by;
            *(vf *)(dx + i) = d;
            store_to(dy, r * D + i, bits, d * factors(random, r * D + i, threshold, scale));
        }
    }
    return OK;
}
