/* A beam search, or sampling, of sentences that come and go, from their tokens to those of their outputs, as one
object.

Shapes: B sentences, beam hypotheses of each, E finished hypotheses, L layers, D width, h heads of d_k and d_v.
*/

#ifndef S2S_STREAM_H
#define S2S_STREAM_H

#include "beam_search.h"

enum { ROOT = -1 }; /* the node before the first */

/* The tokens of all outputs, finished and unfinished: the nodes of trees. A node is used by the nodes after it, by a
hypothesis that ends in it, and by a finished one. Unused ones are free for other tokens, of any sentence. */
typedef struct {
    int64_t room, n_taken, n_free, first_free; /* the first n_taken have been used; of these a list of n_free is free */
    int64_t *parent, *token, *n_uses;          /* [room]; of a free one, parent is the next in the list */
    float *log_prob;                           /* [room], of the token */
    Layer *layers;                             /* whose nodes have as much room */
    int64_t n_layers;
} Tree;

typedef struct { /* numbers are those of results, one after the other, as s2s_stream_run writes them */
    int64_t *numbers;
    float *values;
    int64_t n_numbers, n_values, numbers_room, values_room;
} Results;

typedef struct { /* what computes the logits of a sentence's tokens alone */
    Linear output;
    int64_t *ids; /* [output.O], the tokens, in ascending order */
} Columns;

typedef struct { /* sentences to be admitted */
    int64_t n;
    const int64_t *token;                           /* of their sources, one after the other */
    const int64_t *n_source, *limit, *index, *n_best, *n_start; /* [n], as in a Stream */
    const int64_t *start;                           /* the tokens before their outputs, one after the other */
    const int64_t *state;                           /* [n, width], at the start, if there is an automaton */
    const int64_t *key;                             /* n_best of each sentence, if tokens are drawn */
} Admission;

typedef struct {
    const SourceModel *source; /* the caller's, as is what follows; positions and penalties may change between calls */
    const Model *model;
    const Search *settings; /* without arrays but `banned`, `penalty`, `logit_scale`, `logit_bias`, tables and lists;
                            stop_rank may be 0: each sentence's n_best */
    Tree tree;
    int64_t B, room;       /* sentences, and how many the arrays have room for */
    int64_t *index;        /* [B], which identify results */
    int64_t *n_source;     /* [B], source tokens */
    int64_t *limit;        /* [B], most tokens of an output, without eos */
    int64_t *n_best;       /* [B], outputs that are wanted, at most E */
    int64_t *length;       /* [B], of live hypotheses, without starting tokens */
    int64_t *n_start;      /* [B], starting tokens, at least one */
    int64_t *n_fed;        /* [B], how many of them have nodes: all, before the first token of an output is found */
    int64_t **start;       /* [B], its starting tokens */
    int64_t *n_live;       /* [B], hypotheses: one before the first step, then `beam`, or samples that have not ended */
    int64_t *key;          /* [B, beam], of each sample's random numbers, if tokens are drawn */
    SourceMemory *memory;  /* [B], of its source */
    Columns **columns;     /* [B], of the tokens of its outputs; null without a shortlist */
    int64_t *token, *node; /* [B, beam], the newest tokens, and the nodes that are these; ROOT: no hypothesis is here */
    float *score;          /* [B, beam], log-probabilities, best first */
    int64_t *state;        /* [B, beam, width], of the automaton; width is 0 without one */
    int64_t *guide;        /* [B, beam, width], of the model's guide, before the newest tokens; the same */
    Finished finished;     /* [B, E], best first; if tokens are drawn, sample by sample, with score 0 */
    Results results;
    void *scratch; /* of a step */
    int64_t scratch_size;
} Stream;

typedef struct { /* what a call of s2s_stream_run found, valid until the next call */
    int64_t n_numbers;
    const int64_t *numbers; /* for each result: index; how many labels its words have, which, and -1 if none are
                               learnt; how many outputs, and for each its tokens: how many, which */
    const float *values;    /* for each output: its score, and the log-probabilities of its tokens and of eos */
    int64_t n_values;
    int64_t n_sentences, n_source, longest; /* that are not done, their source tokens, tokens of the longest hypothesis
                                              with all starting tokens but one */
} Found;

typedef struct { /* what drawing tokens writes: of some rows, and of a sentence's samples */
    float *logits;
    uint8_t *allowed; /* [V] */
    double *random;
    int64_t *token;
    float *log_prob;
} Samples;

typedef struct { /* the hypothesis that is extended by a token, or before the first token those of all samples */
    int64_t place, node;
    const int64_t *output; /* [length], its tokens; null if no rule reads them */
    const float *logits;
    int64_t *state; /* of the automaton, if there is one */
    const int64_t *guide;
} Sample;

/* Whether what may come next depends on the tokens of the output so far. */
static inline int reads_output(const Stream *s) {
    return s->settings->repeats.n_gram > 0 || s->settings->repeats.penalty > 0;
}

static inline int draws(const Stream *s) { return s->settings->sampling.temperature > 0; }

/* Numbers of a hypothesis's state. */
static inline int64_t state_width(const Stream *s) {
    return s->settings->automaton ? s->settings->automaton->width : 0;
}

static inline int64_t guide_state_size(const Stream *s) { return s2s_guide_state_size(s->model->guidance); }

int64_t s2s_resize(void *pointer, int64_t n_bytes);

int64_t s2s_tree_new(Tree *t, const Model *m, const Stack *stack);
int64_t s2s_tree_reserve(Tree *t, int64_t n);
int64_t s2s_tree_add(Tree *t, int64_t parent, int64_t token, float log_prob);
void s2s_tree_release(Tree *t, int64_t node);
void s2s_tree_path(const Tree *t, int64_t node, int64_t n, int64_t *path);
void s2s_tree_free(Tree *t);

Columns *s2s_columns_of(const Shortlist *of, const Linear *output, const int64_t *source, int64_t n_source);
int64_t s2s_find_words(const SourceWords *words, const int64_t *token, int64_t S, int64_t *first);
void s2s_pool_words(const SourceModel *source, const Model *m, const int64_t *token, int64_t S, const int64_t *first,
                    int64_t n_words, float *part, float *x);
int64_t s2s_stream_encode(const SourceModel *source, const Model *m, const Admission *of, SourceMemory *memory);
int64_t s2s_stream_step(Stream *s);
void s2s_penalize_repeats(const Repeats *r, const int64_t *output, int64_t n, int64_t V, uint8_t *marks, float *logits);
void s2s_allowed_tokens(const Search *of, const int64_t *output, int64_t n, int64_t *state, int64_t V,
                        uint8_t *allowed);
uintptr_t s2s_arrange_samples(uintptr_t at, const Stream *s, int64_t at_once, Samples *w);
int64_t s2s_draw_token(Stream *s, const Sample *from, Samples *w);
int64_t s2s_write_result(Stream *s, int64_t b);

int64_t s2s_stream_new(const SourceModel *source, const Model *model, const Search *settings, Stream **out);
int64_t s2s_stream_admit(Stream *s, const Admission *of);
int64_t s2s_stream_run(Stream *s, int64_t max_steps, Found *found);
int64_t s2s_stream_cancel(Stream *s, const int64_t *index, int64_t n);
int64_t s2s_stream_free(Stream *s);

#endif
