/* Attention of short sentences in training, with its gradient, for one thread: all weights of a head are in the cache.

A head's rows are converted to floats in scratch memory. A product there is made of tiles that stay in registers; every
sum adds its terms in order, so that a row's result has the same bits in a tile of any size. Blocked keys at the end of
a sentence are skipped. */

#include "bf16.h"
#include "decoder.h"
#include "panels.h"
#include "training_attention.h"

enum { ROW_MULTIPLE = 16 }; /* rows are padded to a multiple of this many floats */
enum { TILE_HEIGHT = W == 16 ? 8 : 6, TILE_VECTORS = 2 }; /* rows and vectors of a tile */
enum { ALL, BEFORE, AFTER }; /* what row i sums over: all, up to the i-th, from the i-th on */

typedef struct { /* a matrix whose elements are read one by one: (i, j) is data[i * row + j * column] */
    const float *data;
    int64_t row, column;
} Left;

static inline int64_t padded(int64_t n) { return (n + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE; }

/* n rows and m vectors of a product, over the terms from `from` to `to`. */
INLINE void tile(const int n, const int m, Left a, const float *b, int64_t stride, int64_t from, int64_t to, float *out,
                 int64_t out_stride) {
    vf sums[TILE_HEIGHT][TILE_VECTORS];
    UNROLLED for (int i = 0; i < n; i++) UNROLLED for (int c = 0; c < m; c++) sums[i][c] = splat(0);
    for (int64_t j = from; j < to; j++) {
        vf right[TILE_VECTORS];
        UNROLLED for (int c = 0; c < m; c++) right[c] = load(b + j * stride + c * W);
        UNROLLED for (int i = 0; i < n; i++) {
            vf left = splat(a.data[i * a.row + j * a.column]);
            UNROLLED for (int c = 0; c < m; c++) sums[i][c] += left * right[c];
        }
    }
    UNROLLED for (int i = 0; i < n; i++)
        UNROLLED for (int c = 0; c < m; c++) *(vf *)(out + i * out_stride + c * W) = sums[i][c];
}

/* The same for any number of rows up to TILE_HEIGHT. */
INLINE void tile_of(const int m, int64_t n, Left a, const float *b, int64_t stride, int64_t from, int64_t to,
                    float *out, int64_t out_stride) {
    switch (n) {
    case 1: tile(1, m, a, b, stride, from, to, out, out_stride); break;
    case 2: tile(2, m, a, b, stride, from, to, out, out_stride); break;
    case 3: tile(3, m, a, b, stride, from, to, out, out_stride); break;
    case 4: tile(4, m, a, b, stride, from, to, out, out_stride); break;
    case 5: tile(5, m, a, b, stride, from, to, out, out_stride); break;
    case 6: tile(6, m, a, b, stride, from, to, out, out_stride); break;
    case 7: tile(TILE_HEIGHT < 7 ? TILE_HEIGHT : 7, m, a, b, stride, from, to, out, out_stride); break;
    default: tile(TILE_HEIGHT, m, a, b, stride, from, to, out, out_stride);
    }
}

/* a [R, I] times b [I, C] -> out [R, C]; the rows of b and out are `stride` and `out_stride` floats apart. Each row
sums over what `terms` says; with `square`, the columns after a row's own need not be computed. */
static void product(Left a, const float *b, int64_t stride, int64_t R, int64_t I, int64_t C_, int terms, int square,
                    float *out, int64_t out_stride) {
    int64_t n_tiles = (R + TILE_HEIGHT - 1) / TILE_HEIGHT;
    for (int64_t t = 0, r = 0; t < n_tiles; t++) {
        int64_t n = (R - r + n_tiles - t - 1) / (n_tiles - t);
        int64_t from = terms == AFTER ? r : 0, to = terms == BEFORE && r + n < I ? r + n : I;
        int64_t columns = square && r + n < C_ ? r + n : C_, c = 0;
        Left rows = {a.data + r * a.row, a.row, a.column};
        for (; c + W < columns; c += TILE_VECTORS * W)
            tile_of(TILE_VECTORS, n, rows, b + c, stride, from, to, out + r * out_stride + c, out_stride);
        if (c < columns) tile_of(1, n, rows, b + c, stride, from, to, out + r * out_stride + c, out_stride);
        r += n;
    }
}

/* The first n rows of a sentence's heads as floats [n, h * d], each head padded to a multiple of ROW_MULTIPLE. */
static void get_rows(const HeadRows *x, int64_t b, int64_t n, int64_t h, int64_t d, int64_t bits, float *out) {
    int64_t start = b * x->sentence, whole = x->head == d && d % ROW_MULTIPLE == 0, size = whole ? h * d : d;
    for (int64_t i = 0; i < n; i++, start += x->row)
        for (int64_t a = 0; a < (whole ? 1 : h); a++, out += padded(size))
            if (bits == 16)
                widen((const uint16_t *)x->data + start + a * x->head, size, out);
            else
                memcpy(out, (const float *)x->data + start + a * x->head, size * sizeof(float));
}

/* The inverse of get_rows. */
static void put_rows(const float *x, int64_t n, int64_t h, int64_t d, int64_t bits, const HeadRows *to, int64_t b) {
    int64_t start = b * to->sentence, whole = to->head == d && d % ROW_MULTIPLE == 0, size = whole ? h * d : d;
    for (int64_t i = 0; i < n; i++, start += to->row)
        for (int64_t a = 0; a < (whole ? 1 : h); a++, x += padded(size))
            if (bits == 16)
                narrow(x, size, (uint16_t *)to->data + start + a * to->head);
            else
                memcpy((float *)to->data + start + a * to->head, x, size * sizeof(float));
}

static void scale_rows(float *x, int64_t n, float by) { /* n is a multiple of ROW_MULTIPLE */
    for (int64_t i = 0; i < n; i += W) *(vf *)(x + i) *= splat(by);
}

/* x [n, d], rows `stride` apart -> out [d, n], rows `out_stride` apart; both sizes are multiples of ROW_MULTIPLE after
padding. */
static void transpose(const float *x, int64_t stride, int64_t n, int64_t d, float *out, int64_t out_stride) {
    for (int64_t i = 0; i < n; i += W)
        for (int64_t j = 0; j < d; j += W) {
            vf rows[W];
            for (int r = 0; r < W; r++) rows[r] = load(x + (i + r) * stride + j);
            transpose_vectors(rows);
            for (int r = 0; r < W; r++) *(vf *)(out + (j + r) * out_stride + i) = rows[r];
        }
}

/* Which of the W keys from the first of `random` on are kept; `end`: that of all random numbers. */
static inline vi kept_lanes(const int16_t *random, const int16_t *end, int64_t threshold) {
    typedef int16_t vs __attribute__((vector_size(2 * W), aligned(2)));
    vs found = {0};
    if (end - random >= W)
        found = *(const vs *)random;
    else if (end > random)
        memcpy(&found, random, (end - random) * sizeof(int16_t));
    return __builtin_convertvector(found, vi) >= (int32_t)threshold - (vi){0};
}

/* Turns a row's scores x into weights, of which only the first n are not 0: x gets them after dropout, and `undropped`
before it, negative if dropped. bias: that of each key, -INFINITY from the n-th on; random: null if none is dropped. */
static void softmax(const TrainingAttention *s, float *x, int64_t n, int64_t S, const float *bias,
                    const int16_t *random, const int16_t *end, float *undropped) {
    vf max = splat(-INFINITY), exps = splat(0), by = splat((float)s->kept_factor);
    for (int64_t i = 0; i < n; i += W) {
        vf b = load(bias + i), score = choose(b == splat(-INFINITY), b, load(x + i) + b); /* x may be NaN there */
        *(vf *)(x + i) = score;
        max = larger(score, max);
    }
    vf shift = splat(largest(max));
    for (int64_t i = 0; i < n; i += W) {
        vf e = exponential(load(x + i) - shift);
        *(vf *)(x + i) = e;
        exps += e;
    }
    vf over = splat(1 / sum(exps));
    for (int64_t i = 0; i < n; i += W) {
        vf weight = load(x + i) * over;
        vi dropped = {0};
        if (random) dropped = ~kept_lanes(random + i, end, s->threshold);
        if (n - i < W) dropped |= lanes() >= (int32_t)(n - i) - (vi){0};
        *(vf *)(x + i) = choose(dropped, splat(0), weight * by);
        if (undropped) *(vf *)(undropped + i) = (vf)((vi)weight | (dropped & INT32_MIN));
    }
    for (int64_t i = (n + W - 1) / W * W; i < S; i += W) *(vf *)(x + i) = splat(0);
}

/* The number of keys without the blocked ones at the end; all if all are blocked. */
static int64_t visible(const float *bias, int64_t S) {
    int64_t n = S;
    while (bias && n && bias[n - 1] <= BLOCKED / 2) n--;
    return n ? n : S;
}

typedef struct { /* scratch memory of a sentence: rows of all heads, and what only one head at a time needs */
    float *q, *k, *v, *out, *grad_q, *grad_k, *grad_v, *transposed, *weights, *grad_weights, *bias;
} Buffers;

/* All zeros, in one block that begins at q, which is null if memory runs out. */
static Buffers buffers_for(const TrainingAttention *s, int64_t backward) {
    int64_t S = padded(s->S), T = padded(s->T), k = padded(s->d_k), v = padded(s->d_v), h = s->h, d = k > v ? k : v;
    int64_t also = backward ? h : 0;
    int64_t sizes[] = {T * h * k, S * h * k, S * h * v, T * h * v, T * also * k, S * also * k, S * also * v,
                       S * d, T * S, T * S, 2 * S};
    Buffers b;
    float **parts[] = {&b.q,      &b.k,          &b.v,       &b.out,          &b.grad_q, &b.grad_k,
                       &b.grad_v, &b.transposed, &b.weights, &b.grad_weights, &b.bias};
    int64_t total = 0;
    for (int i = 0; i < 11; i++) total += sizes[i];
    float *next = calloc(total, sizeof(float));
    if (!next) return (Buffers){0};
    for (int i = 0; i < 11; i++) *parts[i] = next, next += sizes[i];
    return b;
}

/* `out` of sentences first to last - 1, and the weights if the backward pass needs them. */
int64_t s2s_short_attention(const TrainingAttention *s, int64_t first, int64_t last) {
    Buffers m = buffers_for(s, 0);
    if (!m.q) return NO_MEMORY;
    int64_t S = padded(s->S), d_k = padded(s->d_k), d_v = padded(s->d_v), k = s->h * d_k, v = s->h * d_v, T = s->T;
    for (int64_t i = 0; i < S; i++) m.bias[S + i] = -INFINITY;
    const int16_t *end = s->random ? s->random + s->B * s->h * T * s->S : NULL;
    for (int64_t b = first; b < last; b++) {
        const float *bias = s->bias ? s->bias + b * s->S : NULL;
        int64_t n = visible(bias, s->S);
        if (bias) memcpy(m.bias + S - n, bias, n * sizeof(float));
        get_rows(&s->q, b, T, s->h, s->d_k, s->bits, m.q);
        get_rows(&s->k, b, n, s->h, s->d_k, s->bits, m.k);
        get_rows(&s->v, b, n, s->h, s->d_v, s->bits, m.v);
        scale_rows(m.q, T * k, s->scale);
        for (int64_t a = 0; a < s->h; a++) {
            transpose(m.k + a * d_k, k, n, s->d_k, m.transposed, S);
            product((Left){m.q + a * d_k, k, 1}, m.transposed, S, T, s->d_k, n, ALL, s->causal, m.weights, S);
            for (int64_t t = 0; t < T; t++) {
                int64_t row = (b * s->h + a) * T + t, seen = s->causal && t + 1 < n ? t + 1 : n;
                softmax(s, m.weights + t * S, seen, S, m.bias + S - seen, s->random ? s->random + row * s->S : NULL,
                        end, s->weights ? s->weights + row * S : NULL);
            }
            product((Left){m.weights, S, 1}, m.v + a * d_v, v, T, n, s->d_v, s->causal ? BEFORE : ALL, 0,
                    m.out + a * d_v, v);
        }
        put_rows(m.out, T, s->h, s->d_v, s->bits, &s->out, b);
    }
    free(m.q);
    return OK;
}

/* A row's weights, negative if dropped, and the gradient x of the weights after dropout -> x, the gradient of the
scaled scores, and the weights after dropout. */
static void softmax_backward(const TrainingAttention *s, const float *undropped, int64_t n, int64_t S, float *x,
                             float *weights) {
    vf by = splat((float)s->kept_factor), total = splat(0);
    for (int64_t i = 0; i < n; i += W) {
        vf weight = load(undropped + i), absolute = (vf)((vi)weight & INT32_MAX);
        vi dropped = (vi)weight >> 31;
        vf gradient = choose(dropped, splat(0), load(x + i) * by);
        *(vf *)(x + i) = gradient;
        *(vf *)(weights + i) = choose(dropped, splat(0), absolute * by);
        total += absolute * gradient;
    }
    vf mean = splat(sum(total));
    for (int64_t i = 0; i < n; i += W)
        *(vf *)(x + i) = (vf)((vi)load(undropped + i) & INT32_MAX) * (load(x + i) - mean);
    for (int64_t i = (n + W - 1) / W * W; i < S; i += W) *(vf *)(x + i) = *(vf *)(weights + i) = splat(0);
}

/* The gradients of q, and of k and v if they are wanted, of sentences first to last - 1. */
int64_t s2s_short_attention_backward(const TrainingAttention *s, int64_t first, int64_t last) {
    Buffers m = buffers_for(s, 1);
    if (!m.q) return NO_MEMORY;
    int64_t S = padded(s->S), d_k = padded(s->d_k), d_v = padded(s->d_v), k = s->h * d_k, v = s->h * d_v, T = s->T;
    int before = s->causal ? BEFORE : ALL, after = s->causal ? AFTER : ALL;
    for (int64_t b = first; b < last; b++) {
        int64_t n = visible(s->bias ? s->bias + b * s->S : NULL, s->S);
        get_rows(&s->k, b, n, s->h, s->d_k, s->bits, m.k);
        get_rows(&s->v, b, n, s->h, s->d_v, s->bits, m.v);
        get_rows(&s->d_out, b, T, s->h, s->d_v, s->bits, m.out);
        scale_rows(m.k, n * k, s->scale);
        if (s->grad_k.data) {
            get_rows(&s->q, b, T, s->h, s->d_k, s->bits, m.q);
            scale_rows(m.q, T * k, s->scale);
            memset(m.grad_k + n * k, 0, (s->S - n) * k * sizeof(float));
            memset(m.grad_v + n * v, 0, (s->S - n) * v * sizeof(float));
        }
        for (int64_t a = 0; a < s->h; a++) {
            transpose(m.v + a * d_v, v, n, s->d_v, m.transposed, S);
            product((Left){m.out + a * d_v, v, 1}, m.transposed, S, T, s->d_v, n, ALL, s->causal, m.grad_weights, S);
            for (int64_t t = 0; t < T; t++) {
                int64_t row = (b * s->h + a) * T + t, seen = s->causal && t + 1 < n ? t + 1 : n;
                softmax_backward(s, s->weights + row * S, seen, S, m.grad_weights + t * S, m.weights + t * S);
            }
            if (s->grad_q.data)
                product((Left){m.grad_weights, S, 1}, m.k + a * d_k, k, T, n, s->d_k, before, 0, m.grad_q + a * d_k, k);
            if (!s->grad_k.data) continue;
            product((Left){m.grad_weights, 1, S}, m.q + a * d_k, k, n, T, s->d_k, after, 0, m.grad_k + a * d_k, k);
            product((Left){m.weights, 1, S}, m.out + a * d_v, v, n, T, s->d_v, after, 0, m.grad_v + a * d_v, v);
        }
        if (s->grad_q.data) put_rows(m.grad_q, T, s->h, s->d_k, s->bits, &s->grad_q, b);
        if (!s->grad_k.data) continue;
        put_rows(m.grad_k, s->S, s->h, s->d_k, s->bits, &s->grad_k, b);
        put_rows(m.grad_v, s->S, s->h, s->d_v, s->bits, &s->grad_v, b);
    }
    free(m.q);
    return OK;
}
