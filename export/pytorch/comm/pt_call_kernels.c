/* Assigns kernels to calls.

   A communication kernel belongs to the call whose host op launched it. If a call launched several
   kernels, the first is the communication and the others are computation.

   The kernels of grouped calls (batch_isend_irecv, coalescing managers) are different: they are
   launched when the group ends, outside of all its calls. Such a kernel runs all calls of its
   thread that have no kernel yet, that had begun when the kernel was launched, and that are of its
   kind. The kernel represents the first of these calls, where sends come before receives. Each
   other call gets an op of its own with duration 0, which comes after the kernel on its stream.
   Further kernels that the same op launched are computation.

   Kernels of libraries that PyTorch does not record are never part of a group. If no call launched
   such a kernel, it is a communication of its own. */
#include "export/pytorch/comm/pt_calls.h"
#include "export/pytorch/read/pt_kernel_names.h"
#include "export/pytorch/read/pt_names.h"
#include "syntorch/base/memory.h"

#define MAX_LOOK 4096 /* maximum number of calls without a kernel searched for one kernel */

static syn__pt_kernel_library library_of(syn__pt_calls *c, const syn__pt_op *op) {
    if (op->event == SYN__PT_NONE) return syn__pt_kernel_library_of(syn__pt_op_name(c->rank, op));
    uint8_t *known = &c->kernel_name[c->rank->device.events[op->event].name];
    if (*known == 0)
        *known = (uint8_t)(1 + syn__pt_kernel_library_of(syn__pt_op_name(c->rank, op)));
    return (syn__pt_kernel_library)(*known - 1);
}

static bool has_collective_name(const syn__pt_rank *rank, const syn__pt_op *op) {
    return op->event != SYN__PT_NONE &&
           (rank->device.events[op->event].flags & SYN__PT_EVENT_COLLECTIVE) != 0;
}

/* ---- Grouped calls ---- */

static bool same_kind(int kernel, int call) {
    if (kernel == SYN__PT_CALL_UNKNOWN || kernel == call) return true;
    if (kernel == SYN__PT_CALL_ALL_REDUCE) return call == SYN__PT_CALL_BARRIER;
    return kernel == SYN__PT_CALL_SEND &&
           (call == SYN__PT_CALL_RECV || call == SYN__PT_CALL_ALL_TO_ALL ||
            call == SYN__PT_CALL_GATHER || call == SYN__PT_CALL_SCATTER);
}

static bool same_thread(const syn__pt_rank *rank, const syn__pt_op *kernel, uint32_t call_op) {
    const uint32_t parent = syn__pt_known_launcher(kernel);
    return parent == SYN__PT_NONE || rank->ops[parent].track == rank->ops[call_op].track;
}

/* Whether the call had begun when the kernel was launched, by time or, if unknown, by order. */
static bool begun(const syn__pt_rank *rank, const syn__pt_op *kernel, uint32_t call_op) {
    const syn__pt_op *op = &rank->ops[call_op];
    const int64_t at = kernel->launch != SYN__PT_NONE ? rank->device.events[kernel->launch].ts_ns
                                                      : kernel->start_ns;
    if (at != SYN__PT_NO_NS && op->start_ns != SYN__PT_NO_NS) return op->start_ns <= at;
    const uint32_t parent = syn__pt_known_launcher(kernel);
    return parent == SYN__PT_NONE || call_op <= parent;
}

typedef struct batch {
    syn__pt_calls *c;
    uint32_t head, *next; /* list of calls without a kernel, in order; next: per call */
    uint32_t *found, *taken;
    size_t n_taken;
    uint32_t parent; /* op that launched the last kernel with several calls, if the op comes after
                        them; SYN__PT_NONE: none */
} batch;

/* Sort key of a call within its kernel: sends, then receives, then all others. */
static int sort_key(const syn__pt_call *call) {
    return call->kind == SYN__PT_CALL_SEND ? 0 : call->kind == SYN__PT_CALL_RECV ? 1 : 2;
}

static void take_waiting(batch *b, const syn__pt_op *kernel) {
    const syn__pt_call *calls = b->c->calls;
    const int kind = syn__pt_kernel_kind(syn__pt_op_name(b->c->rank, kernel));
    const uint32_t parent = syn__pt_known_launcher(kernel);
    uint32_t *link = &b->head;
    size_t n = 0;
    for (size_t looked = 0; *link != SYN__PT_NONE && looked < MAX_LOOK; looked++) {
        const uint32_t call = *link, op = calls[call].record;
        const bool here = same_thread(b->c->rank, kernel, op),
                   ready = begun(b->c->rank, kernel, op);
        if (here && !ready && parent != SYN__PT_NONE) break; /* later calls have not begun either */
        if (here && ready && same_kind(kind, calls[call].kind)) {
            b->found[n++] = call;
            *link = b->next[call];
            /* If it is unknown who launched the kernel, its calls are unknown, too. Then it gets
               only one. */
            if (parent == SYN__PT_NONE) break;
        } else link = &b->next[call];
    }
    b->n_taken = 0;
    for (int t = 0; t < 3; t++)
        for (size_t i = 0; i < n; i++)
            if (sort_key(&calls[b->found[i]]) == t) b->taken[b->n_taken++] = b->found[i];
}

static syn_status carry_waiting(batch *b, uint32_t kernel) {
    syn__pt_rank *r = b->c->rank;
    b->c->calls[b->taken[0]].kernel = kernel;
    const uint32_t parent = syn__pt_known_launcher(&r->ops[kernel]);
    const bool after = parent != SYN__PT_NONE && parent >= b->c->calls[b->taken[0]].record;
    if (b->n_taken > 1) b->parent = after ? parent : SYN__PT_NONE;
    for (size_t i = 0; i < b->n_taken; i++) b->c->calls[b->taken[i]].grouped = true;
    for (size_t i = 1; i < b->n_taken; i++) {
        SYN_TRY(syn_grow(&r->ops, &r->ops_cap, r->n_ops + 1, sizeof *r->ops, b->c->err));
        syn__pt_op *op = &r->ops[r->n_ops];
        *op = r->ops[kernel];
        if (op->wall_ns != SYN__PT_NO_NS) op->wall_ns = 0;
        op->self_ns = 0;
        b->c->calls[b->taken[i]].kernel = (uint32_t)r->n_ops++;
    }
    return SYN_OK;
}

static syn_status take_grouped(batch *b, uint32_t *own, size_t *n_own) {
    size_t n = 0;
    for (size_t i = 0; i < *n_own; i++) {
        const syn__pt_op *kernel = &b->c->rank->ops[own[i]];
        const uint32_t parent = syn__pt_known_launcher(kernel);
        if (library_of(b->c, kernel) == SYN__PT_KERNEL_OF_OTHER) {
            own[n++] = own[i];
            continue;
        }
        take_waiting(b, kernel);
        if (b->n_taken > 0) SYN_TRY(carry_waiting(b, own[i]));
        else if (parent == SYN__PT_NONE || parent != b->parent) own[n++] = own[i];
    }
    *n_own = n;
    return SYN_OK;
}

static syn_status carry_grouped(syn__pt_calls *c, uint32_t *own, size_t *n_own) {
    batch b = {.c = c, .head = SYN__PT_NONE, .parent = SYN__PT_NONE};
    const size_t bytes = (c->n_calls + 1) * sizeof *b.next;
    if (*n_own == 0) return SYN_OK;
    b.next = (uint32_t *)syn_malloc(bytes);
    b.found = (uint32_t *)syn_malloc(bytes);
    b.taken = (uint32_t *)syn_malloc(bytes);
    syn_status s = SYN_OK;
    if (!b.next || !b.found || !b.taken) s = SYN_FAIL_NOMEM(c->err, bytes, "grouped calls");
    for (size_t i = c->n_calls; i-- > 0 && s == SYN_OK;) {
        const syn__pt_call *call = &c->calls[i];
        if (call->record == SYN__PT_NONE || call->kernel != SYN__PT_NONE) continue;
        b.next[i] = b.head;
        b.head = (uint32_t)i;
    }
    if (s == SYN_OK) s = take_grouped(&b, own, n_own);
    syn_free(b.next);
    syn_free(b.found);
    syn_free(b.taken);
    return s;
}

/* ---- The whole rank ---- */

/* Whether the parent of a kernel was still running when the kernel was launched. For kernels that
   were launched between ops, the parent is the previous op. */
static bool launched_within(const syn__pt_rank *r, const syn__pt_op *kernel) {
    const syn__pt_op *op = &r->ops[kernel->parent];
    const syn__pt_event *events = r->device.events;
    if (kernel->launch == SYN__PT_NONE || op->start_ns == SYN__PT_NO_NS ||
        op->wall_ns == SYN__PT_NO_NS)
        return true;
    if (op->event != SYN__PT_NONE && events[kernel->event].external_id != -1 &&
        events[kernel->event].external_id == events[op->event].external_id)
        return true;
    return events[kernel->launch].ts_ns - op->start_ns <= op->wall_ns;
}

syn_status syn__pt_calls_kernels(syn__pt_calls *c, uint32_t **own, size_t *n_own) {
    const syn__pt_rank *r = c->rank;
    size_t cap = 0;
    for (int named = 1; named >= 0; named--) { /* first communication kernels, then others */
        for (uint32_t i = 0; i < c->n_ops; i++) {
            const syn__pt_op *op = &r->ops[i];
            const uint32_t call = c->call_of[i];
            if (op->kind != SYN_PYTORCH_OP_KERNEL) continue;
            if ((library_of(c, op) != SYN__PT_KERNEL_COMPUTES) != (named == 1)) continue;
            if (named == 0 &&
                ((call != SYN__PT_NONE && c->calls[call].kernel != SYN__PT_NONE) ||
                 (call == SYN__PT_NONE && op->parent != SYN__PT_NONE && !op->by_time) ||
                 !has_collective_name(r, op)))
                continue;
            if (call != SYN__PT_NONE && launched_within(r, op)) {
                if (c->calls[call].kernel == SYN__PT_NONE) c->calls[call].kernel = i;
                continue;
            }
            SYN_TRY(syn_grow(own, &cap, *n_own + 1, sizeof **own, c->err));
            (*own)[(*n_own)++] = i;
        }
    }
    return carry_grouped(c, *own, n_own);
}
