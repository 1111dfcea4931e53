/* Sums of products of rows with a panel's weights by AMX tiles, in 8-bit integers or bf16.

Both lie in units of four bytes, n = 4 integers or 2 values in bf16, which a product takes at once: rows are [I / n, n],
a panel of C outputs is [I / n, C, n]. A tile is 16 such units of 16 rows or outputs; I is padded with zeros to whole
tiles.
*/

#include "tile_sums.h"

#if defined(INT8_TILES) || defined(BF16_TILES)
#ifndef INT8_TILES
#define ADD_INTEGERS(sums, rows, weights) (void)0
#else
#define ADD_INTEGERS _tile_dpbusd
#endif
#ifndef BF16_TILES
#define ADD_FLOATS(sums, rows, weights) (void)0
#else
#define ADD_FLOATS _tile_dpbf16ps
#endif

/* Adds the products of a tile of rows and a tile of weights to a tile of sums. */
#define ADD_PRODUCTS(sums, rows, weights)                                                                              \
    do {                                                                                                               \
        if (bits == 8) {                                                                                               \
            ADD_INTEGERS(sums, rows, weights);                                                                         \
        } else {                                                                                                       \
            ADD_FLOATS(sums, rows, weights);                                                                           \
        }                                                                                                              \
    } while (0)

typedef struct { /* what to prefetch: the address, cache lines for each tile along the inputs, and into L1 or L2 */
    const char *at;
    int64_t lines;
    int into_l2;
} Ahead;

INLINE void prefetch(Ahead *ahead) {
    for (int64_t n = ahead->lines; n; n--, ahead->at += TILE_BYTES)
        if (ahead->into_l2)
            __builtin_prefetch(ahead->at, 0, 2);
        else
            __builtin_prefetch(ahead->at, 0, 3);
}

/* Sums of up to 16 rows, for all outputs of the panel. */
INLINE void sums_of_block(const int bits, const char *x, int64_t stride, const char *weight, int64_t n_tiles,
                          Ahead ahead, int32_t sums[TILE_ROWS][C]) {
    STORED;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (; n_tiles; n_tiles--, x += TILE_BYTES, weight += PANEL_TILE) {
        prefetch(&ahead);
        _tile_loadd(4, x, stride);
        _tile_loadd(5, weight, 4 * C);
        ADD_PRODUCTS(0, 4, 5);
        _tile_loadd(6, weight + TILE_BYTES, 4 * C);
        ADD_PRODUCTS(1, 4, 6);
        _tile_loadd(7, weight + 2 * TILE_BYTES, 4 * C);
        ADD_PRODUCTS(2, 4, 7);
        _tile_loadd(5, weight + 3 * TILE_BYTES, 4 * C);
        ADD_PRODUCTS(3, 4, 5);
    }
    _tile_stored(0, sums[0], 4 * C);
    _tile_stored(1, sums[0] + W, 4 * C);
    _tile_stored(2, sums[0] + 2 * W, 4 * C);
    _tile_stored(3, sums[0] + 3 * W, 4 * C);
    STORED;
}

/* The first rows prefetch weights a little ahead of those in use. But for many rows a panel of integers stays in L1,
and the next panel would evict it: each block of rows therefore prefetches a share of the next panel into L2. */
INLINE Ahead read_ahead(int64_t bits, const PaddedRows *rows, int64_t first, const char *weight) {
    const int64_t n_blocks = (rows->R + TILE_ROWS - 1) / TILE_ROWS, lines = PANEL_TILE / TILE_BYTES;
    if (bits == 16 || n_blocks <= 2) return (Ahead){weight + AHEAD, first ? 0 : lines, 0};
    const int64_t share = (lines + n_blocks - 1) / n_blocks, before = first / TILE_ROWS * share * TILE_BYTES;
    return (Ahead){weight + rows->n_tiles * (PANEL_TILE + before), share, 1};
}

void s2s_tile_sums(int64_t bits, const PaddedRows *rows, int64_t first, const char *weight,
                   int32_t sums[TILE_ROWS][C]) {
    const char *x = rows->x + first * rows->stride;
    const Ahead ahead = read_ahead(bits, rows, first, weight);
    if (bits == 8)
        sums_of_block(8, x, rows->stride, weight, rows->n_tiles, ahead, sums);
    else
        sums_of_block(16, x, rows->stride, weight, rows->n_tiles, ahead, sums);
}
#endif

/* Whether the system lets this process use tiles: that needs a request, since it saves them with the registers. */
int64_t s2s_may_use_tiles(void) {
#if defined(INT8_TILES) || defined(BF16_TILES)
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    static enum { NOT_ASKED, NO, YES } answer; /* the same for every thread */
    int known = __atomic_load_n((int *)&answer, __ATOMIC_RELAXED);
    if (known == NOT_ASKED) {
        known = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) ? NO : YES;
        __atomic_store_n((int *)&answer, known, __ATOMIC_RELAXED);
    }
    return known == YES;
#else
    return 0;
#endif
}
