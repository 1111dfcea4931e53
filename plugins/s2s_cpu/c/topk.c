/* The largest values of each row, for one thread. A row has the same bits whatever the others are.

V values of a row, n wanted.
*/

#include "decoder.h"

/* Values of a block whose largest is known: few, where many values are wanted. */
static int64_t block_size(int64_t V, int64_t n) {
    int64_t size = 128;
    while (size > 16 && V < 4 * n * size) size /= 2;
    return size;
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

static float block_maxima(const float *x, int64_t V, int64_t size, float *maxima) {
    float most = -INFINITY;
    for (int64_t start = 0; start < V; start += size) {
        int64_t i = start, end = start + size < V ? start + size : V;
        vf m = splat(-INFINITY);
        for (; i + W <= end; i += W) m = choose(load(x + i) > m, load(x + i), m);
        float y = largest(m);
        for (; i < end; i++) y = x[i] > y ? x[i] : y;
        *maxima++ = y;
        most = y > most ? y : most;
    }
    return most;
}

static int64_t n_from(const float *x, int64_t n, float least) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += x[i] >= least;
    return count;
}

/* A number that at least n of the maxima reach, and few more than n; -inf if there is none. As many values are no
smaller. */
static float threshold(const float *maxima, int64_t blocks, int64_t n, float most) {
    float below = 1, above = 0; /* distances from the largest: one that n reach, and one that fewer do */
    while (below < 1e30f && n_from(maxima, blocks, most - below) < n) above = below, below *= 2;
    if (below >= 1e30f) return -INFINITY;
    for (int i = 0; i < 10; i++) {
        float middle = (below + above) / 2;
        if (n_from(maxima, blocks, most - middle) < n)
            above = middle;
        else
            below = middle;
    }
    return most - below;
}

/* Those from `least` on, the first `room` of them, and where they are; returns how many there are. */
static int64_t gather(const float *x, int64_t V, int64_t size, const float *maxima, float least, float *some,
                      int64_t room, int64_t *where) {
    int64_t count = 0;
    for (int64_t start = 0; start < V; start += size, maxima++) {
        if (*maxima < least || count > room) continue;
        int64_t end = start + size < V ? start + size : V;
        for (int64_t i = start; i < end; i++)
            if (x[i] >= least && x[i] > -INFINITY) {
                if (count < room) some[count] = x[i], where[count] = i;
                count++;
            }
    }
    return count;
}

/* The n best of some values, in order: each has the place of as many as are better, or equal and before it. */
static void rank(const float *some, const int64_t *where, int64_t count, int64_t n, float *values, int64_t *ids) {
    for (int64_t i = 0; i < count; i++) {
        int32_t better = 0;
        for (int64_t j = 0; j < i; j++) better += some[j] >= some[i];
        for (int64_t j = i + 1; j < count; j++) better += some[j] > some[i];
        if (better < n) values[better] = some[i], ids[better] = where[i];
    }
}

/* The same where very many are equal, or fewer than n blocks have values. */
static int64_t heap(const float *x, int64_t V, int64_t size, const float *maxima, float least, int64_t n,
                    float *values, int64_t *ids) {
    int64_t count = 0;
    for (int64_t start = 0; start < V; start += size, maxima++) {
        if (*maxima < least || (count == n && !(*maxima > values[0]))) continue;
        int64_t end = start + size < V ? start + size : V;
        for (int64_t i = start; i < end; i++)
            if (x[i] >= least && x[i] > -INFINITY) count = keep_best(values, ids, count, n, x[i], i);
    }
    sort_best(values, ids, count);
    return count;
}

/* The n largest of each row x [rows, V], of equal ones the first; absent ones are -inf and id 0. If lse is not
null, each row's log-sum-exp goes there and is taken from the values, all -inf where it is not finite. If allowed
[rows, V] is not null, only those can be among the n, though all are in the sum; the banned ones are -inf. */
int64_t s2s_top_k(const float *x, int64_t rows, int64_t V, int64_t n, const uint8_t *allowed, const int64_t *banned,
                  int64_t n_banned, float *lse, float *values, int64_t *ids) {
    int64_t size = block_size(V, n), blocks = (V + size - 1) / size;
    int64_t room = 2 * n + 16;
    int64_t *where = allocate(room * sizeof(int64_t) + (blocks + room + (allowed ? V : 0)) * sizeof(float));
    if (!where) return NO_MEMORY;
    float *maxima = (float *)(where + room), *some = maxima + blocks, *masked = some + room;
    for (int64_t r = 0; r < rows; r++, x += V, values += n, ids += n) {
        const float *row = x;
        float most = block_maxima(row, V, size, maxima);
        if (lse) lse[r] = log_sum_exp(row, V, most);
        if (allowed) {
            for (int64_t i = 0; i < V; i++) masked[i] = allowed[r * V + i] ? row[i] : -INFINITY;
            row = masked;
            most = block_maxima(row, V, size, maxima);
        }
        float least = threshold(maxima, blocks, n, most);
        int64_t found = gather(row, V, size, maxima, least, some, room, where), count = found < n ? found : n;
        if (found <= room)
            rank(some, where, found, n, values, ids);
        else
            count = heap(row, V, size, maxima, least, n, values, ids);
        int finite = !lse || isfinite(lse[r]);
        for (int64_t i = 0; i < n; i++) {
            if (i >= count) ids[i] = 0;
            values[i] = i < count && finite ? values[i] - (lse ? lse[r] : 0) : -INFINITY;
            for (int64_t b = 0; b < n_banned; b++)
                if (ids[i] == banned[b]) values[i] = -INFINITY;
        }
    }
    free(where);
    return OK;
}
