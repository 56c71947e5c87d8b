/* Finds steps, layers and ranks that repeat, so that each is drawn once. A rank is divided into
   steps, and a step into units, which are consecutive nodes of one phase and layer. The result is a
   plan: the list of steps and units, and for each the one that is drawn in its place. From the
   plan, picture_range.c computes the ranges of shapes and costs for boxes that represent several
   nodes. */
#ifndef EXPORT_PICTURE_FOLD_H
#define EXPORT_PICTURE_FOLD_H

#include "export/picture/picture_text.h"
#include "export/text/arena.h"
#include "export/walk/passes.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Consecutive nodes of the same step, phase and layer. */
typedef struct syn__pic_unit {
    uint32_t begin, end; /* nodes */
    uint32_t step_index; /* index in plan->steps */
    uint32_t section;    /* training steps: pass and part, see SYN__PIC_SECTIONS; otherwise 0 */
    syn_phase phase;
    const char *layer; /* name of the layer, "h.3"; "" outside layers */
    uint64_t sig;
    uint32_t rep;   /* index of the unit that is drawn in its place; its own index if it is drawn */
    uint32_t count; /* drawn units: number of units that it represents, including itself */
    uint32_t last;  /* drawn units: the last unit that it represents */
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
                                              busy_ns excludes waiting for other ranks, which is
                                              wait_ns */
} syn__pic_totals;

void syn__pic_totals_init(syn__pic_totals *t);
/* Adds a node's ops, costs and times. Nodes that are only metadata add nothing. Virtual nodes
   (views) do not count as ops. */
void syn__pic_totals_add(syn__pic_totals *t, const syn_node *node);

/* Parts of a pass, which is the forward and backward of one microbatch. Each part is drawn in one
   place. section = SYN__PIC_SECTIONS * pass + part. */
enum { SYN__PIC_FORWARD, SYN__PIC_BACKWARD, SYN__PIC_BUCKETS, SYN__PIC_REST, SYN__PIC_SECTIONS };

typedef struct syn__pic_order {
    uint32_t node;    /* the node of the graph that is drawn at place i */
    uint32_t section; /* the section of place i */
    uint32_t place;   /* the place at which node i of the graph is drawn */
} syn__pic_order;

#define SYN__PIC_SOME UINT32_MAX

/* Communications of the unit, as bits. waits: those that a node waits for, directly or not. feeds:
   the next communications that wait for the node. */
typedef struct syn__pic_waits {
    uint64_t waits, feeds;
} syn__pic_waits;

typedef struct syn__pic_plan {
    const syn_graph *graph;
    uint32_t rank; /* index of the rank in the graph */
    uint32_t n_nodes;
    syn__pic_order *order; /* order in which nodes are drawn, for places and for nodes (see
                              syn__pic_order); NULL: order of execution */
    syn__pic_unit *units;
    syn__pic_step *steps;
    size_t n_units, n_steps, units_cap, steps_cap;
    uint64_t rank_sig; /* signature: equal for ranks that do the same */
    syn__pic_totals totals;
    uint32_t folded_steps, folded_units; /* number of steps and of units that are not drawn */
    bool spans_ranks;      /* the picture shows several ranks, so the box of a collective also
                              represents other ranks */
    bool folds;            /* repetitions are drawn once */
    bool frames;           /* layers have frames, which show how many layers they represent */
    bool bars;             /* a communication within a box of several ops is drawn as a bar next to
                              the box */
    syn__pic_waits *waits; /* per place, set for drawn units; NULL: not computed yet */
    const uint32_t *n_similar; /* per group of the graph: number of other groups that the group's
                              boxes also represent; SYN__PIC_SOME: several, but their number is not
                              the same for all lanes; NULL: none */
    syn_cursor cursor, other, tensor_cursor; /* for callers of syn__pic_node and syn__pic_tensor:
                                                two nodes and a tensor can be used at the same
                                                time */
    syn__arena arena;
} syn__pic_plan;

/* What to fold: nothing; consecutive equal steps and layers; or also repeated sequences of up to
   four units, such as pairs of layers or microbatches. */
enum { SYN__PIC_FOLD_NONE = 0, SYN__PIC_FOLD_LAYERS = 1, SYN__PIC_FOLD_ALL = 4 };
/* Reads a rank and makes its plan, in one pass over the nodes. */
syn_status syn__pic_plan_make(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank, int fold,
                              syn_error *err) SYN_MUST_USE;
/* Makes a plan in which the nodes of training steps are reordered by section. In all functions
   below, a node number is then a place in that order. */
syn_status syn__pic_plan_passes(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank,
                                int fold, syn_error *err) SYN_MUST_USE;
/* Makes a plan of a pipeline stage in order of execution, in which each pass is a section of its
   own, so that equal layers are folded within a pass. */
syn_status syn__pic_plan_stage(syn__pic_plan *plan, const syn_graph *graph, uint32_t rank,
                               const syn__pass *passes, size_t n, syn_error *err) SYN_MUST_USE;
syn_status syn__pic_plan_sections(syn__pic_plan *plan, const syn__pass *passes, size_t n,
                                  syn_error *err) SYN_MUST_USE;
/* Steps of syn__pic_plan_passes (picture_passes.c). plan_order sets plan->order if there are
   training steps. pair_layers gives two layers different signatures if either their forward or
   their backward differs. */
syn_status syn__pic_plan_order(syn__pic_plan *plan, syn_error *err) SYN_MUST_USE;
syn_status syn__pic_pair_layers(syn__pic_plan *plan, syn_error *err) SYN_MUST_USE;
void syn__pic_plan_free(syn__pic_plan *plan);
/* syn__pic_plan_waits computes plan->waits (picture_waits.c). syn__pic_may_join returns whether the
   node at this place may join a box, and if so adds the node's `feeds` to the box. A node may join
   if it waits for the same communications as the box, and if the same next communications wait for
   both. The second condition does not apply to an op for which no communication waits, such as the
   gradient of a weight. */
syn_status syn__pic_plan_waits(syn__pic_plan *plan, syn_error *err) SYN_MUST_USE;
bool syn__pic_may_join(const syn__pic_plan *plan, syn__pic_waits *box, uint32_t node);
/* Sets *out to whether a node in [first, last] depends on a node in [from_first, from_last],
   directly or through views. data: only by data dependencies, not because of the order in a
   stream. */
syn_status syn__pic_needs(syn__pic_plan *plan, uint32_t first, uint32_t last, uint32_t from_first,
                          uint32_t from_last, bool data, bool *out, syn_error *err) SYN_MUST_USE;
uint32_t syn__pic_unit_of(const syn__pic_plan *plan, uint32_t node);
/* Returns the number of nodes that `node` represents because their units are drawn as one. Returns
   1 if the frame around the layer shows this number. */
uint32_t syn__pic_times_of(const syn__pic_plan *plan, uint32_t node);
/* The place of a node of the graph, for example of a producer or a dependency. For SYN_NO_NODE it
   returns SYN_NO_NODE. */
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
/* Writes "h.0", or "h.0 ... h.11" (with the ellipsis character) for a unit that represents several
   layers. */
void syn__pic_unit_title(const syn__pic_plan *plan, uint32_t unit, syn__pic_text *out);
/* Writes "prefill", "decode steps 1 ... 15", "step 0, forward". */
void syn__pic_step_title(const syn__pic_plan *plan, uint32_t step, syn_phase phase,
                         syn__pic_text *out);

/* ---- ranges over folded steps (picture_range.c) ---- */

/* The smallest and the largest tensor spec over the steps that a node represents. */
typedef struct syn__pic_range {
    syn_spec lo, hi;
} syn__pic_range;

typedef struct syn__pic_cost {
    uint64_t flops_lo, flops_hi, bytes_lo, bytes_hi, comm_lo, comm_hi;
    double busy, predicted; /* means in ns, or SYN_NO_TIME */
    double wait;            /* time spent waiting for other ranks, not included in busy */
} syn__pic_cost;

/* Writes the measured time and the wait for other ranks: "8 us, +2.81 ms waiting". */
void syn__pic_put_measured(syn__pic_text *t, const syn__pic_cost *c);

/* Computes the total cost of the nodes [first, last], as a range over the steps that they
   represent. */
syn_status syn__pic_cost_of(syn__pic_plan *plan, uint32_t first, uint32_t last, syn__pic_cost *c,
                            syn_error *err) SYN_MUST_USE;
/* Computes the range of the shape of output `slot`, or of the source of input `slot`, over the
   steps that the node represents. */
syn_status syn__pic_range_of(syn__pic_plan *plan, uint32_t node, bool output, uint32_t slot,
                             syn__pic_range *r, syn_error *err) SYN_MUST_USE;
void syn__pic_put_spec(syn__pic_text *t, const syn__pic_range *r);
typedef const char *syn__pic_human(uint64_t value, char *buf);
/* Writes "12 KiB", or "12 ... 16 KiB" (with the ellipsis character). */
void syn__pic_put_range(syn__pic_text *t, syn__pic_human *text, uint64_t lo, uint64_t hi);
/* Follows views back from input `slot` of `node` to the tensor that owns the data. `node` and
   `slot` of the result are the node that made this tensor (or SYN_NO_NODE) and the number of the
   node's output. `via`, unless NULL, gets the names of the views. */
typedef struct syn__pic_source {
    uint32_t tensor, node, slot;
} syn__pic_source;
syn_status syn__pic_resolve(syn__pic_plan *plan, uint32_t node, uint32_t slot, syn__pic_source *out,
                            syn__pic_text *via, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
