/* What the communicators share among themselves. */
#ifndef COMM_COMM_INTERNAL_H
#define COMM_COMM_INTERNAL_H

#include "syntorch/clock.h"
#include "syntorch/communicator.h"

#include <stdatomic.h>

/* Every communicator begins with this: groups are allocated one by one, so that pointers to them
   stay valid while more are opened. */
typedef struct syn__group_node {
    struct syn__group_node *next;
    syn_group group; /* its name and ranks lie in the same block */
} syn__group_node;

typedef struct syn__comm {
    syn_comm pub;
    syn__group_node *nodes; /* newest first */
    _Atomic int32_t holds;  /* besides one: of contexts, and the opener's until it is closed */
} syn__comm;

/* close_group of all groups, for communicators that have it. */
void syn__comm_close_groups(syn__comm *comm);

/* What one rank calls: the signature that members of a group compare. */
typedef struct syn__call {
    syn_comm_kind kind;
    syn_dtype dtype;
    int32_t reduce; /* -1: none */
    int32_t root;   /* index within the group, -1: none */
    int32_t peer;   /* global rank, send and recv only */
    int32_t tag;
    uint64_t n_elems;
    const char *group; /* name; NULL for send and recv */
    uint32_t group_id;
    uint64_t seq; /* 1 for the first call in the group */
} syn__call;

/* Equal in all that members must agree on. */
bool syn__call_equal(const syn__call *a, const syn__call *b);
/* "all_reduce(sum, f32, 128 elements)"; returns buf. */
#define SYN__CALL_TEXT 128
char *syn__call_text(const syn__call *call, char *buf, size_t buf_bytes);
/* The same with its place: "... in group tp0 (#7)", "... from rank 1". */
#define SYN__PLACE_TEXT 224
char *syn__call_place(const syn__call *call, char *buf, size_t buf_bytes);
/* "rank 0 calls ... in group tp0 (#7) but rank 1 calls ..." */
void syn__mismatch_text(int32_t rank_a, const syn__call *a, int32_t rank_b, const syn__call *b,
                        char *buf, size_t buf_bytes);
/* Fails if a peer is outside the world or a tag negative; `what` is "send" or "recv". */
syn_status syn__check_peer(const syn_comm *comm, const char *what, int32_t peer, int32_t tag,
                           syn_error *err) SYN_MUST_USE;

/* A sent message that waits for its receiver. */
typedef struct syn__message {
    struct syn__message *next;
    int32_t src, tag;
    syn_dtype dtype;
    size_t n_elems;
    void *data; /* in the same block */
} syn__message;

typedef struct syn__mailbox {
    syn__message *head, **tail;
} syn__mailbox;

syn_status syn__message_new(syn__message **out, const void *data, size_t n_elems, syn_dtype dtype,
                            int32_t src, int32_t tag, syn_error *err) SYN_MUST_USE;
void syn__mailbox_init(syn__mailbox *box);
void syn__mailbox_put(syn__mailbox *box, syn__message *message);
/* The oldest message of (src, tag), or NULL; take also unlinks it. */
const syn__message *syn__mailbox_find(const syn__mailbox *box, int32_t src, int32_t tag);
syn__message *syn__mailbox_take(syn__mailbox *box, int32_t src, int32_t tag);
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
