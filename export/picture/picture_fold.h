/* Finds steps, layers and ranks that repeat, so that one of them is drawn for all. Computes the
   ranges of shapes and costs for boxes that stand for several. A rank is divided into steps, and a
   step into units: consecutive nodes of one phase and layer. */
#ifndef EXPORT_PICTURE_FOLD_H
#define EXPORT_PICTURE_FOLD_H

#include "export/picture/picture_text.h"
#include "export/text/arena.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Consecutive nodes of the same step, phase and layer. */
typedef struct syn__pic_unit {
    uint32_t begin, end; /* nodes */
    uint32_t step_index; /* index in plan->steps */
    uint32_t section;    /* for training steps (see below), otherwise 0 */
    syn_phase phase;
    const char *layer; /* "h.3"; "" outside layers */
    uint64_t sig;
    uint32_t rep;   /* the unit drawn in its place; its own index if it is drawn */
    uint32_t count; /* of a drawn unit: the number of units that it stands for */
    uint32_t last;  /* of a drawn unit: the last one of these */
} syn__pic_unit;

typedef struct syn__pic_step {
    uint32_t begin, end;           /* nodes */
    uint32_t unit_begin, unit_end; /* units */
    uint32_t number, rep, count;
    uint64_t sig;
} syn__pic_step;

typedef struct syn__pic_totals {
    uint64_t ops, flops, bytes, comms, comm_bytes;
    double busy_ns, wait_ns, predicted_ns; /* sums; SYN_NO_TIME if no node has a time (wait_ns: 0).
                                              busy_ns excludes waiting for other ranks */
} syn__pic_totals;

void syn__pic_totals_init(syn__pic_totals *t);
/* Adds a node's ops, costs and times. Metadata adds nothing; virtual nodes add no op. */
void syn__pic_totals_add(syn__pic_totals *t, const syn_node *node);

/* Parts of a pass (forward and backward of a microbatch), each drawn in one place. section = 4 *
   pass + part. */
enum { SYN__PIC_FORWARD, SYN__PIC_BACKWARD, SYN__PIC_BUCKETS, SYN__PIC_REST, SYN__PIC_SECTIONS };

typedef struct syn__pic_order {
    uint32_t node;    /* node of the graph at this place */
    uint32_t section; /* section of this place */
    uint32_t place;   /* place of this node of the graph */
} syn__pic_order;

#define SYN__PIC_SOME UINT32_MAX

/* Communications of the unit, as bits: those that a node waits for, and the next ones that wait for
   it. */
typedef struct syn__pic_waits {
    uint64_t waits, feeds;
} syn__pic_waits;

typedef struct syn__pic_plan {
    const syn_graph *graph;
    uint32_t rank; /* index */
    uint32_t n_nodes;
    syn__pic_order *order; /* order in which nodes are drawn; NULL: order of execution */
    syn__pic_unit *units;
    syn__pic_step *steps;
    size_t n_units, n_steps, units_cap, steps_cap;
    uint64_t rank_sig; /* equal for ranks that do the same */
    syn__pic_totals totals;
    uint32_t folded_steps, folded_units; /* number of those that are not drawn */
    bool spans_ranks;      /* the picture has several ranks, so boxes of collectives stand for other
                              ranks, too */
    bool folds;            /* repetitions are drawn once */
    bool frames;           /* layers have frames that show how many layers they stand for */
    bool bars;             /* communication within a box of several ops is drawn next to it */
    syn__pic_waits *waits; /* per place, for drawn units; NULL: not computed yet */
    const uint32_t *alike; /* per group of the graph: the number of other groups that its boxes
                              stand for, or SYN__PIC_SOME; NULL: none */
    syn_cursor cursor, other, tensor_cursor; /* for callers: one node, a second node, a tensor */
    syn__arena arena;
} syn__pic_plan;

/* What to fold: nothing; consecutive equal steps and layers; or also repeated sequences of up to
   four units (pairs of layers, microbatches). */
enum { SYN__PIC_FOLD_NONE = 0, SYN__PIC_FOLD_LAYERS = 1, SYN__PIC_FOLD_ALL = 4 };
/* Reads a rank in one pass. */
syn_status syn__pic_plan_make(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank, int fold,
                              syn_error *err) SYN_MUST_USE;
/* The same, with the nodes of training steps reordered by section. From here on, node numbers are
   places in that order. */
syn_status syn__pic_plan_passes(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank,
                                int fold, syn_error *err) SYN_MUST_USE;
/* Its steps (picture_passes.c): set plan->order if there are training steps; and give layers
   different signatures if their forward or backward differs. */
syn_status syn__pic_plan_order(syn__pic_plan *plan, syn_error *err) SYN_MUST_USE;
syn_status syn__pic_pair_layers(syn__pic_plan *plan, syn_error *err) SYN_MUST_USE;
void syn__pic_plan_free(syn__pic_plan *plan);
/* Computes plan->waits (picture_waits.c). syn__pic_may_join: whether the node at this place may
   join a box, and if so adds what the node feeds. Both must wait for the same communications, and
   the same next ones must wait for both. An op that no communication waits for (gradients of
   weights) may join any box. */
syn_status syn__pic_plan_waits(syn__pic_plan *plan, syn_error *err) SYN_MUST_USE;
bool syn__pic_may_join(const syn__pic_plan *plan, syn__pic_waits *box, uint32_t node);
/* Whether a node in [first, last] depends on one in [from_first, from_last], directly or through
   views. */
syn_status syn__pic_needs(syn__pic_plan *plan, uint32_t first, uint32_t last, uint32_t from_first,
                          uint32_t from_last, bool *out, syn_error *err) SYN_MUST_USE;
uint32_t syn__pic_unit_of(const syn__pic_plan *plan, uint32_t node);
/* The number of nodes in its step that `node` stands for, if no frame shows it; otherwise 1. */
uint32_t syn__pic_times_of(const syn__pic_plan *plan, uint32_t node);
/* The place of node `node` of the graph, which producers and dependencies refer to. SYN_NO_NODE
   stays SYN_NO_NODE. */
uint32_t syn__pic_place_of(const syn__pic_plan *plan, uint32_t node);
/* The node that is drawn in the place of `node`. */
uint32_t syn__pic_rep_of(const syn__pic_plan *plan, uint32_t node);
/* Whether the unit consists of collectives over gradients, which are drawn as bars next to the
   backward pass. */
bool syn__pic_is_bucket(const syn__pic_plan *plan, size_t unit);
bool syn__pic_unit_drawn(const syn__pic_plan *plan, size_t unit);
syn_status syn__pic_node(syn__pic_plan *plan, uint32_t node, syn_cursor *cursor,
                         const syn_node **out, syn_error *err) SYN_MUST_USE;
syn_status syn__pic_tensor(syn__pic_plan *plan, uint32_t tensor, const syn_graph_tensor **out,
                           syn_error *err) SYN_MUST_USE;
/* Writes "h.0", or "h.0 ... h.11" if folded (with a real ellipsis). */
void syn__pic_unit_title(const syn__pic_plan *plan, uint32_t unit, syn__pic_text *out);
/* Writes "prefill", "decode steps 1 ... 15", "step 0, forward". */
void syn__pic_step_title(const syn__pic_plan *plan, uint32_t step, syn_phase phase,
                         syn__pic_text *out);

/* ---- ranges over folded steps (picture_range.c) ---- */

/* The smallest and the largest spec of a tensor over the steps it stands for. */
typedef struct syn__pic_range {
    syn_spec lo, hi;
} syn__pic_range;

typedef struct syn__pic_cost {
    uint64_t flops_lo, flops_hi, bytes_lo, bytes_hi, comm_lo, comm_hi;
    double busy, predicted; /* means in ns, or SYN_NO_TIME */
    double wait;            /* for other ranks, not included in busy */
} syn__pic_cost;

/* Writes the measured time and the wait for other ranks: "8 us, +2.81 ms waiting". */
void syn__pic_put_measured(syn__pic_text *t, const syn__pic_cost *c);

/* Total cost of nodes [first, last], over the steps that they stand for. */
syn_status syn__pic_cost_of(syn__pic_plan *plan, uint32_t first, uint32_t last, syn__pic_cost *c,
                            syn_error *err) SYN_MUST_USE;
/* Shape of an output, or of the source of input `slot`, over the steps that the node stands for. */
syn_status syn__pic_range_of(syn__pic_plan *plan, uint32_t node, bool output, uint32_t slot,
                             syn__pic_range *r, syn_error *err) SYN_MUST_USE;
void syn__pic_put_spec(syn__pic_text *t, const syn__pic_range *r);
typedef const char *syn__pic_human(uint64_t value, char *buf);
/* Writes "12 KiB", or "12 ... 16 KiB" (with a real ellipsis). */
void syn__pic_put_range(syn__pic_text *t, syn__pic_human *text, uint64_t lo, uint64_t hi);
/* Follows views back from input `slot` of `node`: the tensor with the data, the node that made it
   (or SYN_NO_NODE) and the number of its output. `via`, unless NULL, gets the names of the
   views. */
typedef struct syn__pic_source {
    uint32_t tensor, node, slot;
} syn__pic_source;
syn_status syn__pic_resolve(syn__pic_plan *plan, uint32_t node, uint32_t slot, syn__pic_source *out,
                            syn__pic_text *via, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
