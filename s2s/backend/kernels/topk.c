/* The largest values of each row, for one thread. A row has the same bits whatever the others are.

V values of a row, n wanted.
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
int64_t s2s_top_k(const float *x, int64_t rows, int64_t V, int64_t n, const uint8_t *allowed, const int64_t *banned,
                  int64_t n_banned, float *lse, float *values, int64_t *ids) {
    int64_t blocks = (V + BLOCK - 1) / BLOCK;
    float *maxima = allocate((blocks + n + (allowed ? V : 0)) * sizeof(float));
    if (!maxima) return NO_MEMORY;
    float *best = maxima + blocks, *masked = best + n;
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
    free(maxima);
    return OK;
}
