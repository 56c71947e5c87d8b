/* A rank of a graph as PyTorch's profiler would have recorded it: nested host ops in threads,
   ordered by start. kineto.json and host.json are written from the same plan, so that they agree:
   in both files, event i has the record function id i + SYN__KINETO_FIRST_RF.

   The main thread runs all computation, in the order of the rows. A communication is recorded the
   way PyTorch records functional collectives:

     _c10d_functional::all_reduce      main thread, as early as its dependencies allow
       c10d::allreduce_
         record_param_comms            kind, sizes, group
     gloo:all_reduce                   thread of its own: the communication
     _c10d_functional::wait_tensor     main thread, before the first op that needs the result

   The order of ops is therefore the same as in the graph and in its execution trace (et_plan.h):
   the ops of the main thread run one after the other, collectives also run one after the other, and
   waits are explicit. Messages are c10d::send and c10d::recv_, for which PyTorch traces record no
   wait.

   If the device work of a node is known (syntorch/graph/work.h), its op lasts as long as the host's
   call, and its kernels and copies are events of the device (kineto_work.c). A communication with
   known device work is launched at its row, by nccl:all_reduce within record_param_comms, and the
   ops that need its result wait on the device. Copies and waits between the ops of a step are calls
   without an op. Runs predicted for a GPU are written in the same way (kineto_predicted.h).

   Ops of a backward pass are within the events "autograd::engine::evaluate_function: XBackward0"
   and "XBackward0", which have the sequence number of their forward op. Ops of an optimizer are
   within "Optimizer.step#AdamW.step". All are within "ProfilerStep#N".

   Ops that compute nothing (views), metadata, and collectives of one rank are omitted. */
#ifndef EXPORT_KINETO_PLAN_H
#define EXPORT_KINETO_PLAN_H

#include "export/kineto/kineto_modules.h"
#include "export/walk/graph_walk.h"
#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__KINETO_NONE     UINT32_MAX
#define SYN__KINETO_FIRST_RF 2 /* id 1 belongs to the list of process groups */

typedef enum syn__kineto_kind {
    SYN__KINETO_STEP,      /* ProfilerStep#N; node: the first node of the step */
    SYN__KINETO_OPTIMIZER, /* Optimizer.step */
    SYN__KINETO_AUTOGRAD,  /* evaluate_function; node: the forward op, or the node of the first op
                              within */
    SYN__KINETO_BACKWARD,  /* XBackward0, within SYN__KINETO_AUTOGRAD */
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
    int64_t start, end; /* ns; any two starts or ends in a thread are at least 1 ns apart */
    uint32_t node;      /* index within the rank */
    uint32_t parent;    /* the enclosing event; SYN__KINETO_NONE: none */
    uint32_t sequence;  /* number shared by a forward op and its backward op; 0: none */
    uint8_t kind, thread;
    bool device;   /* queues device work; if kind is SYN__KINETO_WAIT: waits on the device */
    bool recorded; /* a communication waits for this event's device work, so cudaEventRecord is
                      called after it */
    bool arrow;    /* the arrow of `sequence` starts here (forward op) or ends here (backward op) */
    bool backward; /* ran in a backward pass */
    uint32_t first_input, n_inputs; /* communication: its slice of plan.inputs */
} syn__kineto_event;

/* Device work that belongs to no op, and the call in the main thread that queues it. */
typedef struct syn__kineto_unowned {
    int64_t start, end;
    const syn_piece *piece;
    uint32_t around; /* the enclosing event */
} syn__kineto_unowned;

typedef struct syn__kineto_plan {
    syn__kineto_event *events;
    size_t n_events, events_cap;
    syn__kineto_unowned *unowned; /* in order of time */
    size_t n_unowned, unowned_cap;
    uint32_t *inputs; /* nodes that communications wait for */
    size_t n_inputs, inputs_cap;
    bool threads[SYN__KINETO_THREADS]; /* whether each thread has events */
    int64_t begin, end;                /* of the whole plan */
    syn__kineto_modules modules;       /* empty unless requested */
} syn__kineto_plan;

/* Plans the selected rank of `walk`, with the times of the timeline. exact: a communication on the
   device waits only for the producers of its inputs, as in a prediction. Otherwise it waits for all
   work queued on the compute stream before it, as in PyTorch. modules: also plan the modules. */
syn_status syn__kineto_plan_make(syn__kineto_plan *out, const syn__timeline *timeline,
                                 syn__walk *walk, bool modules, bool exact,
                                 syn_error *err) SYN_MUST_USE;
void syn__kineto_plan_free(syn__kineto_plan *plan);

/* Whether the node gets events of its own. */
bool syn__kineto_shows(const syn_graph *graph, const syn_node *node);
syn__kineto_thread syn__kineto_thread_of(const syn_node *node);

/* ---- Which op waits for which communication (kineto_order.c) ---- */

typedef struct syn__kineto_comm {
    uint32_t node;
    uint32_t after; /* index plus one of the node of the main thread right after which it is
                       launched; 0: before all nodes */
    int64_t end;    /* end of the communication or, if it runs on the device, of its call, in ns;
                       set when it has been planned */
    bool device;    /* it runs on the device */
} syn__kineto_comm;

/* Columns of the tables below: the main thread, the host's collectives, the host's messages, and
   one column per stream of the device. */
enum {
    SYN__KINETO_AT_MAIN,
    SYN__KINETO_AT_COLLECTIVES,
    SYN__KINETO_AT_MESSAGES,
    SYN__KINETO_AT_STREAMS
};

typedef struct syn__kineto_order {
    syn__kineto_comm *comms; /* in launch order, which is the order of rows */
    size_t n_comms, comms_cap;
    /* One row per node: the communications that this node of the main thread is the first to wait
       for. Each column has the last of them, which implies the earlier ones, as an index into comms
       plus one; 0: none. */
    uint32_t *waits;
    uint32_t width; /* number of columns */
    /* One row per communication: what the communication itself waits for. Each column has the last
       entry: for the main thread a node plus one, otherwise an index into comms plus one; 0:
       none. */
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
