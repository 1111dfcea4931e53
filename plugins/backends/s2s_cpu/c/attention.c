/* Attention of the newest tokens, and of whole sentences, for one thread.

Shapes: B sentences, K hypotheses of each, N nodes of a sentence, L longest path, S longest source, h heads of d_k
and d_v.
*/

#include "decoder.h"

/* exp(w - max(w)), in place; w has room for W more. Returns the sum, by which the caller must divide. */
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

typedef struct { /* where a hypothesis's path lies: n nodes of `width` floats, h keys and then h values in each */
    const float *nodes;
    const int64_t *at;
    int64_t n, width;
    const Relative *relative; /* null: none */
} Path;

static inline const float *node_of(const Path *path, int64_t t) {
    return path->nodes + path->at[t < path->n ? t : path->n - 1] * path->width;
}

/* Adds the numbers of head a to the scores of a path's nodes, the last of which is the query's own. */
static void add_relative(const Path *path, int64_t a, float *scores) {
    const float *table = path->relative->table + a * path->relative->n;
    const int64_t furthest = path->relative->n - 1;
    for (int64_t t = 0; t < path->n; t++) {
        const int64_t back = path->n - 1 - t;
        scores[t] += table[back < furthest ? back : furthest];
    }
}

/* Attention of a query [h, d_k] over a path -> out [h, d_v], with its weights [h, row_width]. All heads of a node are
read before the next node, since they are adjacent in memory. */
static void path_attention(const float *query, const Path *path, int64_t h, int64_t d_k, int64_t d_v, int64_t row_width,
                           float *w, float *out) {
    const int64_t values = h * d_k;
    for (int64_t t = 0; t < path->n; t++) {
        const float *node = node_of(path, t), *next = node_of(path, t + 1);
        for (int64_t a = 0; a < h; a++) {
            for (int64_t j = 0; j < d_k; j += W) __builtin_prefetch(next + a * d_k + j);
            w[a * row_width + t] = dot(query + a * d_k, node + a * d_k, d_k);
        }
    }
    for (int64_t a = 0; a < h; a++) {
        float *weights = w + a * row_width;
        if (path->relative) add_relative(path, a, weights);
        const float total = exponentials(weights, path->n);
        for (int64_t t = 0; t < path->n; t++) weights[t] /= total;
    }
    memset(out, 0, h * d_v * sizeof(float));
    for (int64_t t = 0; t < path->n; t++) {
        const float *node = node_of(path, t), *next = node_of(path, t + 1);
        for (int64_t a = 0; a < h; a++) {
            for (int64_t j = 0; j < d_v; j += W) __builtin_prefetch(next + values + a * d_v + j);
            add(out + a * d_v, w[a * row_width + t], node + values + a * d_v, d_v);
        }
    }
}

/* Attention of the newest token of each hypothesis over its path. q, k, v: rows [B * K] of h heads, q_stride,
k_stride and v_stride floats apart. k and v are written to those of the nodes [B, N, h * (d_k + d_v)] in which the paths
[B, K, L] end; length[b] entries of a path count. `relative` may be null. */
int64_t s2s_tree_attention(const float *q, const float *k, const float *v, int64_t q_stride, int64_t k_stride,
                           int64_t v_stride, float *nodes, const int64_t *path, const int64_t *length, int64_t B,
                           int64_t K, int64_t N, int64_t L, int64_t h, int64_t d_k, int64_t d_v, float scale,
                           const Relative *relative, float *out) {
    const int64_t width = h * (d_k + d_v), values = h * d_k, row_width = L + W;
    float *w = allocate((h * row_width + values) * sizeof(float)), *query = w + h * row_width;
    if (!w) return NO_MEMORY;
    for (int64_t b = 0; b < B; b++, nodes += N * width) {
        const int64_t n = length[b];
        for (int64_t row = b * K; row < (b + 1) * K; row++) {
            float *node = nodes + path[row * L + n - 1] * width;
            memcpy(node, k + row * k_stride, h * d_k * sizeof(float));
            memcpy(node + values, v + row * v_stride, h * d_v * sizeof(float));
        }
        for (int64_t row = b * K; row < (b + 1) * K; row++) {
            for (int64_t j = 0; j < values; j++) query[j] = q[row * q_stride + j] * scale;
            path_attention(query, &(Path){nodes, path + row * L, n, width, relative}, h, d_k, d_v, row_width, w,
                           out + row * h * d_v);
        }
    }
    free(w);
    return OK;
}

/* The same over the sources: q [B, K, h, d_k], keys [B, h, S, d_k], values [B, h, S, d_v], at the positions `seen`
[B, S]; positions after the last of them would add zeros and are skipped. */
int64_t s2s_source_attention(const float *q, const float *keys, const float *values, const uint8_t *seen, int64_t B,
                             int64_t K, int64_t S, int64_t h, int64_t d_k, int64_t d_v, float scale, float *out) {
    float *w = allocate((S + W + d_k) * sizeof(float));
    if (!w) return NO_MEMORY;
    float *query = w + S + W;
    for (int64_t b = 0; b < B; b++, seen += S) {
        int64_t n = S;
        while (n > 1 && !seen[n - 1]) n--;
        for (int64_t a = 0; a < h; a++, keys += S * d_k, values += S * d_v)
            for (int64_t row = b * K; row < (b + 1) * K; row++) {
                float *o = out + (row * h + a) * d_v;
                for (int64_t j = 0; j < d_k; j++) query[j] = q[(row * h + a) * d_k + j] * scale;
                for (int64_t t = 0; t < n; t++) w[t] = dot(query, keys + t * d_k, d_k) + (seen[t] ? 0 : BLOCKED);
                float total = exponentials(w, n);
                memset(o, 0, d_v * sizeof(float));
                for (int64_t t = 0; t < n; t++) add(o, w[t] / total, values + t * d_v, d_v);
            }
    }
    free(w);
    return OK;
}

/* Rows [n, d], `stride` floats apart, as the weights of a linear map with an output for each row (see linear.c); null
if memory runs out. */
static float *pack_outputs(const float *x, int64_t n, int64_t stride, int64_t d) {
    int64_t C = s2s_panel_width();
    float *weight = calloc((n + C - 1) / C * C * d + 1, sizeof(float));
    if (!weight) return 0;
    for (int64_t r = 0; r < n; r++, x += stride) {
        float *to = weight + r / C * C * d + r % C;
        for (int64_t j = 0; j < d; j++) to[j * C] = x[j];
    }
    return weight;
}

/* The same with an input for each row. */
static float *pack_inputs(const float *x, int64_t n, int64_t stride, int64_t d) {
    int64_t C = s2s_panel_width();
    float *weight = calloc((d + C - 1) / C * C * n + 1, sizeof(float));
    if (!weight) return 0;
    for (int64_t o = 0; o < d; o += C)
        for (int64_t r = 0; r < n; r++)
            memcpy(weight + o * n + r * C, x + r * stride + o, (d - o < C ? d - o : C) * sizeof(float));
    return weight;
}

enum { CHUNK = 120 }; /* queries whose weights are held at once */

typedef struct { /* memory for the attention of one head */
    float *query, *weights, *found, *row, *first, *zeros;
    float *by_distance; /* [T + S - 1], added to the score of the last query and the first key, and so on */
} Scratch;

static Scratch scratch_for(int64_t T, int64_t S, int64_t d_k, int64_t d_v) {
    int64_t wide = (S > d_v ? S : d_v) + s2s_panel_width();
    return (Scratch){
        allocate(CHUNK * d_k * sizeof(float)),
        allocate(CHUNK * S * sizeof(float)),
        allocate(CHUNK * d_v * sizeof(float)),
        allocate((S + W) * sizeof(float)),
        calloc(wide, sizeof(float)),
        calloc(wide, sizeof(float)),
        calloc(T + S, sizeof(float)),
    };
}

/* The numbers of head a, for each distance that T queries and S keys have. */
static void spread_relative(const Relative *relative, int64_t a, int64_t T, int64_t S, float *by_distance) {
    const int64_t furthest = relative->n / 2;
    const float *table = relative->table + a * relative->n + furthest;
    for (int64_t i = 0; i < T + S - 1; i++) {
        const int64_t distance = i - (T - 1);
        by_distance[i] = table[distance < -furthest ? -furthest : distance > furthest ? furthest : distance];
    }
}

/* One head of one sentence: x [T, d_k] of queries, `stride` floats apart, -> out [T, d_v], `out_stride` apart. */
static int64_t attend(const float *x, int64_t stride, const float *keys, const float *values, const Scratch *s,
                      int64_t T, int64_t S, int64_t d_k, int64_t d_v, float scale, float *out, int64_t out_stride) {
    Linear scores = {.weight = keys, .bias = s->first, .I = d_k, .O = S};
    Linear sums = {.weight = values, .bias = s->zeros, .I = S, .O = d_v};
    for (int64_t start = 0; start < T; start += CHUNK) {
        int64_t n = T - start < CHUNK ? T - start : CHUNK;
        for (int64_t t = 0; t < n; t++)
            for (int64_t j = 0; j < d_k; j++) s->query[t * d_k + j] = x[(start + t) * stride + j] * scale;
        if (s2s_linear(&scores, s->query, n, s->weights)) return NO_MEMORY;
        for (int64_t t = 0; t < n; t++) {
            const float *by_distance = s->by_distance + (T - 1) - (start + t);
            for (int64_t i = 0; i < S; i++) s->row[i] = s->weights[t * S + i] + by_distance[i];
            float total = exponentials(s->row, S);
            for (int64_t i = 0; i < S; i++) s->weights[t * S + i] = s->row[i] / total;
        }
        if (s2s_linear(&sums, s->weights, n, s->found)) return NO_MEMORY;
        for (int64_t t = 0; t < n; t++)
            memcpy(out + (start + t) * out_stride, s->found + t * d_v, d_v * sizeof(float));
    }
    return OK;
}

/* Attention of whole sentences: q [B, h, T, d_k], k [B, h, S, d_k], v [B, h, S, d_v], each with three strides, and
bias [B, S], which is added to the scores, as `relative` is unless it is null, -> out [B, T, h, d_v]. Weights are held
for CHUNK queries at a time. */
int64_t s2s_padded_attention(const float *q, const float *k, const float *v, const int64_t *q_strides,
                             const int64_t *k_strides, const int64_t *v_strides, const float *bias, int64_t B,
                             int64_t h, int64_t T, int64_t S, int64_t d_k, int64_t d_v, float scale,
                             const Relative *relative, float *out) {
    Scratch s = scratch_for(T, S, d_k, d_v);
    int64_t failed = !s.query || !s.weights || !s.found || !s.row || !s.first || !s.zeros || !s.by_distance;
    for (int64_t b = 0; b < B && !failed; b++)
        for (int64_t a = 0; a < h && !failed; a++) {
            memcpy(s.first, bias + b * S, S * sizeof(float));
            if (relative) spread_relative(relative, a, T, S, s.by_distance);
            float *keys = pack_outputs(k + b * k_strides[0] + a * k_strides[1], S, k_strides[2], d_k);
            float *values = pack_inputs(v + b * v_strides[0] + a * v_strides[1], S, v_strides[2], d_v);
            failed = !keys || !values ||
                     attend(q + b * q_strides[0] + a * q_strides[1], q_strides[2], keys, values, &s, T, S, d_k, d_v,
                            scale, out + (b * T * h + a) * d_v, h * d_v);
            free(keys), free(values);
        }
    free(s.query), free(s.weights), free(s.found), free(s.row), free(s.first), free(s.zeros), free(s.by_distance);
    return failed ? NO_MEMORY : OK;
}
