/* Graphs beside the GPT of picture_graph.h: a flat one without scopes, one without tensors, a
   pipeline with messages, and training steps with a backward phase. */
#ifndef TESTS_PICTURE_MORE_H
#define TESTS_PICTURE_MORE_H

#include "tests/support/picture_graph.h"

void picture_start(picture_maker *m, int n_ranks, syn_error *err);

syn_graph *picture_finish(picture_maker *m);

/* n ops without scopes, each reading one or two earlier tensors, mostly near ones. */
syn_graph *picture_flat(uint32_t n, syn_error *err);

/* n ops that only know whom they wait for, as in an execution trace. */
syn_graph *picture_bare(uint32_t n, syn_error *err);

uint32_t picture_message(picture_maker *m, bool send, uint32_t x, int32_t peer, int32_t tag,
                         syn_spec spec);

/* `stages` ranks that pass `batches` microbatches on, two layers each. */
syn_graph *picture_pipeline(int stages, int batches, syn_error *err);

/* Steps of forward, backward (layers in reverse, reading what forward saved) and an optimizer. */
syn_graph *picture_training(int layers, int steps, syn_error *err);

/* Names that a careless writer would take for markup. */
syn_graph *picture_hostile(syn_error *err);

#endif
