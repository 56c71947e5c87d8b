/* Groups, signatures and their sentences, shared by all communicators. */
#include "comm/comm_internal.h"
#include "syntorch/memory.h"

#include <stdio.h>
#include <string.h>

static syn_status check_group(const syn_comm *comm, uint32_t id, const char *name,
                              const int32_t *ranks, int32_t n_ranks, int32_t *index,
                              syn_error *err) {
    if (id < 1) return SYN_FAIL(err, SYN_E_INVALID, "group %.64s has id 0; ids start at 1", name);
    if (n_ranks < 1 || n_ranks > comm->size)
        return SYN_FAIL(err, SYN_E_INVALID, "group %.64s has %d ranks in a world of %d", name,
                        (int)n_ranks, (int)comm->size);
    uint8_t *seen = syn_calloc((size_t)comm->size, 1);
    if (seen == NULL) return SYN_FAIL_NOMEM(err, comm->size, "checking a group");
    syn_status status = SYN_OK;
    *index = -1;
    for (int32_t i = 0; i < n_ranks && status == SYN_OK; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->size)
            status = SYN_FAIL(err, SYN_E_INVALID, "group %.64s names rank %d in a world of %d",
                              name, (int)ranks[i], (int)comm->size);
        else if (seen[ranks[i]]++)
            status = SYN_FAIL(err, SYN_E_INVALID, "group %.64s names rank %d twice", name,
                              (int)ranks[i]);
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
    syn__group_node *node = syn_malloc(bytes);
    if (node == NULL) return SYN_FAIL_NOMEM(err, bytes, "a group");
    int32_t *own_ranks = (int32_t *)(void *)(node + 1);
    char *own_name = (char *)own_ranks + ranks_bytes;
    memcpy(own_ranks, ranks, ranks_bytes);
    memcpy(own_name, name, name_bytes);
    *node = (syn__group_node){
        .group = {.id = id, .name = own_name, .ranks = own_ranks, .size = n_ranks}};
    *out = node;
    return SYN_OK;
}

/* An id opened before: the same group again, or an error. */
static syn_status reopen(syn_group *group, const char *name, const int32_t *ranks, int32_t n_ranks,
                         syn_group **out, syn_error *err) {
    if (group->size != n_ranks ||
        memcmp(group->ranks, ranks, (size_t)n_ranks * sizeof(int32_t)) != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "group id %u is %.64s with %d ranks; it cannot also be %.64s with %d ranks "
                        "or another order",
                        (unsigned)group->id, group->name, (int)group->size, name, (int)n_ranks);
    *out = group;
    return SYN_OK;
}

static syn_group *find_group(const syn__comm *self, uint32_t id) {
    for (syn__group_node *n = self->nodes; n != NULL; n = n->next)
        if (n->group.id == id) return &n->group;
    return NULL;
}

const syn_group *syn_comm_group(const syn_comm *comm, uint32_t id) {
    return find_group((const syn__comm *)comm, id);
}

syn_status syn_comm_open_group(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                               int32_t n_ranks, syn_group **out, syn_error *err) {
    syn__comm *self = (syn__comm *)comm;
    int32_t index = 0;
    SYN_TRY(check_group(comm, id, name, ranks, n_ranks, &index, err));
    syn_group *known = find_group(self, id);
    if (known != NULL) return reopen(known, name, ranks, n_ranks, out, err);
    syn__group_node *node = NULL;
    SYN_TRY(node_new(&node, id, name, ranks, n_ranks, err));
    node->group.index = index;
    if (comm->ops->open_group != NULL) {
        const syn_status status = comm->ops->open_group(comm, &node->group, err);
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
        comm->pub.ops->close_group(&comm->pub, &n->group);
}

void syn_comm_close(syn_comm *comm) {
    if (comm == NULL) return;
    comm->ops->close(comm);
    comm->closed = true;
    syn__comm_release(comm);
}

void syn__comm_hold(syn_comm *comm) {
    if (comm != NULL) atomic_fetch_add(&((syn__comm *)comm)->holds, 1);
}

void syn__comm_release(syn_comm *comm) {
    syn__comm *self = (syn__comm *)comm;
    if (self == NULL || atomic_fetch_sub(&self->holds, 1) > 0) return;
    while (self->nodes != NULL) {
        syn__group_node *node = self->nodes;
        self->nodes = node->next;
        syn_free(node);
    }
    syn_free(self);
}

bool syn__call_equal(const syn__call *a, const syn__call *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->reduce == b->reduce &&
           a->root == b->root && a->n_elems == b->n_elems && a->group_id == b->group_id;
}

char *syn__call_text(const syn__call *call, char *buf, size_t buf_bytes) {
    char reduce[16] = "", root[32] = "";
    if (call->kind == SYN_COMM_BARRIER) {
        snprintf(buf, buf_bytes, "barrier()");
        return buf;
    }
    if (call->reduce >= 0)
        snprintf(reduce, sizeof reduce, "%s, ", syn_reduce_name((syn_reduce)call->reduce));
    if (call->root >= 0) snprintf(root, sizeof root, ", root %d", (int)call->root);
    if (call->peer >= 0) snprintf(root, sizeof root, ", tag %d", (int)call->tag);
    snprintf(buf, buf_bytes, "%s(%s%s, %llu elements%s)", syn_comm_kind_name(call->kind), reduce,
             syn_dtype_name(call->dtype), (unsigned long long)call->n_elems, root);
    return buf;
}

char *syn__call_place(const syn__call *call, char *buf, size_t buf_bytes) {
    char text[SYN__CALL_TEXT];
    syn__call_text(call, text, sizeof text);
    if (call->group != NULL)
        snprintf(buf, buf_bytes, "%s in group %.48s (#%llu)", text, call->group,
                 (unsigned long long)call->seq);
    else
        snprintf(buf, buf_bytes, "%s %s rank %d", text, call->kind == SYN_COMM_SEND ? "to" : "from",
                 (int)call->peer);
    return buf;
}

void syn__mismatch_text(int32_t rank_a, const syn__call *a, int32_t rank_b, const syn__call *b,
                        char *buf, size_t buf_bytes) {
    char text_a[SYN__PLACE_TEXT], text_b[SYN__PLACE_TEXT];
    syn__call_place(a, text_a, sizeof text_a);
    if (a->group != NULL && a->group_id == b->group_id) syn__call_text(b, text_b, sizeof text_b);
    else syn__call_place(b, text_b, sizeof text_b);
    snprintf(buf, buf_bytes, "rank %d calls %s but rank %d calls %s", (int)rank_a, text_a,
             (int)rank_b, text_b);
}

syn_status syn__check_peer(const syn_comm *comm, const char *what, int32_t peer, int32_t tag,
                           syn_error *err) {
    if (peer < 0 || peer >= comm->size)
        return SYN_FAIL(err, SYN_E_INVALID, "rank %d: %s names rank %d in a world of %d",
                        (int)comm->rank, what, (int)peer, (int)comm->size);
    if (tag < 0)
        return SYN_FAIL(err, SYN_E_INVALID, "rank %d: %s has tag %d; tags are not negative",
                        (int)comm->rank, what, (int)tag);
    return SYN_OK;
}

syn_status syn__message_new(syn__message **out, const void *data, size_t n_elems, syn_dtype dtype,
                            int32_t src, int32_t tag, syn_error *err) {
    const size_t data_bytes = n_elems * syn_dtype_bytes(dtype);
    syn__message *message = syn_malloc(sizeof *message + data_bytes);
    if (message == NULL) return SYN_FAIL_NOMEM(err, sizeof *message + data_bytes, "a sent message");
    *message = (syn__message){
        .src = src, .tag = tag, .dtype = dtype, .n_elems = n_elems, .data = message + 1};
    if (data_bytes > 0) memcpy(message->data, data, data_bytes);
    *out = message;
    return SYN_OK;
}

void syn__mailbox_init(syn__mailbox *box) {
    box->head = NULL;
    box->tail = &box->head;
}

void syn__mailbox_put(syn__mailbox *box, syn__message *message) {
    message->next = NULL;
    *box->tail = message;
    box->tail = &message->next;
}

const syn__message *syn__mailbox_find(const syn__mailbox *box, int32_t src, int32_t tag) {
    const syn__message *m = box->head;
    while (m != NULL && (m->src != src || m->tag != tag)) m = m->next;
    return m;
}

syn__message *syn__mailbox_take(syn__mailbox *box, int32_t src, int32_t tag) {
    syn__message **link = &box->head;
    while (*link != NULL && ((*link)->src != src || (*link)->tag != tag)) link = &(*link)->next;
    syn__message *message = *link;
    if (message == NULL) return NULL;
    *link = message->next;
    if (message->next == NULL) box->tail = link;
    return message;
}

void syn__mailbox_free(syn__mailbox *box) {
    while (box->head != NULL) {
        syn__message *message = box->head;
        box->head = message->next;
        syn_free(message);
    }
    box->tail = &box->head;
}
