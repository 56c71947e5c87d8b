/* Readers of values in node-link JSON. Each function converts the token that was read last to a
   typed value, or fails with a message that says what it should have been. */
#ifndef EXPORT_NODELINK_VALUES_H
#define EXPORT_NODELINK_VALUES_H

#include "export/nodelink/nodelink_found.h"
#include "syntorch/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The state of reading a file. */
typedef struct syn__nodelink_file {
    syn_json json;
    syn__found found;
    syn_attribute *attributes; /* scratch memory for the current object */
    uint32_t *positions;       /* scratch memory for the current edge */
    size_t attributes_cap, positions_cap, n_attributes, n_positions;
    size_t hint; /* index of the field that was read last; files repeat their fields in the same
                    order, so the search for the next field starts here */
} syn__nodelink_file;

/* Copies a string to the arena, without U+0000. */
syn_status syn__take_text(syn__nodelink_file *r, const char *what, const char **out) SYN_MUST_USE;
/* Read an integer. A float without a fraction is accepted. */
syn_status syn__take_i64(syn__nodelink_file *r, const char *what, int64_t min, int64_t max,
                         int64_t *out) SYN_MUST_USE;
syn_status syn__take_u64(syn__nodelink_file *r, const char *what, uint64_t *out) SYN_MUST_USE;
/* Reads the key of a member, which must be an integer. */
syn_status syn__take_key(syn__nodelink_file *r, const char *what, int64_t min, int64_t max,
                         int64_t *out) SYN_MUST_USE;
/* Reads "r0.o12", "r0.t7", "g1.3" or "end". */
syn_status syn__take_ref(syn__nodelink_file *r, const char *what, syn__found_ref *out) SYN_MUST_USE;
/* Reads a string and finds its index in a list of names. */
syn_status syn__take_name(syn__nodelink_file *r, const char *key, const char *const *names,
                          size_t n_names, int32_t *out) SYN_MUST_USE;
/* Reads the flags SYN_TENSOR_PARAM, SYN_TENSOR_INPUT and SYN_TENSOR_STATE. */
syn_status syn__take_role(syn__nodelink_file *r, uint32_t *out) SYN_MUST_USE;
/* Reads a value of syn__found_edge.kind. */
syn_status syn__take_edge_kind(syn__nodelink_file *r, uint32_t *out) SYN_MUST_USE;
/* Reads the number of dimensions and their sizes, not the dtype. */
syn_status syn__take_shape(syn__nodelink_file *r, syn_spec *spec) SYN_MUST_USE;
/* Reads [axis, parts, index, count], none of which may be negative. */
syn_status syn__take_shard(syn__nodelink_file *r, syn_shard *shard) SYN_MUST_USE;
/* Reads attributes to r->attributes. Values that are lists, other objects or null are skipped. */
syn_status syn__take_attributes(syn__nodelink_file *r, const char *what) SYN_MUST_USE;
/* Reads attributes, moves them to the arena and sets the node's attributes. */
syn_status syn__keep_attributes(syn__nodelink_file *r, syn_node *node) SYN_MUST_USE;
/* Reads a list of positions to r->positions. */
syn_status syn__take_positions(syn__nodelink_file *r) SYN_MUST_USE;
/* Reads the list "copies", whose value comes next, into r->found. */
syn_status syn__read_copies(syn__nodelink_file *r) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
