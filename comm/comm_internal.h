/* Internal declarations that all communicators share. */
#ifndef COMM_COMM_INTERNAL_H
#define COMM_COMM_INTERNAL_H

#include "syntorch/base/clock.h"
#include "syntorch/communicator_private.h"

/* The signature of one call: the operation that a rank calls, and the call's number. Members of a
   group compare their signatures. */
typedef struct syn__call_sig {
    syn_comm_call comm_call;
    size_t n_elems; /* number of elements of all segments together */
    uint64_t cut;   /* hash of the segments' lengths */
    uint64_t seq;   /* counts the group's collectives from 1; 0 for messages */
} syn__call_sig;

/* Whether the kind is SEND or RECV. */
bool syn__is_message(syn_comm_kind kind);
/* Whether the kind uses syn_comm_call.part. */
bool syn__has_part(syn_comm_kind kind);
/* Whether two collectives agree in everything that the members of a group must agree on. */
bool syn__call_sig_equal(const syn__call_sig *a, const syn__call_sig *b);
/* Describes a call in buf, such as "all_reduce(sum, f32, 128 elements) in group tp0 (#7)" or "...
   from rank 1". Returns buf. */
#define SYN__CALL_TEXT 224
char *syn__call_text(const syn__call_sig *sig, char *buf, size_t buf_bytes);
/* Describes a mismatch: "rank 0 calls ... in group tp0 (#7) but rank 1 calls ...". */
void syn__mismatch_text(int32_t rank_a, const syn__call_sig *a, int32_t rank_b,
                        const syn__call_sig *b, char *buf, size_t buf_bytes);
/* Fails with an error message that describes the mismatch, unless the send and the receive of a
   message agree in dtype and number of elements. */
syn_status syn__compare_ends(int32_t from, const syn__call_sig *send, int32_t to,
                             const syn__call_sig *recv, syn_error *err) SYN_MUST_USE;
/* Fails if the peer of a message is not in the world, or if the message's tag is negative. */
syn_status syn__check_peer(const syn_comm *comm, const syn_comm_call *message,
                           syn_error *err) SYN_MUST_USE;

/* A message that was sent before its receive was posted. */
typedef struct syn__unexpected {
    struct syn__unexpected *next;
    int32_t from;
    syn__call_sig send; /* its segment is not valid */
    void *data;         /* the elements, in the same allocation */
} syn__unexpected;

/* The mailbox of one rank: messages without a receive, and receives without a message. For a given
   source and tag, the mailbox never has both. */
typedef struct syn__mailbox {
    syn__unexpected *unexpected, **last_unexpected;
    syn_request *waiting, **last_waiting;
} syn__mailbox;

/* Allocates an unexpected message and copies the elements of `send` to it. */
syn_status syn__unexpected_new(syn__unexpected **out, int32_t from, const syn__call_sig *send,
                               syn_error *err);
void syn__mailbox_init(syn__mailbox *box);
/* Appends a message without a receive. */
void syn__mailbox_add_message(syn__mailbox *box, syn__unexpected *message);
/* Removes and returns the oldest message that matches the receive; NULL if there is none. */
syn__unexpected *syn__mailbox_match_message(syn__mailbox *box, const syn_comm_call *recv);
/* Appends a receive without a message. */
void syn__mailbox_add_receive(syn__mailbox *box, syn_request *recv);
/* Removes and returns the oldest receive that matches source and tag; NULL if there is none. */
syn_request *syn__mailbox_match_receive(syn__mailbox *box, int32_t from, int32_t tag);
/* Removes a receive if it is still in the mailbox. */
void syn__mailbox_remove_receive(syn__mailbox *box, syn_request *recv);
/* Frees the messages; the receives belong to their communicator. */
void syn__mailbox_free(syn__mailbox *box);

/* Sets outs[o][i] to the reduction of ins[k][i] over all k, in the order of k, for each o and for i
   in [begin, begin + n_elems). An outs[o] may equal an ins[k]; otherwise the arrays must not
   overlap. */
void syn__reduce(const void *const *ins, int32_t n_ins, void *const *outs, int32_t n_outs,
                 size_t begin, size_t n_elems, syn_dtype dtype, syn_reduce reduce);

/* For transports that cannot reduce every dtype. syn__wide_dtype returns the dtype to reduce in:
   f32 for f16 and bf16, i64 for averages of i32, otherwise dtype itself. syn__wide_load converts
   elements [at, at + n_elems) of `in` to this dtype, syn__wide_divide divides by the number of
   ranks (`by`), and syn__wide_store converts back. */
syn_dtype syn__wide_dtype(syn_dtype dtype, syn_reduce reduce);
void syn__wide_load(const void *in, size_t at, void *wide, size_t n_elems, syn_dtype dtype,
                    syn_reduce reduce);
void syn__wide_divide(void *wide, size_t n_elems, syn_dtype dtype, int32_t by);
void syn__wide_store(const void *wide, void *out, size_t at, size_t n_elems, syn_dtype dtype,
                     syn_reduce reduce);

#endif
