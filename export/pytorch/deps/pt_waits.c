/* Finds where a thread waits for communication that runs concurrently with it (gloo). Traces have
   no op for such a wait: during `work.wait()` the thread runs no op, or an op that computes
   nothing. But on a busy machine, threads are also stopped by the operating system, so idle time
   alone is weak evidence. These rules are used:
   - A message ends in the trace when the program has waited for it (till_wait).
   - The program waits immediately for a communication if the thread began no op between its launch
     and its end, and if this is also true for at least nine of ten launches of the same sort. There
     are two sorts: launches within autograd, and all others.
   - Certain ops can only begin when the program has waited: the first op that uses a tensor of the
     communication (host traces name storages); for communication launched in the backward pass, the
     first op after this pass (as in DistributedDataParallel); the next "Optimizer.step". Of these
     ops, the first that began after the end of the communication is used. If the communication
     ended while the thread was idle directly before that op, the thread waited until this end.
     Otherwise the wait took no time.
   - If the thread was idle when the communication ended, it waited, provided that the idle time
     fulfills a condition. If the communication was launched in the backward pass, the idle time
     must come after that pass. Otherwise, it must be longer than the thread gap and outside of
     autograd, and the next op of the thread must not launch communication. In all other cases, the
     thread was probably stopped.
   If no rule applies, no wait is recorded.
   Functional collectives are different: the program waits for them only with the op wait_tensor,
   which has one of their tensors as input. */
#include <stdlib.h>

#include "export/pytorch/deps/pt_edge_finders.h"
#include "export/pytorch/read/pt_scan.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

#define MAX_STORAGES 64 /* maximum number of storages of a communication that are tracked */

enum {
    SEEN = 1,
    AUTOGRAD = 2,
    OPTIMIZER = 4,
    COMPUTES = 8,
    MAY_WAIT = 16,
    CALLS = 32,
    FUNCTIONAL = 64, /* the op belongs to a functional collective */
    WAITS = 128      /* the op is wait_tensor */
};

/* A detached communication. */
typedef struct work {
    uint32_t op;
    int64_t launched_ns, end_ns; /* launched_ns: end of the op that launched it */
    int64_t behind_ns;           /* if it was launched in the backward pass: start of the first op
                                    after that pass */
    int64_t by_ns;               /* time by which the program must have waited; INT64_MAX:
                                    unknown */
    bool in_autograd, at_once, known;
    bool functional; /* only a wait_tensor waits for it */
} work;

typedef struct open_op {
    uint32_t op;
    int64_t end_ns;
    bool has_inner;
} open_op;

typedef struct waiter {
    syn__pt_connector *c;
    syn__pt_rank *r;
    uint8_t *names;  /* flags per host name */
    uint8_t *inside; /* per op: 1 if it is within autograd */
    work *works;     /* ordered by track (thread) of the launcher, then by end */
    size_t n_works;
    work *at, *end; /* range of works of the current track that have not ended yet */
    uint32_t *ops;  /* the track's ops with times, ordered by time */
    size_t n_ops;
    uint32_t *behind; /* per op of the track: position of the first op, from this op on, that is
                         outside autograd; n_ops: none */
    uint32_t *step;   /* per op of the track: position of the first optimizer step from this op on;
                         n_ops: none */
    syn__pt_map uses; /* storage -> list of the works with a tensor in it, ordered by end. The value
                         is the list's head in `links`, which is not a work itself */
    struct link {
        uint32_t index, next;
    } * links;
    size_t n_links, links_cap;
    open_op *stack;
    size_t depth, stack_cap;
} waiter;

/* ---- Names ---- */

static uint8_t look_at(syn__str name) {
    uint8_t flags = SEEN;
    if (syn__str_begins(name, "autograd::engine::evaluate_function")) flags |= AUTOGRAD;
    if (syn__str_begins(name, "Optimizer.step")) flags |= OPTIMIZER;
    if (syn__str_begins(name, "aten::")) flags |= COMPUTES;
    if (syn__str_begins(name, "c10d::")) flags |= CALLS;
    if (syn__str_begins(name, "_c10d_functional::") || syn__str_begins(name, "c10d_functional::"))
        flags |= syn__str_has(name, "wait_tensor") ? WAITS : FUNCTIONAL | CALLS;
    if (!syn__str_has(name, "::") || syn__str_has(name, "wait") || syn__str_begins(name, "c10d::"))
        flags |= MAY_WAIT;
    return flags;
}

static uint8_t flags_of(const waiter *w, uint32_t op) {
    const uint32_t host = w->r->ops[op].host;
    if (host == SYN__PT_NONE) return SEEN;
    uint8_t *flags = &w->names[w->r->host.nodes[host].name];
    if (*flags == 0) *flags = look_at(syn__pt_host_name(&w->r->host, w->r->host.nodes[host].name));
    return *flags;
}

/* Whether a communication belongs to a functional collective. Without tensor ids the answer is no,
   because only tensor ids show which wait_tensor belongs to the communication. */
static bool is_functional(const waiter *w, uint32_t op) {
    if (w->r->host.from_event) return false;
    for (uint32_t at = w->r->ops[op].parent; at != SYN__PT_NONE; at = w->r->ops[at].parent) {
        const uint8_t flags = flags_of(w, at);
        if (flags & FUNCTIONAL) return true;
        if (!(flags & CALLS)) return false;
    }
    return false;
}

/* ---- Works ---- */

static bool is_work(const syn__pt_rank *r, const syn__pt_comm *comm) {
    const syn__pt_op *op = &r->ops[comm->op];
    return op->detached && op->start_ns != SYN__PT_NO_NS &&
           r->ops[op->parent].start_ns != SYN__PT_NO_NS;
}

static syn_status list_works(waiter *w) {
    const syn__pt_rank *r = w->r;
    uint64_t *keys = syn_malloc((r->n_comms + 1) * sizeof *keys);
    uint32_t *order = NULL;
    syn_status s = SYN_OK;
    w->works = syn_malloc((r->n_comms + 1) * sizeof *w->works);
    if (!keys || !w->works)
        s = SYN_FAIL_NOMEM(w->c->err, r->n_comms * sizeof *keys, "stream dependencies");
    for (size_t i = 0; s == SYN_OK && i < r->n_comms; i++) {
        const syn__pt_op *op = &r->ops[r->comms[i].op];
        if (!is_work(r, &r->comms[i])) continue;
        w->works[w->n_works] = (work){.op = r->comms[i].op,
                                      .launched_ns = syn__pt_op_end(&r->ops[op->parent]),
                                      .end_ns = syn__pt_op_end(op)};
        w->n_works++;
    }
    for (int by_track = 0; by_track < 2 && s == SYN_OK; by_track++) {
        for (size_t i = 0; i < w->n_works; i++)
            keys[i] = by_track ? r->ops[r->ops[w->works[i].op].parent].track
                               : syn__pt_i64_key(w->works[i].end_ns);
        s = syn__pt_sort(keys, w->n_works, &order, w->c->err);
        if (s == SYN_OK) syn__pt_permute(w->works, sizeof *w->works, order, w->n_works);
        syn_free(order);
        order = NULL;
    }
    syn_free(keys);
    return s;
}

/* The position of the track's first op at `ns` or later; n_ops if there is none. */
static size_t first_at(const waiter *w, int64_t ns) {
    size_t low = 0, high = w->n_ops;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (w->r->ops[w->ops[mid]].start_ns < ns) low = mid + 1;
        else high = mid;
    }
    return low;
}

static int64_t start_of(const waiter *w, size_t place) {
    return place < w->n_ops ? w->r->ops[w->ops[place]].start_ns : INT64_MAX;
}

static syn_status add_wait_of(waiter *w, work *k, uint32_t op, int64_t start_ns, int64_t end_ns) {
    syn__pt_rank *r = w->r;
    k->known = true;
    SYN_TRY(syn_grow(&r->waits, &r->waits_cap, r->n_waits + 1, sizeof *r->waits, w->c->err));
    r->waits[r->n_waits++] = (syn__pt_wait){k->op, op, start_ns, end_ns};
    return syn__pt_add_edge(w->c, k->op, op, SYN_PYTORCH_EDGE_SYNC);
}

static syn_status add_wait(waiter *w, work *k, int64_t start_ns, int64_t end_ns) {
    const size_t next = first_at(w, end_ns);
    return add_wait_of(w, k, next < w->n_ops ? w->ops[next] : SYN__PT_NONE, start_ns, end_ns);
}

/* ---- A sweep over a track's time ---- */

/* Whether a thread waits for `k` between from_ns and to_ns, a span in which it only runs `top`
   (NULL: nothing). */
static bool waits_for(const waiter *w, const work *k, const open_op *top, int64_t from_ns,
                      int64_t to_ns) {
    const uint8_t flags = top != NULL ? flags_of(w, top->op) : MAY_WAIT;
    if (k->functional) return false;
    if (k->at_once) return true;
    if (flags & COMPUTES || !(flags & MAY_WAIT || top->has_inner)) return false;
    if (to_ns >= k->by_ns) return true;
    if (k->in_autograd) return from_ns >= k->behind_ns;
    const size_t next = first_at(w, to_ns);
    const bool next_launches = next < w->n_ops && flags_of(w, w->ops[next]) & CALLS;
    return to_ns - from_ns > w->c->gap_ns && !next_launches && (top == NULL || !w->inside[top->op]);
}

/* Handles the span between two successive moments at which ops start or end. During this span the
   set of open ops does not change. */
static syn_status pass(waiter *w, int64_t from_ns, int64_t to_ns) {
    const open_op *top = w->depth != 0 ? &w->stack[w->depth - 1] : NULL;
    for (; w->at < w->end && w->at->end_ns <= to_ns; w->at++) {
        work *k = w->at;
        if (k->end_ns < from_ns || k->launched_ns > from_ns) continue;
        if (waits_for(w, k, top, from_ns, to_ns)) SYN_TRY(add_wait(w, k, from_ns, k->end_ns));
    }
    return SYN_OK;
}

static syn_status pass_until(waiter *w, int64_t *now_ns, int64_t to_ns) {
    while (w->depth != 0 && w->stack[w->depth - 1].end_ns <= to_ns) {
        const int64_t end_ns = w->stack[w->depth - 1].end_ns;
        if (end_ns > *now_ns) {
            SYN_TRY(pass(w, *now_ns, end_ns));
            *now_ns = end_ns;
        }
        w->depth--;
    }
    if (to_ns > *now_ns) SYN_TRY(pass(w, *now_ns, to_ns));
    if (to_ns > *now_ns) *now_ns = to_ns;
    return SYN_OK;
}

static syn_status push(waiter *w, uint32_t op) {
    SYN_TRY(syn_grow(&w->stack, &w->stack_cap, w->depth + 1, sizeof *w->stack, w->c->err));
    if (w->depth != 0) w->stack[w->depth - 1].has_inner = true;
    w->stack[w->depth++] = (open_op){op, syn__pt_op_end(&w->r->ops[op]), false};
    return SYN_OK;
}

static syn_status sweep(waiter *w) {
    int64_t now_ns = start_of(w, 0);
    w->depth = 0;
    for (size_t i = 0; i < w->n_ops; i++) {
        SYN_TRY(pass_until(w, &now_ns, start_of(w, i)));
        SYN_TRY(push(w, w->ops[i]));
    }
    return pass_until(w, &now_ns, INT64_MAX);
}

/* ---- A track ---- */

static bool is_inside(const waiter *w, uint32_t op) {
    const uint32_t parent = w->r->ops[op].parent;
    return (flags_of(w, op) & AUTOGRAD) || (parent != SYN__PT_NONE && w->inside[parent]);
}

static void take_ops(waiter *w, uint32_t track) {
    const syn__pt_connector *c = w->c;
    w->n_ops = 0;
    for (size_t i = c->track_first[track]; i < c->track_first[track + 1]; i++) {
        const syn__pt_op *op = &w->r->ops[c->track_ops[i]];
        if (op->start_ns != SYN__PT_NO_NS && !op->detached) w->ops[w->n_ops++] = c->track_ops[i];
    }
    uint32_t behind = (uint32_t)w->n_ops, step = behind;
    for (uint32_t i = behind; i-- > 0;) {
        if (!w->inside[w->ops[i]]) behind = i;
        if (flags_of(w, w->ops[i]) & OPTIMIZER) step = i;
        w->behind[i] = behind;
        w->step[i] = step;
    }
}

/* Finds out whether the program waits immediately for what it launches, separately for launches
   within autograd and all others. */
static void find_habits(waiter *w, work *works, size_t n) {
    size_t count[2] = {0, 0}, at_once[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        work *k = &works[i];
        k->in_autograd = w->inside[w->r->ops[k->op].parent];
        k->at_once = k->end_ns <= start_of(w, first_at(w, k->launched_ns));
        k->functional = is_functional(w, k->op);
        if (w->r->ops[k->op].till_wait || k->functional) continue;
        count[k->in_autograd]++;
        at_once[k->in_autograd] += k->at_once;
    }
    for (size_t i = 0; i < n; i++) {
        work *k = &works[i];
        if (at_once[k->in_autograd] * 10 < count[k->in_autograd] * 9) k->at_once = false;
        if (w->r->ops[k->op].till_wait) k->at_once = true;
    }
}

/* Records a time by which the program must have waited, if it is after the end of the communication
   and before the known time. */
static void has_waited(work *k, int64_t ns) {
    if (ns >= k->end_ns && ns < k->by_ns) k->by_ns = ns;
}

static void find_ends(waiter *w, work *works, size_t n) {
    for (size_t i = 0; i < n; i++) {
        work *k = &works[i];
        const size_t next = first_at(w, k->launched_ns);
        k->by_ns = k->behind_ns = INT64_MAX;
        if (next == w->n_ops || k->functional) continue;
        if (k->in_autograd) k->behind_ns = start_of(w, w->behind[next]);
        has_waited(k, k->behind_ns);
        has_waited(k, start_of(w, w->step[next]));
    }
}

/* ---- Tensors ---- */

/* Reads the storage of the next tensor [id, storage, offset, elements, bytes per element, "device"]
   in a value. Returns false at the end. */
static bool next_storage(syn__pt_scan *scan, uint64_t *storage) {
    syn__str text;
    int n_numbers = 0;
    int64_t number = 0, second = 0;
    for (char c = syn__pt_scan_next(scan, &text); c != 0; c = syn__pt_scan_next(scan, &text)) {
        if (c == 'w' && syn__pt_scan_i64(text, &number)) {
            if (++n_numbers == 2) second = number;
            continue;
        }
        if (c == 's' && n_numbers == 5) {
            *storage = (uint64_t)second;
            return true;
        }
        n_numbers = 0;
    }
    return false;
}

static syn__pt_scan values_of(const waiter *w, uint32_t op) {
    const syn__str none = {"", 0};
    const uint32_t host = w->r->ops[op].host;
    return syn__pt_scan_of(host == SYN__PT_NONE ? none : syn__pt_inputs(&w->r->host.nodes[host]));
}

static syn_status add_use(waiter *w, uint64_t storage, uint32_t index) {
    uint32_t *head = syn__pt_map_put(&w->uses, storage);
    if (head == NULL) return SYN_FAIL_NOMEM(w->c->err, w->uses.n * 16, "storages");
    SYN_TRY(syn_grow(&w->links, &w->links_cap, w->n_links + 2, sizeof *w->links, w->c->err));
    if (*head == SYN__PT_NONE) {
        *head = (uint32_t)w->n_links;
        w->links[w->n_links++] = (struct link){SYN__PT_NONE, SYN__PT_NONE};
    }
    w->links[w->n_links] = (struct link){index, w->links[*head].next};
    w->links[*head].next = (uint32_t)w->n_links++;
    return SYN_OK;
}

/* Records that an op that begins at `ns` uses the storage. Ops come in order of time, so works that
   have ended are removed from the list. The list is ordered by end, so the search stops at the
   first work that has not ended. */
static void use(waiter *w, work *works, uint64_t storage, int64_t ns) {
    const uint32_t list = syn__pt_map_get(&w->uses, storage);
    if (list == SYN__PT_NONE) return;
    uint32_t *at = &w->links[list].next;
    while (*at != SYN__PT_NONE) {
        work *k = &works[w->links[*at].index];
        if (k->launched_ns > ns || k->end_ns > ns) return;
        if (k->functional && !k->known) { /* it remains in the list until its wait_tensor */
            at = &w->links[*at].next;
            continue;
        }
        if (!k->functional) has_waited(k, ns);
        *at = w->links[*at].next;
    }
}

/* Records that a wait_tensor on the storage waits for all works that were launched before it. */
static syn_status use_by_wait(waiter *w, work *works, uint64_t storage, uint32_t op) {
    const syn__pt_op *o = &w->r->ops[op];
    const uint32_t list = syn__pt_map_get(&w->uses, storage);
    if (list == SYN__PT_NONE) return SYN_OK;
    for (uint32_t at = w->links[list].next; at != SYN__PT_NONE; at = w->links[at].next) {
        work *k = &works[w->links[at].index];
        if (!k->functional || k->known || k->launched_ns > o->start_ns || k->op > op) continue;
        const int64_t end = k->end_ns > o->start_ns ? k->end_ns : o->start_ns;
        SYN_TRY(add_wait_of(w, k, op, o->start_ns, end));
    }
    return SYN_OK;
}

/* Finds the first op after each communication that uses one of its tensors. */
static syn_status find_uses(waiter *w, work *works, size_t n) {
    uint64_t storage;
    int64_t first_ns = INT64_MAX;
    if (w->r->host.from_event) return SYN_OK; /* a device trace alone has no tensor ids */
    syn__pt_map_free(&w->uses);
    w->n_links = 0;
    for (uint32_t i = (uint32_t)n; i-- > 0;) {
        syn__pt_scan scan = values_of(w, w->r->ops[works[i].op].parent);
        if (works[i].launched_ns < first_ns) first_ns = works[i].launched_ns;
        for (int k = 0; k < MAX_STORAGES && next_storage(&scan, &storage); k++)
            SYN_TRY(add_use(w, storage, i));
    }
    for (size_t i = first_at(w, first_ns); i < w->n_ops; i++) {
        syn__pt_scan scan = values_of(w, w->ops[i]);
        const uint8_t flags = flags_of(w, w->ops[i]);
        if (flags & CALLS) continue;
        while (next_storage(&scan, &storage)) {
            if (flags & WAITS) SYN_TRY(use_by_wait(w, works, storage, w->ops[i]));
            use(w, works, storage, start_of(w, i));
        }
    }
    return SYN_OK;
}

static syn_status find_in_track(waiter *w, work *works, size_t n) {
    take_ops(w, w->r->ops[w->r->ops[works->op].parent].track);
    find_habits(w, works, n);
    find_ends(w, works, n);
    SYN_TRY(find_uses(w, works, n));
    w->at = works;
    w->end = works + n;
    SYN_TRY(sweep(w));
    for (size_t i = 0; i < n; i++) /* no other rule applies, so the wait took no time */
        if (!works[i].known && works[i].by_ns != INT64_MAX)
            SYN_TRY(add_wait(w, &works[i], works[i].by_ns, works[i].by_ns));
    return SYN_OK;
}

/* ---- The whole rank ---- */

static int by_end(const void *a, const void *b) {
    const syn__pt_wait *x = (const syn__pt_wait *)a, *y = (const syn__pt_wait *)b;
    if (x->end_ns != y->end_ns) return x->end_ns < y->end_ns ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static syn_status find_all(waiter *w) {
    const syn__pt_rank *r = w->r;
    for (uint32_t i = 0; i < r->n_ops; i++) w->inside[i] = is_inside(w, i);
    for (size_t i = 0, end; i < w->n_works; i = end) {
        const uint32_t track = r->ops[r->ops[w->works[i].op].parent].track;
        for (end = i + 1; end < w->n_works; end++)
            if (r->ops[r->ops[w->works[end].op].parent].track != track) break;
        SYN_TRY(find_in_track(w, w->works + i, end - i));
    }
    if (r->n_waits > 1) qsort(r->waits, r->n_waits, sizeof *r->waits, by_end);
    return SYN_OK;
}

syn_status syn__pt_find_waits(syn__pt_connector *c) {
    waiter w = {.c = c, .r = c->rank};
    const size_t n = c->rank->n_ops + 1;
    syn_status s = list_works(&w);
    if (s == SYN_OK && w.n_works != 0) {
        w.names = syn_calloc(c->rank->host.names.n_entries + 1, 1);
        w.inside = syn_calloc(n, 1);
        w.ops = syn_malloc(n * sizeof *w.ops);
        w.behind = syn_malloc(n * sizeof *w.behind);
        w.step = syn_malloc(n * sizeof *w.step);
        s = w.names && w.inside && w.ops && w.behind && w.step
                ? find_all(&w)
                : SYN_FAIL_NOMEM(c->err, n * sizeof *w.ops, "stream dependencies");
    }
    syn_free(w.names);
    syn_free(w.inside);
    syn_free(w.works);
    syn_free(w.ops);
    syn_free(w.behind);
    syn_free(w.step);
    syn_free(w.stack);
    syn__pt_map_free(&w.uses);
    syn_free(w.links);
    return s;
}
