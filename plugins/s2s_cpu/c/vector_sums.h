/* Sums of products of rows with a panel's weights by vectors: AVX-512 VNNI for 8-bit integers, AVX512-BF16 for bf16.

Rows and panels lie in units of four bytes, as in tile_sums.c.
*/

#ifndef S2S_VECTOR_SUMS_H
#define S2S_VECTOR_SUMS_H

#include "tile_sums.h"

#if defined(INT8_VECTORS) || defined(BF16_VECTORS)
/* As one piece of assembly, since the compiler would read the units of all rows first, so that the sums of six rows would
no longer fit into registers, and its intrinsics for the products move them twice. */
#define ADD_UNIT(product)                                                                                              \
    __asm__("vpbroadcastd %5, %4\n\t" product " %6, %4, %0\n\t" product " %7, %4, %1\n\t" product                    \
            " %8, %4, %2\n\t" product " %9, %4, %3"                                                                    \
            : "+v"(sums[0]), "+v"(sums[1]), "+v"(sums[2]), "+v"(sums[3]), "=&v"(unit)                                  \
            : "m"(*(const char(*)[4])x), "v"(w[0]), "v"(w[1]), "v"(w[2]), "v"(w[3]))

/* Adds the products of a row's unit with those of all outputs to the row's sums. */
INLINE void add_unit(const int bits, vi sums[PARTS], const char *x, const vi w[PARTS]) {
    vi unit;
    if (bits == 8) {
#ifdef INT8_VECTORS
        ADD_UNIT("vpdpbusd");
#endif
    } else {
#ifdef BF16_VECTORS
        ADD_UNIT("vdpbf16ps");
#endif
    }
}

/* Sums of n rows. */
INLINE void sums_of_rows(const int bits, const int n, const char *x, int64_t stride, const char *weight, int64_t n_units,
                         int32_t sums[][C]) {
    vi found[ROWS][PARTS], w[PARTS];
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < PARTS; c++) found[r][c] = (vi){0};
    for (int64_t i = 0; i < n_units; i++, weight += 4 * C) {
        UNROLLED for (int c = 0; c < PARTS; c++) {
            w[c] = *(const vi *)(weight + c * 64);
            __builtin_prefetch(weight + AHEAD + c * 64);
        }
        UNROLLED for (int r = 0; r < n; r++) add_unit(bits, found[r], x + r * stride + i * 4, w);
    }
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < PARTS; c++) *(vi *)(sums[r] + c * W) = found[r][c];
}

/* Sums (int32 or float) of the products of up to ROWS rows, from `first` on, with weights of `bits` bits; returns how
many rows. */
INLINE int64_t vector_sums(const int bits, const PaddedRows *rows, int64_t first, const char *weight, int64_t n_units,
                           int32_t sums[][C]) {
    const int64_t n = rows->R - first < ROWS ? rows->R - first : ROWS;
    const char *x = rows->x + first * rows->stride;
    switch (n) {
#define CASE(n) case n: sums_of_rows(bits, n, x, rows->stride, weight, n_units, sums); break;
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
    }
    return n;
}
#endif

#endif
