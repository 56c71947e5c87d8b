/* Groups, call signatures, and error messages about them, for all communicators. */
#include "comm/comm_request.h"
#include "syntorch/base/memory.h"

#include <stdio.h>
#include <string.h>

static syn_status check_group(const syn_comm *comm, uint32_t id, const char *name,
                              const int32_t *ranks, int32_t n_ranks, int32_t *index,
                              syn_error *err) {
    SYN_TRY(syn__comm_check_open(comm, err));
    if (id < 1) return SYN_FAIL(err, SYN_E_INVALID, "group %.64s has id 0; ids start at 1", name);
    if (n_ranks < 1 || n_ranks > comm->size)
        return SYN_FAIL(err, SYN_E_INVALID, "group %.64s has %d ranks in a world of %d", name,
                        (int)n_ranks, (int)comm->size);
    uint8_t *seen = syn_calloc((size_t)comm->size, 1);
    if (seen == NULL) return SYN_FAIL_NOMEM(err, comm->size, "the checks of a group");
    syn_status status = SYN_OK;
    *index = -1;
    for (int32_t i = 0; i < n_ranks && status == SYN_OK; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->size)
            status =
                SYN_FAIL(err, SYN_E_INVALID,
                         "group %.64s has rank %d, which does not exist in a world of %d ranks",
                         name, (int)ranks[i], (int)comm->size);
        else if (seen[ranks[i]]++)
            status =
                SYN_FAIL(err, SYN_E_INVALID, "group %.64s has rank %d twice", name, (int)ranks[i]);
        else if (ranks[i] == comm->rank) *index = i;
    }
    syn_free(seen);
    if (status == SYN_OK && *index < 0)
        status =
            SYN_FAIL(err, SYN_E_INVALID, "rank %d opens group %.64s but is not one of its %d ranks",
                     (int)comm->rank, name, (int)n_ranks);
    return status;
}

static syn_status node_new(syn__group_node **out, uint32_t id, const char *name,
                           const int32_t *ranks, int32_t n_ranks, syn_error *err) {
    const size_t ranks_bytes = (size_t)n_ranks * sizeof(int32_t);
    const size_t name_bytes = strlen(name) + 1;
    const size_t bytes = sizeof(syn__group_node) + ranks_bytes + name_bytes;
    syn__group_node *node = syn_calloc(1, bytes);
    if (node == NULL) return SYN_FAIL_NOMEM(err, bytes, "a group");
    int32_t *own_ranks = (int32_t *)(void *)(node + 1);
    char *own_name = (char *)own_ranks + ranks_bytes;
    memcpy(own_ranks, ranks, ranks_bytes);
    memcpy(own_name, name, name_bytes);
    node->group = (syn_group){.id = id, .name = own_name, .ranks = own_ranks, .size = n_ranks};
    *out = node;
    return SYN_OK;
}

/* Returns the group if an id is opened again with the same ranks; otherwise fails. */
static syn_status reopen(syn_group *group, const char *name, const int32_t *ranks, int32_t n_ranks,
                         syn_group **out, syn_error *err) {
    if (group->size != n_ranks ||
        memcmp(group->ranks, ranks, (size_t)n_ranks * sizeof(int32_t)) != 0)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "group id %u already belongs to %.64s with %d ranks; it cannot be opened as "
            "%.64s with %d ranks, or with the ranks in another order",
            (unsigned)group->id, group->name, (int)group->size, name, (int)n_ranks);
    *out = group;
    return SYN_OK;
}

static syn_group *find_group(const syn__comm *self, uint32_t id) {
    for (syn__group_node *n = self->nodes; n != NULL; n = n->next)
        if (n->group.id == id) return &n->group;
    return NULL;
}

const syn_group *syn__comm_next_group(const syn_comm *comm, uint32_t id) {
    const syn_group *next = NULL;
    for (const syn__group_node *n = ((const syn__comm *)comm)->nodes; n != NULL; n = n->next)
        if (n->group.id > id && (next == NULL || n->group.id < next->id)) next = &n->group;
    return next;
}

syn_status syn__comm_open_group(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                                int32_t n_ranks, syn_group **out, syn_error *err) {
    syn__comm *self = (syn__comm *)comm;
    int32_t index = 0;
    SYN_TRY(check_group(comm, id, name, ranks, n_ranks, &index, err));
    syn_group *known = find_group(self, id);
    if (known != NULL) return reopen(known, name, ranks, n_ranks, out, err);
    syn__group_node *node = NULL;
    SYN_TRY(node_new(&node, id, name, ranks, n_ranks, err));
    node->group.index = index;
    node->stream.comm = self;
    node->stream.tail = &node->stream.head;
    if (self->transport != NULL && self->transport->open_group != NULL) {
        const syn_status status = self->transport->open_group(comm, &node->group, err);
        if (status != SYN_OK) {
            syn_free(node);
            return status;
        }
    }
    node->next = self->nodes;
    self->nodes = node;
    *out = &node->group;
    return SYN_OK;
}

void syn__comm_close_groups(syn__comm *comm) {
    for (syn__group_node *n = comm->nodes; n != NULL; n = n->next)
        comm->transport->close_group(&comm->pub, &n->group);
}

void syn__comm_add_user(syn_comm *comm) {
    atomic_fetch_add(&((syn__comm *)comm)->holds, 1);
}

void syn__comm_drop_user(syn_comm *comm) {
    syn__comm *self = (syn__comm *)comm;
    if (atomic_fetch_sub(&self->holds, 1) > 0) return;
    while (self->nodes != NULL) {
        syn__group_node *node = self->nodes;
        self->nodes = node->next;
        syn_free(node);
    }
    syn__comm_requests_free(self);
    syn_free(self);
}

bool syn__is_message(syn_comm_kind kind) {
    return kind == SYN_COMM_SEND || kind == SYN_COMM_RECV;
}

bool syn__has_part(syn_comm_kind kind) {
    return kind == SYN_COMM_ALL_GATHER || kind == SYN_COMM_REDUCE_SCATTER;
}

static bool reduces(syn_comm_kind kind) {
    return kind == SYN_COMM_ALL_REDUCE || kind == SYN_COMM_REDUCE_SCATTER;
}

/* Whether two calls agree in everything but the lengths of their segments. */
static bool equal_except_lengths(const syn__call_sig *a, const syn__call_sig *b) {
    const syn_comm_call *x = &a->comm_call, *y = &b->comm_call;
    if (x->kind != y->kind || x->group->id != y->group->id) return false;
    if (x->kind == SYN_COMM_BARRIER) return true;
    if (x->kind == SYN_COMM_ALL_TO_ALL) return x->dtype == y->dtype;
    return x->dtype == y->dtype && a->n_elems == b->n_elems &&
           (!reduces(x->kind) || x->reduce == y->reduce) &&
           (x->kind != SYN_COMM_BROADCAST || x->root == y->root);
}

bool syn__call_sig_equal(const syn__call_sig *a, const syn__call_sig *b) {
    /* The members of an all_to_all have different numbers of elements. */
    return equal_except_lengths(a, b) &&
           (a->cut == b->cut || a->comm_call.kind == SYN_COMM_ALL_TO_ALL);
}

/* Writes "all_reduce(sum, f32, 128 elements)", or "all_reduce(sum, f32, 128 elements in 3
   tensors)". For kinds with parts, writes the number of elements of a part. */
static void call_text(const syn__call_sig *sig, char *buf, size_t buf_bytes) {
    const syn_comm_call *x = &sig->comm_call;
    char reduce[16] = "", list[32] = "", last[32] = "";
    if (x->kind == SYN_COMM_BARRIER) {
        snprintf(buf, buf_bytes, "barrier()");
        return;
    }
    if (reduces(x->kind)) snprintf(reduce, sizeof reduce, "%s, ", syn_reduce_name(x->reduce));
    if (x->kind == SYN_COMM_BROADCAST) snprintf(last, sizeof last, ", root %d", (int)x->root);
    if (syn__is_message(x->kind)) snprintf(last, sizeof last, ", tag %d", (int)x->tag);
    const size_t n_elems = syn__has_part(x->kind) ? x->n_part : sig->n_elems;
    if (x->n_segments > 1) snprintf(list, sizeof list, " in %d tensors", (int)x->n_segments);
    snprintf(buf, buf_bytes, "%s(%s%s, %llu elements%s%s)", syn_comm_kind_name(x->kind), reduce,
             syn_dtype_name(x->dtype), (unsigned long long)n_elems, list, last);
}

char *syn__call_text(const syn__call_sig *sig, char *buf, size_t buf_bytes) {
    const syn_comm_call *x = &sig->comm_call;
    char text[128];
    call_text(sig, text, sizeof text);
    if (syn__is_message(x->kind))
        snprintf(buf, buf_bytes, "%s %s rank %d", text, x->kind == SYN_COMM_SEND ? "to" : "from",
                 (int)x->peer);
    else
        snprintf(buf, buf_bytes, "%s in group %.48s (#%llu)", text, x->group->name,
                 (unsigned long long)sig->seq);
    return buf;
}

void syn__mismatch_text(int32_t rank_a, const syn__call_sig *a, int32_t rank_b,
                        const syn__call_sig *b, char *buf, size_t buf_bytes) {
    const syn_comm_call *x = &a->comm_call, *y = &b->comm_call;
    char text_a[SYN__CALL_TEXT], text_b[SYN__CALL_TEXT];
    syn__call_text(a, text_a, sizeof text_a);
    if (!syn__is_message(x->kind) && !syn__is_message(y->kind) && x->group->id == y->group->id)
        call_text(b, text_b, sizeof text_b);
    else syn__call_text(b, text_b, sizeof text_b);
    const bool lengths =
        equal_except_lengths(a, b) && x->n_segments == y->n_segments && a->cut != b->cut;
    snprintf(buf, buf_bytes, "rank %d calls %s but rank %d calls %s%s", (int)rank_a, text_a,
             (int)rank_b, text_b, lengths ? " of different sizes" : "");
}
