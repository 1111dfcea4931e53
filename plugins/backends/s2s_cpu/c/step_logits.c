/* A step of a model as one call, from tokens to logits, for one thread. R = B * K rows; see beam_search.h.
*/

#include "beam_search.h"
#include "panels.h"

/* out [n, D] = scale * embedding of each token, in rows of `table`, or if that is null of the fp32 map `packed`.
Functions that add to it are apart: otherwise the compiler would contract both and round once instead of twice. */
__attribute__((noinline)) void s2s_embed(const float *table, const Linear *packed, float scale, const int64_t *token,
                                         int64_t n, int64_t D, float *out) {
    for (int64_t r = 0; r < n; r++, out += D) {
        const int64_t panel = token[r] / C * C * D, column = token[r] % C;
        if (table)
            for (int64_t j = 0; j < D; j++) out[j] = table[token[r] * D + j] * scale;
        else
            for (int64_t j = 0; j < D; j++) out[j] = ((const float *)packed->weight)[panel + j * C + column] * scale;
    }
}

static void embed(const Model *m, const Step *step, const int64_t *token, float *x) {
    const int64_t R = step->B * step->K, D = m->D;
    s2s_embed(m->embedding, &m->output, m->scale, token, R, D, x);
    for (int64_t r = 0; m->zero_start && r < R; r++)
        if (step->length[r / step->K] == 1) memset(x + r * D, 0, D * sizeof(float));
}

static __attribute__((noinline)) void add_positions(const Model *m, const Step *step, float *x) {
    const int64_t D = m->D;
    for (int64_t b = 0; b < step->B; b++) {
        const float *position = m->positions + (step->length[b] - 1) * D;
        for (int64_t k = 0; k < step->K; k++, x += D)
            for (int64_t j = 0; j < D; j++) x[j] += position[j];
    }
}

/* x [R, output.I], what the map `output` reads of the newest tokens [R]; it has room for rows of row_width */
int64_t s2s_decode(const Model *m, const Step *step, const int64_t *token, float *x) {
    const int64_t R = step->B * step->K;
    const float scale = m->output_scale;
    embed(m, step, token, x);
    if (m->guidance) s2s_guide(m->guidance, step, token, x);
    if (m->positions) add_positions(m, step, x);
    if (m->embedding_norm.weight) s2s_norm(x, R, m->D, &m->embedding_norm, x);
    if (s2s_decoder_step(m->layers, m->n_layers, step, x)) return NO_MEMORY;
    if (m->guidance && s2s_read_out(m->guidance, step, x)) return NO_MEMORY;
    if (scale != 1)
        for (int64_t i = 0; i < R * m->output.I; i++) x[i] *= scale;
    return OK;
}

/* Logits [R, V] of x [R, D] where a sentence, whose rows are K, lists the token, elsewhere -inf, using
`part` [R, of_columns.O] */
static int64_t listed_logits(const Model *m, const float *x, int64_t R, int64_t K, float *part, float *out) {
    const int64_t V = m->output.O, n = m->of_columns.O;
    if (s2s_linear(&m->of_columns, x, R, part)) return NO_MEMORY;
    for (int64_t r = 0; r < R; r++, out += V, part += n) {
        const uint8_t *listed = m->listed ? m->listed + r / K * V : 0;
        for (int64_t i = 0; i < V; i++) out[i] = -INFINITY;
        for (int64_t i = 0; i < n; i++)
            if (!listed || listed[m->columns[i]]) out[m->columns[i]] = part[i];
    }
    return OK;
}

/* In functions apart, as the products and the sums are rounded by themselves. */
static __attribute__((noinline)) void scale_logits(const float *scale, int64_t R, int64_t V, float *logits) {
    for (int64_t r = 0; r < R; r++, logits += V)
        for (int64_t i = 0; i < V; i++) logits[i] *= scale[i];
}

static __attribute__((noinline)) void add_bias(const float *bias, int64_t R, int64_t V, float *logits) {
    for (int64_t r = 0; r < R; r++, logits += V)
        for (int64_t i = 0; i < V; i++) logits[i] += bias[i];
}

/* x [R, D] -> logits [R, V]; with a shortlist, of sentences of K rows, using `part` */
int64_t s2s_logits(const Model *m, const float *x, int64_t R, int64_t K, float *part, float *out) {
    return m->of_columns.weight ? listed_logits(m, x, R, K, part, out) : s2s_linear(&m->output, x, R, out);
}

/* Logits [R, V] times the search's scale, plus its bias. */
void s2s_change_logits(const Search *s, int64_t R, int64_t V, float *logits) {
    if (s->logit_scale) scale_logits(s->logit_scale, R, V, logits);
    if (s->logit_bias) add_bias(s->logit_bias, R, V, logits);
}
