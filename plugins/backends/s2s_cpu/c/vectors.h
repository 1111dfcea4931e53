/* Vectors of as many floats as the processor's registers hold, and lists of the best values.

No order of additions depends on the size of the batch: a row's result has the same bits in any batch.
*/

#ifndef S2S_VECTORS_H
#define S2S_VECTORS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define W 16
#elif defined(__AVX__)
#define W 8
#else
#define W 4
#endif
#if defined(__AVX512VNNI__) || defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__))
#define INT8_VECTORS /* products of 8-bit integers */
#ifndef __AVX512VNNI__
#define INT8_PAIRS /* by products of pairs of 16-bit integers */
#endif
#endif
#if defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)
#define BF16_VECTORS /* products of values in bf16 */
#endif
typedef float vf __attribute__((vector_size(4 * W), aligned(4)));
typedef int32_t vi __attribute__((vector_size(4 * W), aligned(4)));

/* Memory, or null only if it runs out, even for 0 bytes. */
static inline void *allocate(int64_t n_bytes) { return malloc(n_bytes ? n_bytes : 1); }

static inline vf splat(float x) { return x - (vf){0}; }
static inline vf choose(vi which, vf a, vf b) { return (vf)((which & (vi)a) | (~which & (vi)b)); }
static inline vf load(const float *x) { return *(const vf *)x; }

/* The same of the first n, and zeros; n may be larger than W. */
static inline vf load_part(const float *x, int64_t n) {
    if (n >= W) return load(x);
#ifdef __AVX512F__
    return _mm512_maskz_loadu_ps((1u << n) - 1, x);
#else
    vf y = splat(0);
    memcpy(&y, x, n * sizeof(float));
    return y;
#endif
}

static inline void store_part(vf y, int64_t n, float *x) {
    if (n >= W)
        *(vf *)x = y;
#ifdef __AVX512F__
    else
        _mm512_mask_storeu_ps(x, (1u << n) - 1, y);
#else
    else
        memcpy(x, &y, n * sizeof(float));
#endif
}

/* The larger of each pair; that of b where either is NaN. */
static inline vf larger(vf a, vf b) {
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#elif defined(__AVX__)
    return _mm256_max_ps(a, b);
#elif defined(__SSE__)
    return _mm_max_ps(a, b);
#else
    return choose(a > b, a, b);
#endif
}

/* Whether any lane is true. */
static inline int any(vi which) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)which, (__m512i)which) != 0;
#elif defined(__AVX__)
    return _mm256_movemask_ps((__m256)which) != 0;
#else
    int64_t parts[W / 2], all = 0;
    memcpy(parts, &which, sizeof which);
    for (int i = 0; i < W / 2; i++) all |= parts[i];
    return all != 0;
#endif
}

/* Adds by halves: one lane after the other took twice as long, and so did halves in memory. */
static inline float sum(vf v) {
#ifdef __AVX__
#ifdef __AVX512F__
    __m256 eight = (__m256)_mm512_extractf64x4_pd((__m512d)v, 1) + _mm512_castps512_ps256(v);
#else
    __m256 eight = v;
#endif
    __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
    __m128 two = four + _mm_movehl_ps(four, four);
    return two[0] + two[1];
#else
    float x[W];
    memcpy(x, &v, sizeof v);
    for (int n = W / 2; n; n /= 2)
        for (int i = 0; i < n; i++) x[i] += x[i + n];
    return x[0];
#endif
}

/* The largest lane; any if one is NaN. */
static inline float largest(vf v) {
#ifdef __AVX__
#ifdef __AVX512F__
    __m256 eight = _mm256_max_ps((__m256)_mm512_extractf64x4_pd((__m512d)v, 1), _mm512_castps512_ps256(v));
#else
    __m256 eight = v;
#endif
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return two[0] > two[1] ? two[0] : two[1];
#else
    float x[W];
    memcpy(x, &v, sizeof v);
    for (int n = W / 2; n; n /= 2)
        for (int i = 0; i < n; i++) x[i] = x[i] > x[i + n] ? x[i] : x[i + n];
    return x[0];
#endif
}

/* The largest of V numbers; -inf of none. */
static inline float largest_of(const float *x, int64_t V) {
    vf max = splat(-INFINITY);
    int64_t i = 0;
    for (; i + W <= V; i += W) max = larger(load(x + i), max);
    float found = largest(max);
    for (; i < V; i++) found = x[i] > found ? x[i] : found;
    return found;
}

/* 0, 1, ..., W - 1 */
static inline vi lanes(void) {
    vi lane;
    for (int i = 0; i < W; i++) lane[i] = i;
    return lane;
}

/* exp of x <= 0; 0 below -87, NaN for NaN; accurate to 2 units in the last place. */
#ifdef __AVX512F__
/* 2^(i / 32) as bits, less i << 18, which n << 18 adds again: n = 32 k + i adds k to the exponent. */
static const int32_t POWERS[32] = {
    0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a, 0x3f79c3d3, 0x3f78f4f0,
    0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043, 0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6,
    0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be, 0x3f76248c, 0x3f76a81e,
    0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907, 0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3};

/* 2^(n / 32) exp(r), where |r| <= log(2) / 64, so that two terms of its series, fitted, are enough. */
static inline vf exponential(vf x) {
    const vf shifted = x * splat(46.166241308f) + splat(12582912.0f), n = shifted - splat(12582912.0f);
    const vf r = x - n * splat(0.021660849f) + n * splat(5.9520458e-11f); /* log(2) / 32, and its rounding error */
    const vf p = r * (r * splat(0.5000045f) + splat(1.00001466f)) + splat(1);
    const __m512i low = _mm512_loadu_si512(POWERS), high = _mm512_loadu_si512(POWERS + 16);
    const __m512i table = _mm512_permutex2var_epi32(low, (__m512i)shifted, high); /* by the lowest bits */
    const __m512i power = _mm512_add_epi32(table, _mm512_slli_epi32((__m512i)shifted, 18));
    return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(x, splat(-87), _CMP_NLT_UQ), p, (vf)power);
}
#else
/* The polynomial of Cephes' expf */
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
#endif

/* The lanes of both in turns, from the first half of each; or from the second. */
#if W == 16
#define FIRST_LANES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define LAST_LANES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif W == 8
#define FIRST_LANES 0, 8, 1, 9, 2, 10, 3, 11
#define LAST_LANES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FIRST_LANES 0, 4, 1, 5
#define LAST_LANES 2, 6, 3, 7
#endif
#ifdef __clang__
#define SHUFFLED(a, b, lanes) __builtin_shufflevector(a, b, lanes)
#else
#define SHUFFLED(a, b, lanes) __builtin_shuffle(a, b, (vi){lanes})
#endif

/* Lane i of vector j becomes lane j of vector i. */
static inline void transpose_vectors(vf x[W]) {
    vf y[W];
    _Pragma("GCC unroll 4") for (int n = 1; n < W; n *= 2) {
        _Pragma("GCC unroll 8") for (int i = 0; i < W / 2; i++) {
            y[2 * i] = SHUFFLED(x[i], x[i + W / 2], FIRST_LANES);
            y[2 * i + 1] = SHUFFLED(x[i], x[i + W / 2], LAST_LANES);
        }
        memcpy(x, y, sizeof y);
    }
}

static inline vf magnitude(vf x) { return (vf)((vi)x & 0x7fffffff); }

static inline vf sigmoid(vf x) {
    vf e = exponential(-magnitude(x));
    return choose(x < splat(0), e, splat(1)) / (splat(1) + e);
}

static inline vf hyperbolic_tangent(vf x) { /* absolute error 1e-7, not relative */
    vf e = exponential(magnitude(x) * splat(-2)), y = (splat(1) - e) / (splat(1) + e);
    return (vf)((vi)y | ((vi)x & (int32_t)0x80000000));
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

/* Inserts y into the descending list, after equal values. */
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

/* Replaces a heap's root by y and restores the order: a parent is no better than its children. */
static inline void sift(float *values, int64_t *ids, int64_t n, float y, int64_t id) {
    int64_t j = 0;
    for (int64_t c; (c = 2 * j + 1) < n; j = c) {
        if (c + 1 < n && (values[c + 1] < values[c] || (values[c + 1] == values[c] && ids[c + 1] > ids[c]))) c++;
        if (y < values[c] || (y == values[c] && id > ids[c])) break;
        values[j] = values[c], ids[j] = ids[c];
    }
    values[j] = y, ids[j] = id;
}

/* Adds y, whose id is larger than all before, to a heap of the n best with the worst at its root; of equal values those
with smaller ids are better. Returns the size of the heap. */
static inline int64_t keep_best(float *values, int64_t *ids, int64_t count, int64_t n, float y, int64_t id) {
    int64_t j = count;
    if (count < n) {
        for (int64_t up; j > 0 && values[up = (j - 1) / 2] >= y; j = up) values[j] = values[up], ids[j] = ids[up];
        values[j] = y, ids[j] = id;
        return count + 1;
    }
    if (n && y > values[0]) sift(values, ids, n, y, id);
    return count;
}

/* Sorts the heap into a list, the best first. */
static inline void sort_best(float *values, int64_t *ids, int64_t count) {
    while (count-- > 1) {
        float y = values[count];
        int64_t id = ids[count];
        values[count] = values[0], ids[count] = ids[0];
        sift(values, ids, count, y, id);
    }
}

#endif
