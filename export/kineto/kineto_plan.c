/* Plans the events of a rank; see kineto_plan.h. kineto_order.c finds out where communication is
   launched and waited for. This file assigns the times and the enclosing events. */
#include "export/kineto/kineto_plan.h"

#include "export/kineto/kineto_backward.h"
#include "syntorch/base/memory.h"

enum { WAIT_NS = 4 };    /* duration of a wait on the device */
enum { CALL_NS = 1000 }; /* duration of a call of a communication, if there is time */
enum { MAX_LEVELS = 4 };

typedef struct call_span {
    int64_t start, end;
} call_span;

typedef struct planner {
    syn__kineto_plan *plan;
    const syn__timeline *timeline;
    syn__walk *walk;
    syn__kineto_order order;
    syn__kineto_forwards forwards;
    size_t next_comm, next_unowned;
    int64_t now[SYN__KINETO_THREADS]; /* per thread: earliest time of its next start or end */
    uint32_t step, optimizer, autograd, backward; /* open events; SYN__KINETO_NONE: none */
    uint32_t step_number, sequence;
    int64_t work_end; /* end of all work launched so far, on a device or another thread */
    uint32_t *events; /* per planned node: the event of its op */
    bool modules, exact;
    syn_error *err;
} planner;

static int64_t whole_ns(double ns) {
    return ns < 0 ? 0 : ns > SYN__MAX_NS ? (int64_t)SYN__MAX_NS : (int64_t)(ns + 0.5);
}

static syn_status push(planner *p, syn__kineto_kind kind, syn__kineto_thread thread, uint32_t node,
                       uint32_t parent, int64_t start, int64_t end, uint32_t *out) {
    syn__kineto_plan *plan = p->plan;
    if (plan->n_events >= SYN__KINETO_NONE - SYN__KINETO_FIRST_RF)
        return SYN_FAIL(p->err, SYN_E_UNSUPPORTED,
                        "rank %d has too many ops for PyTorch's trace files", (int)p->walk->rank);
    SYN_TRY(syn_grow(&plan->events, &plan->events_cap, plan->n_events + 1, sizeof *plan->events,
                     p->err));
    *out = (uint32_t)plan->n_events;
    plan->events[plan->n_events++] = (syn__kineto_event){.start = start,
                                                         .end = end,
                                                         .node = node,
                                                         .parent = parent,
                                                         .kind = (uint8_t)kind,
                                                         .thread = (uint8_t)thread};
    plan->threads[thread] = true;
    return SYN_OK;
}

/* ---- Work of a device ---- */

static const syn_node_work *work_of(const planner *p, const syn_node *node) {
    return syn_graph_work(p->walk->graph, p->walk->rank_index, node);
}

static int64_t host_ns(const planner *p, uint64_t ns) {
    return whole_ns((double)ns - 1e3 * (double)p->timeline->base_us);
}

/* Returns the time of the host's call for a node with known work. It is long enough for the calls
   that launch the work and for `besides` further calls, which take 1 ns each and are 1 ns apart. */
static call_span host_call(planner *p, const syn_node_work *work, uint32_t besides) {
    const syn_work *all = p->walk->graph->ranks[p->walk->rank_index].work;
    call_span s = {host_ns(p, work->call_ns), host_ns(p, work->call_ns + work->call_wall_ns)};
    for (uint32_t i = 0; i < work->n_pieces; i++) {
        const syn_piece *piece = &all->pieces[work->first + i];
        const int64_t end = host_ns(p, piece->start_ns + piece->wall_ns);
        if (end > p->work_end) p->work_end = end;
    }
    if (s.start < p->now[SYN__KINETO_MAIN]) s.start = p->now[SYN__KINETO_MAIN];
    const int64_t least = s.start + 2 * ((int64_t)work->n_pieces + besides + MAX_LEVELS);
    if (s.end < least) s.end = least;
    return s;
}

/* The next piece that belongs to no node, if the host queued it before `until`; otherwise NULL. */
static const syn_piece *piece_before(const planner *p, size_t i, int64_t until) {
    const syn_work *all = p->walk->graph->ranks[p->walk->rank_index].work;
    if (!all || i >= all->n_unowned) return NULL;
    const syn_piece *piece = &all->unowned[i].piece;
    return host_ns(p, piece->call_ns) < until ? piece : NULL;
}

/* Adds the next n pieces that belong to no node. */
static syn_status add_unowned(planner *p, size_t n, uint32_t around) {
    syn__kineto_plan *plan = p->plan;
    int64_t *now = &p->now[SYN__KINETO_MAIN];
    SYN_TRY(syn_grow(&plan->unowned, &plan->unowned_cap, plan->n_unowned + n, sizeof *plan->unowned,
                     p->err));
    for (; n > 0; n--) {
        const syn_piece *piece = piece_before(p, p->next_unowned++, INT64_MAX);
        syn__kineto_unowned *b = &plan->unowned[plan->n_unowned++];
        const int64_t done = host_ns(p, piece->start_ns + piece->wall_ns);
        *b = (syn__kineto_unowned){host_ns(p, piece->call_ns),
                                   host_ns(p, piece->call_ns + piece->call_wall_ns), piece, around};
        if (b->start < *now) b->start = *now;
        if (b->end <= b->start) b->end = b->start + 1;
        if (done > p->work_end) p->work_end = done;
        *now = b->end + 1;
    }
    return SYN_OK;
}

static size_t count_before(const planner *p, int64_t until) {
    size_t n = 0;
    while (piece_before(p, p->next_unowned + n, until)) n++;
    return n;
}

/* Counts the pieces that belong to no node and were queued before `until`, up to the last wait
   among them, because a step ends with that wait. */
static size_t count_waited_for(const planner *p, int64_t until) {
    const syn_piece *piece;
    size_t n = 0;
    for (size_t i = 0; (piece = piece_before(p, p->next_unowned + i, until)) != NULL; i++)
        if (piece->kind == SYN_PIECE_WAIT) n = i + 1;
    return n;
}

/* ---- Enclosing events ---- */

/* Opens an event now. Events within it begin 1 ns later, so that the nesting is visible in the
   times. */
static syn_status open_event(planner *p, syn__kineto_kind kind, uint32_t node, uint32_t parent,
                             uint32_t *out) {
    int64_t *now = &p->now[SYN__KINETO_MAIN];
    SYN_TRY(push(p, kind, SYN__KINETO_MAIN, node, parent, *now, *now, out));
    *now += 1;
    return SYN_OK;
}

static void close_event(planner *p, uint32_t *event) {
    if (*event == SYN__KINETO_NONE) return;
    p->plan->events[*event].end = p->now[SYN__KINETO_MAIN]++;
    *event = SYN__KINETO_NONE;
}

static void close_backward(planner *p) {
    close_event(p, &p->backward);
    close_event(p, &p->autograd);
}

static void close_inner(planner *p) {
    close_backward(p);
    close_event(p, &p->optimizer);
}

static uint32_t innermost(const planner *p) {
    return p->backward != SYN__KINETO_NONE    ? p->backward
           : p->optimizer != SYN__KINETO_NONE ? p->optimizer
                                              : p->step;
}

/* Opens the modules in which a node's op is called. Backward passes and optimizers have none. */
static syn_status open_modules(planner *p, const syn_node *node) {
    const bool forward = node->phase != SYN_PHASE_BACKWARD && node->phase != SYN_PHASE_OPTIMIZER;
    if (!p->modules) return SYN_OK;
    if (forward) close_inner(p);
    return syn__kineto_modules_enter(&p->plan->modules, forward ? node->scope : "",
                                     &p->now[SYN__KINETO_MAIN], p->err);
}

/* Closes the step, which lasts until the work that it launched is done, unless the next step begins
   earlier. */
static syn_status close_step(planner *p, int64_t until) {
    int64_t *now = &p->now[SYN__KINETO_MAIN];
    close_inner(p);
    if (until > p->work_end) until = p->work_end + 1;
    if (p->step != SYN__KINETO_NONE && until > *now) *now = until;
    SYN_TRY(syn__kineto_modules_enter(&p->plan->modules, "", &p->now[SYN__KINETO_MAIN], p->err));
    close_event(p, &p->step);
    return SYN_OK;
}

/* Opens a step if the node begins one. Also adds the pieces that belong to no node and that the
   host queued before `until`, the time at which it calls the node. */
static syn_status open_step(planner *p, uint32_t index, const syn_node *node, int64_t until) {
    int64_t *now = &p->now[SYN__KINETO_MAIN];
    if (p->step != SYN__KINETO_NONE && node->step == p->step_number)
        return add_unowned(p, count_before(p, until), innermost(p));
    const size_t n_before = count_waited_for(p, until);
    if (p->step == SYN__KINETO_NONE) p->next_unowned += n_before; /* omitted */
    else SYN_TRY(add_unowned(p, n_before, innermost(p)));
    const syn_piece *first = piece_before(p, p->next_unowned, until);
    const int64_t begin = first != NULL ? host_ns(p, first->call_ns) : until;
    if (p->step == SYN__KINETO_NONE && begin > *now) *now = begin;
    SYN_TRY(close_step(p, begin));
    p->step_number = node->step;
    SYN_TRY(open_event(p, SYN__KINETO_STEP, index, SYN__KINETO_NONE, &p->step));
    return add_unowned(p, count_before(p, until), p->step);
}

static syn_status open_backward(planner *p, bool first) {
    const uint32_t forward = p->forwards.group.event;
    syn__kineto_event *events = p->plan->events;
    close_inner(p);
    if (first) {
        events[forward].sequence = ++p->sequence;
        events[forward].arrow = true;
    }
    const uint32_t node = events[forward].node, sequence = events[forward].sequence;
    SYN_TRY(open_event(p, SYN__KINETO_AUTOGRAD, node, p->step, &p->autograd));
    SYN_TRY(open_event(p, SYN__KINETO_BACKWARD, node, p->autograd, &p->backward));
    events = p->plan->events;
    events[p->autograd].sequence = events[p->backward].sequence = sequence;
    events[p->backward].arrow = first;
    return SYN_OK;
}

/* Opens the events that enclose an op of the main thread. */
static syn_status open_around(planner *p, uint32_t index, const syn_node *node) {
    if (node->phase == SYN_PHASE_BACKWARD) {
        const bool open = p->backward != SYN__KINETO_NONE;
        switch (syn__kineto_backward(&p->forwards, node, open)) {
        case SYN__KINETO_BEGINS:
            return open_backward(p, true);
        case SYN__KINETO_AGAIN:
            return open_backward(p, false);
        case SYN__KINETO_JOINS:
            return SYN_OK;
        default:
            close_inner(p);
            return SYN_OK;
        }
    }
    close_backward(p);
    if (node->phase != SYN_PHASE_OPTIMIZER) {
        close_event(p, &p->optimizer);
    } else if (p->optimizer == SYN__KINETO_NONE) {
        return open_event(p, SYN__KINETO_OPTIMIZER, index, p->step, &p->optimizer);
    }
    return SYN_OK;
}

/* ---- Communication ---- */

/* The start of the node on the host, as in the timeline. */
static int64_t start_of(const planner *p, uint32_t index, const syn_node *node) {
    const syn_node_work *work = work_of(p, node);
    if (work) return host_ns(p, work->call_ns);
    const syn__span *s = syn__timeline_span(p->timeline, p->walk->rank_index, index);
    return s->start_ns < 0 ? 0 : whole_ns(s->start_ns);
}

/* Adds the events of a call, each within the previous one. The last of them has kind `last`, and
   its index is stored in *out. Calls of messages have no functional op. */
static syn_status push_call(planner *p, uint32_t index, const syn_node *node, call_span s,
                            syn__kineto_kind last, uint32_t *out) {
    const bool message = node->kind != SYN_NODE_COLLECTIVE;
    *out = innermost(p);
    for (syn__kineto_kind kind = message ? SYN__KINETO_API : SYN__KINETO_FUNCTIONAL; kind <= last;
         kind++, s.start++, s.end--)
        SYN_TRY(push(p, kind, SYN__KINETO_MAIN, index, *out, s.start, s.end, out));
    return SYN_OK;
}

/* Adds a call that ends before `until`, if there is enough time. */
static syn_status add_call(planner *p, syn__kineto_comm *comm, const syn_node *node,
                           int64_t until) {
    uint32_t around;
    call_span s = {p->now[SYN__KINETO_MAIN], until - 1};
    if (s.end > s.start + CALL_NS) s.end = s.start + CALL_NS;
    if (s.end < s.start + 2 * MAX_LEVELS) s.end = s.start + 2 * MAX_LEVELS;
    p->now[SYN__KINETO_MAIN] = s.end + 1;
    return push_call(p, comm->node, node, s, SYN__KINETO_RECORD, &around);
}

/* Lists the nodes for whose device work the communication waits, as a slice of plan->inputs. Marks
   their events, because cudaEventRecord must be called after them. */
static syn_status add_inputs(planner *p, size_t comm, uint32_t *first, uint32_t *n) {
    syn__kineto_plan *plan = p->plan;
    const syn__kineto_order *o = &p->order;
    const uint32_t *inputs = &o->inputs[comm * o->width];
    *first = (uint32_t)plan->n_inputs;
    *n = 0;
    SYN_TRY(syn_grow(&plan->inputs, &plan->inputs_cap, plan->n_inputs + o->width,
                     sizeof *plan->inputs, p->err));
    for (uint32_t i = 0; i < o->width; i++) {
        const bool stream = i >= SYN__KINETO_AT_STREAMS;
        if (inputs[i] == 0 || (i != SYN__KINETO_AT_MAIN && !stream)) continue;
        const uint32_t node = stream ? o->comms[inputs[i] - 1].node : inputs[i] - 1;
        syn__kineto_event *e = &plan->events[p->events[node]];
        if (!e->device) continue;
        e->recorded = true;
        plan->inputs[plan->n_inputs++] = node;
        *n += 1;
    }
    return SYN_OK;
}

/* Adds the call of a communication on the device, which is launched when the call returns. */
static syn_status add_launch(planner *p, syn__kineto_comm *comm, const syn_node *node,
                             const syn_node_work *work) {
    uint32_t around, first = 0, n = 0;
    SYN_TRY(add_unowned(p, count_before(p, host_ns(p, work->call_ns)), innermost(p)));
    if (p->exact) SYN_TRY(add_inputs(p, (size_t)(comm - p->order.comms), &first, &n));
    const call_span s = host_call(p, work, n + 3);
    comm->end = s.end;
    comm->device = true;
    p->now[SYN__KINETO_MAIN] = s.end + 1;
    SYN_TRY(push_call(p, comm->node, node, s, SYN__KINETO_LIBRARY, &around));
    p->plan->events[around].device = true;
    p->plan->events[around].first_input = first;
    p->plan->events[around].n_inputs = n;
    p->events[comm->node] = around;
    return SYN_OK;
}

/* Adds the call, and the communication on its own thread. until: when the main thread continues. */
static syn_status add_comm(planner *p, syn__kineto_comm *comm, int64_t until) {
    const syn_node *node;
    uint32_t event;
    SYN_TRY(syn__walk_node(p->walk, comm->node, &node, p->err));
    const syn__kineto_thread thread = syn__kineto_thread_of(node);
    const syn__span *s = syn__timeline_span(p->timeline, p->walk->rank_index, comm->node);
    if (p->step == SYN__KINETO_NONE) /* before all other ops */
        SYN_TRY(open_step(p, comm->node, node, start_of(p, comm->node, node)));
    close_backward(p);
    const syn_node_work *work = work_of(p, node);
    if (work && work->n_pieces > 0) return add_launch(p, comm, node, work);
    if (s->start_ns >= 0 && s->start_ns < (double)until) until = whole_ns(s->start_ns);
    SYN_TRY(add_call(p, comm, node, until));
    int64_t start = p->now[thread], end = whole_ns(s->end_ns);
    if (start < p->now[SYN__KINETO_MAIN]) start = p->now[SYN__KINETO_MAIN];
    if (s->start_ns > (double)start) start = whole_ns(s->start_ns);
    if (s->start_ns < 0 || end <= start) end = start + 1;
    SYN_TRY(push(p, SYN__KINETO_LIBRARY, thread, comm->node, SYN__KINETO_NONE, start, end, &event));
    comm->end = end;
    p->now[thread] = end + 1;
    if (end > p->work_end) p->work_end = end;
    return SYN_OK;
}

static syn_status add_comms(planner *p, uint32_t after, int64_t until) {
    while (p->next_comm < p->order.n_comms && p->order.comms[p->next_comm].after <= after)
        SYN_TRY(add_comm(p, &p->order.comms[p->next_comm++], until));
    return SYN_OK;
}

static syn_status add_wait(planner *p, const syn_node *node, const syn__kineto_comm *comm) {
    int64_t *now = &p->now[SYN__KINETO_MAIN];
    uint32_t event;
    close_backward(p);
    if (node->phase != SYN_PHASE_OPTIMIZER) close_inner(p);
    const int64_t start = *now;
    int64_t end = comm->device ? start + WAIT_NS : comm->end;
    if (end <= start) end = start + 1;
    SYN_TRY(
        push(p, SYN__KINETO_WAIT, SYN__KINETO_MAIN, comm->node, innermost(p), start, end, &event));
    p->plan->events[event].device = comm->device;
    *now = end + 1;
    return SYN_OK;
}

/* Adds the waits of a node of the main thread. PyTorch has no op that waits for a message, so for
   messages no wait is written: the main thread just continues after the message's end. */
static syn_status add_waits(planner *p, uint32_t index, const syn_node *node) {
    int64_t *now = &p->now[SYN__KINETO_MAIN];
    const uint32_t *waits = &p->order.waits[(size_t)index * p->order.width];
    for (uint32_t i = 0; i < p->order.width; i++) {
        if (waits[i] == 0) continue;
        const syn__kineto_comm *comm = &p->order.comms[waits[i] - 1];
        if (i != SYN__KINETO_AT_MESSAGES) SYN_TRY(add_wait(p, node, comm));
        else if (comm->end >= *now) *now = comm->end + 1;
    }
    return SYN_OK;
}

/* ---- The whole plan ---- */

static syn_status add_op(planner *p, uint32_t index) {
    const syn_node *node;
    uint32_t event;
    int64_t *now = &p->now[SYN__KINETO_MAIN];
    SYN_TRY(syn__walk_node(p->walk, index, &node, p->err));
    const syn__span *s = syn__timeline_span(p->timeline, p->walk->rank_index, index);
    const syn_node_work *work = work_of(p, node);
    const bool timed = s->start_ns >= 0;
    const int64_t want = timed || work ? start_of(p, index, node) : *now;
    SYN_TRY(open_step(p, index, node, want));
    SYN_TRY(open_modules(p, node));
    SYN_TRY(add_waits(p, index, node));
    SYN_TRY(open_around(p, index, node));
    int64_t start = want > *now ? want : *now;
    int64_t end = timed ? whole_ns(s->end_ns) : start;
    if (work) {
        const call_span call = host_call(p, work, 1);
        start = call.start;
        end = call.end;
    }
    if (end <= start) end = start + 1;
    SYN_TRY(push(p, SYN__KINETO_OP, SYN__KINETO_MAIN, index, innermost(p), start, end, &event));
    p->plan->events[event].device = work && work->n_pieces > 0;
    p->plan->events[event].backward = node->phase == SYN_PHASE_BACKWARD;
    p->events[index] = event;
    *now = end + 1;
    return node->phase == SYN_PHASE_FORWARD ? syn__kineto_forward(&p->forwards, node, event, p->err)
                                            : SYN_OK;
}

/* Adds the ops of the main thread and, before each of them, the communication that is launched
   after the previous op. */
static syn_status add_all(planner *p) {
    const syn_graph *graph = p->walk->graph;
    const uint32_t n = graph->ranks[p->walk->rank_index].n_nodes;
    uint32_t done = 0; /* index of the last added op, plus one */
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(p->walk, i, &node, p->err));
        if (!syn__kineto_shows(graph, node) || syn__walk_is_comm(node)) continue;
        SYN_TRY(add_comms(p, done, start_of(p, i, node)));
        SYN_TRY(add_op(p, i));
        done = i + 1;
    }
    return add_comms(p, done, INT64_MAX);
}

static syn_status finish(planner *p) {
    syn__kineto_plan *plan = p->plan;
    if (p->step != SYN__KINETO_NONE) {
        close_inner(p);
        SYN_TRY(add_unowned(p, count_before(p, INT64_MAX), p->step));
    }
    SYN_TRY(close_step(p, INT64_MAX));
    plan->begin = plan->n_events > 0 ? plan->events[0].start : 0;
    for (int t = 0; t < SYN__KINETO_THREADS; t++) {
        if (p->now[t] - 1 > plan->end) plan->end = p->now[t] - 1;
    }
    if (p->work_end > plan->end) plan->end = p->work_end;
    return SYN_OK;
}

syn_status syn__kineto_plan_make(syn__kineto_plan *out, const syn__timeline *timeline,
                                 syn__walk *walk, bool modules, bool exact, syn_error *err) {
    const size_t n = walk->graph->ranks[walk->rank_index].n_nodes;
    planner p = {.plan = out,
                 .timeline = timeline,
                 .walk = walk,
                 .step = SYN__KINETO_NONE,
                 .optimizer = SYN__KINETO_NONE,
                 .autograd = SYN__KINETO_NONE,
                 .backward = SYN__KINETO_NONE,
                 .events = syn_calloc(n, sizeof *p.events),
                 .modules = modules,
                 .exact = exact,
                 .err = err};
    *out = (syn__kineto_plan){0};
    syn_status status = p.events != NULL ? syn__kineto_order_make(&p.order, walk, err)
                                         : SYN_FAIL_NOMEM(err, n * sizeof *p.events, "a plan");
    if (status == SYN_OK) status = add_all(&p);
    if (status == SYN_OK) status = finish(&p);
    if (status != SYN_OK) syn__kineto_plan_free(out);
    syn__kineto_order_free(&p.order);
    syn__kineto_forwards_free(&p.forwards);
    syn_free(p.events);
    return status;
}

void syn__kineto_plan_free(syn__kineto_plan *plan) {
    syn_free(plan->events);
    syn_free(plan->unowned);
    syn_free(plan->inputs);
    syn__kineto_modules_free(&plan->modules);
    *plan = (syn__kineto_plan){0};
}
