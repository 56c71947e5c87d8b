/* Which steps, layers and ranks repeat, so that one is drawn for all of them; and what a box says
   that stands for several: ranges of shapes and costs. */
#ifndef EXPORT_PICTURE_FOLD_H
#define EXPORT_PICTURE_FOLD_H

#include "export/picture/picture_text.h"
#include "export/text/arena.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Consecutive nodes of one step, phase and layer. */
typedef struct syn__pic_unit {
    uint32_t begin, end; /* nodes */
    uint32_t step_index; /* of plan->steps */
    uint32_t section;    /* of a training step, else 0 */
    syn_phase phase;
    const char *layer; /* "h.3"; "" outside layers */
    uint64_t sig;
    uint32_t rep;   /* the unit drawn instead; its own index if drawn */
    uint32_t count; /* of a drawn unit: how many it stands for */
    uint32_t last;  /* of a drawn unit: the last of these */
} syn__pic_unit;

typedef struct syn__pic_step {
    uint32_t begin, end;           /* nodes */
    uint32_t unit_begin, unit_end; /* units */
    uint32_t number, rep, count;
    uint64_t sig;
} syn__pic_step;

typedef struct syn__pic_totals {
    uint64_t ops, flops, bytes, comms, comm_bytes;
    double busy_ns, wait_ns, predicted_ns; /* sums, SYN_NO_TIME if no node has one (wait_ns: 0);
                                              busy_ns is without the waiting for other ranks */
} syn__pic_totals;

void syn__pic_totals_init(syn__pic_totals *t);
/* Adds what node counts for: nothing for metadata, no op for virtual nodes. */
void syn__pic_totals_add(syn__pic_totals *t, const syn_node *node);

/* What of a pass of a training step is drawn in one place; section = 4 * pass + this. */
enum { SYN__PIC_FORWARD, SYN__PIC_BACKWARD, SYN__PIC_BUCKETS, SYN__PIC_REST, SYN__PIC_SECTIONS };

typedef struct syn__pic_order {
    uint32_t node;    /* of the graph, at this place */
    uint32_t section; /* of this place */
    uint32_t place;   /* of this node of the graph */
} syn__pic_order;

#define SYN__PIC_SOME UINT32_MAX

/* Communications of its unit, a bit each: those that a node waits for, and the next ones that wait
   for it. */
typedef struct syn__pic_waits {
    uint64_t waits, feeds;
} syn__pic_waits;

typedef struct syn__pic_plan {
    const syn_graph *graph;
    uint32_t rank; /* index */
    uint32_t n_nodes;
    syn__pic_order *order; /* in which nodes are drawn; NULL: as they ran */
    syn__pic_unit *units;
    syn__pic_step *steps;
    size_t n_units, n_steps, units_cap, steps_cap;
    uint64_t rank_sig; /* equal for ranks that do the same */
    syn__pic_totals totals;
    uint32_t folded_steps, folded_units; /* not drawn */
    bool spans_ranks;      /* boxes of collectives stand for those of other ranks as well */
    bool folds;            /* what repeats is drawn once */
    bool frames;           /* layers have frames, which say for how many they stand */
    bool bars;             /* what a box of several ops communicates is drawn beside it */
    syn__pic_waits *waits; /* per place, of units that are drawn; NULL: not read yet */
    const uint32_t *alike; /* per group of the graph: for how many others its boxes stand, or
                              SYN__PIC_SOME; NULL: for none */
    syn_cursor cursor, other, tensor_cursor; /* for callers: one node, a second one, a tensor */
    syn__arena arena;
} syn__pic_plan;

/* What is folded: nothing, equal steps and equal layers one after the other, or also sequences of
   up to four units that repeat (pairs of layers, microbatches). */
enum { SYN__PIC_FOLD_NONE = 0, SYN__PIC_FOLD_LAYERS = 1, SYN__PIC_FOLD_ALL = 4 };
/* Reads one rank in one pass. */
syn_status syn__pic_plan_make(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank, int fold,
                              syn_error *err) SYN_MUST_USE;
/* The same, with the nodes of training steps by section: node numbers are places from here on. */
syn_status syn__pic_plan_passes(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank,
                                int fold, syn_error *err) SYN_MUST_USE;
/* Parts of that (picture_passes.c): sets plan->order if there are training steps; makes a layer
   differ from others where its forward or its backward does. */
syn_status syn__pic_plan_order(syn__pic_plan *plan, syn_error *err) SYN_MUST_USE;
syn_status syn__pic_pair_layers(syn__pic_plan *plan, syn_error *err) SYN_MUST_USE;
void syn__pic_plan_free(syn__pic_plan *plan);
/* Reads plan->waits. Whether the node at this place may join a box, which then feeds what it does:
   both wait for the same, and no other communication waits for the one than for the other; ops for
   which none waits (gradients of weights) may join any (picture_waits.c). */
syn_status syn__pic_plan_waits(syn__pic_plan *plan, syn_error *err) SYN_MUST_USE;
bool syn__pic_may_join(const syn__pic_plan *plan, syn__pic_waits *box, uint32_t node);
/* Whether a node of [first, last] depends on one of [from_first, from_last], or on a view of it. */
syn_status syn__pic_needs(syn__pic_plan *plan, uint32_t first, uint32_t last, uint32_t from_first,
                          uint32_t from_last, bool *out, syn_error *err) SYN_MUST_USE;
uint32_t syn__pic_unit_of(const syn__pic_plan *plan, uint32_t node);
/* For how many nodes of its step `node` stands, where no frame says that; 1: for itself alone. */
uint32_t syn__pic_times_of(const syn__pic_plan *plan, uint32_t node);
/* Where node `node` of the graph, as producers and dependencies name it, is; SYN_NO_NODE stays. */
uint32_t syn__pic_place_of(const syn__pic_plan *plan, uint32_t node);
/* The node drawn in the place of `node`. */
uint32_t syn__pic_rep_of(const syn__pic_plan *plan, uint32_t node);
/* Whether the unit is of collectives over gradients, which are bars beside the backward pass. */
bool syn__pic_is_bucket(const syn__pic_plan *plan, size_t unit);
bool syn__pic_unit_drawn(const syn__pic_plan *plan, size_t unit);
syn_status syn__pic_node(syn__pic_plan *plan, uint32_t node, syn_cursor *cursor,
                         const syn_node **out, syn_error *err) SYN_MUST_USE;
syn_status syn__pic_tensor(syn__pic_plan *plan, uint32_t tensor, const syn_graph_tensor **out,
                           syn_error *err) SYN_MUST_USE;
/* "h.0", or "h.0 ... h.11" when folded, with a real ellipsis. */
void syn__pic_unit_title(const syn__pic_plan *plan, uint32_t unit, syn__pic_text *out);
/* "prefill", "decode steps 1 ... 15", "step 0, forward". */
void syn__pic_step_title(const syn__pic_plan *plan, uint32_t step, syn_phase phase,
                         syn__pic_text *out);

/* ---- Ranges over folded steps (picture_range.c) ---- */

/* Smallest spec and largest of a tensor over the steps it stands for. */
typedef struct syn__pic_range {
    syn_spec lo, hi;
} syn__pic_range;

typedef struct syn__pic_cost {
    uint64_t flops_lo, flops_hi, bytes_lo, bytes_hi, comm_lo, comm_hi;
    double busy, predicted; /* means in ns, or SYN_NO_TIME */
    double wait;            /* beside busy, for other ranks */
} syn__pic_cost;

/* "8 us, +2.81 ms waiting": measured, with the wait for other ranks beside it. */
void syn__pic_put_measured(syn__pic_text *t, const syn__pic_cost *c);

/* Cost of nodes [first, last] together, over the steps that they stand for. */
syn_status syn__pic_cost_of(syn__pic_plan *plan, uint32_t first, uint32_t last, syn__pic_cost *c,
                            syn_error *err) SYN_MUST_USE;
/* Shape of an output, or of what input `slot` comes from, over the steps that the
   node stands for. */
syn_status syn__pic_range_of(syn__pic_plan *plan, uint32_t node, bool output, uint32_t slot,
                             syn__pic_range *r, syn_error *err) SYN_MUST_USE;
void syn__pic_put_spec(syn__pic_text *t, const syn__pic_range *r);
typedef const char *syn__pic_human(uint64_t value, char *buf);
/* "12 KiB", or "12 ... 16 KiB" with a real ellipsis. */
void syn__pic_put_range(syn__pic_text *t, syn__pic_human *text, uint64_t lo, uint64_t hi);
/* Follows views: the tensor that holds the data of input `slot` of `node`, the node that made it
   (or SYN_NO_NODE) and which of its outputs it is; `via` collects the views' names. */
typedef struct syn__pic_source {
    uint32_t tensor, node, slot;
} syn__pic_source;
syn_status syn__pic_resolve(syn__pic_plan *plan, uint32_t node, uint32_t slot, syn__pic_source *out,
                            syn__pic_text *via, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
