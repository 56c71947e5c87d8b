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
    if (send->exchange.dtype == recv->exchange.dtype && send->n_elems == recv->n_elems)
        return SYN_OK;
    char sentence[SYN_ERROR_TEXT];
    syn__mismatch_text(from, send, to, recv, sentence, sizeof sentence);
    return SYN_FAIL(err, SYN_E_COMM, "%s", sentence);
}

syn_status syn__unexpected_new(syn__unexpected **out, int32_t from, const syn__call_sig *send,
                               syn_error *err) {
    const size_t data_bytes = send->n_elems * syn_dtype_bytes(send->exchange.dtype);
    syn__unexpected *letter = syn_malloc(sizeof *letter + data_bytes);
    if (letter == NULL) return SYN_FAIL_NOMEM(err, sizeof *letter + data_bytes, "a sent message");
    *letter = (syn__unexpected){.from = from, .send = *send, .data = letter + 1};
    letter->send.exchange.segments = NULL;
    if (data_bytes > 0) memcpy(letter->data, send->exchange.segments->in, data_bytes);
    *out = letter;
    return SYN_OK;
}

void syn__mailbox_init(syn__mailbox *box) {
    box->letters = NULL;
    box->last_letter = &box->letters;
    box->waiting = NULL;
    box->last_waiting = &box->waiting;
}

void syn__mailbox_add_message(syn__mailbox *box, syn__unexpected *letter) {
    letter->next = NULL;
    *box->last_letter = letter;
    box->last_letter = &letter->next;
}

syn__unexpected *syn__mailbox_match_message(syn__mailbox *box, const syn_comm_call *recv) {
    syn__unexpected **link = &box->letters;
    while (*link != NULL &&
           ((*link)->from != recv->peer || (*link)->send.exchange.tag != recv->tag))
        link = &(*link)->next;
    syn__unexpected *letter = *link;
    if (letter == NULL) return NULL;
    *link = letter->next;
    if (letter->next == NULL) box->last_letter = link;
    return letter;
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
           ((*link)->turn.exchange.peer != from || (*link)->turn.exchange.tag != tag))
        link = &(*link)->next;
    return unlink_waiting(box, link);
}

void syn__mailbox_remove_receive(syn__mailbox *box, syn_request *recv) {
    syn_request **link = &box->waiting;
    while (*link != NULL && *link != recv) link = &(*link)->next;
    unlink_waiting(box, link);
}

void syn__mailbox_free(syn__mailbox *box) {
    while (box->letters != NULL) {
        syn__unexpected *letter = box->letters;
        box->letters = letter->next;
        syn_free(letter);
    }
    syn__mailbox_init(box);
}
