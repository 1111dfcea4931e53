/* The sources of a stream's sentences: encoded together, without padding, each with memory of its own for what steps
read of it. See stream.h. S source tokens, or words where the encoder reads words.
*/

#include "stream.h"

enum { ROWS_AT_ONCE = 256 }; /* of the encoder, at least: more need more memory, and are no faster */

typedef struct { /* B sentences */
    int64_t B;
    const int64_t *token, *n_source; /* their tokens, and how many */
    int64_t *begin;                  /* [B + 1], of their rows */
    int64_t *first;                  /* where words begin in their sentence; a sentence's as far on as its tokens */
    SourceMemory *memory;            /* [B] */
} Sources;

static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

/* x [begin[B], D] */
static void embed(const SourceModel *source, const Model *m, const Sources *of, float *part, float *x) {
    const int64_t *token = of->token, *first = of->first, D = source->D;
    for (int64_t b = 0; b < of->B; token += of->n_source[b], first += of->n_source[b++]) {
        const int64_t S = of->n_source[b];
        float *rows = x + of->begin[b] * D;
        if (source->words.pooled)
            s2s_pool_words(source, m, token, S, first, of->memory[b].n_words, part, rows);
        else
            s2s_embed(source->embedding, &m->output, source->scale, token, S, D, rows);
    }
}

static __attribute__((noinline)) void add_positions(const SourceModel *source, const Sources *of, float *x) {
    for (int64_t b = 0; source->positions && b < of->B; b++)
        for (int64_t i = 0; i < of->memory[b].S * source->D; i++) *x++ += source->positions[i];
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

static int64_t width_of_keys_and_values(const SourceModel *source) {
    return source->keys_values ? source->decoder->h * (source->decoder->d_k + source->decoder->d_v) : 0;
}

/* Each layer's keys and values of x [begin[B], M], using `scratch` of as many rows. */
static int64_t project(const SourceModel *source, const Model *m, const Sources *of, const float *x, float *scratch) {
    const int64_t width = width_of_keys_and_values(source);
    for (int64_t i = 0; width && i < m->n_layers; i++) {
        if (s2s_linear(source->keys_values + i, x, of->begin[of->B], scratch)) return NO_MEMORY;
        for (int64_t b = 0; b < of->B; b++) {
            const int64_t S = of->memory[b].S;
            split_heads(source->decoder, scratch + of->begin[b] * width, S, of->memory[b].keys_values + i * S * width);
        }
    }
    return OK;
}

/* The most probable label of each word x [W, M] */
static int64_t find_labels(const Linear *labels, const float *x, int64_t n_words, int64_t *out) {
    const int64_t L = labels->O;
    float *logits = allocate(n_words * L * sizeof(float));
    const int64_t failed = !logits || s2s_linear(labels, x, n_words, logits);
    for (int64_t i = 0; i < n_words && !failed; i++) {
        const float *row = logits + i * L;
        out[i] = 0;
        for (int64_t j = 1; j < L; j++) out[i] = row[j] > row[out[i]] ? j : out[i];
    }
    free(logits);
    return failed ? NO_MEMORY : OK;
}

/* What the guide refers to, and labels, of x [begin[B], M], using `scratch` of as many rows. */
static int64_t map_words(const SourceModel *source, const Model *m, const Sources *of, const float *x, float *scratch) {
    const int64_t *first = of->first, M = source->M;
    for (int64_t b = 0; (m->guidance || source->labels.weight) && b < of->B; first += of->n_source[b++]) {
        const SourceMemory *one = of->memory + b;
        const float *rows = x + of->begin[b] * M;
        if (!source->words.pooled) {
            for (int64_t i = 0; i < one->n_words; i++)
                memcpy(scratch + i * M, rows + first[i] * M, M * sizeof(float));
            rows = scratch;
        }
        if (m->guidance && s2s_guide_words(m->guidance, rows, one->n_words, one->words)) return NO_MEMORY;
        if (source->labels.weight && find_labels(&source->labels, rows, one->n_words, one->labels)) return NO_MEMORY;
    }
    return OK;
}

static int64_t run_layers(const SourceModel *source, const Sources *of, float *x) {
    if (source->recurrent) return s2s_encode_recurrent(source->recurrent, source->n_recurrent, of->begin, of->B, x);
    return s2s_encode_rows(source->layers, source->n_layers, source->stack, of->begin, of->B, x);
}

/* Of rows from the embeddings to the encoder's output. */
static int64_t widest_row(const SourceModel *source) {
    int64_t width = greater(source->D, source->M);
    for (int64_t i = 0; i < source->n_recurrent; i++)
        width = greater(width, source->recurrent[i].forward.hidden.I + source->recurrent[i].backward.hidden.I);
    return width;
}

static int64_t encode(const SourceModel *source, const Model *m, const Sources *of) {
    const int64_t n = of->begin[of->B], width = widest_row(source);
    float *x = allocate((n * (width + greater(source->M, width_of_keys_and_values(source))) + width) * sizeof(float));
    if (!x) return NO_MEMORY;
    float *scratch = x + n * width;
    embed(source, m, of, scratch, x);
    add_positions(source, of, x);
    const int64_t failed = run_layers(source, of, x) || project(source, m, of, x, scratch) ||
                           map_words(source, m, of, x, scratch);
    free(x);
    return failed ? NO_MEMORY : OK;
}

static float *new_floats(int64_t n) { return aligned_alloc(64, (n * sizeof(float) / 64 + 1) * 64); }

/* Finds the words of a sentence, and allocates what is kept of it. */
static int64_t allocate_memory(const SourceModel *source, const Model *m, const int64_t *token, int64_t n_source,
                               int64_t *first, SourceMemory *memory) {
    const int64_t width = width_of_keys_and_values(source);
    memory->n_words = s2s_find_words(&source->words, token, n_source, first);
    memory->S = source->words.pooled ? memory->n_words : n_source;
    if (width && !(memory->keys_values = new_floats(m->n_layers * memory->S * width))) return NO_MEMORY;
    if (source->labels.weight && !(memory->labels = allocate(memory->n_words * sizeof(int64_t)))) return NO_MEMORY;
    if (m->guidance && !(memory->words = new_floats((1 + memory->n_words) * m->guidance->maps.O))) return NO_MEMORY;
    return OK;
}

/* What steps read of the sentences' sources, each in memory that the caller frees; memory [n] is zero before. */
int64_t s2s_stream_encode(const SourceModel *source, const Model *m, const Admission *of, SourceMemory *memory) {
    int64_t n_tokens = 0;
    for (int64_t b = 0; b < of->n; b++) n_tokens += of->n_source[b];
    int64_t *first = allocate(n_tokens * sizeof(int64_t)), failed;
    Sources some = {.token = of->token, .begin = allocate((of->n + 1) * sizeof(int64_t)), .first = first};
    failed = !some.begin || !first;
    for (int64_t b = 0; b < of->n && !failed; b += some.B) {
        int64_t n = 0; /* tokens of these sentences */
        some.n_source = of->n_source + b, some.memory = memory + b, some.begin[0] = some.B = 0;
        while (b + some.B < of->n && some.begin[some.B] < ROWS_AT_ONCE && !failed) {
            const int64_t i = some.B++;
            failed = allocate_memory(source, m, some.token + n, some.n_source[i], some.first + n, some.memory + i);
            some.begin[i + 1] = some.begin[i] + some.memory[i].S, n += some.n_source[i];
        }
        failed = failed || encode(source, m, &some);
        some.token += n, some.first += n;
    }
    free(some.begin), free(first);
    return failed ? NO_MEMORY : OK;
}
