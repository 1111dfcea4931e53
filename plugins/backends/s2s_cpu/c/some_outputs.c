/* Some outputs of a linear map as a map of their own, and those that a shortlist gives a sentence. O outputs, C of a
panel.
*/

#include "stream.h"
#include "tile_sums.h"

/* Four bytes of weights of each output: an input's in fp32, those of two in bf16, of four in 8-bit integers. */
static int64_t n_units(const Linear *linear) {
    return linear->bits == 32 ? linear->I : tiles_along(linear) * TILE_BYTES / 4;
}

/* The outputs ids [n] of a map as the map `to`, whose arrays have room for whole panels; what `from` lacks is null. */
int64_t s2s_select_outputs(const Linear *from, const int64_t *ids, int64_t n, Linear *to) {
    const int64_t units = n_units(from);
    const int32_t *weight = from->weight, *bias = (const int32_t *)from->bias, *scale = (const int32_t *)from->scale;
    int32_t *out = (int32_t *)to->weight, *arrays[] = {(int32_t *)to->bias, (int32_t *)to->scale, (int32_t *)to->zero};
    const int32_t *tables[] = {bias, scale, from->zero};
    for (int64_t o = 0; o < n; o += C, out += units * C)
        for (int64_t c = 0; c < C; c++) {
            const int exists = o + c < n;
            const int32_t *column = exists ? weight + ids[o + c] / C * units * C + ids[o + c] % C : 0;
            for (int64_t i = 0; i < units; i++) out[i * C + c] = exists ? column[i * C] : 0;
            for (int t = 0; t < 3; t++)
                if (arrays[t]) arrays[t][o + c] = exists ? tables[t][ids[o + c]] : 0;
        }
    to->I = from->I, to->O = n, to->bits = from->bits, to->multiplier = from->multiplier;
    return OK;
}

/* listed [V] becomes 1 at the tokens of a source's outputs, as `Shortlist.listed` of s2s.decoding finds them; returns
how many there are. */
static int64_t list_tokens(const Shortlist *of, int64_t V, const int64_t *source, int64_t n_source, uint8_t *listed) {
    int64_t n = 0;
    memset(listed, 0, V);
    for (int64_t i = 0; i < of->n_always; i++) listed[of->always[i]] = 1;
    for (int64_t i = 0; i < n_source; i++)
        if (source[i] < of->n_source)
            for (int64_t j = of->of_source.begin[source[i]]; j < of->of_source.begin[source[i] + 1]; j++)
                listed[of->of_source.token[j]] = 1;
    for (int64_t v = 0; v < V; v++) n += listed[v];
    if (!n) memset(listed, 1, n = V);
    for (int64_t v = of->n_always; v < V && n % of->multiple; v++) n += !listed[v], listed[v] = 1;
    return n;
}

/* Of n columns: the map's arrays and the tokens, in one block of memory, which begins with the result; or null. */
static Columns *new_columns(const Linear *output, int64_t n) {
    const int64_t padded = (n + C - 1) / C * C, n_bytes = padded * 4, n_weights = n_units(output) * n_bytes;
    const int64_t header = (sizeof(Columns) + 63) / 64 * 64, size = header + n_weights + 3 * n_bytes + n * 8;
    char *memory = aligned_alloc(64, (size + 63) / 64 * 64), *at = memory + header;
    if (!memory) return 0;
    Columns *made = (Columns *)memory;
    made->output = (Linear){.weight = at, .bias = (float *)(at + n_weights)};
    if (output->scale) made->output.scale = (float *)(at + n_weights + n_bytes);
    if (output->zero) made->output.zero = (int32_t *)(at + n_weights + 2 * n_bytes);
    made->ids = (int64_t *)(at + n_weights + 3 * n_bytes);
    return made;
}

/* The columns of the map `output` that a source's outputs need, which the caller frees; null if memory runs out. */
Columns *s2s_columns_of(const Shortlist *of, const Linear *output, const int64_t *source, int64_t n_source) {
    const int64_t V = output->O;
    uint8_t *listed = allocate(V);
    if (!listed) return 0;
    const int64_t n = list_tokens(of, V, source, n_source, listed);
    Columns *made = new_columns(output, n);
    for (int64_t v = 0, i = 0; made && v < V; v++)
        if (listed[v]) made->ids[i++] = v;
    if (made) s2s_select_outputs(output, made->ids, n, &made->output);
    free(listed);
    return made;
}
