/* The sources of a stream's sentences: encoded together, without padding, each with memory of its own for the keys and
values that the decoder reads. See stream.h. S source tokens.
*/

#include "stream.h"

enum { ROWS_AT_ONCE = 256 }; /* of the encoder, at least: more need more memory, and are no faster */

/* Embeddings of n tokens, some sentences: x [n, D] */
static void embed(const SourceModel *source, const Model *m, const int64_t *token, int64_t n, float *x) {
    s2s_embed(source->embedding, &m->output, source->scale, token, n, source->stack->D, x);
}

static __attribute__((noinline)) void add_positions(const SourceModel *source, const int64_t *n_source, int64_t B,
                                                    float *x) {
    const int64_t D = source->stack->D;
    for (int64_t b = 0; source->positions && b < B; b++)
        for (int64_t i = 0; i < n_source[b] * D; i++) *x++ += source->positions[i];
}

/* Of S rows [S, h * (d_k + d_v)] the keys [h, S, d_k], then the values [h, S, d_v] */
static void split_heads(const Stack *stack, const float *rows, int64_t S, float *out) {
    const int64_t d_k = stack->d_k, d_v = stack->d_v, n_keys = stack->h * d_k, width = n_keys + stack->h * d_v;
    float *values = out + S * n_keys;
    for (int64_t t = 0; t < S; t++, rows += width)
        for (int64_t a = 0; a < stack->h; a++) {
            memcpy(out + (a * S + t) * d_k, rows + a * d_k, d_k * sizeof(float));
            memcpy(values + (a * S + t) * d_v, rows + n_keys + a * d_v, d_v * sizeof(float));
        }
}

/* Each layer's keys and values of B sentences x [begin[B], D], using `scratch` of as many rows. */
static int64_t project(const SourceModel *source, int64_t n_layers, const int64_t *begin, int64_t B, const float *x,
                       float *scratch, float **keys_values) {
    const Stack *stack = source->decoder;
    const int64_t width = stack->h * (stack->d_k + stack->d_v);
    for (int64_t i = 0; i < n_layers; i++) {
        if (s2s_linear(source->keys_values + i, x, begin[B], scratch)) return NO_MEMORY;
        for (int64_t b = 0; b < B; b++) {
            const int64_t S = begin[b + 1] - begin[b];
            split_heads(stack, scratch + begin[b] * width, S, keys_values[b] + i * S * width);
        }
    }
    return OK;
}

/* The same of the sentences' tokens; begin [B + 1] */
static int64_t encode(const SourceModel *source, const Model *m, const int64_t *token, const int64_t *n_source,
                      const int64_t *begin, int64_t B, float **keys_values) {
    const Stack *decoder = source->decoder;
    const int64_t n = begin[B], D = source->stack->D, width = decoder->h * (decoder->d_k + decoder->d_v);
    float *x = allocate(n * (D + width) * sizeof(float));
    if (!x) return NO_MEMORY;
    embed(source, m, token, n, x);
    add_positions(source, n_source, B, x);
    int64_t failed = s2s_encode_rows(source->layers, source->n_layers, source->stack, begin, B, x) ||
                     project(source, m->n_layers, begin, B, x, x + n * D, keys_values);
    free(x);
    return failed;
}

static int64_t allocate_sources(const SourceModel *source, const Model *m, const Admission *of, float **keys_values) {
    const Stack *stack = source->decoder;
    const int64_t width = stack->h * (stack->d_k + stack->d_v);
    for (int64_t b = 0; b < of->n; b++) {
        const int64_t n_bytes = m->n_layers * of->n_source[b] * width * sizeof(float);
        if (!(keys_values[b] = aligned_alloc(64, (n_bytes + 63) / 64 * 64))) return NO_MEMORY;
    }
    return OK;
}

/* Keys and values of the sentences' sources, each in memory that the caller frees; keys_values [n] is null before. */
int64_t s2s_stream_encode(const SourceModel *source, const Model *m, const Admission *of, float **keys_values) {
    const int64_t *token = of->token;
    int64_t *begin = allocate((of->n + 1) * sizeof(int64_t)), failed = !begin;
    failed = failed || allocate_sources(source, m, of, keys_values);
    for (int64_t b = 0, n = 0; b < of->n && !failed; b += n, token += begin[n], n = 0) {
        for (begin[0] = 0; b + n < of->n && begin[n] < ROWS_AT_ONCE; n++) begin[n + 1] = begin[n] + of->n_source[b + n];
        failed = encode(source, m, token, of->n_source + b, begin, n, keys_values + b);
    }
    free(begin);
    return failed ? NO_MEMORY : OK;
}
