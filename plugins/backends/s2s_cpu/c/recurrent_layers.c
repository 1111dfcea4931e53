/* Layers of LSTMs, in an encoder and in a decoder's step, for one thread. A row's result has the same bits whatever the
other rows are. R rows, H width.
*/

#include "decoder.h"

static int64_t width_of(const Cell *cell) { return cell->hidden.weight ? cell->hidden.I : 0; }

/* order [B], the sentences, the longest first */
static void sort_by_length(const int64_t *begin, int64_t B, int64_t *order) {
    for (int64_t b = 0, i; b < B; b++) {
        for (i = b; i && begin[order[i - 1] + 1] - begin[order[i - 1]] < begin[b + 1] - begin[b]; i--)
            order[i] = order[i - 1];
        order[i] = b;
    }
}

/* Reads all sentences from one end to the other: parts [R, 4 H] of the gates -> outputs, in rows of `stride` floats.
Uses `scratch` [B, 6 H]. */
static int64_t read_sentences(const Cell *cell, int backward, const int64_t *begin, const int64_t *order, int64_t B,
                              const float *parts, int64_t stride, float *scratch, float *out) {
    const int64_t H = cell->hidden.I;
    float *h = scratch, *c = h + B * H, *product = c + B * H;
    memset(h, 0, 2 * B * H * sizeof(float));
    for (int64_t t = 0, n = B;; t++) {
        while (n && begin[order[n - 1]] + t >= begin[order[n - 1] + 1]) n--;
        if (!n) return OK;
        if (s2s_linear(&cell->hidden, h, n, product)) return NO_MEMORY;
        for (int64_t i = 0; i < n; i++) {
            const int64_t b = order[i], row = backward ? begin[b + 1] - 1 - t : begin[b] + t;
            s2s_lstm_gates(parts + 4 * row * H, product + 4 * i * H, 1, H, c + i * H, c + i * H, h + i * H);
            memcpy(out + row * stride, h + i * H, H * sizeof(float));
        }
    }
}

/* x, the rows of B sentences, becomes the last layer's output; it has room for the widest rows. Rows begin[b] to
begin[b + 1] - 1 are sentence b. */
int64_t s2s_encode_recurrent(const RecurrentLayer *layers, int64_t n_layers, const int64_t *begin, int64_t B,
                             float *x) {
    const int64_t R = begin[B];
    int64_t H = 0, failed = 0;
    for (int64_t i = 0; i < n_layers; i++) H = layers[i].forward.hidden.I > H ? layers[i].forward.hidden.I : H;
    float *scratch = allocate(6 * (R + B) * H * sizeof(float)), *parts, *out;
    int64_t *order = allocate(B * sizeof(int64_t));
    failed = !scratch || !order;
    if (!failed) sort_by_length(begin, B, order), parts = scratch + 6 * B * H, out = parts + 4 * R * H;
    for (const RecurrentLayer *layer = layers; layer < layers + n_layers && !failed; layer++) {
        const int64_t width = width_of(&layer->forward) + width_of(&layer->backward);
        const Cell *cells[] = {&layer->forward, &layer->backward};
        for (int64_t i = 0, at = 0; i < 2 && !failed; at += width_of(cells[i++]))
            failed = width_of(cells[i]) && (s2s_linear(&cells[i]->input, x, R, parts) ||
                                            read_sentences(cells[i], i, begin, order, B, parts, width, scratch,
                                                           out + at));
        if (!failed) memcpy(x, out, R * width * sizeof(float));
    }
    free(scratch), free(order);
    return failed ? NO_MEMORY : OK;
}

/* A step of one layer, x [R, I] -> [R, H]: output and memory are written to the nodes in which the paths end, and read
from those before them. Uses `scratch` [R, 10 H]. */
static int64_t cell_step(const Layer *layer, const Step *s, float *x, float *scratch) {
    const int64_t H = layer->cell.hidden.I, R = s->B * s->K, n_bytes = H * sizeof(float);
    float *h = scratch, *c = h + R * H, *parts = c + R * H, *product = parts + 4 * R * H;
    for (int64_t r = 0; r < R; r++) {
        const int64_t length = s->length[r / s->K], *path = s->path + r * s->L;
        const float *nodes = layer->nodes + r / s->K * s->N * layer->node_width;
        const float *before = length > 1 ? nodes + path[length - 2] * layer->node_width : 0;
        if (before)
            memcpy(h + r * H, before, n_bytes), memcpy(c + r * H, before + H, n_bytes);
        else
            memset(h + r * H, 0, n_bytes), memset(c + r * H, 0, n_bytes);
    }
    if (s2s_linear(&layer->cell.input, x, R, parts) || s2s_linear(&layer->cell.hidden, h, R, product)) return NO_MEMORY;
    s2s_lstm_gates(parts, product, R, H, c, c, x);
    for (int64_t r = 0; r < R; r++) {
        const int64_t last = s->path[r * s->L + s->length[r / s->K] - 1];
        float *node = layer->nodes + (r / s->K * s->N + last) * layer->node_width;
        memcpy(node, x + r * H, n_bytes), memcpy(node + H, c + r * H, n_bytes);
    }
    return OK;
}

/* The newest tokens through all layers; x has room for the widest rows. */
int64_t s2s_recurrent_steps(const Layer *layers, int64_t n_layers, const Step *step, float *x) {
    int64_t H = 0, failed = 0;
    for (int64_t i = 0; i < n_layers; i++) H = layers[i].cell.hidden.I > H ? layers[i].cell.hidden.I : H;
    float *scratch = allocate(10 * step->B * step->K * H * sizeof(float));
    failed = !scratch;
    for (int64_t i = 0; i < n_layers && !failed; i++) failed = cell_step(layers + i, step, x, scratch);
    free(scratch);
    return failed ? NO_MEMORY : OK;
}
