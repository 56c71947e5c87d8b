/* Reads the names of a rank's nodes for timelines and the critical path. */
#include "export/chakra/check/et_scan.h"
#include "export/chakra/simulate/et_sim.h"
#include "syntorch/base/memory.h"

typedef struct found {
    syn__str *names; /* per node of the file */
    size_t n, cap;
} found;

static syn_status keep_name(void *user, uint32_t index, uint64_t offset, const syn__et_node *node,
                            syn_error *err) {
    found *all = user;
    (void)offset;
    SYN_TRY(syn_grow(&all->names, &all->cap, index + 1u, sizeof *all->names, err));
    all->names[index] = node->name;
    all->n = index + 1u;
    return SYN_OK;
}

/* Brings names and ids into the order of ids. */
static syn_status sort_names(syn__sim_names *out, const syn__et_scan *scan, const found *all,
                             syn_error *err) {
    out->names = syn_malloc((all->n + 1) * sizeof *out->names);
    out->ids = syn_malloc((all->n + 1) * sizeof *out->ids);
    if (out->names == NULL || out->ids == NULL)
        return SYN_FAIL_NOMEM(err, all->n * sizeof *out->names, "the names of nodes");
    for (uint32_t i = 0; i < all->n; i++) {
        const uint32_t at = syn__et_scan_by_id(scan, i);
        out->names[i] = all->names[at];
        out->ids[i] = scan->ids[at];
    }
    return SYN_OK;
}

syn_status syn__sim_names_open(syn__sim_names *out, const syn__sim_set *set,
                               const syn__sim_rank *rank, syn_error *err) {
    found all = {NULL, 0, 0};
    syn__et_scan scan;
    const syn__et_listener listener = {.user = &all, .node = keep_name};
    *out = (syn__sim_names){.names = NULL};
    SYN_TRY(syn__file_text_open(&out->input, rank->path, set->max_unpacked_bytes, err));
    syn_status s = syn__et_scan_open(&scan, out->input.data, out->input.bytes, &listener, err);
    if (s == SYN_OK && all.n != set->programs[rank->program].n_nodes)
        s = SYN_FAIL(err, SYN_E_IO, "%.300s changed while it was simulated", rank->path);
    if (s == SYN_OK) s = sort_names(out, &scan, &all, err);
    syn__et_scan_close(&scan);
    syn_free(all.names);
    return s;
}

void syn__sim_names_close(syn__sim_names *names) {
    syn__file_text_close(&names->input);
    syn_free(names->names);
    syn_free(names->ids);
}
