/* Panels of weights, and blocks of sums that stay in registers. */

#ifndef S2S_PANELS_H
#define S2S_PANELS_H

#include "vectors.h"

#if defined(__AVX512F__) || defined(__aarch64__)
enum { PARTS = 4 }; /* 24 of 32 registers hold sums */
#else
enum { PARTS = 2 }; /* 12 of 16 */
#endif
#define UNROLLED _Pragma("GCC unroll 8") /* without it, sums are not kept in registers */
#define INLINE static inline __attribute__((always_inline))
enum { ROWS = 6, C = PARTS * W, AHEAD = 8192 }; /* rows of a block, columns of a panel, bytes to prefetch */

#endif
