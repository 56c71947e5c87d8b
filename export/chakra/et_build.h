/* Builds a syn_graph from the messages of execution traces. Sources: et_build.c (graph, metadata,
   dependencies), et_groups.c (groups), et_semantics.c (meaning of a node's attributes). */
#ifndef EXPORT_ET_BUILD_H
#define EXPORT_ET_BUILD_H

#include "export/chakra/et_index.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__et_builder syn__et_builder;

/* ranks: global rank numbers, one per file that will be added. */
syn_status syn__et_builder_new(syn__et_builder **out, const int32_t *ranks, uint32_t n_ranks,
                               syn_error *err);
/* Reads the groups of a trace set, {"<id>": [ranks...]}. Call it before adding files. */
syn_status syn__et_builder_groups(syn__et_builder *b, const char *name, const char *data,
                                  size_t bytes, syn_error *err);
/* Adds the messages of the rank with index `rank`. Ranks must be added in the order of their
   indices. `name` prefixes error messages, which include byte offsets if `is_file`. */
syn_status syn__et_builder_add(syn__et_builder *b, uint32_t rank, const char *name,
                               const char *data, size_t bytes, bool is_file, syn_error *err);
/* Finishes and frees the builder, also on failure. The caller owns *out. out NULL: discards the
   graph. */
syn_status syn__et_builder_finish(syn__et_builder *b, syn_graph **out, syn_error *err);

/* ---- Internal to these sources ---- */

typedef struct syn__et_group {
    uint32_t id;
    char *name; /* NULL until a file gives the name */
    int32_t *ranks;
    size_t n_ranks;
    bool is_listed;   /* only comm_group.json has listed the group so far; its ranks may be in ring
                         order (et_ring.h) */
    uint32_t n_comms; /* number of the group's communications on the current rank */
    bool member;      /* the current rank is a member */
} syn__et_group;

struct syn__et_builder {
    syn_graph *graph;
    syn__et_group *groups; /* ascending by id */
    size_t n_groups, groups_cap;
    int32_t world_size;     /* world size that a file gives; 0: unknown */
    int32_t min_world_size; /* highest rank number seen, plus one */
    syn__arena arena;
    syn__et_decoder decoder;
    syn_dep *deps;
    size_t deps_cap;
    syn_attribute *attributes; /* of the current node */
    size_t n_attributes, attributes_cap;
    int32_t rank;        /* current global rank */
    uint32_t n_messages; /* sends and receives of the current rank so far */
    bool has_start;
    bool keep_slashes; /* slashes in names do not separate scope and label */
};

void syn__et_extend_world(syn__et_builder *b, int32_t rank);
/* If `a` is a metadata attribute "pg.<id>", adds it to the groups and sets *taken; otherwise *taken
   is false. */
syn_status syn__et_read_group_attr(syn__et_builder *b, const syn__et_index *index,
                                   const syn__et_attr *a, bool *taken, syn_error *err);
syn__et_group *syn__et_find_group(syn__et_builder *b, uint64_t id);
/* Resets the per-rank members. */
void syn__et_begin_rank(syn__et_builder *b, uint32_t rank, const syn__et_index *index);
/* Converts a node except its dependencies. *out is valid until the arena is reset. */
syn_status syn__et_to_graph(syn__et_builder *b, const syn__et_node *message, syn_node *out,
                            syn_error *err);

#ifdef __cplusplus
}
#endif
#endif
