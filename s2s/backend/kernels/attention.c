/* Attention of the newest symbols, for one thread.

Shapes: B sentences, K hypotheses of each, N nodes of a sentence, T longest path, S longest source, h heads of d_k
and d_v.
*/

#include "decoder.h"
#include <stdlib.h>

enum { BLOCKED = -30000 }; /* added to the score of what may not be seen; exp of it is 0, and no row is NaN */

/* In place; w has room for W more. Returns the sum, by which nothing is divided yet. */
static inline float exponentials(float *w, int64_t n) {
    float most = -INFINITY;
    for (int64_t i = 0; i < n; i++) most = w[i] > most ? w[i] : most;
    for (int64_t i = n; i < n + W; i++) w[i] = -INFINITY;
    vf total = splat(0);
    for (int64_t i = 0; i < n; i += W) {
        *(vf *)(w + i) = exponential(load(w + i) - splat(most));
        total += load(w + i);
    }
    return sum(total);
}

/* Attention of the newest symbol of each hypothesis over its path. q, k, v: rows [B * K] of h heads, q_stride and
so on floats apart; k and v are written into the nodes [B, N, h * (d_k + d_v)] that end the paths [B, K, T], of
which the first length[b] count. All heads of a node are read before the next node, since they lie side by side. */
void s2s_attend(const float *q, const float *k, const float *v, int64_t q_stride, int64_t k_stride, int64_t v_stride,
                float *nodes, const int64_t *path, const int64_t *length, int64_t B, int64_t K, int64_t N, int64_t T,
                int64_t h, int64_t d_k, int64_t d_v, float scale, float *out) {
    int64_t width = h * (d_k + d_v), values = h * d_k;
    float(*w)[T + W] = malloc(h * sizeof *w), query[values]; /* those of long outputs would not fit on the stack */
    for (int64_t b = 0; b < B; b++, nodes += N * width) {
        int64_t n = length[b];
        for (int64_t i = 0; i < K; i++) {
            float *node = nodes + path[(b * K + i) * T + n - 1] * width;
            memcpy(node, k + (b * K + i) * k_stride, h * d_k * sizeof(float));
            memcpy(node + values, v + (b * K + i) * v_stride, h * d_v * sizeof(float));
        }
        for (int64_t row = b * K; row < (b + 1) * K; row++) {
            const int64_t *at = path + row * T;
            float *o = out + row * h * d_v;
            for (int64_t j = 0; j < values; j++) query[j] = q[row * q_stride + j] * scale;
            for (int64_t t = 0; t < n; t++) {
                const float *node = nodes + at[t] * width, *next = nodes + at[t + 1 < n ? t + 1 : t] * width;
                for (int64_t a = 0; a < h; a++) {
                    for (int64_t j = 0; j < d_k; j += W) __builtin_prefetch(next + a * d_k + j);
                    w[a][t] = dot(query + a * d_k, node + a * d_k, d_k);
                }
            }
            for (int64_t a = 0; a < h; a++) {
                float total = exponentials(w[a], n);
                for (int64_t t = 0; t < n; t++) w[a][t] /= total;
            }
            memset(o, 0, h * d_v * sizeof(float));
            for (int64_t t = 0; t < n; t++) {
                const float *node = nodes + at[t] * width, *next = nodes + at[t + 1 < n ? t + 1 : t] * width;
                for (int64_t a = 0; a < h; a++) {
                    for (int64_t j = 0; j < d_v; j += W) __builtin_prefetch(next + values + a * d_v + j);
                    add(o + a * d_v, w[a][t], node + values + a * d_v, d_v);
                }
            }
        }
    }
    free(w);
}

/* The same over the sources: q [B, K, h, d_k], keys [B, h, S, d_k], values [B, h, S, d_v], of which `seen` [B, S]. */
void s2s_attend_source(const float *q, const float *keys, const float *values, const uint8_t *seen, int64_t B,
                       int64_t K, int64_t S, int64_t h, int64_t d_k, int64_t d_v, float scale, float *out) {
    float *w = malloc((S + W) * sizeof(float)), query[d_k];
    for (int64_t b = 0; b < B; b++, seen += S)
        for (int64_t a = 0; a < h; a++, keys += S * d_k, values += S * d_v)
            for (int64_t row = b * K; row < (b + 1) * K; row++) {
                float *o = out + (row * h + a) * d_v;
                for (int64_t j = 0; j < d_k; j++) query[j] = q[(row * h + a) * d_k + j] * scale;
                for (int64_t t = 0; t < S; t++) w[t] = dot(query, keys + t * d_k, d_k) + (seen[t] ? 0 : BLOCKED);
                float total = exponentials(w, S);
                memset(o, 0, d_v * sizeof(float));
                for (int64_t t = 0; t < S; t++) add(o, w[t] / total, values + t * d_v, d_v);
            }
    free(w);
}

/* Rows [n, d], `stride` floats apart, as the weights of a product whose outputs they are (see products.c). */
static float *as_outputs(const float *x, int64_t n, int64_t stride, int64_t d) {
    int64_t C = s2s_columns();
    float *weight = calloc((n + C - 1) / C * C * d, sizeof(float));
    for (int64_t r = 0; r < n; r++, x += stride) {
        float *to = weight + r / C * C * d + r % C;
        for (int64_t j = 0; j < d; j++) to[j * C] = x[j];
    }
    return weight;
}

/* The same as weights of a product whose inputs they are. */
static float *as_inputs(const float *x, int64_t n, int64_t stride, int64_t d) {
    int64_t C = s2s_columns();
    float *weight = calloc((d + C - 1) / C * C * n, sizeof(float));
    for (int64_t o = 0; o < d; o += C)
        for (int64_t r = 0; r < n; r++)
            memcpy(weight + o * n + r * C, x + r * stride + o, (d - o < C ? d - o : C) * sizeof(float));
    return weight;
}

/* Attention of whole sentences: q [B, h, T, d_k], k [B, h, S, d_k], v [B, h, S, d_v], each with three strides, and
bias [B, S], which is added to the scores, -> out [B, T, h, d_v]. Weights are held of some queries at a time. */
void s2s_attend_padded(const float *q, const float *k, const float *v, const int64_t *q_strides,
                          const int64_t *k_strides, const int64_t *v_strides, const float *bias, int64_t B, int64_t h,
                          int64_t T, int64_t S, int64_t d_k, int64_t d_v, float scale, float *out) {
    enum { SOME = 120 };
    int64_t wide = (S > d_v ? S : d_v) + s2s_columns();
    float *query = malloc(SOME * d_k * sizeof(float)), *weights = malloc(SOME * S * sizeof(float));
    float *found = malloc(SOME * d_v * sizeof(float)), *row = malloc((S + W) * sizeof(float));
    float *first = calloc(wide, sizeof(float)), *zeros = calloc(wide, sizeof(float));
    for (int64_t b = 0; b < B; b++)
        for (int64_t a = 0; a < h; a++) {
            const float *x = q + b * q_strides[0] + a * q_strides[1];
            memcpy(first, bias + b * S, S * sizeof(float));
            float *keys = as_outputs(k + b * k_strides[0] + a * k_strides[1], S, k_strides[2], d_k);
            float *values = as_inputs(v + b * v_strides[0] + a * v_strides[1], S, v_strides[2], d_v);
            Map scores = {.weight = keys, .bias = first, .I = d_k, .O = S};
            Map sums = {.weight = values, .bias = zeros, .I = S, .O = d_v};
            for (int64_t start = 0; start < T; start += SOME) {
                int64_t n = T - start < SOME ? T - start : SOME;
                for (int64_t t = 0; t < n; t++)
                    for (int64_t j = 0; j < d_k; j++) query[t * d_k + j] = x[(start + t) * q_strides[2] + j] * scale;
                s2s_product(&scores, query, n, weights);
                for (int64_t t = 0; t < n; t++) {
                    memcpy(row, weights + t * S, S * sizeof(float));
                    float total = exponentials(row, S);
                    for (int64_t s = 0; s < S; s++) weights[t * S + s] = row[s] / total;
                }
                s2s_product(&sums, weights, n, found);
                for (int64_t t = 0; t < n; t++)
                    memcpy(out + ((b * T + start + t) * h + a) * d_v, found + t * d_v, d_v * sizeof(float));
            }
            free(keys), free(values);
        }
    free(query), free(weights), free(found), free(row), free(first), free(zeros);
}
