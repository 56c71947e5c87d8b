/* Finds the communication of one rank. Each call of a library becomes one communication, on the
   kernel that runs it, or on its host op if it has no kernel. Its properties come from the args of
   the kernel, then from record_param_comms, then from the enclosing ops, and finally from the
   kernel's name. */
#include <stdlib.h>

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/comm/pt_calls.h"
#include "export/pytorch/comm/pt_comm.h"
#include "export/pytorch/comm/pt_groups.h"
#include "export/pytorch/read/pt_kernel_names.h"
#include "export/pytorch/read/pt_names.h"
#include "export/pytorch/read/pt_tensors.h"
#include "syntorch/base/memory.h"

typedef struct finder {
    syn__pt_rank *rank;
    syn_pytorch_note *notes;
    syn_error *err;
    syn__pt_calls calls;
    syn__pt_group_finder groups;
    int64_t *local_peer; /* per comm: the peer's index within the group; -1: none */
    size_t local_cap;
    uint32_t *own; /* kernels that belong to no call */
    size_t n_own;
} finder;

static void note(const finder *f, syn_pytorch_anomaly kind, const syn__pt_op *op) {
    if (op->host != SYN__PT_NONE) syn__pt_note_host(f->rank, f->notes, kind, op->host);
    else if (op->event != SYN__PT_NONE) syn__pt_note_event(f->rank, f->notes, kind, op->event);
}

/* ---- Properties ---- */

/* Adds the properties that a host op records. record: it is a record_param_comms. shaped: its first
   tensor is the input of the call. */
static void add_host_properties(const finder *f, syn__pt_properties *properties, uint32_t index,
                                bool record, bool shaped) {
    const syn__pt_rank *r = f->rank;
    if (index == SYN__PT_NONE) return;
    const syn__pt_op *op = &r->ops[index];
    const syn__pt_host_node *node = &r->host.nodes[op->host];
    /* The converter made this node from an event, and the event has all properties of the call. */
    const bool made = (node->has & SYN__PT_MADE) != 0;
    if (made && record) syn__pt_properties_from_event(properties, &r->device.events[op->event]);
    if (made && shaped && properties->in_bytes < 0)
        properties->in_bytes = syn__pt_input_bytes(node, op->detached ? SIZE_MAX : 1);
    if (r->host.from_event && shaped && properties->elem_bytes == 0)
        properties->elem_bytes = syn__pt_argument_elem_bytes(node, 0);
    if (!record) {
        syn__pt_properties_from_call(properties, node, syn__pt_host_name(&r->host, node->name));
        return;
    }
    syn__pt_properties_from_record(properties, node);
    if (op->event != SYN__PT_NONE)
        syn__pt_properties_from_event(properties, &r->device.events[op->event]);
}

static void find_properties(const finder *f, syn__pt_properties *properties, uint32_t kernel,
                            const syn__pt_call *call) {
    const syn__pt_rank *r = f->rank;
    syn__pt_properties_init(properties);
    const bool grouped = call != NULL && call->grouped;
    if (!grouped && kernel != SYN__PT_NONE && r->ops[kernel].event != SYN__PT_NONE)
        syn__pt_properties_from_event(properties, &r->device.events[r->ops[kernel].event]);
    if (call != NULL) {
        add_host_properties(f, properties, call->record, true, true);
        add_host_properties(f, properties, call->api, false, false);
        add_host_properties(f, properties, call->functional, false, true);
        add_host_properties(f, properties, call->backend, false, true);
    }
    if (properties->kind >= 0 || kernel == SYN__PT_NONE) return;
    const syn__str name = syn__pt_op_name(r, &r->ops[kernel]);
    properties->kind = syn__pt_kernel_kind(name);
    if (properties->kind == SYN__PT_CALL_SEND &&
        syn__pt_kernel_library_of(name) != SYN__PT_KERNEL_OF_OTHER) /* ncclDevKernel_SendRecv */
        properties->kind = SYN__PT_CALL_ALL_TO_ALL;
}

/* The bytes of a call's input, computed from its output. */
static int64_t from_output(const syn__pt_properties *t, int64_t ranks) {
    int64_t out = t->out_bytes;
    if (t->out_elems > 0 && t->elem_bytes > 0) out = syn__pt_mul_i64(t->out_elems, t->elem_bytes);
    if (out <= 0 || ranks < 1) return out;
    if (t->kind == SYN__PT_CALL_ALL_GATHER || t->kind == SYN__PT_CALL_GATHER)
        return out > ranks ? out / ranks : 1;
    /* Whether the sizes are those of the host op's tensors. In a scatter, the root's tensors have a
       part for each rank. */
    const bool by_tensors = t->in_elems < 0 && t->out_elems < 0;
    const bool has_all =
        t->kind == SYN__PT_CALL_REDUCE_SCATTER || (t->kind == SYN__PT_CALL_SCATTER && by_tensors);
    return has_all ? syn__pt_mul_i64(out, ranks) : out;
}

/* The bytes of a call's input, if gloo ran a reduce-scatter of a list as an all-reduce of each
   tensor. Each of its ops then has the size of one tensor of the list. */
static int64_t from_parts(const syn__pt_properties *t, int64_t ranks) {
    if (t->kind != SYN__PT_CALL_REDUCE_SCATTER || t->filled_elems <= 0 || t->elem_bytes <= 0)
        return -1;
    return syn__pt_mul_i64(syn__pt_mul_i64(t->filled_elems, t->elem_bytes), ranks > 0 ? ranks : 1);
}

static int64_t bytes_of(const syn__pt_properties *t, int64_t ranks) {
    int64_t in = -1;
    if (t->kind == SYN__PT_CALL_BARRIER) return 1;
    if (t->in_elems > 0 && t->elem_bytes > 0) in = syn__pt_mul_i64(t->in_elems, t->elem_bytes);
    if (in <= 0) in = from_parts(t, ranks);
    if (in <= 0) in = t->in_bytes;
    const bool nothing = t->kind == SYN__PT_CALL_ALL_TO_ALL && (t->in_elems == 0 || in == 0);
    if (in <= 0 && !nothing) in = from_output(t, ranks);
    return in > 0 ? in : -1;
}

static int64_t ranks_of(const finder *f, const syn__pt_properties *t, uint32_t group) {
    if (group != SYN__PT_NONE && f->rank->groups[group].size != 0)
        return f->rank->groups[group].size;
    return t->group_size > 0 ? t->group_size : f->rank->world_size;
}

static int32_t as_rank(int64_t v) {
    return v >= 0 && v <= INT32_MAX ? (int32_t)v : -1;
}

/* ---- Communication ---- */

static void set_type(syn__pt_comm *c, const syn__pt_properties *t) {
    c->type = t->kind == SYN__PT_CALL_SEND   ? SYN__ET_COMM_SEND_NODE
              : t->kind == SYN__PT_CALL_RECV ? SYN__ET_COMM_RECV_NODE
                                             : SYN__ET_COMM_COLL_NODE;
    c->collective = c->type == SYN__ET_COMM_COLL_NODE && t->kind >= 0 ? t->kind : -1;
    c->peer = -1;
    if (t->kind == SYN__PT_CALL_SEND) c->peer = as_rank(t->target);
    if (t->kind == SYN__PT_CALL_RECV) c->peer = as_rank(t->source);
    c->tag = t->tag >= 0 && t->tag <= INT32_MAX ? (int32_t)t->tag : 0;
}

static syn_status add(finder *f, uint32_t op, uint32_t kernel, const syn__pt_call *call) {
    syn__pt_rank *r = f->rank;
    syn__pt_properties properties;
    find_properties(f, &properties, kernel, call);
    if (properties.kind == SYN__PT_CALL_NONE && kernel == SYN__PT_NONE) return SYN_OK;
    SYN_TRY(syn_grow(&r->comms, &r->comms_cap, r->n_comms + 1, sizeof *r->comms, f->err));
    SYN_TRY(syn_grow(&f->local_peer, &f->local_cap, r->n_comms + 1, sizeof *f->local_peer, f->err));
    syn__pt_comm *c = &r->comms[r->n_comms];
    memset(c, 0, sizeof *c);
    c->op = op;
    c->sequence = properties.sequence;
    set_type(c, &properties);
    SYN_TRY(syn__pt_groups_find(&f->groups, &properties, &c->group));
    c->bytes = bytes_of(&properties, ranks_of(f, &properties, c->group));
    const bool message = c->type != SYN__ET_COMM_COLL_NODE;
    f->local_peer[r->n_comms] = message && c->peer < 0 ? properties.peer : -1;
    r->ops[op].comm = (uint32_t)r->n_comms++;
    if (!message && c->collective < 0) note(f, SYN_PYTORCH_ANOMALY_UNKNOWN_COLLECTIVE, &r->ops[op]);
    if (c->bytes > 0) return SYN_OK;
    c->bytes = 1;
    c->unsized = true;
    note(f, SYN_PYTORCH_ANOMALY_SIZE_UNKNOWN, &r->ops[op]);
    return SYN_OK;
}

/* Adds a kernel that belongs to no call. */
static syn_status add_own(finder *f, uint32_t kernel) {
    const syn__pt_op *op = &f->rank->ops[kernel];
    if (syn__pt_kernel_library_of(syn__pt_op_name(f->rank, op)) == SYN__PT_KERNEL_OF_OTHER)
        note(f, SYN_PYTORCH_ANOMALY_KERNEL_NAME, op);
    return add(f, kernel, kernel, NULL);
}

/* The global rank of a peer. If nothing is known about the group, indices within it are global
   ranks. */
static int32_t global_peer(const syn__pt_rank *r, const syn__pt_comm *c, int64_t local) {
    const syn__pt_group *g = c->group != SYN__PT_NONE ? &r->groups[c->group] : NULL;
    if (local < 0) return -1;
    if (g != NULL && g->n_ranks != 0) return local < g->n_ranks ? g->ranks[local] : -1;
    return r->world_size < 0 || local < r->world_size ? as_rank(local) : -1;
}

static syn_status finish_comms(finder *f) {
    syn__pt_rank *r = f->rank;
    SYN_TRY(syn__pt_groups_finish(&f->groups));
    for (size_t i = 0; i < r->n_comms; i++) {
        syn__pt_comm *c = &r->comms[i];
        if (c->group == SYN__PT_NONE && r->n_groups == 1) c->group = 0;
        if (c->group == SYN__PT_NONE ||
            (r->groups[c->group].n_ranks == 0 && r->groups[c->group].size == 0))
            note(f, SYN_PYTORCH_ANOMALY_GROUP_UNKNOWN, &r->ops[c->op]);
        if (c->type == SYN__ET_COMM_COLL_NODE) continue;
        if (c->peer < 0) c->peer = global_peer(r, c, f->local_peer[i]);
        if (c->peer < 0) note(f, SYN_PYTORCH_ANOMALY_PEER_UNKNOWN, &r->ops[c->op]);
    }
    return SYN_OK;
}

static int by_op(const void *a, const void *b) {
    const uint32_t x = ((const syn__pt_comm *)a)->op, y = ((const syn__pt_comm *)b)->op;
    return (x > y) - (x < y);
}

/* Whether the call has times, but neither a library op nor a kernel. */
static bool is_unfinished(const finder *f, const syn__pt_call *call) {
    const uint32_t op = syn__pt_call_op(f->rank, call);
    return call->kernel == SYN__PT_NONE && call->backend == SYN__PT_NONE &&
           f->rank->ops[op].start_ns != SYN__PT_NO_NS;
}

/* Notes calls that did not finish. Libraries with their own threads (gloo) record an op for each
   call that finished. */
static void note_unfinished(const finder *f) {
    const syn__pt_calls *c = &f->calls;
    bool concurrent = syn__str_has(f->rank->device.distributed_info, "gloo");
    for (size_t i = 0; i < c->n_calls && !concurrent; i++)
        concurrent =
            c->calls[i].backend != SYN__PT_NONE && f->rank->ops[c->calls[i].latest].detached;
    for (size_t i = 0; i < c->n_calls && concurrent; i++)
        if (is_unfinished(f, &c->calls[i]))
            note(f, SYN_PYTORCH_ANOMALY_UNFINISHED,
                 &f->rank->ops[syn__pt_call_op(f->rank, &c->calls[i])]);
}

static syn_status find_all(finder *f) {
    syn__pt_rank *r = f->rank;
    SYN_TRY(syn__pt_groups_open(&f->groups, r, f->notes, f->err));
    SYN_TRY(syn__pt_calls_open(&f->calls, r, f->err));
    SYN_TRY(syn__pt_calls_kernels(&f->calls, &f->own, &f->n_own));
    note_unfinished(f);
    for (size_t i = 0; i < f->calls.n_calls; i++) {
        const syn__pt_call *call = &f->calls.calls[i];
        const uint32_t op =
            call->kernel != SYN__PT_NONE ? call->kernel : syn__pt_call_op(f->rank, call);
        SYN_TRY(add(f, op, call->kernel, call));
    }
    for (size_t i = 0; i < f->n_own; i++) SYN_TRY(add_own(f, f->own[i]));
    SYN_TRY(finish_comms(f));
    if (r->n_comms > 1) qsort(r->comms, r->n_comms, sizeof *r->comms, by_op);
    for (size_t i = 0; i < r->n_comms; i++) r->ops[r->comms[i].op].comm = (uint32_t)i;
    return SYN_OK;
}

syn_status syn__pt_find_comms(syn__pt_rank *rank, syn_pytorch_note *notes, syn_error *err) {
    finder f = {.rank = rank, .notes = notes, .err = err};
    const syn_status s = find_all(&f);
    syn__pt_calls_close(&f.calls);
    syn__pt_groups_close(&f.groups);
    syn_free(f.local_peer);
    syn_free(f.own);
    return s;
}
