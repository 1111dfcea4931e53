/* A step of a whole decoder as one call, for one thread: where rows are few and narrow, calls take more time than
arithmetic. R = B * K rows; see decoder.h.
*/

#include "decoder.h"
#include <stdlib.h>

typedef void (*Sublayer)(const Layer *, const Step *, const float *x, float *scratch, float *out);

static void paths(const Layer *layer, const Step *s, const float *x, float *scratch, float *out) {
    int64_t R = s->B * s->K, width = layer->qkv.O, keys = s->h * s->d_k;
    const float *q = scratch, *k = q + keys, *v = k + keys;
    float *found = scratch + R * width;
    s2s_product(&layer->qkv, x, R, scratch);
    s2s_attend(q, k, v, width, width, width, layer->nodes, s->path, s->length, s->B, s->K, s->N, s->T, s->h, s->d_k,
               s->d_v, 1 / sqrtf(s->d_k), found);
    s2s_product(&layer->out, found, R, out);
}

static void source(const Layer *layer, const Step *s, const float *x, float *scratch, float *out) {
    int64_t R = s->B * s->K;
    float *found = scratch + R * layer->query.O;
    s2s_product(&layer->query, x, R, scratch);
    s2s_attend_source(scratch, layer->keys, layer->values, s->seen, s->B, s->K, s->S, s->h, s->d_k, s->d_v,
                      1 / sqrtf(s->d_k), found);
    s2s_product(&layer->source_out, found, R, out);
}

static void feed_forward(const Layer *layer, const Step *s, const float *x, float *scratch, float *out) {
    int64_t R = s->B * s->K, n = R * layer->inner.O;
    s2s_product(&layer->inner, x, R, scratch);
    for (int64_t i = 0; i < n; i++) scratch[i] = scratch[i] > 0 ? scratch[i] : 0;
    s2s_product(&layer->outer, scratch, R, out);
}

/* x becomes norm(x + sublayer(x)), or x + sublayer(norm(x)). */
static void around(Sublayer sublayer, const Norm *norm, const Layer *layer, const Step *s, float *x, float *scratch) {
    int64_t R = s->B * s->K, n = R * s->D;
    float *normed = scratch, *found = scratch + n;
    scratch += 2 * n;
    if (!s->pre) {
        sublayer(layer, s, x, scratch, found);
        s2s_add_norm(x, found, R, s->D, norm->weight, norm->bias, norm->eps, x);
        return;
    }
    s2s_norm(x, R, s->D, norm->weight, norm->bias, norm->eps, normed);
    sublayer(layer, s, normed, scratch, found);
    for (int64_t i = 0; i < n; i++) x[i] += found[i];
}

/* x [R, D] becomes the last layer's output; each layer writes its keys and values into its nodes. */
void s2s_decoder(const Layer *layers, int64_t n_layers, const Step *s, float *x) {
    const Layer *end = layers + n_layers;
    int64_t widest = 0;
    for (const Layer *layer = layers; layer < end; layer++) {
        int64_t attention = layer->qkv.O + s->h * s->d_v, most = layer->inner.O > attention ? layer->inner.O : attention;
        widest = most > widest ? most : widest;
    }
    float *scratch = malloc(s->B * s->K * (2 * s->D + widest) * sizeof(float));
    for (const Layer *layer = layers; layer < end; layer++) {
        around(paths, &layer->paths, layer, s, x, scratch);
        around(source, &layer->source, layer, s, x, scratch);
        around(feed_forward, &layer->feed_forward, layer, s, x, scratch);
    }
    free(scratch);
}
