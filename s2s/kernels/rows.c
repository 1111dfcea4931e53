/* What decoding does to rows of floats, for one thread.

Each function gives a row the same bits whatever the other rows are. Shapes: B sentences, K hypotheses of each,
N nodes of a sentence, T longest path, h heads of d_k and d_v, V symbols, n wanted.
*/

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { W = 16, BLOCK = 128 };
typedef float vf __attribute__((vector_size(4 * W), aligned(4)));
typedef int32_t vi __attribute__((vector_size(4 * W), aligned(4)));

static inline vf splat(float x) { return x - (vf){0}; }
static inline vf choose(vi which, vf a, vf b) { return (vf)((which & (vi)a) | (~which & (vi)b)); }
static inline vf load(const float *x) { return *(const vf *)x; }

typedef float v8 __attribute__((vector_size(32)));
typedef float v4 __attribute__((vector_size(16)));

static inline float sum(vf v) { /* by halves: one after the other took twice as long */
    v8 a, b;
    memcpy(&a, &v, 32), memcpy(&b, (char *)&v + 32, 32);
    a += b;
    v4 c, d;
    memcpy(&c, &a, 16), memcpy(&d, (char *)&a + 16, 16);
    c += d;
    return (c[0] + c[2]) + (c[1] + c[3]);
}

static inline float largest(vf v) {
    float m = v[0];
    for (int i = 1; i < W; i++) m = v[i] > m ? v[i] : m;
    return m;
}

/* exp of numbers <= 0, 0 below -87, NaN of NaN: the polynomial of Cephes' expf, right to 2 units in the last place */
static inline vf exponential(vf x) {
    vi under = x < splat(-87.0f);
    x = choose(under, splat(-87.0f), x);
    vf whole = (x * splat(1.44269504f) + splat(12582912.0f)) - splat(12582912.0f);
    vf f = (x - whole * splat(0.693359375f)) + whole * splat(2.12194440e-4f);
    vf p = splat(1.9875691500e-4f);
    p = p * f + splat(1.3981999507e-3f);
    p = p * f + splat(8.3334519073e-3f);
    p = p * f + splat(4.1665795894e-2f);
    p = p * f + splat(1.6666665459e-1f);
    p = p * f + splat(5.0000001201e-1f);
    p = p * f * f + f + splat(1.0f);
    vf power = (vf)((__builtin_convertvector(whole, vi) + 127) << 23);
    return choose(under, splat(0.0f), p * power);
}

static float log_sum_exp(const float *x, int64_t V, float most) {
    vf first = splat(0), second = splat(0), shift = splat(most);
    int64_t i = 0;
    for (; i + 2 * W <= V; i += 2 * W) {
        first += exponential(load(x + i) - shift);
        second += exponential(load(x + i + W) - shift);
    }
    float s = sum(first + second);
    for (; i < V; i++) s += expf(x[i] - most);
    return most + logf(s);
}

/* Put y into the descending list; of equal ones the first to come stays first. */
static inline int insert(float *values, int64_t *ids, int count, int n, float y, int64_t id) {
    int j = count < n ? count++ : count - 1;
    for (; j > 0 && values[j - 1] < y; j--) {
        values[j] = values[j - 1];
        if (ids) ids[j] = ids[j - 1];
    }
    values[j] = y;
    if (ids) ids[j] = id;
    return count;
}

static float block_maxima(const float *x, int64_t V, float *maxima) {
    float most = -INFINITY;
    for (int64_t start = 0; start < V; start += BLOCK) {
        int64_t i = start, end = start + BLOCK < V ? start + BLOCK : V;
        vf m = splat(-INFINITY);
        for (; i + W <= end; i += W) m = choose(load(x + i) > m, load(x + i), m);
        float y = largest(m);
        for (; i < end; i++) y = x[i] > y ? x[i] : y;
        maxima[start / BLOCK] = y;
        most = y > most ? y : most;
    }
    return most;
}

/* The n largest of each row x [rows, V], of equal ones the first; absent ones are -inf and id 0. If lse is not
null, each row's log-sum-exp goes there and is taken from the values, all -inf where it is not finite. If allowed
[rows, V] is not null, only those can be among the n, though all are in the sum. */
void s2s_top(const float *x, int64_t rows, int64_t V, int64_t n, const uint8_t *allowed, float *lse, float *values,
             int64_t *ids) {
    int64_t blocks = (V + BLOCK - 1) / BLOCK;
    float maxima[blocks], masked[allowed ? V : 1], best[n];
    for (int64_t r = 0; r < rows; r++, x += V, values += n, ids += n) {
        const float *row = x;
        float most = block_maxima(row, V, maxima);
        if (lse) lse[r] = log_sum_exp(row, V, most);
        if (allowed) {
            for (int64_t i = 0; i < V; i++) masked[i] = allowed[r * V + i] ? row[i] : -INFINITY;
            row = masked;
            block_maxima(row, V, maxima);
        }
        int count = 0;
        for (int64_t b = 0; b < blocks; b++)
            if (count < n || maxima[b] > best[count - 1]) count = insert(best, 0, count, n, maxima[b], 0);
        float threshold = count < n ? -INFINITY : best[n - 1]; /* n blocks hold one as large: the n-th is no less */
        count = 0;
        for (int64_t b = 0; b < blocks; b++) {
            if (maxima[b] < threshold || (count == n && maxima[b] <= values[n - 1])) continue;
            int64_t end = (b + 1) * BLOCK < V ? (b + 1) * BLOCK : V;
            for (int64_t i = b * BLOCK; i < end; i++)
                if (row[i] >= threshold && row[i] > -INFINITY && (count < n || row[i] > values[count - 1]))
                    count = insert(values, ids, count, n, row[i], i);
        }
        int finite = !lse || isfinite(lse[r]);
        for (int64_t i = 0; i < n; i++) {
            if (i >= count) ids[i] = 0;
            values[i] = i < count && finite ? values[i] - (lse ? lse[r] : 0) : -INFINITY;
        }
    }
}

static inline float dot(const float *a, const float *b, int64_t d) {
    vf s = splat(0);
    int64_t j = 0;
    for (; j + W <= d; j += W) s += load(a + j) * load(b + j);
    float total = sum(s);
    for (; j < d; j++) total += a[j] * b[j];
    return total;
}

static inline void add(float *out, float weight, const float *x, int64_t d) {
    int64_t j = 0;
    for (; j + W <= d; j += W) *(vf *)(out + j) = load(out + j) + splat(weight) * load(x + j);
    for (; j < d; j++) out[j] += weight * x[j];
}

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
which the first length[b] count. */
void s2s_attend(const float *q, const float *k, const float *v, int64_t q_stride, int64_t k_stride, int64_t v_stride,
                float *nodes, const int64_t *path, const int64_t *length, int64_t B, int64_t K, int64_t N, int64_t T,
                int64_t h, int64_t d_k, int64_t d_v, float scale, float *out) {
    int64_t width = h * (d_k + d_v), values = h * d_k;
    float w[T + W], query[d_k];
    for (int64_t b = 0; b < B; b++, nodes += N * width) {
        int64_t n = length[b];
        for (int64_t i = 0; i < K; i++) {
            float *node = nodes + path[(b * K + i) * T + n - 1] * width;
            memcpy(node, k + (b * K + i) * k_stride, h * d_k * sizeof(float));
            memcpy(node + values, v + (b * K + i) * v_stride, h * d_v * sizeof(float));
        }
        for (int64_t row = b * K; row < (b + 1) * K; row++)
            for (int64_t a = 0; a < h; a++) {
                const int64_t *at = path + row * T;
                float *o = out + (row * h + a) * d_v;
                for (int64_t j = 0; j < d_k; j++) query[j] = q[row * q_stride + a * d_k + j] * scale;
                for (int64_t t = 0; t < n; t++) w[t] = dot(query, nodes + at[t] * width + a * d_k, d_k);
                float total = exponentials(w, n);
                memset(o, 0, d_v * sizeof(float));
                for (int64_t t = 0; t < n; t++) add(o, w[t] / total, nodes + at[t] * width + values + a * d_v, d_v);
            }
    }
}

/* Layer normalisation of x + y, rows [R, D], with weight and bias [D]. */
void s2s_sum_norm(const float *x, const float *y, int64_t R, int64_t D, const float *weight, const float *bias,
                  float eps, float *out) {
    for (int64_t r = 0; r < R; r++, x += D, y += D, out += D) {
        vf s = splat(0), squares = splat(0);
        int64_t i = 0;
        for (; i + W <= D; i += W) s += *(vf *)(out + i) = load(x + i) + load(y + i);
        float total = sum(s), square = 0;
        for (; i < D; i++) total += out[i] = x[i] + y[i];
        float mean = total / D;
        for (i = 0; i + W <= D; i += W) squares += (load(out + i) - splat(mean)) * (load(out + i) - splat(mean));
        for (square = sum(squares); i < D; i++) square += (out[i] - mean) * (out[i] - mean);
        float by = 1 / sqrtf(square / D + eps);
        for (i = 0; i < D; i++) out[i] = (out[i] - mean) * by * weight[i] + bias[i];
    }
}

/* Rows x [R, I] as unsigned 8-bit numbers around zero, and their scales [R]. */
void s2s_quantized(const float *x, int64_t R, int64_t I, int64_t zero, uint8_t *out, float *scale) {
    for (int64_t r = 0; r < R; r++, x += I, out += I) {
        float most = 1e-12f * 127;
        for (int64_t i = 0; i < I; i++) {
            float y = fabsf(x[i]);
            most = y > most ? y : most;
        }
        float by = 127 / most;
        scale[r] = most / 127;
        for (int64_t i = 0; i < I; i++) out[i] = (uint8_t)(int32_t)(x[i] * by + ((float)zero + 0.5f));
    }
}

/* x [R, O] times scale [R] plus bias [O], in place. */
void s2s_rescaled(float *x, int64_t R, int64_t O, const float *scale, const float *bias) {
    for (int64_t r = 0; r < R; r++, x += O)
        for (int64_t i = 0; i < O; i++) x[i] = x[i] * scale[r] + bias[i];
}
