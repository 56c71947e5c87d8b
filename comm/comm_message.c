/* Matching of messages within one process: mailboxes of messages and receives. */
#include "comm/comm_request.h"
#include "syntorch/base/memory.h"

#include <string.h>

syn_status syn__check_peer(const syn_comm *comm, const syn_comm_call *message, syn_error *err) {
    const char *what = syn_comm_kind_name(message->kind);
    if (message->peer < 0 || message->peer >= comm->size)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "rank %d: %s refers to rank %d, which does not exist in a world of %d ranks",
            (int)comm->rank, what, (int)message->peer, (int)comm->size);
    if (message->tag < 0)
        return SYN_FAIL(err, SYN_E_INVALID, "rank %d: %s has tag %d, but tags must be at least 0",
                        (int)comm->rank, what, (int)message->tag);
    return SYN_OK;
}

syn_status syn__compare_ends(int32_t from, const syn__call_sig *send, int32_t to,
                             const syn__call_sig *recv, syn_error *err) {
    if (send->comm_call.dtype == recv->comm_call.dtype && send->n_elems == recv->n_elems)
        return SYN_OK;
    char sentence[SYN_ERROR_TEXT];
    syn__mismatch_text(from, send, to, recv, sentence, sizeof sentence);
    return SYN_FAIL(err, SYN_E_COMM, "%s", sentence);
}

syn_status syn__unexpected_new(syn__unexpected **out, int32_t from, const syn__call_sig *send,
                               syn_error *err) {
    const size_t data_bytes = send->n_elems * syn_dtype_bytes(send->comm_call.dtype);
    syn__unexpected *message = syn_malloc(sizeof *message + data_bytes);
    if (message == NULL) return SYN_FAIL_NOMEM(err, sizeof *message + data_bytes, "a sent message");
    *message = (syn__unexpected){.from = from, .send = *send, .data = message + 1};
    message->send.comm_call.segments = NULL;
    if (data_bytes > 0) memcpy(message->data, send->comm_call.segments->in, data_bytes);
    *out = message;
    return SYN_OK;
}

void syn__mailbox_init(syn__mailbox *box) {
    box->unexpected = NULL;
    box->last_unexpected = &box->unexpected;
    box->waiting = NULL;
    box->last_waiting = &box->waiting;
}

void syn__mailbox_add_message(syn__mailbox *box, syn__unexpected *message) {
    message->next = NULL;
    *box->last_unexpected = message;
    box->last_unexpected = &message->next;
}

syn__unexpected *syn__mailbox_match_message(syn__mailbox *box, const syn_comm_call *recv) {
    syn__unexpected **link = &box->unexpected;
    while (*link != NULL &&
           ((*link)->from != recv->peer || (*link)->send.comm_call.tag != recv->tag))
        link = &(*link)->next;
    syn__unexpected *message = *link;
    if (message == NULL) return NULL;
    *link = message->next;
    if (message->next == NULL) box->last_unexpected = link;
    return message;
}

void syn__mailbox_add_receive(syn__mailbox *box, syn_request *recv) {
    recv->next = NULL;
    *box->last_waiting = recv;
    box->last_waiting = &recv->next;
}

static syn_request *unlink_waiting(syn__mailbox *box, syn_request **link) {
    syn_request *recv = *link;
    if (recv == NULL) return NULL;
    *link = recv->next;
    if (recv->next == NULL) box->last_waiting = link;
    return recv;
}

syn_request *syn__mailbox_match_receive(syn__mailbox *box, int32_t from, int32_t tag) {
    syn_request **link = &box->waiting;
    while (*link != NULL &&
           ((*link)->sig.comm_call.peer != from || (*link)->sig.comm_call.tag != tag))
        link = &(*link)->next;
    return unlink_waiting(box, link);
}

void syn__mailbox_remove_receive(syn__mailbox *box, syn_request *recv) {
    syn_request **link = &box->waiting;
    while (*link != NULL && *link != recv) link = &(*link)->next;
    unlink_waiting(box, link);
}

void syn__mailbox_free(syn__mailbox *box) {
    while (box->unexpected != NULL) {
        syn__unexpected *message = box->unexpected;
        box->unexpected = message->next;
        syn_free(message);
    }
    syn__mailbox_init(box);
}
