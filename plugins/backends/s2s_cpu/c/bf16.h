/* bf16, the upper 16 bits of a float: conversion from and to floats, one value or a vector at a time. */

#ifndef S2S_BF16_H
#define S2S_BF16_H

#include "vectors.h"

typedef uint32_t vu __attribute__((vector_size(4 * W), aligned(4)));
typedef uint16_t vh __attribute__((vector_size(2 * W), aligned(2)));

static inline float widened(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, 4);
    return y;
}

static inline uint16_t narrowed(float x) { /* to nearest, ties to even */
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

static inline vf widen_vector(const uint16_t *x) { return (vf)(__builtin_convertvector(*(const vh *)x, vu) << 16); }

static inline void narrow_vector(vf x, uint16_t *out) {
    vu bits = (vu)x;
    *(vh *)out = __builtin_convertvector((bits + 0x7fff + ((bits >> 16) & 1)) >> 16, vh);
}

/* A vector of values in bf16 or of floats, from the i-th on. */
static inline vf load_from(const void *x, int64_t i, int64_t bits) {
    return bits == 16 ? widen_vector((const uint16_t *)x + i) : load((const float *)x + i);
}

static inline void store_to(void *x, int64_t i, int64_t bits, vf y) {
    if (bits == 16)
        narrow_vector(y, (uint16_t *)x + i);
    else
        *(vf *)((float *)x + i) = y;
}

static inline void widen(const uint16_t *x, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + W <= n; i += W) *(vf *)(out + i) = widen_vector(x + i);
    for (; i < n; i++) out[i] = widened(x[i]);
}

static inline void narrow(const float *x, int64_t n, uint16_t *out) {
    int64_t i = 0;
    for (; i + W <= n; i += W) narrow_vector(load(x + i), out + i);
    for (; i < n; i++) out[i] = narrowed(x[i]);
}

#endif
