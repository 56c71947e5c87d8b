/* A syn_graph from the messages of execution traces: et_build.c (graph, metadata, dependencies),
   et_groups.c, et_semantics.c (what a node's attributes mean). */
#ifndef EXPORT_ET_BUILD_H
#define EXPORT_ET_BUILD_H

#include "export/chakra/et_index.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__et_builder syn__et_builder;

/* The ranks are global numbers, one per file to come. */
syn_status syn__et_builder_new(syn__et_builder **out, const int32_t *ranks, uint32_t n_ranks,
                               syn_error *err);
/* {"<id>": [ranks...]} of a set. Before the files. */
syn_status syn__et_builder_groups(syn__et_builder *b, const char *name, const char *data,
                                  size_t bytes, syn_error *err);
/* The messages of the rank with that index, in order of the indices. `name` begins error sentences;
   they name byte offsets if `is_file`. */
syn_status syn__et_builder_add(syn__et_builder *b, uint32_t rank, const char *name,
                               const char *data, size_t bytes, bool is_file, syn_error *err);
/* Ends building: *out is the caller's, the builder is gone in any case. NULL out discards. */
syn_status syn__et_builder_finish(syn__et_builder *b, syn_graph **out, syn_error *err);

/* ---- Inside ---- */

typedef struct syn__et_group {
    uint32_t id;
    char *name; /* NULL until some file has it */
    int32_t *ranks;
    size_t n_ranks;
    bool is_listed;   /* so far comm_group.json alone has it, in the order for simulators */
    uint32_t n_comms; /* of the present rank */
    bool member;      /* the present rank is in it */
} syn__et_group;

struct syn__et_builder {
    syn_graph *graph;
    syn__et_group *groups; /* ascending by id */
    size_t n_groups, groups_cap;
    int32_t world_size; /* as a file says; 0 unknown */
    int32_t world_seen; /* greatest rank met, plus one */
    syn__arena arena;
    syn__et_decoder decoder;
    syn_dep *deps;
    size_t deps_cap;
    syn_attribute *attributes; /* of the present node */
    size_t n_attributes, attributes_cap;
    int32_t rank;        /* present, global */
    uint32_t n_messages; /* its sends and receives so far */
    bool has_start;
    bool whole_names; /* slashes do not part scopes from labels */
};

void syn__et_note_rank(syn__et_builder *b, int32_t rank);
/* Takes a metadata attribute "pg.<id>" into the groups; *taken false for any other. */
syn_status syn__et_take_group(syn__et_builder *b, const syn__et_index *index, const syn__et_attr *a,
                              bool *taken, syn_error *err);
syn__et_group *syn__et_find_group(syn__et_builder *b, uint64_t id);
/* Resets what counts within one rank. */
void syn__et_begin_rank(syn__et_builder *b, uint32_t rank, const syn__et_index *index);
/* Everything of a node but its dependencies. Holds until the arena's reset. */
syn_status syn__et_to_graph(syn__et_builder *b, const syn__et_node *message, syn_node *out,
                            syn_error *err);

#ifdef __cplusplus
}
#endif
#endif
