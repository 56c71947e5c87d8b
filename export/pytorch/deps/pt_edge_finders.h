/* Declares the functions that find dependencies and have a source file of their own. pt_connect.c
   calls them, and finds all other dependencies itself. */
#ifndef EXPORT_PT_EDGE_FINDERS_H
#define EXPORT_PT_EDGE_FINDERS_H

#include "export/pytorch/deps/pt_edges.h"

#ifdef __cplusplus
extern "C" {
#endif

/* pt_linked_edges.c: dependencies that a linked trace lists. */
syn_status syn__pt_find_linked(syn__pt_connector *c) SYN_MUST_USE;
/* pt_sync.c: edges of class SYNC. */
syn_status syn__pt_find_syncs(syn__pt_connector *c) SYN_MUST_USE;
/* pt_waits.c: waits for detached communication, and their edges of class SYNC. */
syn_status syn__pt_find_waits(syn__pt_connector *c) SYN_MUST_USE;
/* pt_wakes.c: edges of class THREAD. */
syn_status syn__pt_find_wakes(syn__pt_connector *c) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
