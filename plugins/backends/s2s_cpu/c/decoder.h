/* A decoder's step, an encoder, and their parts. Functions that allocate return OK or NO_MEMORY. */

#ifndef S2S_DECODER_H
#define S2S_DECODER_H

#include "vectors.h"

enum { OK = 0, NO_MEMORY = 1, NO_INSTRUCTIONS = 2 };
enum { BLOCKED = -30000 }; /* added to the score of a position that may not be seen; its exp is 0, and no row is NaN */

typedef struct { /* x W^T + b; prepacked.py makes it and defines the fields' layouts */
    const void *weight;
    const float *bias;   /* [O] */
    const float *scale;  /* [O], of weights in 8-bit integers */
    const int32_t *zero; /* [O], what the inputs' zero point adds to an integer sum */
    int64_t I, O, bits; /* inputs, outputs, bits of a weight: 32 (floats), 16 (bf16) or 8 */
    double multiplier;  /* of inputs that become 8-bit integers; 0: each row has its own scale */
} Linear;

typedef struct {
    const float *weight, *bias; /* [D]; bias null: by the root mean square alone */
    double eps;
} Norm;

typedef struct { /* outer(f(inner(x))), or outer(f(inner(x)) * gate(x)); a map whose weight is null is none */
    Linear inner, gate, outer;
} FeedForward;

typedef struct { /* an LSTM of width hidden.I, a multiple of W; hidden has no bias. None if its weight is null */
    Linear input, hidden;
} Cell;

typedef struct {
    Cell cell;          /* all of the layer, if there is one */
    Linear qkv, out;    /* self-attention, or in its place */
    Linear forget, new; /* a recurrent unit, if forget's weight is not null */
    Linear query, source_out;
    FeedForward feed_forward;
    Norm attention_norm, cross_attention_norm, feed_forward_norm;
    float *nodes;         /* [B, N, node_width]: h * (d_k + d_v), D of a recurrent unit, or twice a cell's width */
    float *keys, *values; /* [B, h, S, d_k], [B, h, S, d_v] */
    int64_t node_width, number; /* number: its index in a SourceMemory */
} Layer;

typedef struct {
    Linear qkv, out;
    FeedForward feed_forward;
    Norm attention_norm, feed_forward_norm;
} EncoderLayer;

typedef struct { /* its output is that of both, side by side; there may be no backward one */
    Cell forward, backward;
} RecurrentLayer;

enum { RELU, GELU, GELU_TANH, SILU }; /* activations */

typedef struct { /* numbers added to the scores by the distance of the key from the query */
    const float *table; /* [h, n]: in a decoder of 0, 1, ... tokens back, the last for all that are further; in an
                           encoder from as many back to as many ahead, n is odd; null: none */
    int64_t n;
} Relative;

typedef struct { /* what all layers share: h heads of d_k and d_v, width D */
    int64_t h, d_k, d_v, D, pre_norm, activation; /* pre_norm: whether norms stand before the sub-layers */
    double scale;                                 /* of scores */
    Relative relative;                            /* of self-attention */
    Norm norm;                                    /* of the last layer's output; none if its weight is null */
} Stack;

typedef struct { /* what steps and results read of a source, in memory of its own */
    float *keys_values; /* for each layer [h, S, d_k], then [h, S, d_v]; null without attention to the source */
    float *words;       /* [1 + n_words, P, E], what a guide refers to, see guide.c; null without one */
    int64_t *labels;    /* [n_words], the most probable ones, of eos, too; null if the model has learnt none */
    int64_t S, n_words, K; /* K: rows that read it, one after the other */
} SourceMemory;

typedef struct { /* B sentences, K hypotheses of each, N nodes, L longest path, S longest source */
    int64_t B, K, N, L, S;
    const int64_t *path, *length; /* [B, K, L], [B] */
    uint8_t *seen;                /* [B, S], where a source has a token */
    const Stack *stack;
    const SourceMemory *sources; /* of all rows, in order; null: they are the layers' keys and values. Else N may be 0,
                                    as all sentences have nodes in common, and a sentence is a row: K is 1 */
    int64_t n_sources;
    int64_t *guide;       /* [B, K, .], states of the model's guide, before the newest tokens and then after them */
    float *guide_vectors; /* [B, K, E], what the guide reads after the newest tokens */
} Step;

typedef struct { /* B sentences of S tokens */
    int64_t B, S;
    const uint8_t *pad; /* [B, S], where there is no token */
    const Stack *stack;
} Encoding;

typedef struct { /* a guide, and what is read at its places; see guide.c for all shapes */
    const int64_t *effect, *label; /* [V], of the tokens of outputs */
    int64_t n_labels, depth, n_places;
    const float *nothing; /* [P, E], in place of a word */
    const float *kinds;   /* [3 n_labels + 2, E], of the items and of FINISHED; null: not read */
    Linear maps, out;     /* of a word, [P, E], and of the decoder's output */
} Guidance;

typedef struct { /* list i: the tokens from begin[i] to begin[i + 1], in ascending order */
    const int64_t *begin, *token;
} TokenLists;

/* Rows x [R, D] -> out [R, D], using `scratch`; given: the Step for a Layer, the rows for an EncoderLayer */
typedef int64_t (*Sublayer)(const void *layer, const void *given, const float *x, float *scratch, float *out);

int64_t s2s_panel_width(void);
int64_t s2s_linear(const Linear *linear, const float *x, int64_t R, float *out);
int64_t s2s_select_outputs(const Linear *from, const int64_t *ids, int64_t n, Linear *to);
int64_t s2s_rounds_rows_to_bf16(void);
int64_t s2s_guide_state_size(const Guidance *g);
int64_t s2s_guidance_width(const Guidance *g);
void s2s_guide(const Guidance *g, const Step *step, const int64_t *token, float *x);
int64_t s2s_read_out(const Guidance *g, const Step *step, float *x);
int64_t s2s_guide_words(const Guidance *g, const float *x, int64_t n_words, float *out);
int64_t s2s_unit_linear(const Linear *linear, const float *x, int64_t R, float *out);
int64_t s2s_norm(const float *x, int64_t R, int64_t D, const Norm *norm, float *out);
int64_t s2s_add_norm(const float *x, const float *y, int64_t R, int64_t D, const Norm *norm, float *out);
int64_t s2s_feed_forward(const FeedForward *f, int64_t activation, const float *x, int64_t R, float *scratch,
                         float *out);
int64_t s2s_feed_forward_width(const FeedForward *f);
void s2s_lstm_gates(const float *part, const float *product, int64_t B, int64_t H, const float *before, float *c,
                    float *h);
int64_t s2s_recurrent_steps(const Layer *layers, int64_t n_layers, const Step *step, float *x);
int64_t s2s_encode_recurrent(const RecurrentLayer *layers, int64_t n_layers, const int64_t *begin, int64_t B, float *x);
int64_t s2s_recurrent_unit(const void *layer, const void *given, const float *x, float *scratch, float *out);
int64_t s2s_residual(Sublayer sublayer, const void *layer, const void *given, const Norm *norm, const Stack *stack,
                     int64_t R, float *x, float *scratch);
int64_t s2s_decoder_step(const Layer *layers, int64_t n_layers, const Step *s, float *x);
int64_t s2s_encoder(const EncoderLayer *layers, int64_t n_layers, const Encoding *e, float *x);
int64_t s2s_encode_rows(const EncoderLayer *layers, int64_t n_layers, const Stack *stack, const int64_t *begin,
                        int64_t B, float *x);
int64_t s2s_top_k(const float *x, int64_t rows, int64_t V, int64_t n, const uint8_t *allowed, const int64_t *banned,
                  int64_t n_banned, const float *score, int64_t K, int64_t n_best, float *lse, float *values,
                  int64_t *ids);
int64_t s2s_top_k_of_lists(const float *x, int64_t rows, int64_t V, int64_t n, const TokenLists *lists,
                           const int64_t *list, const int64_t *banned, int64_t n_banned, const float *score, int64_t K,
                           int64_t n_best, float *lse, float *values, int64_t *ids);
int64_t s2s_quantize_rows(const float *x, int64_t R, int64_t I, int64_t stride, int64_t zero, uint8_t *out,
                          float *scale);
int64_t s2s_tree_attention(const float *q, const float *k, const float *v, int64_t q_stride, int64_t k_stride,
                           int64_t v_stride, float *nodes, const int64_t *path, const int64_t *length, int64_t B,
                           int64_t K, int64_t N, int64_t L, int64_t h, int64_t d_k, int64_t d_v, float scale,
                           const Relative *relative, float *out);
int64_t s2s_source_attention(const float *q, const float *keys, const float *values, const uint8_t *seen, int64_t B,
                             int64_t K, int64_t S, int64_t h, int64_t d_k, int64_t d_v, float scale, float *out);
int64_t s2s_padded_attention(const float *q, const float *k, const float *v, const int64_t *q_strides,
                             const int64_t *k_strides, const int64_t *v_strides, const float *bias, int64_t B,
                             int64_t h, int64_t T, int64_t S, int64_t d_k, int64_t d_v, float scale,
                             const Relative *relative, float *out);

#endif
