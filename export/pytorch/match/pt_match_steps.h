/* The steps of matching, in the order in which pt_match.c runs them. */
#ifndef EXPORT_PT_MATCH_STEPS_H
#define EXPORT_PT_MATCH_STEPS_H

#include "export/pytorch/match/pt_matcher.h"

#ifdef __cplusplus
extern "C" {
#endif

/* pt_align.c: pairs the nodes and events that are still unmatched by name and order. */
syn_status syn__pt_align(syn__pt_matcher *m);

/* pt_launch.c: fills event_node of runtime events and device events, launch, and self_ns. */
syn_status syn__pt_find_launches(syn__pt_matcher *m);
/* pt_detach.c: pairs unmatched nodes and events of communication libraries by name and order. Only
   names that occur equally often in both files are used. */
syn_status syn__pt_pair_library_ops(syn__pt_matcher *m);
/* pt_detach.c: finds ops that ran on threads of communication libraries. Corrects the callers that
   are wrong in the trace because of these ops, or because an op is missing. */
syn_status syn__pt_find_detached(syn__pt_matcher *m);
/* pt_linked.c, for linked traces: syn__pt_split_linked makes events from the device nodes, and
   syn__pt_take_linked matches these events with the host nodes. */
syn_status syn__pt_split_linked(syn__pt_matcher *m);
syn_status syn__pt_take_linked(syn__pt_matcher *m);
/* pt_ops.c: makes the rank's ops and tracks from the matches. */
syn_status syn__pt_make_ops(syn__pt_matcher *m);

#ifdef __cplusplus
}
#endif
#endif
