/* The steps of matching, in the order in which pt_match.c runs them. */
#ifndef EXPORT_PT_MATCH_STEPS_H
#define EXPORT_PT_MATCH_STEPS_H

#include "export/pytorch/match/pt_matcher.h"

#ifdef __cplusplus
extern "C" {
#endif

/* pt_align.c: pairs unmatched nodes and events by name and order. */
syn_status syn__pt_align(syn__pt_matcher *m);

/* pt_launch.c: fills event_node of runtime and device events, launch and self_ns. */
syn_status syn__pt_find_launches(syn__pt_matcher *m);
/* pt_detach.c: pairs unmatched nodes and events of libraries by name and order, for names that both
   files have equally often. */
syn_status syn__pt_pair_library_ops(syn__pt_matcher *m);
/* pt_detach.c: finds ops that ran on threads of communication libraries, and corrects the callers
   that these ops, or a missing op, had confused. */
syn_status syn__pt_find_detached(syn__pt_matcher *m);
/* pt_linked.c, for linked traces: syn__pt_split_linked makes events of the device nodes;
   syn__pt_take_linked matches them with the host nodes. */
syn_status syn__pt_split_linked(syn__pt_matcher *m);
syn_status syn__pt_take_linked(syn__pt_matcher *m);
/* pt_ops.c: makes the rank's ops and lanes from the matches. */
syn_status syn__pt_make_ops(syn__pt_matcher *m);

#ifdef __cplusplus
}
#endif
#endif
