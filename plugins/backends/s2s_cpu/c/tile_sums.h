/* Rows and panels of weights in units of four bytes, and sums of their products by AMX tiles; see tile_sums.c. */

#ifndef S2S_TILE_SUMS_H
#define S2S_TILE_SUMS_H

#include "decoder.h"
#include "panels.h"
#include "tiles.h"

enum { PANEL_TILE = TILE_BYTES * C }; /* bytes of a panel's weights for one tile along the inputs */

typedef struct { /* R rows, `stride` bytes apart, each of `n_tiles` times TILE_BYTES */
    char *x;
    int64_t R, stride, n_tiles;
    void *memory;
} PaddedRows;

/* Tiles along the inputs of a map with weights of 8 or 16 bits. */
INLINE int64_t tiles_along(const Linear *linear) {
    return (linear->I * linear->bits / 8 + TILE_BYTES - 1) / TILE_BYTES;
}

/* Allocates R rows, padded with rows of zeros to a multiple of TILE_ROWS if R is larger. Returns 0 if memory runs out.
Each row begins on a cache line, and rows do not all map to the same cache set. */
INLINE int64_t padded_rows(const Linear *linear, int64_t R, PaddedRows *rows) {
    const int64_t n_tiles = tiles_along(linear), stride = (n_tiles + 1) * TILE_BYTES;
    const int64_t n = R < TILE_ROWS ? R : (R + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    char *memory = allocate(n * stride + TILE_BYTES), *x = memory + (-(uintptr_t)memory & (TILE_BYTES - 1));
    *rows = (PaddedRows){x, R, stride, n_tiles, memory};
    if (memory) memset(x + R * stride, 0, (n - R) * stride);
    return memory != 0;
}

#if defined(INT8_TILES) || defined(BF16_TILES)
/* Sums (int32 or float) of the products of up to 16 rows, from `first` on, with weights of `bits` bits. */
void s2s_tile_sums(int64_t bits, const PaddedRows *rows, int64_t first, const char *weight, int32_t sums[TILE_ROWS][C]);
#endif

#endif
