/* The words of sources whose tokens are their parts. See s2s.nn.SourceWords. S tokens, W words. */

#include "stream.h"

static int is_read(const SourceWords *words, int64_t token) {
    return !words->pooled || token < words->first_label || token >= words->end_label;
}

/* first [W], where words begin among the tokens [S]; returns W */
int64_t s2s_find_words(const SourceWords *words, const int64_t *token, int64_t S, int64_t *first) {
    int64_t n = 0;
    for (int64_t t = 0; t < S; t++)
        if (is_read(words, token[t]) && (!t || !words->begins || words->begins[token[t]])) first[n++] = t;
    return n;
}

/* x [W, D], the embedding of each word's first token, plus those of the others, divided by the root of their number;
uses `part` [D] */
void s2s_pool_words(const SourceModel *source, const Model *m, const int64_t *token, int64_t S, const int64_t *first,
                    int64_t n_words, float *part, float *x) {
    const SourceWords *words = &source->words;
    const int64_t D = source->D;
    for (int64_t i = 0; i < n_words; i++, x += D) {
        const int64_t end = i + 1 < n_words ? first[i + 1] : S;
        int64_t n = 0;
        for (int64_t t = first[i] + 1; t < end; t++) n += is_read(words, token[t]);
        const float scale = n ? 1 / sqrtf(n) : 0;
        s2s_embed(source->embedding, &m->output, source->scale, token + first[i], 1, D, x);
        for (int64_t t = first[i] + 1; t < end; t++) {
            if (!is_read(words, token[t])) continue;
            s2s_embed(source->embedding, &m->output, source->scale, token + t, 1, D, part);
            for (int64_t j = 0; j < D; j++) x[j] += scale * part[j];
        }
    }
}
