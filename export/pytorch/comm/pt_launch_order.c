/* Finds the order in which a rank launched its communication. It follows the times of the launches
   (for communication on the host, its own time). If a time is unknown, it follows the position of
   the host op in the program. All ranks of a job launch the collectives of a group in the same
   order, but their kernels may start in another order if they are on different streams. */
#include "export/pytorch/comm/pt_launch_order.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

int64_t syn__pt_launch_time(const syn__pt_rank *rank, uint32_t op) {
    const uint32_t call = rank->ops[op].launch;
    if (call != SYN__PT_NONE && rank->device.events[call].flags & SYN__PT_EVENT_TS)
        return rank->device.events[call].ts_ns;
    return rank->ops[syn__pt_launched_by(rank, op)].start_ns;
}

typedef struct launches {
    const syn__pt_rank *rank;
    uint64_t *keys;
    uint32_t *order, *next, *head; /* lists of the comms of a class; head: per class, its first
                                      comm */
    syn_error *err;
} launches;

/* Sorts the comms by launch. A comm without a time comes after everything that the program launched
   before it. */
static syn_status sort_launches(launches *l) {
    const syn__pt_rank *r = l->rank;
    uint32_t *by_time = NULL;
    int64_t latest = INT64_MIN;
    for (size_t i = 0; i < r->n_comms; i++) l->keys[i] = syn__pt_launched_by(r, r->comms[i].op);
    SYN_TRY(syn__pt_sort(l->keys, r->n_comms, &l->order, l->err));
    for (size_t i = 0; i < r->n_comms; i++) {
        const int64_t at = syn__pt_launch_time(r, r->comms[l->order[i]].op);
        if (at > latest) latest = at;
        l->keys[i] = syn__pt_i64_key(at != SYN__PT_NO_NS ? at : latest);
    }
    SYN_TRY(syn__pt_sort(l->keys, r->n_comms, &by_time, l->err));
    for (size_t i = 0; i < r->n_comms; i++) by_time[i] = l->order[by_time[i]];
    syn_free(l->order);
    l->order = by_time;
    return SYN_OK;
}

/* The class of a comm, within which the order is fixed: its device stream or, if by_group, the
   group of a collective. SYN__PT_NONE: none. */
static uint32_t class_of(const syn__pt_rank *r, uint32_t comm, bool by_group) {
    const syn__pt_comm *c = &r->comms[comm];
    const syn__pt_op *op = &r->ops[c->op];
    if (by_group) return syn__pt_group_of(r, c);
    return syn__pt_is_device(op) ? op->track : SYN__PT_NONE;
}

/* Reorders the comms of each class by their keys. The positions that a class occupies in the order
   do not change. */
static syn_status keep_order(launches *l, bool by_group) {
    const syn__pt_rank *r = l->rank;
    const size_t n_classes = by_group ? r->n_groups + 1 : r->n_tracks;
    uint32_t *sorted = NULL;
    for (size_t i = 0; i < n_classes; i++) l->head[i] = SYN__PT_NONE;
    SYN_TRY(syn__pt_sort(l->keys, r->n_comms, &sorted, l->err));
    for (size_t i = r->n_comms; i-- > 0;) {
        const uint32_t comm = sorted[i], class_ = class_of(r, comm, by_group);
        if (class_ == SYN__PT_NONE) continue;
        l->next[comm] = l->head[class_];
        l->head[class_] = comm;
    }
    for (size_t i = 0; i < r->n_comms; i++) {
        const uint32_t class_ = class_of(r, l->order[i], by_group);
        if (class_ == SYN__PT_NONE) continue;
        l->order[i] = l->head[class_];
        l->head[class_] = l->next[l->order[i]];
    }
    syn_free(sorted);
    return SYN_OK;
}

static syn_status order_launches(launches *l, const int64_t *when) {
    const syn__pt_rank *r = l->rank;
    SYN_TRY(sort_launches(l));
    for (int by_group = 0; by_group < (when != NULL ? 1 : 2); by_group++) {
        if (when == NULL && r->ids == NULL) break;
        for (size_t i = 0; i < r->n_comms; i++) {
            const uint32_t op = r->comms[i].op;
            l->keys[i] = when != NULL ? syn__pt_i64_key(when[op]) : r->ids[op];
        }
        SYN_TRY(keep_order(l, by_group == 1));
    }
    return SYN_OK;
}

syn_status syn__pt_launch_order(const syn__pt_rank *rank, const int64_t *when, uint32_t **order,
                                syn_error *err) {
    const size_t n = rank->n_comms + rank->n_tracks + rank->n_groups + 1;
    launches l = {.rank = rank, .err = err};
    l.keys = (uint64_t *)syn_malloc((rank->n_comms + 1) * sizeof *l.keys);
    l.next = (uint32_t *)syn_malloc((rank->n_comms + 1) * sizeof *l.next);
    l.head = (uint32_t *)syn_malloc(n * sizeof *l.head);
    syn_status s = SYN_OK;
    if (l.keys == NULL || l.next == NULL || l.head == NULL)
        s = SYN_FAIL_NOMEM(err, n * sizeof *l.keys, "the order of collectives and messages");
    if (s == SYN_OK) s = order_launches(&l, when);
    syn_free(l.keys);
    syn_free(l.next);
    syn_free(l.head);
    if (s != SYN_OK) {
        syn_free(l.order);
        l.order = NULL;
    }
    *order = l.order;
    return s;
}
