/* A rank of a graph as what PyTorch's profiler would have seen of it: host ops nested in threads,
   in the order in which they begin. kineto.json and host.json are written from the same plan, so
   that the two agree: event i has record function id i + SYN__KINETO_FIRST_RF.

   The main thread runs all computation, in the order of the rows. A communication is what PyTorch's
   functional collectives leave behind:

     _c10d_functional::all_reduce      in the main thread, as early as what it waits for allows
       c10d::allreduce_
         record_param_comms            kind, sizes, group
     gloo:all_reduce                   in a thread of its own: the communication
     _c10d_functional::wait_tensor     in the main thread, before the first op that waits for it

   so the order of ops is exactly that of the graph, as an execution trace has it (et_plan.h): the
   main thread's one after the other, collectives one after the other, and what waits is said.
   Messages are c10d::send and c10d::recv_, which PyTorch's traces give no wait for.

   Where it is known what a device did for a node (syntorch/graph/work.h), its op lasts as long as
   the host's call, and its kernels and copies are events of the device (kineto_work.c). Such a
   communication is launched where its row is, by nccl:all_reduce within record_param_comms, and
   what waits for it waits on the device. Copies and waits between the ops of a step are
   calls without an op. Runs predicted for a GPU are made to look like that (kineto_predicted.h).

   Ops of a backward pass lie in "autograd::engine::evaluate_function: XBackward0" and "XBackward0",
   which have the sequence number of the forward op that they belong to; those of an optimizer in
   "Optimizer.step#AdamW.step"; all in "ProfilerStep#N".

   Ops that compute nothing (views), metadata and collectives of one rank are left out. */
#ifndef EXPORT_KINETO_PLAN_H
#define EXPORT_KINETO_PLAN_H

#include "export/kineto/kineto_modules.h"
#include "export/walk/graph_walk.h"
#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__KINETO_NONE     UINT32_MAX
#define SYN__KINETO_FIRST_RF 2 /* 1 is the list of process groups */

typedef enum syn__kineto_kind {
    SYN__KINETO_STEP,      /* ProfilerStep#N; node: its first */
    SYN__KINETO_OPTIMIZER, /* Optimizer.step */
    SYN__KINETO_AUTOGRAD,  /* evaluate_function; node: the forward op, or of the first within */
    SYN__KINETO_BACKWARD,  /* XBackward0 within that */
    SYN__KINETO_OP,
    SYN__KINETO_FUNCTIONAL,
    SYN__KINETO_API,
    SYN__KINETO_RECORD,
    SYN__KINETO_LIBRARY,
    SYN__KINETO_WAIT /* node: the communication */
} syn__kineto_kind;

typedef enum syn__kineto_thread {
    SYN__KINETO_MAIN,
    SYN__KINETO_COLLECTIVES,
    SYN__KINETO_SENDS,
    SYN__KINETO_RECEIVES,
    SYN__KINETO_THREADS
} syn__kineto_thread;

typedef struct syn__kineto_event {
    int64_t start, end; /* ns; at least 1 ns lies between any two begins or ends of a thread */
    uint32_t node;      /* index within the rank */
    uint32_t parent;    /* the event around it; SYN__KINETO_NONE: the thread */
    uint32_t sequence;  /* that joins a forward op with its backward; 0 none */
    uint8_t kind, thread;
    bool device;   /* asks a device for work; of a wait: waits there */
    bool recorded; /* a communication waits for it: its end is recorded in its stream */
    bool arrow;    /* the begin (a forward op) or the end of the arrow of `sequence` */
    bool backward; /* ran in a backward pass */
    uint32_t first_input, n_inputs; /* of a communication: into plan.inputs */
} syn__kineto_event;

/* What no op asked a device for: a call in the main thread, of no op. */
typedef struct syn__kineto_between {
    int64_t start, end;
    const syn_piece *piece;
    uint32_t around; /* the event */
} syn__kineto_between;

typedef struct syn__kineto_plan {
    syn__kineto_event *events;
    size_t n_events, events_cap;
    syn__kineto_between *between; /* in their order */
    size_t n_between, between_cap;
    uint32_t *inputs; /* nodes that communications wait for */
    size_t n_inputs, inputs_cap;
    bool threads[SYN__KINETO_THREADS]; /* which there are */
    int64_t begin, end;                /* of all */
    syn__kineto_modules modules;       /* none unless they are asked for */
} syn__kineto_plan;

/* Plans the rank `walk` stands in, of which the timeline knows the times. exact: communications of
   the device wait for what their inputs come from alone, as predicted; else, as PyTorch's, for all
   that the compute stream was asked for before. */
syn_status syn__kineto_plan_make(syn__kineto_plan *out, const syn__timeline *timeline,
                                 syn__walk *walk, bool modules, bool exact,
                                 syn_error *err) SYN_MUST_USE;
void syn__kineto_plan_free(syn__kineto_plan *plan);

/* Whether the node has an op of its own. */
bool syn__kineto_shows(const syn_graph *graph, const syn_node *node);
syn__kineto_thread syn__kineto_thread_of(const syn_node *node);

/* ---- Who waits for which communication (kineto_order.c) ---- */

typedef struct syn__kineto_comm {
    uint32_t node;
    uint32_t after; /* it is launched right behind this node of the main thread, plus one; 0: before
                       all */
    int64_t end;    /* ns, once it is planned */
    bool device;    /* which does it */
} syn__kineto_comm;

/* Numbers in a row: the main thread, what the host exchanges, a stream of a device each. */
enum {
    SYN__KINETO_AT_MAIN,
    SYN__KINETO_AT_COLLECTIVES,
    SYN__KINETO_AT_MESSAGES,
    SYN__KINETO_AT_STREAMS
};

typedef struct syn__kineto_order {
    syn__kineto_comm *comms; /* in the order of launches, which is that of rows */
    size_t n_comms, comms_cap;
    /* Per node of the main thread a row: of what it is the first to wait for, in each place the
       last, which stands for those before; index into comms plus one. */
    uint32_t *waits;
    uint32_t width; /* of a row */
    /* Per communication a row: what it waits for itself, in each place the last; of the main thread
       a node plus one, of the others an index into comms plus one. */
    uint32_t *inputs;
    size_t inputs_cap;
} syn__kineto_order;

syn_status syn__kineto_order_make(syn__kineto_order *out, syn__walk *walk,
                                  syn_error *err) SYN_MUST_USE;
void syn__kineto_order_free(syn__kineto_order *order);

#ifdef __cplusplus
}
#endif
#endif
