/* Operations on rows of floats, for one thread. A row's result has the same bits whatever the other rows are. */

#include "decoder.h"

static float mean_of(const float *x, int64_t D) {
    vf s = splat(0);
    int64_t i = 0;
    for (; i + W <= D; i += W) s += load(x + i);
    float total = sum(s);
    for (; i < D; i++) total += x[i];
    return total / D;
}

/* Layer normalisation of rows x [R, D], or by the root mean square if the norm has no bias; out may be x. */
int64_t s2s_norm(const float *x, int64_t R, int64_t D, const Norm *norm, float *out) {
    const float *weight = norm->weight, *bias = norm->bias;
    for (int64_t r = 0; r < R; r++, x += D, out += D) {
        float mean = bias ? mean_of(x, D) : 0, square;
        vf squares = splat(0);
        int64_t i = 0;
        for (; i + W <= D; i += W) squares += (load(x + i) - splat(mean)) * (load(x + i) - splat(mean));
        for (square = sum(squares); i < D; i++) square += (x[i] - mean) * (x[i] - mean);
        float factor = 1 / sqrtf(square / D + (float)norm->eps);
        if (bias)
            for (i = 0; i < D; i++) out[i] = (x[i] - mean) * factor * weight[i] + bias[i];
        else
            for (i = 0; i < D; i++) out[i] = x[i] * factor * weight[i];
    }
    return OK;
}

/* The same for x + y. */
int64_t s2s_add_norm(const float *x, const float *y, int64_t R, int64_t D, const Norm *norm, float *out) {
    for (int64_t r = 0; r < R; r++, x += D, y += D, out += D) {
        for (int64_t i = 0; i < D; i++) out[i] = x[i] + y[i];
        s2s_norm(out, 1, D, norm, out);
    }
    return OK;
}

/* The largest magnitude of x [I]; NaN if one is NaN or infinite. */
static inline float largest_magnitude(const float *x, int64_t I) {
    vf most = splat(0), zeros = splat(0);
    for (int64_t i = 0; i < I; i += W) {
        const vf y = magnitude(load_part(x + i, I - i));
        most = larger(most, y);
        zeros += y * splat(0);
    }
    return largest(most) + sum(zeros);
}

/* x [I] times `factor` plus `offset`, without fractions, as bytes */
static void store_bytes(const float *x, int64_t I, float factor, float offset, uint8_t *out) {
    typedef uint8_t vb __attribute__((vector_size(W)));
    int64_t i = 0;
#ifdef __AVX512BW__ /* to store the bytes of one vector at a time takes twice as long */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (; i + 4 * W <= I; i += 4 * W) {
        __m512i y[4];
        for (int c = 0; c < 4; c++)
            y[c] = (__m512i)__builtin_convertvector(load(x + i + c * W) * splat(factor) + splat(offset), vi);
        y[0] = _mm512_packus_epi16(_mm512_packus_epi32(y[0], y[1]), _mm512_packus_epi32(y[2], y[3]));
        _mm512_storeu_si512(out + i, _mm512_permutexvar_epi32(order, y[0]));
    }
#endif
    for (; i + W <= I; i += W) {
        const vi whole = __builtin_convertvector(load(x + i) * splat(factor) + splat(offset), vi);
        const vb bytes = __builtin_convertvector(whole, vb);
        memcpy(out + i, &bytes, W);
    }
    for (; i < I; i++) out[i] = (uint8_t)(int32_t)(x[i] * factor + offset);
}

/* Rows x [R, I] as unsigned 8-bit integers around `zero`, `stride` bytes apart, and their scales [R]; the scale of a
row with NaN or infinity is NaN. The largest values of some rows are found first, so that no row waits for its own. */
int64_t s2s_quantize_rows(const float *x, int64_t R, int64_t I, int64_t stride, int64_t zero, uint8_t *out,
                          float *scale) {
    enum { AT_ONCE = 16 };
    float most[AT_ONCE];
    for (int64_t r = 0; r < R; r++, x += I, out += stride) {
        if (r % AT_ONCE == 0)
            for (int64_t i = 0; i < AT_ONCE && r + i < R; i++) most[i] = largest_magnitude(x + i * I, I);
        const float found = most[r % AT_ONCE], max = found < 1e-12f * 127 ? 1e-12f * 127 : found;
        scale[r] = max / 127;
        if (max == max)
            store_bytes(x, I, 127 / max, (float)zero + 0.5f, out);
        else
            memset(out, (int)zero, I);
        memset(out + I, 0, stride - I);
    }
    return OK;
}

/* x [R, O] times scale [R] plus bias [O], in place. */
int64_t s2s_dequantize_rows(float *x, int64_t R, int64_t O, const float *scale, const float *bias) {
    for (int64_t r = 0; r < R; r++, x += O)
        for (int64_t i = 0; i < O; i++) x[i] = x[i] * scale[r] + bias[i];
    return OK;
}
