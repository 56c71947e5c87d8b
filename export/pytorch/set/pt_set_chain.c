/* Restores the order of the collectives of each group, if dependencies between them were dropped
   because they closed cycles. */
#include "export/pytorch/comm/pt_launch_order.h"
#include "export/pytorch/set/pt_set_entries.h"
#include "syntorch/base/memory.h"

/* Adds dependencies. before: per op, the collective of its group on which it must depend;
   SYN__PT_NONE: none. */
static syn_status add_deps(syn__pt_rank *r, const uint32_t *before, syn_error *err) {
    syn__pt_dep *deps = (syn__pt_dep *)syn_malloc((r->n_deps + r->n_comms + 1) * sizeof *deps);
    size_t n = 0;
    if (deps == NULL) return SYN_FAIL_NOMEM(err, r->n_deps * sizeof *deps, "dependencies");
    for (size_t op = 0; op < r->n_ops; op++) {
        size_t i = r->first_dep[op];
        const size_t end = r->first_dep[op + 1];
        r->first_dep[op] = (uint32_t)n;
        while (i < end && r->deps[i].from < before[op]) deps[n++] = r->deps[i++];
        if (before[op] != SYN__PT_NONE && (i == end || r->deps[i].from != before[op])) {
            deps[n++] = (syn__pt_dep){before[op], SYN_PYTORCH_EDGE_GROUP};
            r->n_edge_class[SYN_PYTORCH_EDGE_GROUP]++;
        }
        while (i < end) deps[n++] = r->deps[i++];
    }
    r->first_dep[r->n_ops] = (uint32_t)n;
    syn_free(r->deps);
    r->deps = deps;
    r->n_deps = n;
    return SYN_OK;
}

syn_status syn__pt_set_chain(syn__pt_rank *r, syn_error *err) {
    uint32_t *order = NULL;
    if (r->n_dropped == 0 || r->first_dep == NULL || r->ids == NULL) return SYN_OK;
    SYN_TRY(syn__pt_launch_order(r, NULL, &order, err));
    uint32_t *last = (uint32_t *)syn_malloc((r->n_groups + 1) * sizeof *last);
    uint32_t *before = (uint32_t *)syn_malloc((r->n_ops + 1) * sizeof *before);
    syn_status s = SYN_OK;
    if (last == NULL || before == NULL)
        s = SYN_FAIL_NOMEM(err, r->n_ops * sizeof *before, "the order of collectives and messages");
    for (size_t i = 0; s == SYN_OK && i <= r->n_groups; i++) last[i] = SYN__PT_NONE;
    for (size_t i = 0; s == SYN_OK && i < r->n_ops; i++) before[i] = SYN__PT_NONE;
    for (size_t i = 0; s == SYN_OK && i < r->n_comms; i++) {
        const uint32_t group = syn__pt_group_of(r, &r->comms[order[i]]), op = r->comms[order[i]].op;
        if (group == SYN__PT_NONE) continue;
        before[op] = last[group];
        last[group] = op;
    }
    if (s == SYN_OK) s = add_deps(r, before, err);
    syn_free(order);
    syn_free(last);
    syn_free(before);
    return s;
}
