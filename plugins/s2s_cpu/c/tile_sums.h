/* Rows and panels of weights in units of four bytes, and their sums of products by the tiles of AMX; see tile_sums.c. */

#ifndef S2S_TILE_SUMS_H
#define S2S_TILE_SUMS_H

#include "decoder.h"
#include "panels.h"
#include "tiles.h"

enum { LINE = 64, BLOCK = 16, PANEL_TILE = LINE * C }; /* bytes of a line; rows; bytes of a panel */

typedef struct { /* R rows so many bytes apart, each `depth` lines long */
    char *x;
    int64_t R, stride, depth;
    void *memory;
} PaddedRows;

/* Lines that the inputs of a map with weights of 8 or 16 bits take, and tiles. */
INLINE int64_t depth_of(const Linear *linear) { return (linear->I * linear->bits / 8 + LINE - 1) / LINE; }

/* Memory for R rows, filled up to whole blocks with zeros if there is more than one; 0 if there is none. Each row begins
with a line, and they do not all lie in the same set of the cache. */
INLINE int64_t padded_rows(const Linear *linear, int64_t R, PaddedRows *rows) {
    const int64_t depth = depth_of(linear), stride = (depth + 1) * LINE;
    const int64_t n = R < BLOCK ? R : (R + BLOCK - 1) / BLOCK * BLOCK;
    char *memory = allocate(n * stride + LINE), *x = memory + (-(uintptr_t)memory & (LINE - 1));
    *rows = (PaddedRows){x, R, stride, depth, memory};
    if (memory) memset(x + R * stride, 0, (n - R) * stride);
    return memory != 0;
}

#ifdef INT8_TILES
/* Sums, of int32 or float, of the products of up to 16 rows, with weights of so many bits. */
void s2s_tile_sums(int64_t bits, const PaddedRows *rows, int64_t first, const char *weight, int32_t sums[BLOCK][C]);
#endif

#endif
