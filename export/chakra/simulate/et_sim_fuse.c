/* Simulates consecutive kernels as one kernel. */
#include <string.h>

#include "export/chakra/simulate/et_sim_read.h"
#include "export/chakra/wire/et_schema.h"
#include "syntorch/base/memory.h"

static bool is_communication(const char *pattern) {
    if (strcmp(pattern, "COLLECTIVES") == 0 || strcmp(pattern, "MESSAGES") == 0) return true;
    for (int64_t type = 0; type < SYN__SIM_COMM_TYPES; type++) {
        const char *name = syn__et_collective_name(type);
        if (name != NULL && strcmp(pattern, name) == 0) return true;
    }
    return false;
}

syn_status syn__sim_check_fused(const syn_simulate_options *options, syn_error *err) {
    for (size_t i = 0; i < options->n_fused; i++)
        for (size_t k = 0; k < options->fused[i].n_patterns; k++)
            if (is_communication(options->fused[i].patterns[k]))
                return SYN_FAIL(err, SYN_E_INVALID,
                                "%.60s cannot be fused, because only computation runs as kernels",
                                options->fused[i].patterns[k]);
    return SYN_OK;
}

/* The last kernels of a stream, which run as one. */
typedef struct fused_run {
    uint32_t n;           /* kernels; 0: none */
    uint32_t last, first; /* last: node of the file; first: node of the program */
    uint64_t mask;        /* the elements of options->fused that match all of its kernels */
} fused_run;

/* Whether a kernel depends on the last one of the run, and otherwise only on nodes that its stream
   has already waited for. The fused kernel would have to wait for another node before it starts,
   and that node may itself wait for a part of the fused kernel. waited: per node, 1 + the last
   stream that ran it or waited for it. */
static bool continues(const fused_run *run, const syn__et_scan *scan, const uint32_t *waited,
                      uint32_t node, uint32_t stream) {
    bool needs_last = false;
    for (uint32_t k = scan->first_dep[node]; k < scan->first_dep[node + 1]; k++) {
        const uint32_t dep = scan->deps[k];
        if (waited[dep] != stream + 1) return false;
        needs_last = needs_last || dep == run->last;
    }
    return needs_last;
}

static void end_run(syn__sim_file *file, const fused_run *run) {
    if (run->n < 2) return;
    file->n_fused += run->n;
    file->n_fused_kernels++;
    file->fused |= run->mask;
}

syn_status syn__sim_fuse(syn__sim_file *file, const syn__et_scan *scan, const uint64_t *masks,
                         syn_error *err) {
    syn__sim_program *p = &file->program;
    fused_run runs[SYN__SIM_STREAMS] = {{.n = 0}};
    uint32_t *waited = syn_calloc(p->n_nodes + 1u, sizeof *waited); /* per node of the file */
    if (waited == NULL)
        return SYN_FAIL_NOMEM(err, p->n_nodes * sizeof *waited, "the nodes of a trace");
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const uint32_t node = syn__et_scan_by_id(scan, i);
        if ((p->kinds[i] & ((1u << SYN__SIM_KIND_BITS) - 1)) != SYN__SIM_COMPUTE) continue;
        const uint32_t stream = p->kinds[i] >> SYN__SIM_KIND_BITS;
        fused_run *run = &runs[stream];
        if ((run->mask & masks[node]) == 0 || !continues(run, scan, waited, node, stream)) {
            end_run(file, run);
            *run = (fused_run){1, node, i, masks[node]};
        } else {
            /* The first kernel waits for all inputs, and the others end when it ends. */
            if (p->values[i] > p->values[run->first]) p->values[run->first] = p->values[i];
            p->values[i] = 0;
            run->n++;
            run->last = node;
            run->mask &= masks[node];
        }
        for (uint32_t k = scan->first_dep[node]; k < scan->first_dep[node + 1]; k++)
            waited[scan->deps[k]] = stream + 1;
        waited[node] = stream + 1;
    }
    for (uint32_t i = 0; i < SYN__SIM_STREAMS; i++) end_run(file, &runs[i]);
    syn_free(waited);
    return SYN_OK;
}
