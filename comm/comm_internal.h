/* What the communicators share among themselves. */
#ifndef COMM_COMM_INTERNAL_H
#define COMM_COMM_INTERNAL_H

#include "syntorch/base/clock.h"
#include "syntorch/communicator_private.h"

/* What one rank calls, and when. */
typedef struct syn__turn {
    syn_exchange exchange;
    size_t n_elems; /* of all segments */
    uint64_t cut;   /* equal for those whose segments have the same lengths */
    uint64_t seq;   /* 1 for the first collective of the group; 0 for messages */
} syn__turn;

bool syn__is_message(syn_comm_kind kind);
/* Collectives that are equal in all that members of a group must agree on. */
bool syn__turn_equal(const syn__turn *a, const syn__turn *b);
/* "all_reduce(sum, f32, 128 elements) in group tp0 (#7)", "... from rank 1"; returns buf. */
#define SYN__PLACE_TEXT 224
char *syn__turn_place(const syn__turn *turn, char *buf, size_t buf_bytes);
/* "rank 0 calls ... in group tp0 (#7) but rank 1 calls ..." */
void syn__mismatch_text(int32_t rank_a, const syn__turn *a, int32_t rank_b, const syn__turn *b,
                        char *buf, size_t buf_bytes);
/* Fails with that sentence unless both ends of a message say the same. */
syn_status syn__compare_ends(int32_t from, const syn__turn *send, int32_t to, const syn__turn *recv,
                             syn_error *err) SYN_MUST_USE;
/* Fails if the peer of a message is outside the world or its tag negative. */
syn_status syn__check_peer(const syn_comm *comm, const syn_exchange *message,
                           syn_error *err) SYN_MUST_USE;

/* A sent message that nobody has asked for yet. */
typedef struct syn__letter {
    struct syn__letter *next;
    int32_t from;
    syn__turn send; /* without its segment */
    void *data;     /* in the same block */
} syn__letter;

/* Of one rank: letters, and receives that wait for one; of one (source, tag) never both. */
typedef struct syn__mailbox {
    syn__letter *letters, **last_letter;
    syn_request *waiting, **last_waiting;
} syn__mailbox;

/* Copies the elements that `send` names. */
syn_status syn__letter_new(syn__letter **out, int32_t from, const syn__turn *send, syn_error *err);
void syn__mailbox_init(syn__mailbox *box);
void syn__mailbox_put(syn__mailbox *box, syn__letter *letter);
/* Takes out the oldest letter that the receive asks for, or NULL. */
syn__letter *syn__mailbox_take(syn__mailbox *box, const syn_exchange *recv);
void syn__mailbox_wait(syn__mailbox *box, syn_request *recv);
/* Takes out the oldest receive that waits for such a message, or NULL. */
syn_request *syn__mailbox_receiver(syn__mailbox *box, int32_t from, int32_t tag);
void syn__mailbox_forget(syn__mailbox *box, syn_request *recv);
void syn__mailbox_free(syn__mailbox *box);

/* outs[o][i] = reduction over k of ins[k][i], in the order of k, for i in [begin, begin + n_elems).
   Any outs[o] may be the same pointer as an ins[k]; otherwise nothing overlaps. */
void syn__reduce(const void *const *ins, int32_t n_ins, void *const *outs, int32_t n_outs,
                 size_t begin, size_t n_elems, syn_dtype dtype, syn_reduce reduce);

/* For transports that cannot reduce every dtype: the one to reduce in (f32 for halves, i64 for an
   average of i32, else the same); elements [at, at + n_elems) of in to it; division by the number
   of ranks; and back. */
syn_dtype syn__wide_dtype(syn_dtype dtype, syn_reduce reduce);
void syn__wide_load(const void *in, size_t at, void *wide, size_t n_elems, syn_dtype dtype,
                    syn_reduce reduce);
void syn__wide_divide(void *wide, size_t n_elems, syn_dtype dtype, int32_t by);
void syn__wide_store(const void *wide, void *out, size_t at, size_t n_elems, syn_dtype dtype,
                     syn_reduce reduce);

#endif
