/* Sums of products of rows with a panel's weights by the tiles of AMX, of 8-bit integers or of numbers in bf16.

Both lie in units of four bytes, n = 4 integers or 2 numbers, which a product takes at once: rows are [I / n, n], a panel
of C outputs is [I / n, C, n]. A tile is 16 such units of 16 rows or outputs; I is filled up with zeros to whole tiles.
*/

#include "tile_sums.h"

#ifdef INT8_TILES
/* To a tile of sums, the products of a tile of rows and one of weights. */
#ifdef BF16_TILES
#define ADD_PRODUCTS(sums, rows, weights)                                                                              \
    do {                                                                                                               \
        if (bits == 8)                                                                                                 \
            _tile_dpbusd(sums, rows, weights);                                                                         \
        else                                                                                                           \
            _tile_dpbf16ps(sums, rows, weights);                                                                       \
    } while (0)
#else
#define ADD_PRODUCTS(sums, rows, weights) (void)bits, _tile_dpbusd(sums, rows, weights)
#endif

/* Of up to 16 rows, with all outputs of the panel. Where a panel is read for the first time, weights are read ahead. */
INLINE void sums_of_block(const int bits, const char *x, int64_t stride, const char *weight, int64_t depth, int read_ahead,
                          int32_t sums[BLOCK][C]) {
    STORED;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (; depth; depth--, x += LINE, weight += PANEL_TILE) {
        for (int line = 0; read_ahead && line < PANEL_TILE; line += LINE) __builtin_prefetch(weight + AHEAD + line);
        _tile_loadd(4, x, stride);
        _tile_loadd(5, weight, 4 * C);
        ADD_PRODUCTS(0, 4, 5);
        _tile_loadd(6, weight + LINE, 4 * C);
        ADD_PRODUCTS(1, 4, 6);
        _tile_loadd(7, weight + 2 * LINE, 4 * C);
        ADD_PRODUCTS(2, 4, 7);
        _tile_loadd(5, weight + 3 * LINE, 4 * C);
        ADD_PRODUCTS(3, 4, 5);
    }
    _tile_stored(0, sums[0], 4 * C);
    _tile_stored(1, sums[0] + W, 4 * C);
    _tile_stored(2, sums[0] + 2 * W, 4 * C);
    _tile_stored(3, sums[0] + 3 * W, 4 * C);
    STORED;
}

void s2s_tile_sums(int64_t bits, const PaddedRows *rows, int64_t first, const char *weight, int32_t sums[BLOCK][C]) {
    const char *x = rows->x + first * rows->stride;
    if (bits == 8)
        sums_of_block(8, x, rows->stride, weight, rows->depth, first == 0, sums);
    else
        sums_of_block(16, x, rows->stride, weight, rows->depth, first == 0, sums);
}
#endif
