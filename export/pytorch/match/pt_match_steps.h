/* The steps of matching, in their order (pt_match.c). */
#ifndef EXPORT_PT_MATCH_STEPS_H
#define EXPORT_PT_MATCH_STEPS_H

#include "export/pytorch/match/pt_matcher.h"

#ifdef __cplusplus
extern "C" {
#endif

/* pt_align.c: pairs free nodes and events by name and order. */
syn_status syn__pt_align(syn__pt_matcher *m);

/* pt_launch.c: fills event_node of runtime and device events, launch, self_ns. */
syn_status syn__pt_find_launches(syn__pt_matcher *m);
/* pt_detach.c: pairs libraries' nodes and events that are free, by name and order, where there are
   as many of a name. */
syn_status syn__pt_pair_library_ops(syn__pt_matcher *m);
/* pt_detach.c: finds ops that ran in threads of communication libraries, and the true callers of
   those whose callers these, or a lost op, had muddled. */
syn_status syn__pt_find_detached(syn__pt_matcher *m);
/* pt_linked.c, of a trace that a linker has written: device nodes become events; they and host
   nodes find each other. */
syn_status syn__pt_split_linked(syn__pt_matcher *m);
syn_status syn__pt_take_linked(syn__pt_matcher *m);
/* pt_ops.c: makes the rank's ops and lanes of what was found. */
syn_status syn__pt_make_ops(syn__pt_matcher *m);

#ifdef __cplusplus
}
#endif
#endif
