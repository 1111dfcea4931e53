/* Attention of the newest tokens, for one thread.

Shapes: B sentences, K hypotheses of each, N nodes of a sentence, L longest path, S longest source, h heads of d_k
and d_v.
*/

#include "decoder.h"
#include "panels.h"

/* exp(w - max(w)), in place; w has room for W more. Returns the sum, by which the caller must divide. */
static inline float exponentials(float *w, int64_t n) {
    vf most = splat(-INFINITY), total = splat(0);
    for (int64_t i = n; i < n + W; i++) w[i] = -INFINITY;
    for (int64_t i = 0; i < n; i += W) most = larger(most, load(w + i));
    most = splat(largest(most));
    for (int64_t i = 0; i < n; i += W) {
        *(vf *)(w + i) = exponential(load(w + i) - most);
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

enum { GROUP = 4 }; /* hypotheses that read a source together */

typedef struct { /* a head of a source of n tokens */
    const float *keys, *values; /* [n, d_k], [n, d_v] */
    const float *bias;          /* [n], with W of -inf behind */
    int64_t n, d_k, d_v;
} Source;

/* Scores of g queries [g, d_k] with W keys from t on, from vectors that have one number of each key: to add up the
numbers of a vector takes longer than to multiply them. */
INLINE void score_together(const int g, const Source *source, int64_t t, const float *query, vf scores[GROUP]) {
    const int64_t last = source->n - 1 - t, d_k = source->d_k;
    UNROLLED for (int r = 0; r < g; r++) scores[r] = splat(0);
    for (int64_t first = 0; first < d_k; first += W) {
        const int64_t some = d_k - first < W ? d_k - first : W;
        vf keys[W];
        for (int i = 0; i < W; i++) {
            const float *key = source->keys + (t + (i < last ? i : last)) * d_k + first;
            __builtin_prefetch(key + W * d_k);
            keys[i] = load_part(key, some);
        }
        transpose_vectors(keys);
        for (int64_t j = 0; j < some; j++)
            UNROLLED for (int r = 0; r < g; r++) scores[r] += splat(query[r * d_k + first + j]) * keys[j];
    }
}

/* The same one by one, which is faster for one or two queries with long keys. */
INLINE void score_each(const int g, const Source *source, int64_t t, const float *query, vf scores[GROUP]) {
    const int64_t n = source->n - t, d_k = source->d_k;
    float found[GROUP][W] = {{0}};
    for (int64_t i = 0; i < W && i < n; i++)
        for (int r = 0; r < g; r++) found[r][i] = dot(query + r * d_k, source->keys + (t + i) * d_k, d_k);
    for (int r = 0; r < g; r++) scores[r] = load(found[r]);
}

/* Sums of g queries' weights w [g, width] times `parts` vectors of values from o on, divided by `totals`. */
INLINE void weigh(const int g, const int parts, const Source *source, int64_t o, const float *w, int64_t width,
                  const float *totals, float *out, int64_t stride) {
    const float *values = source->values + o;
    const int64_t n = source->d_v - o;
    vf sums[GROUP][GROUP];
    UNROLLED for (int r = 0; r < g; r++)
        UNROLLED for (int c = 0; c < parts; c++) sums[r][c] = splat(0);
    for (int64_t t = 0; t < source->n; t++, values += source->d_v)
        UNROLLED for (int c = 0; c < parts; c++) {
            vf value = load_part(values + c * W, n - c * W);
            UNROLLED for (int r = 0; r < g; r++) sums[r][c] += splat(w[r * width + t]) * value;
        }
    UNROLLED for (int r = 0; r < g; r++)
        UNROLLED for (int c = 0; c < parts; c++)
            store_part(sums[r][c] / splat(totals[r]), n - c * W, out + r * stride + o + c * W);
}

/* Attention of g queries [g, d_k] over a source -> out [g, d_v], `stride` floats apart. w: [g, width], where width is
at least n + W. */
INLINE void attend_source(const int g, const Source *source, const float *query, float *w, int64_t width, float *out,
                          int64_t stride) {
    const int most = GROUP / g; /* vectors at once: sums of one alone would wait for one another */
    float totals[GROUP];
    int64_t o = 0;
    for (int64_t t = 0; t < source->n; t += W) {
        vf scores[GROUP];
        if (g > 2 || source->d_k <= W)
            score_together(g, source, t, query, scores);
        else
            score_each(g, source, t, query, scores);
        UNROLLED for (int r = 0; r < g; r++) *(vf *)(w + r * width + t) = scores[r] + load(source->bias + t);
    }
    for (int r = 0; r < g; r++) totals[r] = exponentials(w + r * width, source->n);
    for (; o + most * W <= source->d_v; o += most * W) weigh(g, most, source, o, w, width, totals, out, stride);
    for (; o < source->d_v; o += W) weigh(g, 1, source, o, w, width, totals, out, stride);
}

/* The same over the sources: q [B, K, h, d_k], keys [B, h, S, d_k], values [B, h, S, d_v], at the positions `seen`
[B, S]; positions after the last of them would add zeros and are skipped. */
int64_t s2s_source_attention(const float *q, const float *keys, const float *values, const uint8_t *seen, int64_t B,
                             int64_t K, int64_t S, int64_t h, int64_t d_k, int64_t d_v, float scale, float *out) {
    const int64_t width = S + W, stride = h * d_v;
    float *w = allocate(((GROUP + 1) * width + GROUP * d_k) * sizeof(float));
    if (!w) return NO_MEMORY;
    float *bias = w + GROUP * width, *query = bias + width;
    for (int64_t b = 0; b < B; b++, seen += S) {
        int64_t n = S;
        while (n > 1 && !seen[n - 1]) n--;
        for (int64_t t = 0; t < n + W; t++) bias[t] = t >= n ? -INFINITY : seen[t] ? 0 : BLOCKED;
        for (int64_t a = 0; a < h; a++, keys += S * d_k, values += S * d_v) {
            const Source source = {keys, values, bias, n, d_k, d_v};
            for (int64_t k = 0, g; k < K; k += g) {
                g = K - k < GROUP ? K - k : GROUP;
                for (int64_t r = 0; r < g; r++)
                    for (int64_t j = 0; j < d_k; j++)
                        query[r * d_k + j] = q[((b * K + k + r) * h + a) * d_k + j] * scale;
                float *found = out + ((b * K + k) * h + a) * d_v;
                switch (g) {
#define CASE(g) case g: attend_source(g, &source, query, w, width, found, stride); break;
                    CASE(1) CASE(2) CASE(3) CASE(4)
#undef CASE
                }
            }
        }
    }
    free(w);
    return OK;
}
