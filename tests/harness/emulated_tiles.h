/* AMX tiles in plain C, so that the code for them also runs where the processor has none:

    gcc -march=native -include emulated_tiles.h …

Sums are those of Intel's Architecture Instruction Set Extensions Programming Reference, chapter 3. */

#ifndef EMULATED_TILES_H
#define EMULATED_TILES_H

#if defined(__AVX512VNNI__) && defined(__AVX512BF16__) && !defined(__AMX_TILE__)
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define __AMX_TILE__ 1
#define __AMX_INT8__ 1
#define __AMX_BF16__ 1
#define syscall(...) 0L /* the system permits tiles */

typedef union {
    uint8_t bytes[16][64];
    int32_t integers[16][16];
    float floats[16][16];
    uint16_t halves[16][32];
} EmulatedTile;

typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} EmulatedTiles;

/* One of each for all source files of a library */
__attribute__((weak)) __thread EmulatedTiles emulated_shapes;
__attribute__((weak)) __thread EmulatedTile emulated_tiles[8];

/* An instruction for a tile without a shape, or for shapes that do not fit, is illegal. */
static inline void emulated_check(int fits) {
    if (!fits || emulated_shapes.palette != 1) __builtin_trap();
}

static inline void emulated_loadconfig(const void *config) {
    memcpy(&emulated_shapes, config, sizeof(emulated_shapes));
    memset(emulated_tiles, 0, sizeof(emulated_tiles));
    for (int t = 0; t < 8; t++)
        emulated_check(0 < emulated_shapes.rows[t] && emulated_shapes.rows[t] <= 16 && emulated_shapes.bytes[t] == 64);
}

static inline void emulated_release(void) { memset(&emulated_shapes, 0, sizeof(emulated_shapes)); }

static inline void emulated_zero(int tile) {
    emulated_check(1);
    memset(&emulated_tiles[tile], 0, sizeof(EmulatedTile));
}

static inline void emulated_load(int tile, const void *from, int64_t stride) {
    emulated_zero(tile);
    for (int m = 0; m < emulated_shapes.rows[tile]; m++)
        memcpy(emulated_tiles[tile].bytes[m], (const char *)from + m * stride, 64);
}

static inline void emulated_store(int tile, void *to, int64_t stride) {
    emulated_check(1);
    for (int m = 0; m < emulated_shapes.rows[tile]; m++)
        memcpy((char *)to + m * stride, emulated_tiles[tile].bytes[m], 64);
}

/* Rows of the sums and of the left operand are as many; of the right operand, as the left's units of four bytes. */
static inline void emulated_check_product(int sums, int left, int right) {
    emulated_check(emulated_shapes.rows[sums] == emulated_shapes.rows[left] && emulated_shapes.rows[right] == 16);
}

static inline void emulated_dpbusd(int sums, int left, int right) {
    const EmulatedTile *a = &emulated_tiles[left], *b = &emulated_tiles[right];
    emulated_check_product(sums, left, right);
    for (int m = 0; m < emulated_shapes.rows[sums]; m++)
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < 16; n++)
                for (int i = 0; i < 4; i++)
                    emulated_tiles[sums].integers[m][n] += a->bytes[m][4 * k + i] * (int8_t)b->bytes[k][4 * n + i];
}

static inline float emulated_float(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Even and odd products are added up apart, each from 0. */
static inline void emulated_dpbf16ps(int sums, int left, int right) {
    const EmulatedTile *a = &emulated_tiles[left], *b = &emulated_tiles[right];
    emulated_check_product(sums, left, right);
    for (int m = 0; m < emulated_shapes.rows[sums]; m++)
        for (int n = 0; n < 16; n++) {
            float of[2] = {0, 0};
            for (int k = 0; k < 16; k++)
                for (int i = 0; i < 2; i++)
                    of[i] += emulated_float(a->halves[m][2 * k + i]) * emulated_float(b->halves[k][2 * n + i]);
            emulated_tiles[sums].floats[m][n] += of[0] + of[1];
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbusd
#undef _tile_dpbf16ps
#define _tile_loadconfig emulated_loadconfig
#define _tile_release emulated_release
#define _tile_zero emulated_zero
#define _tile_loadd emulated_load
#define _tile_stored emulated_store
#define _tile_dpbusd emulated_dpbusd
#define _tile_dpbf16ps emulated_dpbf16ps
#endif

#endif
