/* The critical path of one execution trace, for statistics. */
#ifndef EXPORT_ET_CRITICAL_H
#define EXPORT_ET_CRITICAL_H

#include "export/chakra/check/et_scan.h"
#include "export/statistics.h"
#include "export/walk/critical.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The next three functions set critical_micros and critical_nodes of statistics.

   The first is for one PyTorch trace, whose ops overlap. times: one entry per node. */
syn_status syn__et_critical_path_of_recording(syn_statistics *out, const syn__et_scan *scan,
                                              const syn__critical_op *times,
                                              syn_error *err) SYN_MUST_USE;
/* For a trace set of PyTorch traces: finds the critical path across ranks and sets both numbers in
   set->total. `path` is one of its files. set->total is unchanged if the set cannot be read as a
   graph; syn_validate reports the reason. */
syn_status syn__et_critical_path_of_set(syn_statistics_set *set, const char *path,
                                        syn_error *err) SYN_MUST_USE;
/* For a trace whose ops do not overlap. micros: duration of each node. Nodes that are part of a
   cycle or depend on one are on no chain. */
syn_status syn__et_longest_chain(syn_statistics *out, const syn__et_scan *scan,
                                 const syn__et_dag *dag, const uint64_t *micros,
                                 syn_error *err) SYN_MUST_USE;

/* Returns a + b, saturated at 2^64 - 1. */
static inline uint64_t syn__et_sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#ifdef __cplusplus
}
#endif
#endif
