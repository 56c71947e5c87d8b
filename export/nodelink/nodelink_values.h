/* Values of node-link JSON: each function turns the token that was read last into something typed,
   or reports what it should have been. */
#ifndef EXPORT_NODELINK_VALUES_H
#define EXPORT_NODELINK_VALUES_H

#include "export/nodelink/nodelink_found.h"
#include "syntorch/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A file being read. */
typedef struct syn__nodelink_file {
    syn_json json;
    syn__found found;
    syn_attribute *attributes; /* scratch, of the object being read */
    uint32_t *positions;       /* scratch, of the edge being read */
    size_t attributes_cap, positions_cap, n_attributes, n_positions;
    size_t hint; /* field met last: files list them in the same order again and again */
} syn__nodelink_file;

/* A copy in the arena, without U+0000. */
syn_status syn__take_text(syn__nodelink_file *r, const char *what, const char **out) SYN_MUST_USE;
/* Integers; a float without fraction counts as one. */
syn_status syn__take_i64(syn__nodelink_file *r, const char *what, int64_t min, int64_t max,
                         int64_t *out) SYN_MUST_USE;
syn_status syn__take_u64(syn__nodelink_file *r, const char *what, uint64_t *out) SYN_MUST_USE;
/* "r0.o12", "r0.t7", "g1.3", "end" */
syn_status syn__take_ref(syn__nodelink_file *r, const char *what, syn__found_ref *out) SYN_MUST_USE;
/* The index of a text in a list of names. */
syn_status syn__take_name(syn__nodelink_file *r, const char *key, const char *const *names,
                          size_t n_names, int32_t *out) SYN_MUST_USE;
/* Bits of SYN_TENSOR_PARAM, INPUT, STATE. */
syn_status syn__take_role(syn__nodelink_file *r, uint32_t *out) SYN_MUST_USE;
/* A value of syn__found_edge.kind. */
syn_status syn__take_edge_kind(syn__nodelink_file *r, uint32_t *out) SYN_MUST_USE;
/* rank and dims, not dtype */
syn_status syn__take_shape(syn__nodelink_file *r, syn_spec *spec) SYN_MUST_USE;
/* [axis, parts, index, count], none of them negative */
syn_status syn__take_shard(syn__nodelink_file *r, syn_shard *shard) SYN_MUST_USE;
/* Into r->attributes; values that are lists, other objects or null are passed over. */
syn_status syn__take_attributes(syn__nodelink_file *r, const char *what) SYN_MUST_USE;
/* The same, moved to the arena and the node. */
syn_status syn__keep_attributes(syn__nodelink_file *r, syn_node *node) SYN_MUST_USE;
/* Into r->positions. */
syn_status syn__take_positions(syn__nodelink_file *r) SYN_MUST_USE;
/* The list "copies", which comes next, into the found graph. */
syn_status syn__read_copies(syn__nodelink_file *r) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
