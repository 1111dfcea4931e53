/* Attention of whole sentences, for one thread.

A block of up to ROWS queries holds the sums of PARTS vectors of keys in registers, and then of PARTS vectors of values,
so that each key and value is read once for all of them; their weights stay in the caches in between. The order of a
query's sums does not depend on the other queries, nor on keys that are BLOCKED: a sentence's result has the same bits
in any batch. Shapes: B sentences, T queries, S keys, h heads of d_k and d_v.
*/

#include "panels.h"

#include "decoder.h"

typedef struct { /* a head of a sentence, and memory for it */
    float *keys;   /* [n_keys / C, d_k, C] */
    float *values; /* [S, n_values] */
    float *bias;   /* [n_keys], -inf behind the last key */
    float *query;  /* [ROWS, d_k], scaled */
    float *weights; /* [ROWS, n_weights] */
    float *distances; /* [T + n_keys], added to the score of the last query and the first key, and so on */
    int64_t S, n_keys, d_k, d_v, n_values; /* n_keys and n_values: S and d_v, rounded up to C and W */
    int64_t n_weights; /* not only n_keys, whose rows might all map to the same cache set */
} Head;

static int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* A head of S keys, for T queries; its memory, which the caller frees, is null if there is none. */
static float *allocate_head(int64_t T, int64_t S, int64_t d_k, int64_t d_v, Head *head) {
    const int64_t n_keys = up(S, C), n_values = up(d_v, W), n_weights = n_keys + W;
    const int64_t sizes[] = {n_keys * d_k, S * n_values, n_keys, ROWS * d_k, ROWS * n_weights, T + n_keys};
    float **parts[] = {&head->keys, &head->values, &head->bias, &head->query, &head->weights, &head->distances};
    int64_t total = W;
    for (int i = 0; i < 6; i++) total += up(sizes[i], W);
    float *memory = allocate(total * sizeof(float));
    if (!memory) return 0;
    float *next = memory + (-(uintptr_t)memory & (sizeof(vf) - 1)) / sizeof(float);
    head->S = S, head->n_keys = n_keys, head->d_k = d_k, head->d_v = d_v;
    head->n_values = n_values, head->n_weights = n_weights;
    for (int i = 0; i < 6; i++) *parts[i] = next, next += up(sizes[i], W);
    for (int64_t t = S; t < n_keys; t++) head->bias[t] = -INFINITY;
    memset(head->distances, 0, (T + n_keys) * sizeof(float));
    return memory;
}

/* The first number of the keys from t on, which is a multiple of W. */
static inline float *keys_from(const Head *head, int64_t t) { return head->keys + t / C * C * head->d_k + t % C; }

/* x [n] times `by`, with zeros up to a whole vector behind if `out` has room for them */
INLINE void copy_row(const float *x, int64_t n, float by, int64_t room, float *out) {
    for (int64_t i = 0; i < n; i += W) store_part(load_part(x + i, n - i) * splat(by), room - i, out + i);
}

/* Keys [S, d_k] and values [S, d_v], `stride` floats apart, in the order in which they are read. */
static void pack(const Head *head, const float *k, int64_t k_stride, const float *v, int64_t v_stride) {
    for (int64_t t = 0; t < head->n_keys; t += W)
        for (int64_t first = 0; first < head->d_k; first += W) {
            const int64_t some = head->d_k - first < W ? head->d_k - first : W;
            float *to = keys_from(head, t) + first * C;
            vf keys[W];
            for (int i = 0; i < W; i++)
                keys[i] = t + i < head->S ? load_part(k + (t + i) * k_stride + first, some) : splat(0);
            transpose_vectors(keys);
            for (int64_t j = 0; j < some; j++) *(vf *)(to + j * C) = keys[j];
        }
    for (int64_t t = 0; t < head->S; t++)
        copy_row(v + t * v_stride, head->d_v, 1, head->n_values, head->values + t * head->n_values);
}

/* The numbers of head a, for each distance that T queries and the keys have. */
static void spread_relative(const Relative *relative, int64_t a, int64_t T, const Head *head) {
    const int64_t furthest = relative->n / 2;
    const float *table = relative->table + a * relative->n + furthest;
    for (int64_t i = 0; i < T + head->S - 1; i++) {
        const int64_t distance = i - (T - 1);
        head->distances[i] = table[distance < -furthest ? -furthest : distance > furthest ? furthest : distance];
    }
}

/* Adds the products of n rows of numbers x, `stride` floats apart, with `count` rows of `parts` vectors w, `width`
floats apart. */
INLINE void add_products(const int n, const int parts, const float *x, int64_t stride, int64_t count, const float *w,
                         int64_t width, vf sums[ROWS][PARTS]) {
    for (int64_t i = 0; i < count; i++, w += width) {
        vf row[PARTS];
        UNROLLED for (int c = 0; c < parts; c++) row[c] = load(w + c * W);
        UNROLLED for (int r = 0; r < n; r++) {
            vf number = splat(x[r * stride + i]);
            UNROLLED for (int c = 0; c < parts; c++) sums[r][c] += number * row[c];
        }
    }
}

/* Scores of n queries with PARTS or fewer vectors of keys from t on, and the largest of each query and lane.
distances: those of the first query and these keys; the next query's begin a number before. */
INLINE void score(const int n, const int parts, const Head *head, int64_t t, const float *distances, vf most[ROWS]) {
    vf sums[ROWS][PARTS];
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < parts; c++) sums[r][c] = load(head->bias + t + c * W);
    add_products(n, parts, head->query, head->d_k, head->d_k, keys_from(head, t), C, sums);
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < parts; c++) {
            vf found = sums[r][c] + load(distances - r + c * W);
            *(vf *)(head->weights + r * head->n_weights + t + c * W) = found;
            most[r] = larger(most[r], found);
        }
}

/* n queries' scores become weights, whose sums are `totals`; most: the largest scores of each query and lane. */
INLINE void compare(const int n, const Head *head, const vf most[ROWS], vf totals[ROWS]) {
    for (int r = 0; r < n; r++) {
        float *w = head->weights + r * head->n_weights;
        vf total = splat(0), highest = splat(largest(most[r]));
        for (int64_t t = 0; t < head->S; t += W) {
            const vf weight = exponential(load(w + t) - highest);
            *(vf *)(w + t) = weight;
            total += weight;
        }
        totals[r] = splat(sum(total));
    }
}

/* Sums of n queries' weights times `parts` vectors of values from o on, divided by the sums of the weights. */
INLINE void weigh(const int n, const int parts, const Head *head, int64_t o, const vf totals[ROWS], float *out,
                  int64_t stride) {
    vf sums[ROWS][PARTS];
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < parts; c++) sums[r][c] = splat(0);
    add_products(n, parts, head->weights, head->n_weights, head->S, head->values + o, head->n_values, sums);
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < parts; c++)
            store_part(sums[r][c] / totals[r], head->d_v - o - c * W, out + r * stride + o + c * W);
}

/* Of n queries, which are in head->query -> out [n, d_v], `stride` floats apart. */
INLINE void attend(const int n, const Head *head, const float *distances, float *out, int64_t stride) {
    vf most[ROWS], totals[ROWS];
    int64_t t = 0, o = 0;
    UNROLLED for (int r = 0; r < n; r++) most[r] = splat(-INFINITY);
    for (; t + (PARTS - 1) * W < head->S; t += C) score(n, PARTS, head, t, distances + t, most);
    for (; t < head->S; t += W) score(n, 1, head, t, distances + t, most);
    compare(n, head, most, totals);
    for (; o + C <= head->n_values; o += C) weigh(n, PARTS, head, o, totals, out, stride);
    for (; o + 2 * W <= head->n_values; o += 2 * W) weigh(n, 2, head, o, totals, out, stride);
    for (; o < head->n_values; o += W) weigh(n, 1, head, o, totals, out, stride);
}

/* x [T, d_k] of queries, `stride` floats apart, -> out [T, d_v], `out_stride` apart. */
static void attend_all(const Head *head, const float *x, int64_t stride, int64_t T, float scale, float *out,
                       int64_t out_stride) {
    const int64_t blocks = (T + ROWS - 1) / ROWS;
    for (int64_t b = 0, q = 0, n; b < blocks; b++, q += n) {
        n = (T - q + blocks - b - 1) / (blocks - b); /* blocks of like sizes */
        for (int64_t r = 0; r < n; r++)
            copy_row(x + (q + r) * stride, head->d_k, scale, head->d_k, head->query + r * head->d_k);
        const float *distances = head->distances + T - 1 - q;
        switch (n) {
#define CASE(n) case n: attend(n, head, distances, out + q * out_stride, out_stride); break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
        }
    }
}

/* q [B, h, T, d_k], k [B, h, S, d_k], v [B, h, S, d_v], each with three strides, and bias [B, S], which is added to the
scores, as `relative` is unless it is null, -> out [B, T, h, d_v]. */
int64_t s2s_padded_attention(const float *q, const float *k, const float *v, const int64_t *q_strides,
                             const int64_t *k_strides, const int64_t *v_strides, const float *bias, int64_t B,
                             int64_t h, int64_t T, int64_t S, int64_t d_k, int64_t d_v, float scale,
                             const Relative *relative, float *out) {
    Head head;
    float *memory = allocate_head(T, S, d_k, d_v, &head);
    if (!memory) return NO_MEMORY;
    for (int64_t b = 0; b < B; b++) {
        memcpy(head.bias, bias + b * S, S * sizeof(float));
        for (int64_t a = 0; a < h; a++) {
            if (relative) spread_relative(relative, a, T, &head);
            pack(&head, k + b * k_strides[0] + a * k_strides[1], k_strides[2], v + b * v_strides[0] + a * v_strides[1],
                 v_strides[2]);
            attend_all(&head, q + b * q_strides[0] + a * q_strides[1], q_strides[2], T, scale,
                       out + (b * T * h + a) * d_v, h * d_v);
        }
    }
    free(memory);
    return OK;
}
