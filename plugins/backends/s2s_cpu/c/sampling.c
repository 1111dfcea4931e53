/* Tokens drawn at random by inversion: the first, in the order of ids, at which the cumulative probability of those
that remain exceeds a random number. A row's result has the same bits whatever the other rows are. For one thread.

V tokens. Weights are probabilities in proportion, in fp32; their sums are in fp64 but for those within a vector's lanes
of a block, so that a token's probability is off by at most some 1e-7 of itself.
*/

#include "beam_search.h"
#include "log_sum_exp.h"

enum { BLOCK = 256, FIRST = 64 }; /* tokens whose weights are added up together; the most probable ones, at first */

typedef struct { /* of a row, padded to whole blocks */
    int64_t V, n_blocks;
    float *scores, *weights; /* -inf and 0 where a token is not possible */
    double *reached;         /* [n_blocks], the sum of the weights so far */
    float *best;             /* [V], the largest scores, and their tokens */
    int64_t *tokens;
} Row;

static uintptr_t arrange(uintptr_t at, int64_t V, Row *w) {
    w->V = V, w->n_blocks = (V + BLOCK - 1) / BLOCK;
    const int64_t n_bytes = w->n_blocks * BLOCK * sizeof(float);
    w->scores = take(&at, n_bytes), w->weights = take(&at, n_bytes);
    w->reached = take(&at, w->n_blocks * sizeof(double));
    w->best = take(&at, V * sizeof(float)), w->tokens = take(&at, V * sizeof(int64_t));
    return at;
}

/* Scores of possible tokens. */
static int64_t mask(const float *x, const uint8_t *allowed, const int64_t *banned, int64_t n_banned, Row *w) {
    int64_t n_nan = 0;
    for (int64_t i = 0; i < w->V; i++) {
        w->scores[i] = !allowed || allowed[i] ? x[i] : -INFINITY;
        n_nan += w->scores[i] != w->scores[i];
    }
    for (int64_t i = w->V; i < w->n_blocks * BLOCK; i++) w->scores[i] = -INFINITY;
    for (int64_t i = 0; i < n_banned; i++) {
        n_nan -= w->scores[banned[i]] != w->scores[banned[i]];
        w->scores[banned[i]] = -INFINITY;
    }
    return n_nan;
}

/* Weights 2^(factor * (score - max)) */
static void weigh(float max, float factor, Row *w) {
    for (int64_t i = 0; i < w->n_blocks * BLOCK; i += W) {
        const vf score = load(w->scores + i), weight = power_of_two((score - splat(max)) * splat(factor));
        *(vf *)(w->weights + i) = choose(score > splat(-INFINITY), weight, splat(0));
    }
}

static double add_up(Row *w) {
    double total = 0;
    for (int64_t b = 0; b < w->n_blocks; b++) {
        vf lanes = splat(0);
        for (int64_t i = b * BLOCK; i < (b + 1) * BLOCK; i += W) lanes += load(w->weights + i);
        w->reached[b] = total += sum(lanes);
    }
    return total;
}

/* How many of the n best tokens the rule keeps, at least one; -1: more than these. They are found by their scores. */
static int64_t count_kept(const SamplingRule *rule, int64_t n, double total, const Row *w) {
    int64_t count = 0, kept = 0;
    double reached = 0;
    while (count < n && w->best[count] > -INFINITY) count++;
    if (rule->top_k) {
        total = 0;
        for (int64_t i = 0; i < count; i++) total += w->weights[w->tokens[i]];
    }
    while (kept < count && reached < rule->top_p * total) reached += w->weights[w->tokens[kept++]];
    return rule->top_k || reached >= rule->top_p * total || n == w->V ? kept : -1;
}

/* Weights become 0 but for the tokens that top_k keeps, and of those the ones that top_p keeps; of equal scores the
first stay. */
static int64_t narrow(const SamplingRule *rule, double total, Row *w) {
    int64_t kept = -1, n_equal = 0;
    for (int64_t n = rule->top_k ? rule->top_k : FIRST; kept < 0; n *= 4) {
        n = n < w->V ? n : w->V;
        if (s2s_top_k(w->scores, 1, w->V, n, 0, 0, 0, 0, 1, 0, 0, w->best, w->tokens)) return NO_MEMORY;
        kept = count_kept(rule, n, total, w);
    }
    const float least = w->best[kept - 1];
    for (int64_t i = 0; i < kept; i++) n_equal += w->best[i] == least;
    for (int64_t i = 0; i < w->V; i++) {
        const int is_equal = w->scores[i] == least, stays = w->scores[i] > least || (is_equal && n_equal > 0);
        n_equal -= is_equal;
        if (!stays) w->weights[i] = 0;
    }
    return OK;
}

/* The token at which the sum of the weights exceeds `random`, in [0, 1), of their total. */
static int64_t invert(double random, const Row *w) {
    const double target = random * w->reached[w->n_blocks - 1];
    int64_t b = 0, last = -1;
    while (b < w->n_blocks - 1 && w->reached[b] <= target) b++;
    while (b && w->reached[b] == w->reached[b - 1]) b--; /* if the target is rounded up to the total */
    double reached = b ? w->reached[b - 1] : 0;
    for (int64_t i = b * BLOCK; i < (b + 1) * BLOCK; i++) {
        if (!w->weights[i]) continue;
        last = i;
        if ((reached += w->weights[i]) > target) break;
    }
    return last;
}

/* n tokens for a row x [V], and their log-probabilities. */
static int64_t draw(const float *x, const uint8_t *allowed, const int64_t *banned, int64_t n_banned, int64_t normalize,
                    const SamplingRule *rule, const double *random, int64_t n, Row *w, int64_t *token,
                    float *log_prob) {
    const float lse = normalize ? log_sum_exp(x, w->V, largest_of(x, w->V)) : 0;
    const int64_t n_nan = mask(x, allowed, banned, n_banned, w);
    const float max = largest_of(w->scores, w->V);
    for (int64_t i = 0; i < n; i++) token[i] = 0, log_prob[i] = -INFINITY;
    if (!isfinite(lse) || !isfinite(max) || n_nan) return OK;
    const double factor = 1.4426950408889634 / rule->temperature; /* log2(e) */
    weigh(max, factor < 1e30 ? factor : 1e30, w);
    if (rule->top_k || rule->top_p < 1) {
        if (narrow(rule, add_up(w), w)) return NO_MEMORY;
    }
    add_up(w);
    for (int64_t i = 0; i < n; i++) token[i] = invert(random[i], w), log_prob[i] = x[token[i]] - lse;
    return OK;
}

/* n tokens for each row of x [rows, V], drawn with `random` [rows, n] as the rule says, and their log-probabilities
before it; token 0 and -inf where none is possible. allowed [rows, V], or null; without `normalize`, x are
log-probabilities. */
int64_t s2s_sample(const float *x, int64_t rows, int64_t V, const uint8_t *allowed, const int64_t *banned,
                   int64_t n_banned, int64_t normalize, const SamplingRule *rule, const double *random, int64_t n,
                   int64_t *token, float *log_prob) {
    Row w;
    char *memory = allocate(arrange(0, V, &w) + 64);
    int64_t failed = !memory;
    if (memory) arrange(((uintptr_t)memory + 63) / 64 * 64, V, &w);
    for (int64_t r = 0; r < rows && !failed; r++, x += V, random += n, token += n, log_prob += n)
        failed = draw(x, allowed ? allowed + r * V : 0, banned, n_banned, normalize, rule, random, n, &w, token,
                      log_prob);
    free(memory);
    return failed ? NO_MEMORY : OK;
}
