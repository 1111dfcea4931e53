/* Beam search in C: its lists, and the arguments of several steps with a model.

Shapes: B sentences, K live hypotheses of each, n candidates, E finished hypotheses, V tokens, D width.
*/

#ifndef S2S_BEAM_SEARCH_H
#define S2S_BEAM_SEARCH_H

#include "decoder.h"

typedef struct { /* [B, n], best first */
    float *score;
    int64_t *parent, *token;
    float *log_prob;
    int64_t *node;
} Candidates;

typedef struct { /* [B, E], best first */
    float *score;
    int64_t *node;
    float *log_prob;
} Finished;

typedef struct {
    const Layer *layers;
    int64_t n_layers;
    int64_t D;                  /* of embeddings; the decoder's output has width output.I */
    Linear output;              /* from the last norm's output, times output_scale, to logits */
    const float *embedding;     /* [V, D]; null: the weight of `output` */
    double scale, output_scale; /* scale: of the embedding */
    int64_t zero_start;         /* whether the first token's embedding is zero */
    const float *positions;     /* [P, D], added to the embedding; null: none */
    Norm embedding_norm;        /* of their sum; none if its weight is null */
    Linear of_columns;          /* to the logits of `columns` alone, with a shortlist; else its weight is null */
    const int64_t *columns;     /* [of_columns.O], the tokens that any sentence lists */
    uint8_t *listed;            /* [B, V], whether a sentence's output may have the token; null: all of `columns` */
    const Guidance *guidance;   /* null: none; only in a stream, like layers of cells */
} Model;

typedef struct { /* the tokens of outputs: some of all outputs, and some by the tokens of their source */
    int64_t n_always, n_source, multiple; /* further tokens, the most frequent first, make a multiple of so many */
    const int64_t *always;                /* [n_always] */
    TokenLists of_source;                 /* of source tokens up to n_source - 1; in any order */
} Shortlist;

typedef struct { /* a StackAutomaton of G counters, with the states of hypotheses */
    int64_t G, width;
    const int64_t *keep, *add, *bounds, *label, *allowed; /* [V, G], [V, G], [2, G], [V], [L, 2^G] */
    TokenLists lists;
    int64_t *state; /* [B, K, width], with room for [B, beam, width] */
} Automaton;

typedef struct { /* from which distribution tokens are drawn, see s2s.backend.operators */
    int64_t top_k;
    double top_p, temperature; /* temperature 0: tokens are not drawn */
} SamplingRule;

typedef struct { /* how the tokens that an output already has change the choice of the next one; only in a stream */
    int64_t n_gram;        /* no sequence of so many tokens is repeated, see NoRepeatNgram of s2s; 0: any may be */
    int64_t of_log_probs;  /* whether the penalty changes log-probabilities in place of logits */
    double penalty;        /* of these tokens, see RepetitionPenalty of s2s.decoding; 0: none */
    const int64_t *always; /* [n_always], tokens that it changes in any case */
    int64_t n_always;
} Repeats;

typedef struct { /* steps change the arrays that are not const */
    int64_t beam, E, eos, n, n_finishable, stop_rank, first_k, at_present, normalize, n_banned, first_node;
    int64_t admission_threshold;
    int64_t min_len; /* least tokens of an output without eos, or as many as its limit allows; in a stream alone */
    const int64_t *banned; /* [n_banned] */
    const float *penalty;
    int64_t *sentence, *n_source, *limit; /* [B]: its index before the steps, source tokens, most output tokens */
    int64_t *token, *node; /* [B, K], with room for [B, beam]: K is `beam` after a step */
    float *score;          /* [B, K] */
    int64_t *length;       /* [B], of live hypotheses */
    Finished finished;
    int64_t *parent;                                 /* [B, beam], the hypothesis that each extends, in the last step */
    int64_t *path, *n_cached, *n_nodes;              /* [B, K, L], [B], [B] */
    int64_t *new_token;                              /* of each step in turn, [., B, beam] */
    float *new_log_prob;
    int64_t *new_parent;
    int64_t n_steps, n_new; /* steps taken, new tokens */
    const uint8_t *allowed; /* [B, K, V], for one step; null: an automaton decides, or all are allowed */
    Automaton *automaton;   /* null: none */
    const float *logit_scale, *logit_bias; /* [V]: logits become logits * scale + bias; null: they stay */
    const Shortlist *shortlist;            /* of the sentences of a stream; null: none */
    SamplingRule sampling;
    Repeats repeats;
} Search;

typedef struct { /* what a step makes of its logits: n candidates of each sentence, m continuations of a hypothesis */
    int64_t n, m;
    float *logits, *sums, *log_probs;
    int64_t *tokens, *list, *banned; /* banned: and eos, if there is a least length */
    Candidates all, live;
    Finished finished;
} Expansion;

typedef struct { /* which tokens of a source make up a word */
    const uint8_t *begins; /* [V], which begin one; null: all */
    int64_t pooled;        /* whether the encoder reads words; of these, labels are no part */
    int64_t first_label, end_label; /* labels: the tokens from first_label to end_label - 1 */
} SourceWords;

typedef struct { /* from a source's tokens to what a decoder's layers and its guide read */
    const EncoderLayer *layers;
    int64_t n_layers;
    const RecurrentLayer *recurrent; /* in place of these; null: none */
    int64_t n_recurrent;
    int64_t D, M;                 /* widths of embeddings, and of the encoder's output */
    SourceWords words;
    const Stack *stack, *decoder; /* what the layers share, those of the encoder and those of the decoder */
    const float *embedding;       /* [V, D]; null: the weight of the model's `output` */
    double scale;                 /* of the embedding */
    const float *positions;       /* [P, D], added to the embedding; null: none */
    Linear labels;                /* from the encoder's output at a word; none if its weight is null */
    const Linear *keys_values;    /* for each layer of the decoder: h keys, then h values; null: they read no source */
} SourceModel;

/* The next n_bytes of memory, on lines of 64 bytes; `at` moves behind them. */
static inline void *take(uintptr_t *at, int64_t n_bytes) {
    uintptr_t begin = *at;
    *at += (n_bytes + 63) / 64 * 64;
    return (void *)begin;
}

void s2s_embed(const float *table, const Linear *packed, float scale, const int64_t *token, int64_t n, int64_t D,
               float *out);
int64_t s2s_decode(const Model *m, const Step *step, const int64_t *token, float *x);
int64_t s2s_logits(const Model *m, const float *x, int64_t R, int64_t K, float *part, float *out);
void s2s_change_logits(const Search *s, int64_t R, int64_t V, float *logits);
uintptr_t s2s_arrange_expansion(uintptr_t at, const Model *m, const Search *s, int64_t B, Expansion *w);
int64_t s2s_expand(const Search *s, int64_t B, int64_t K, int64_t V, Expansion *w);
int64_t s2s_finish(const Search *s, int64_t B, Expansion *w);
void s2s_mark_done(const Search *s, int64_t B, int64_t K, uint8_t *done);
int64_t s2s_beam_search_steps(const Model *m, Step *step, Search *s, int64_t max_steps);
int64_t s2s_extend_paths(int64_t *path, const int64_t *length, const int64_t *n_nodes, int64_t B, int64_t K, int64_t L);
int64_t s2s_reorder_paths(const int64_t *path, const int64_t *parents, int64_t B, int64_t K, int64_t n, int64_t L,
                          int64_t *out);

/* Width of a row from the embeddings to the decoder's output. */
static inline int64_t row_width(const Model *m) { return m->D > m->output.I ? m->D : m->output.I; }

/* Whether an output of `length` tokens is too short to end. */
static inline int is_short(const Search *s, int64_t length, int64_t limit) {
    return length < (s->min_len < limit ? s->min_len : limit);
}

void s2s_allowed_lists(const Automaton *a, int64_t R, int64_t *list);
void s2s_advance_states(Automaton *a, int64_t B, int64_t K, int64_t beam, const int64_t *parent, const int64_t *token,
                        int64_t **spare);

int64_t s2s_sample(const float *x, int64_t rows, int64_t V, const uint8_t *allowed, const int64_t *banned,
                   int64_t n_banned, int64_t normalize, const SamplingRule *rule, const double *random, int64_t n,
                   int64_t *token, float *log_prob);
int64_t s2s_random_numbers(uint64_t seed, int64_t n, uint64_t *out);

int64_t s2s_merge_candidates(const float *log_probs, const int64_t *tokens, const float *score, const int64_t *node,
                             int64_t B, int64_t K, int64_t m, int64_t n, float *best, int64_t *parent, int64_t *token,
                             float *log_prob, int64_t *before);
int64_t s2s_merge_finished(const Candidates *from, const Finished *before, int64_t B, int64_t n, int64_t E, int64_t eos,
                           int64_t n_finishable, const float *penalty, const int64_t *length, Finished *after);
int64_t s2s_unfinished_candidates(const Candidates *from, int64_t B, int64_t n, int64_t K, int64_t eos,
                                  Candidates *live);
int64_t s2s_search_finished(const float *live, const float *finished, const int64_t *length, const int64_t *limit,
                            const float *penalty, int64_t B, int64_t K, int64_t E, int64_t n, uint8_t *done);

#endif
