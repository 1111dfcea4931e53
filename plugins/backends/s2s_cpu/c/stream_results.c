/* The results of a stream, as numbers one after the other; see stream.h. */

#include "stream.h"

/* Makes room for the result of one more sentence, each of whose outputs has up to `length` tokens. */
static int64_t reserve(Results *r, int64_t n_labels, int64_t n_best, int64_t length) {
    const int64_t n_numbers = r->n_numbers + 3 + n_labels + n_best * (1 + length);
    const int64_t n_values = r->n_values + n_best * (2 + length);
    if (n_numbers > r->numbers_room) {
        if (s2s_resize(&r->numbers, 2 * n_numbers * sizeof(int64_t))) return NO_MEMORY;
        r->numbers_room = 2 * n_numbers;
    }
    if (n_values > r->values_room) {
        if (s2s_resize(&r->values, 2 * n_values * sizeof(float))) return NO_MEMORY;
        r->values_room = 2 * n_values;
    }
    return OK;
}

/* Writes an output that ends after `node` with eos, behind n_start starting tokens. */
static void write_output(const Tree *t, int64_t node, int64_t n_start, float score, float log_prob, Results *r) {
    int64_t n = 1 - n_start;
    for (int64_t i = node; t->parent[i] != ROOT; i = t->parent[i]) n++;
    r->numbers[r->n_numbers++] = n, r->values[r->n_values++] = score;
    for (int64_t i = n; i-- > 0; node = t->parent[node])
        r->numbers[r->n_numbers + i] = t->token[node], r->values[r->n_values + i] = t->log_prob[node];
    r->n_numbers += n, r->n_values += n;
    r->values[r->n_values++] = log_prob;
}

/* Writes the best outputs of sentence b, best first, or its samples. */
int64_t s2s_write_result(Stream *s, int64_t b) {
    const int64_t E = s->settings->E, first = b * E;
    const SourceMemory *memory = s->memory + b;
    const int64_t n_labels = memory->n_words ? memory->n_words - 1 : 0; /* not of what ends the source */
    Results *r = &s->results;
    int64_t n = 0;
    for (int64_t e = first; e < first + E; e++) n += s->finished.score[e] > -INFINITY;
    n = n < s->n_best[b] ? n : s->n_best[b];
    if (reserve(r, n_labels, n, s->length[b])) return NO_MEMORY;
    r->numbers[r->n_numbers++] = s->index[b], r->numbers[r->n_numbers++] = memory->labels ? n_labels : -1;
    for (int64_t i = 0; memory->labels && i < n_labels; i++) r->numbers[r->n_numbers++] = memory->labels[i];
    r->numbers[r->n_numbers++] = n;
    const Finished *f = &s->finished;
    for (int64_t i = first; n; i++)
        if (f->score[i] > -INFINITY)
            n--, write_output(&s->tree, f->node[i], s->n_start[b], f->score[i], f->log_prob[i], r);
    return OK;
}
