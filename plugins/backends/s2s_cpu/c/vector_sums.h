/* Sums of products of rows with a panel's weights by vectors: AVX512-BF16 for bf16; for 8-bit integers AVX-512 VNNI, or
AVX-512 or AVX2 without it.

Rows and panels lie in units of four bytes, as in tile_sums.c. But without VNNI a unit of a row is eight bytes, its four
integers in 16 bits each: 0, 2, 1, 3 (see unit_linear.c).
*/

#ifndef S2S_VECTOR_SUMS_H
#define S2S_VECTOR_SUMS_H

#include "tile_sums.h"

#if defined(INT8_VECTORS) || defined(BF16_VECTORS)
#ifdef INT8_PAIRS
enum { ROW_UNIT = 8 }; /* bytes */
typedef int16_t vpairs __attribute__((vector_size(4 * W), aligned(4)));

/* Adds the products of two inputs with those of 2 W outputs to the outputs' sums. As one piece of assembly, since the
compiler would multiply for all rows first, so that the sums of six rows would no longer fit into registers. */
INLINE void add_pair(vi sums[2], const char *x, const vpairs w[2]) {
    vi pair, products;
    __asm__("vpbroadcastd %4, %2\n\tvpmaddwd %5, %2, %3\n\tvpaddd %3, %0, %0\n\t"
            "vpmaddwd %6, %2, %2\n\tvpaddd %2, %1, %1"
            : "+&v"(sums[0]), "+&v"(sums[1]), "=&v"(pair), "=&v"(products)
            : "m"(*(const char(*)[4])x), "v"(w[0]), "v"(w[1]));
}

/* Adds the products of a unit of n rows with those of all outputs to the rows' sums. The instruction that multiplies
8-bit integers would overflow, as it adds two products in 16 bits: inputs 0 and 2 are widened, then 1 and 3. */
INLINE void add_unit(const int bits, const int n, vi sums[ROWS][PARTS], const char *x, int64_t stride,
                     const char *weight) {
    (void)bits;
    UNROLLED for (int odd = 0; odd < 2; odd++) {
        vpairs w[PARTS];
        if (odd) __asm__("" : "+r"(weight)); /* read again: if they stayed in registers, sums would not */
        UNROLLED for (int c = 0; c < PARTS; c++) {
            const vpairs read = *(const vpairs *)(weight + c * sizeof(vpairs));
            w[c] = odd ? read >> 8 : read << 8 >> 8;
        }
        UNROLLED for (int r = 0; r < n; r++)
            UNROLLED for (int c = 0; c < PARTS; c += 2) add_pair(sums[r] + c, x + r * stride + 4 * odd, w + c);
    }
}
#else
enum { ROW_UNIT = 4 }; /* bytes */

/* As one piece of assembly, since the compiler would read the units of all rows first, so that the sums of six rows
would no longer fit into registers, and its intrinsics for the products move them twice. */
#define ADD_UNIT(product)                                                                                              \
    __asm__("vpbroadcastd %5, %4\n\t" product " %6, %4, %0\n\t" product " %7, %4, %1\n\t" product                    \
            " %8, %4, %2\n\t" product " %9, %4, %3"                                                                    \
            : "+&v"(sums[r][0]), "+&v"(sums[r][1]), "+&v"(sums[r][2]), "+&v"(sums[r][3]), "=&v"(unit)                  \
            : "m"(*(const char(*)[4])(x + r * stride)), "v"(w[0]), "v"(w[1]), "v"(w[2]), "v"(w[3]))

/* Adds the products of a unit of n rows with those of all outputs to the rows' sums. */
INLINE void add_unit(const int bits, const int n, vi sums[ROWS][PARTS], const char *x, int64_t stride,
                     const char *weight) {
    vi w[PARTS], unit;
    UNROLLED for (int c = 0; c < PARTS; c++) w[c] = *(const vi *)(weight + c * sizeof(vi));
    UNROLLED for (int r = 0; r < n; r++) {
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
}
#endif

/* Sums (int32 or float) of the products of n rows with a panel's weights of `bits` bits. */
INLINE void vector_sums(const int bits, const int n, const char *x, int64_t stride, const char *weight, int64_t n_units,
                        vi sums[ROWS][PARTS]) {
    UNROLLED for (int r = 0; r < n; r++)
        UNROLLED for (int c = 0; c < PARTS; c++) sums[r][c] = (vi){0};
    for (; n_units; n_units--, weight += 4 * C, x += ROW_UNIT) {
        UNROLLED for (int ahead = 0; ahead < 4 * C; ahead += 64) __builtin_prefetch(weight + AHEAD + ahead);
        add_unit(bits, n, sums, x, stride, weight);
    }
}
#endif

#endif
