/* Collects the process groups that one rank knows. */
#ifndef EXPORT_PT_GROUPS_H
#define EXPORT_PT_GROUPS_H

#include "export/pytorch/comm/pt_call_facts.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_group_finder {
    syn__pt_rank *rank;
    syn_pytorch_note *notes;
    syn_error *err;
    syn__pt_map names;       /* hash of the name -> index into rank->groups */
    syn__pt_map backends;    /* backend number -> index into rank->groups */
    syn__str *last;          /* per group: the text of the list of ranks that was read last */
    uint8_t *source, *clash; /* per group: the source of its ranks; whether a contradiction between
                                sources was counted */
    size_t last_cap, source_cap, clash_cap;
} syn__pt_group_finder;

/* Reads the groups of process_group:init nodes and of distributedInfo. */
syn_status syn__pt_groups_open(syn__pt_group_finder *finder, syn__pt_rank *rank,
                               syn_pytorch_note *notes, syn_error *err) SYN_MUST_USE;
/* Finds or adds the group of a call. *group: index into rank->groups, or SYN__PT_NONE. */
syn_status syn__pt_groups_find(syn__pt_group_finder *finder, const syn__pt_properties *properties,
                               uint32_t *group) SYN_MUST_USE;
/* Derives the lists of ranks that are still unknown from the world size. */
syn_status syn__pt_groups_finish(syn__pt_group_finder *finder) SYN_MUST_USE;
void syn__pt_groups_close(syn__pt_group_finder *finder);

#ifdef __cplusplus
}
#endif
#endif
