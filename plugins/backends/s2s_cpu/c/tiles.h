/* AMX tiles: whether they can be used, and how they are configured. */

#ifndef S2S_TILES_H
#define S2S_TILES_H

#include "vectors.h"

int64_t s2s_may_use_tiles(void);

enum { TILE_ROWS = 16, TILE_BYTES = 64 }; /* rows of a tile, bytes of a row */

#if defined(__AMX_TILE__) && defined(__AVX512BW__) && defined(__linux__)
#if defined(__AMX_INT8__) && defined(INT8_VECTORS)
#define INT8_TILES
#endif
#if defined(__AMX_BF16__) && defined(BF16_VECTORS)
#define BF16_TILES
#endif
#include <sys/syscall.h>
#include <unistd.h>

/* Earlier writes reach memory (a compiler barrier): GCC's tile intrinsics do not declare which bytes they read. */
#define STORED __asm__ volatile("" ::: "memory")

/* Tiles 0 to 4 have min(rows, 16) rows, the others 16; all have rows of 64 bytes. */
static inline void configure_tiles(int64_t rows) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.bytes[t] = TILE_BYTES;
        config.rows[t] = t < 5 && rows < TILE_ROWS ? rows : TILE_ROWS;
    }
    STORED;
    _tile_loadconfig(&config);
}
#endif

#endif
