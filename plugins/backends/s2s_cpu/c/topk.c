/* The largest values of each row, for one thread. A row's result has the same bits whatever the other rows are, unless
rows are given as hypotheses of one sentence.

V values of a row, of which the n largest are found.
*/

#include "decoder.h"
#include "log_sum_exp.h"

#include <float.h>

enum { RUN = 128, DEEPEST = 32 }; /* values that are ranked at once; vectors of a group */

typedef struct {
    float *maxima;    /* of each lane over the vectors of a group */
    float *gathered;      /* values that include the n largest, in the order of the row, then sorted */
    int32_t *positions;   /* their positions in the row */
    float *values;    /* room for as many */
    int32_t *indices;
} Scratch;

/* Vectors of a group: few enough that a row has at least 4 n maxima. */
static int64_t group_depth(int64_t V, int64_t n) {
    int64_t depth = DEEPEST;
    while (depth > 1 && V < 4 * n * depth) depth /= 2;
    return depth;
}

/* The maxima of each lane over a group of `depth` vectors, group by group; returns the largest. The last group is
padded with -inf. */
static float group_maxima(const float *x, int64_t V, int64_t depth, float *maxima) {
    vf max = splat(-INFINITY), m = max;
    int64_t i = 0;
    for (; i + depth * W <= V; i += depth * W, maxima += W) {
        m = load(x + i);
        for (int64_t j = i + W; j < i + depth * W; j += W) m = larger(load(x + j), m);
        *(vf *)maxima = m;
        max = larger(m, max);
    }
    if (i == V) return largest(max);
    for (m = splat(-INFINITY); i < V; i += W) {
        vf y = splat(-INFINITY);
        memcpy(&y, x + i, (V - i < W ? V - i : W) * sizeof(float));
        m = larger(y, m);
    }
    *(vf *)maxima = m;
    return largest(larger(m, max));
}

static int64_t count_at_least(const float *x, int64_t n, float threshold) { /* n: a multiple of W */
    vi counts = {0};
    for (int64_t i = 0; i < n; i += W) counts -= load(x + i) >= splat(threshold);
    int64_t count = 0;
    for (int j = 0; j < W; j++) count += counts[j];
    return count;
}

/* A threshold that at least n of the maxima reach, and few more than n; the lowest finite float if there is none. At
least as many values of the row reach it. */
static float find_threshold(const float *maxima, int64_t n_maxima, int64_t n, float max) {
    float below = 1, above = 0; /* distances from the largest: n maxima lie within `below`, fewer within `above` */
    while (below < 1e30f && count_at_least(maxima, n_maxima, max - below) < n) above = below, below *= 2;
    if (!(below < 1e30f && max - below >= -FLT_MAX)) return -FLT_MAX;
    for (int i = 0; i < 10; i++) {
        float middle = (below + above) / 2;
        if (count_at_least(maxima, n_maxima, max - middle) < n)
            above = middle;
        else
            below = middle;
    }
    return max - below;
}

/* Gathers the values >= `threshold`; returns how many, or more than `room`. The arrays have room for one more group. */
static int64_t gather(const float *x, int64_t V, int64_t depth, float threshold, int64_t room, const Scratch *s) {
    const float *maxima = s->maxima;
    int64_t count = 0;
    for (int64_t start = 0; start < V && count <= room; start += depth * W, maxima += W) {
        if (!any(load(maxima) >= splat(threshold))) continue;
        int64_t end = start + depth * W < V ? start + depth * W : V;
        for (int64_t i = start; i < end; i += W) {
            if (i + W <= end && !any(load(x + i) >= splat(threshold))) continue;
            for (int64_t j = i; j < i + W && j < end; j++) { /* without a branch, which could not be predicted */
                s->gathered[count] = x[j], s->positions[count] = j;
                count += x[j] >= threshold;
            }
        }
    }
    return count;
}

/* Sorts up to RUN values: each one's place is the number of values better, or equal and before it. W at once. */
static void rank(const float *gathered, const int32_t *positions, int64_t n, float *values, int32_t *indices) {
    vi lane;
    for (int j = 0; j < W; j++) lane[j] = j;
    for (int64_t i = 0; i < n; i += W) {
        int64_t there = n - i < W ? n - i : W;
        vf y = splat(0);
        vi better = {0};
        memcpy(&y, gathered + i, there * sizeof(float));
        for (int64_t j = 0; j < i; j++) better -= splat(gathered[j]) >= y;
        for (int64_t j = 0; j < there; j++)
            better -= (splat(gathered[i + j]) > y) | ((splat(gathered[i + j]) == y) & (lane > (int32_t)j));
        for (int64_t j = i + there; j < n; j++) better -= splat(gathered[j]) > y;
        for (int64_t j = 0; j < there; j++) values[better[j]] = gathered[i + j], indices[better[j]] = positions[i + j];
    }
}

/* Merges two sorted lists; of equal values, those of the first list come first. */
static void merge(const float *a, const int32_t *of_a, int64_t n, const float *b, const int32_t *of_b, int64_t m,
                  float *values, int32_t *indices) {
    int64_t i = 0, j = 0;
    while (i < n && j < m) {
        int second = b[j] > a[i];
        *values++ = second ? b[j] : a[i], *indices++ = second ? of_b[j] : of_a[i];
        j += second, i += !second;
    }
    for (; i < n; i++) *values++ = a[i], *indices++ = of_a[i];
    for (; j < m; j++) *values++ = b[j], *indices++ = of_b[j];
}

/* Sorts the gathered values, the best first; equal ones keep their order. Runs are ranked, then merged two by two. */
static void sort(Scratch *s, int64_t count) {
    for (int64_t i = 0; i < count; i += RUN)
        rank(s->gathered + i, s->positions + i, count - i < RUN ? count - i : RUN, s->values + i, s->indices + i);
    for (int64_t run = RUN;; run *= 2) {
        float *values = s->gathered;
        int32_t *indices = s->positions;
        s->gathered = s->values, s->positions = s->indices, s->values = values, s->indices = indices;
        if (run >= count) return;
        for (int64_t i = 0; i < count; i += 2 * run) {
            int64_t n = count - i < run ? count - i : run, m = count - i - n < run ? count - i - n : run;
            merge(s->gathered + i, s->positions + i, n, s->gathered + i + n, s->positions + i + n, m, values + i,
                  indices + i);
        }
    }
}

/* The same with a heap, for rows of which very many values are equal. */
static int64_t select_with_heap(const float *x, int64_t V, float threshold, int64_t n, float *values, int64_t *ids) {
    int64_t count = 0;
    for (int64_t i = 0; i < V; i++)
        if (x[i] >= threshold) count = keep_best(values, ids, count, n, x[i], i);
    sort_best(values, ids, count);
    return count;
}

/* The n largest of a row, or as many as are above -inf; some below `bound` may be missing. Returns how many. */
static int64_t largest_of_row(const float *x, int64_t V, int64_t depth, int64_t n, float max, float bound, Scratch *s,
                              float *values, int64_t *ids) {
    int64_t room = 2 * n + 16, width = depth * W, n_maxima = (V + width - 1) / width * W;
    float threshold = bound;
    if (!(bound > -FLT_MAX) || count_at_least(s->maxima, n_maxima, bound) >= n)
        threshold = find_threshold(s->maxima, n_maxima, n, max);
    int64_t found = gather(x, V, depth, threshold, room, s), count = found < n ? found : n;
    if (found > room) return select_with_heap(x, V, threshold, n, values, ids);
    sort(s, found);
    for (int64_t i = 0; i < count; i++) values[i] = s->gathered[i], ids[i] = s->positions[i];
    return count;
}

/* Memory for rows of up to V values, and for `extra` more at `rest`: one block that begins with the maxima, or null. */
static Scratch scratch_for(int64_t V, int64_t n, int64_t extra, float **rest) {
    int64_t width = group_depth(V, n) * W, n_maxima = (V / width + 1) * W, room = 2 * n + 17 + width;
    float *memory = allocate((n_maxima + 4 * room + extra) * sizeof(float)), *gathered = memory + n_maxima;
    if (!memory) return (Scratch){0};
    *rest = gathered + 4 * room;
    return (Scratch){
        .maxima = memory,
        .gathered = gathered,
        .positions = (int32_t *)(gathered + room),
        .values = gathered + 2 * room,
        .indices = (int32_t *)(gathered + 3 * room),
    };
}

/* The first `count` of n values become log-probabilities; the others are -inf and id 0. */
static void normalize(float *values, int64_t *ids, int64_t count, int64_t n, const float *lse, const int64_t *banned,
                      int64_t n_banned) {
    int finite = !lse || isfinite(*lse);
    for (int64_t i = 0; i < n; i++) {
        if (i >= count) ids[i] = 0;
        values[i] = i < count && finite ? values[i] - (lse ? *lse : 0) : -INFINITY;
        for (int64_t b = 0; b < n_banned; b++)
            if (ids[i] == banned[b]) values[i] = -INFINITY;
    }
}

/* K rows, the hypotheses of a sentence: the n_best totals so far bound the values that later rows need. */
typedef struct {
    const float *score; /* of each row, added to its log-probabilities; null: rows are independent */
    int64_t K, n_best, count;
    float *totals, *spare; /* [n_best], the largest first */
} BestTotals;

/* The smallest value of row r that may be among the n_best, with a margin for rounding: merging compares totals. */
static float lower_bound(BestTotals *best, int64_t r, float lse) {
    if (best->score && r % best->K == 0) best->count = 0;
    if (!best->score || best->count < best->n_best) return -INFINITY;
    float worst = best->totals[best->n_best - 1], score = best->score[r];
    return worst - score + lse - 1e-5f * (fabsf(worst) + fabsf(score) + fabsf(lse));
}

/* Merges the n log-probabilities of row r into the totals: the largest first, among them -inf for banned ones. */
static void add_totals(BestTotals *best, int64_t r, const float *log_probs, int64_t n) {
    int64_t i = 0, j = 0, count = 0;
    if (!best->score) return;
    for (; count < best->n_best; count++) {
        while (i < n && !(best->score[r] + log_probs[i] > -INFINITY)) i++;
        int from_row = i < n && (j == best->count || best->score[r] + log_probs[i] > best->totals[j]);
        if (!from_row && j == best->count) break;
        best->spare[count] = from_row ? best->score[r] + log_probs[i++] : best->totals[j++];
    }
    float *totals = best->spare;
    best->spare = best->totals, best->totals = totals, best->count = count;
}

/* The n largest of each row of x [rows, V], of equal values the first; missing ones are -inf with id 0. If lse is not
null, each row's log-sum-exp is stored there and subtracted from the values, which are all -inf where it is not finite.
If allowed [rows, V] is not null, only allowed values can be among the n, though the sum includes all; banned ones are
-inf. If score [rows] is not null, values that cannot be among the n_best of K rows, after their row's score is added,
may be missing, too. */
int64_t s2s_top_k(const float *x, int64_t rows, int64_t V, int64_t n, const uint8_t *allowed, const int64_t *banned,
                  int64_t n_banned, const float *score, int64_t K, int64_t n_best, float *lse, float *values,
                  int64_t *ids) {
    int64_t depth = group_depth(V, n);
    float *masked;
    Scratch s = scratch_for(V, n, (allowed ? V : 0) + 2 * n_best, &masked);
    if (!s.maxima) return NO_MEMORY;
    float *totals = masked + (allowed ? V : 0);
    BestTotals best = {.score = score, .K = K, .n_best = n_best, .totals = totals, .spare = totals + n_best};
    for (int64_t r = 0; r < rows; r++, x += V, values += n, ids += n) {
        const float *row = x;
        float max = group_maxima(row, V, depth, s.maxima);
        if (lse) lse[r] = log_sum_exp(row, V, max);
        if (allowed) {
            for (int64_t i = 0; i < V; i++) masked[i] = allowed[r * V + i] ? row[i] : -INFINITY;
            row = masked;
            max = group_maxima(row, V, depth, s.maxima);
        }
        float bound = lower_bound(&best, r, lse ? lse[r] : 0);
        int64_t count = largest_of_row(row, V, depth, n, max, bound, &s, values, ids);
        normalize(values, ids, count, n, lse ? lse + r : 0, banned, n_banned);
        add_totals(&best, r, values, n);
    }
    free(s.maxima);
    return OK;
}

/* The same where row r allows only the tokens of list[r]: only these few are compared. */
int64_t s2s_top_k_of_lists(const float *x, int64_t rows, int64_t V, int64_t n, const TokenLists *lists,
                           const int64_t *list, const int64_t *banned, int64_t n_banned, const float *score, int64_t K,
                           int64_t n_best, float *lse, float *values, int64_t *ids) {
    float *allowed;
    Scratch s = scratch_for(V, n, 2 * V + W + 2 * n_best, &allowed), allowed_scratch = s;
    if (!s.maxima) return NO_MEMORY;
    allowed_scratch.maxima = allowed + V;
    float *totals = allowed_scratch.maxima + V + W;
    BestTotals best = {.score = score, .K = K, .n_best = n_best, .totals = totals, .spare = totals + n_best};
    for (int64_t r = 0; r < rows; r++, x += V, values += n, ids += n) {
        const int64_t *token = lists->token + lists->begin[list[r]];
        int64_t n_allowed = lists->begin[list[r] + 1] - lists->begin[list[r]], depth = group_depth(n_allowed, n);
        if (lse) lse[r] = log_sum_exp(x, V, group_maxima(x, V, group_depth(V, n), s.maxima));
        for (int64_t i = 0; i < n_allowed; i++) allowed[i] = x[token[i]];
        float max = group_maxima(allowed, n_allowed, depth, allowed_scratch.maxima);
        float bound = lower_bound(&best, r, lse ? lse[r] : 0);
        int64_t count = largest_of_row(allowed, n_allowed, depth, n, max, bound, &allowed_scratch, values, ids);
        for (int64_t i = 0; i < count; i++) ids[i] = token[ids[i]];
        normalize(values, ids, count, n, lse ? lse + r : 0, banned, n_banned);
        add_totals(&best, r, values, n);
    }
    free(s.maxima);
    return OK;
}
