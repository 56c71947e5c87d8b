/* The critical path of one execution trace, for statistics. */
#ifndef EXPORT_ET_CRITICAL_H
#define EXPORT_ET_CRITICAL_H

#include "export/chakra/check/et_scan.h"
#include "export/statistics.h"
#include "export/walk/critical.h"

#ifdef __cplusplus
extern "C" {
#endif

/* These set critical_micros and critical_nodes. Of a recording, whose ops overlap; times has an
   entry for each node. */
syn_status syn__et_recorded_path(syn_statistics *out, const syn__et_scan *scan,
                                 const syn__critical_op *times, syn_error *err) SYN_MUST_USE;
/* Of all ranks of a set of recordings, one of whose files is `path`: set->total gets the path from
   rank to rank. It keeps what it has if the set cannot be read as a graph: validate says why. */
syn_status syn__et_path_across(syn_statistics_set *set, const char *path,
                               syn_error *err) SYN_MUST_USE;
/* Of ops that do not overlap; micros: the duration of each node. Nodes that wait for a cycle are on
   no chain. */
syn_status syn__et_longest_chain(syn_statistics *out, const syn__et_scan *scan,
                                 const syn__et_dag *dag, const uint64_t *micros,
                                 syn_error *err) SYN_MUST_USE;

/* a + b, at most 2^64 - 1. */
static inline uint64_t syn__et_sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#ifdef __cplusplus
}
#endif
#endif
