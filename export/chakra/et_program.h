/* One rank's execution trace, encoded once so that the traces of similar ranks can be written
   quickly: runs of bytes that are the same on all these ranks, and between them slots, which
   contain the names of groups or the numbers of ranks. A slot may change the length of its message,
   so the lengths of messages with slots are written for each rank. */
#ifndef EXPORT_ET_PROGRAM_H
#define EXPORT_ET_PROGRAM_H

#include "export/chakra/et_walk.h"
#include "syntorch/mesh.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a slot contains: the id and name of a group with the rank of its root, or the source and
   destination of a message, or the stream of a message. */
typedef struct syn__et_slot {
    syn_mesh_kind kind; /* of the group; messages: SYN_MESH_PP, SYN_MESH_CP or SYN_MESH_CP_P2P */
    enum { COLLECTIVE, SEND, RECV, SEND_STREAM, RECV_STREAM } use;
    int32_t index; /* of the root or peer within the group; -1: no root */
} syn__et_slot;

#define SYN__ET_PLACES 2 /* maximum number of slots in a message */

/* A run of whole messages, followed by a message with slots. */
typedef struct syn__et_piece {
    size_t plain;                     /* bytes of the run, with the lengths of its messages */
    size_t parts[SYN__ET_PLACES + 1]; /* bytes of the message before, between and after its slots */
    uint32_t slots[SYN__ET_PLACES], n; /* n: number of slots */
} syn__et_piece;

typedef struct syn__et_program {
    syn__buf bytes;
    syn__et_piece *pieces;
    size_t n_pieces, pieces_cap;
    syn__et_slot *slots;
    size_t n_slots, slots_cap;
    uint64_t nodes;
    bool used[SYN_MESH_KINDS]; /* the groups of the recorded rank's graph */
} syn__et_program;

/* One rank's slots, encoded one after another. Slot i ends at ends[i]. */
typedef struct syn__et_filled {
    syn__buf bytes;
    size_t *ends;
} syn__et_filled;

/* Encodes all nodes of a walk whose metadata was read. groups: those of the walk's rank. */
syn_status syn__et_program_encode(syn__et_program *program, syn__et_walk *walk,
                                  const syn_mesh_group *groups, syn_error *err) SYN_MUST_USE;
/* The same for nodes that were written before: the messages of a file. name: of the file, for
   errors. */
syn_status syn__et_program_encode_again(syn__et_program *program, const char *name,
                                        syn__str messages, const syn_mesh_group *groups,
                                        syn_error *err) SYN_MUST_USE;
void syn__et_program_free(syn__et_program *program);

/* Fills the slots for a rank with the given groups. filled->ends has program->n_slots elements. */
syn_status syn__et_program_fill(syn__et_filled *filled, const syn__et_program *program,
                                const syn_mesh_group *groups, int32_t rank,
                                syn_error *err) SYN_MUST_USE;
/* The number of bytes that syn__et_program_write writes. */
uint64_t syn__et_program_bytes(const syn__et_program *program, const syn__et_filled *filled);
void syn__et_program_write(const syn__et_program *program, const syn__et_filled *filled,
                           syn_sink *sink);

/* Appends a message with its length. */
void syn__et_put_message(syn__buf *out, const syn__buf *message);
/* The index of a rank in a group; -1: it is not in the group, or there is no group. */
int32_t syn__et_index_in(const syn_mesh_group *group, int64_t rank);

#ifdef __cplusplus
}
#endif
#endif
