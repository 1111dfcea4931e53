/* What decoding does to rows of floats, for one thread.

Each function gives a row the same bits whatever the other rows are. V symbols, n wanted.
*/

#include "decoder.h"

enum { BLOCK = 128 };

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
[rows, V] is not null, only those can be among the n, though all are in the sum; the banned ones are -inf. */
void s2s_top(const float *x, int64_t rows, int64_t V, int64_t n, const uint8_t *allowed, const int64_t *banned,
             int64_t n_banned, float *lse, float *values, int64_t *ids) {
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
            for (int64_t b = 0; b < n_banned; b++)
                if (ids[i] == banned[b]) values[i] = -INFINITY;
        }
    }
}

/* Layer normalisation of rows x [R, D], with weight and bias [D]; out may be x. */
void s2s_norm(const float *x, int64_t R, int64_t D, const float *weight, const float *bias, float eps, float *out) {
    for (int64_t r = 0; r < R; r++, x += D, out += D) {
        vf s = splat(0), squares = splat(0);
        int64_t i = 0;
        for (; i + W <= D; i += W) s += load(x + i);
        float total = sum(s), square;
        for (; i < D; i++) total += x[i];
        float mean = total / D;
        for (i = 0; i + W <= D; i += W) squares += (load(x + i) - splat(mean)) * (load(x + i) - splat(mean));
        for (square = sum(squares); i < D; i++) square += (x[i] - mean) * (x[i] - mean);
        float by = 1 / sqrtf(square / D + eps);
        for (i = 0; i < D; i++) out[i] = (x[i] - mean) * by * weight[i] + bias[i];
    }
}

/* The same of x + y. */
void s2s_add_norm(const float *x, const float *y, int64_t R, int64_t D, const float *weight, const float *bias,
                  float eps, float *out) {
    for (int64_t r = 0; r < R; r++, x += D, y += D, out += D) {
        for (int64_t i = 0; i < D; i++) out[i] = x[i] + y[i];
        s2s_norm(out, 1, D, weight, bias, eps, out);
    }
}

/* Rows x [R, I] as unsigned 8-bit numbers around zero, `stride` bytes apart, and their scales [R]. */
void s2s_quantized(const float *x, int64_t R, int64_t I, int64_t stride, int64_t zero, uint8_t *out, float *scale) {
    for (int64_t r = 0; r < R; r++, x += I, out += stride) {
        vf largest_each = splat(1e-12f * 127);
        int64_t i = 0;
        for (; i + W <= I; i += W) {
            vf y = (vf)((vi)load(x + i) & 0x7fffffff); /* its absolute value */
            largest_each = choose(y > largest_each, y, largest_each);
        }
        float most = largest(largest_each);
        for (; i < I; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        float by = 127 / most;
        scale[r] = most / 127;
        for (i = 0; i < I; i++) out[i] = (uint8_t)(int32_t)(x[i] * by + ((float)zero + 0.5f));
        memset(out + I, 0, stride - I);
    }
}

/* x [R, O] times scale [R] plus bias [O], in place. */
void s2s_rescaled(float *x, int64_t R, int64_t O, const float *scale, const float *bias) {
    for (int64_t r = 0; r < R; r++, x += O)
        for (int64_t i = 0; i < O; i++) x[i] = x[i] * scale[r] + bias[i];
}
