/* Which tensors a node reads and writes, and which of the reads are sure to come after the write.
 */
#include "export/pytorch/sim/pt_sim_tensors.h"
#include "export/pytorch/read/pt_tensors.h"
#include "syntorch/base/intern.h"

typedef struct finder {
    syn__pt_sim_tensors *out;
    const syn__pt_sim *sim;
    syn_intern storages;
    uint32_t *current; /* tensor of each storage, SYN__PT_NONE: none yet */
    size_t current_cap;
    /* Of each node how many nodes of each lane come before it or are it, by its dependencies. Lanes
       are numbered as they come, since most are threads of the host, which have no nodes. */
    uint32_t *clocks, *counts, *lanes;
    size_t n_lanes;
    /* Of the node at hand. */
    uint32_t *read, *made; /* storages of its inputs and of its outputs */
    int64_t *read_bytes, *made_bytes;
    size_t n_read, n_made, read_cap, made_cap, read_bytes_cap, made_bytes_cap;
} finder;

/* ---- Order ---- */

static uint32_t lane_of(const finder *f, uint32_t node) {
    return f->lanes[f->sim->rank->ops[f->sim->nodes[node].op].lane];
}

static void number_lanes(finder *f) {
    const syn__pt_sim *sim = f->sim;
    for (size_t i = 0; i < sim->rank->n_lanes; i++) f->lanes[i] = SYN__PT_NONE;
    for (size_t i = 0; i < sim->n_nodes; i++) {
        uint32_t *lane = &f->lanes[sim->rank->ops[sim->nodes[i].op].lane];
        if (*lane == SYN__PT_NONE) *lane = (uint32_t)f->n_lanes++;
    }
}

static void set_clock(finder *f, uint32_t node) {
    const syn__pt_sim *sim = f->sim;
    uint32_t *own = f->clocks + node * f->n_lanes;
    for (size_t d = sim->first_dep[node]; d < sim->first_dep[node + 1]; d++) {
        const uint32_t *from = f->clocks + sim->deps[d].from * f->n_lanes;
        if ((sim->deps[d].class_ & SYN__PT_SIM_OF_DELAY) != 0) continue;
        for (size_t lane = 0; lane < f->n_lanes; lane++)
            if (from[lane] > own[lane]) own[lane] = from[lane];
    }
    const uint32_t lane = lane_of(f, node);
    if (sim->nodes[node].role != SYN__PT_SIM_DELAY) own[lane] = ++f->counts[lane];
}

/* Whether `node` waits for `other`, one of those before it. */
static bool waits_for(const finder *f, uint32_t node, uint32_t other) {
    const uint32_t lane = lane_of(f, other);
    return f->clocks[node * f->n_lanes + lane] >= f->clocks[other * f->n_lanes + lane];
}

/* ---- Tensors ---- */

static syn_status add_tensor(finder *f, uint32_t storage, int64_t bytes, uint32_t writer,
                             syn_error *err) {
    syn__pt_sim_tensors *t = f->out;
    syn__pt_sim_tensor one = {.bytes = bytes, .writer = writer};
    memcpy(&one.storage, syn_intern_get(&f->storages, storage), sizeof one.storage);
    if (f->current[storage] != SYN__PT_NONE)
        one.version = t->tensors[f->current[storage]].version + 1;
    SYN_TRY(syn_grow(&t->tensors, &t->cap, t->n + 1, sizeof *t->tensors, err));
    f->current[storage] = (uint32_t)t->n;
    t->tensors[t->n++] = one;
    return SYN_OK;
}

static syn_status add_use(finder *f, uint32_t storage, int64_t bytes, syn_error *err) {
    syn__pt_sim_tensors *t = f->out;
    syn__pt_sim_tensor *of = &t->tensors[f->current[storage]];
    if (bytes > of->bytes) of->bytes = bytes;
    SYN_TRY(syn_grow(&t->uses, &t->uses_cap, t->n_uses + 1, sizeof *t->uses, err));
    t->uses[t->n_uses++] = f->current[storage];
    return SYN_OK;
}

static bool has(const uint32_t *list, size_t n, uint32_t value) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == value) return true;
    return false;
}

/* The storages of the tensors within a value, each once with the end of the last one. A device's
   work says nothing about the host's memory. */
static syn_status list_storages(finder *f, syn__str value, bool device, uint32_t **out, size_t *cap,
                                int64_t **bytes, size_t *bytes_cap, size_t *n, syn_error *err) {
    syn__pt_scan s = syn__pt_scan_of(value);
    syn__pt_tensor t;
    *n = 0;
    while (value.bytes > 0 && syn__pt_next_tensor(&s, &t)) {
        uint32_t storage;
        if (t.end_bytes <= 0 || (device && t.on_cpu)) continue;
        SYN_TRY(syn_intern_put(&f->storages, &t.storage, sizeof t.storage, &storage, err));
        const size_t known = f->current_cap;
        SYN_TRY(syn_grow(&f->current, &f->current_cap, storage + 1u, sizeof *f->current, err));
        for (size_t i = known; i < f->current_cap; i++) f->current[i] = SYN__PT_NONE;
        size_t at = 0;
        while (at < *n && (*out)[at] != storage) at++;
        SYN_TRY(syn_grow(out, cap, at + 1, sizeof **out, err));
        SYN_TRY(syn_grow(bytes, bytes_cap, at + 1, sizeof **bytes, err));
        if (at == *n) (*bytes)[at] = 0;
        (*out)[at] = storage;
        if (t.end_bytes > (*bytes)[at]) (*bytes)[at] = t.end_bytes;
        if (at == *n) ++*n;
    }
    return SYN_OK;
}

/* What an op reads must be there: unless an op before it made it, it is from the beginning. What it
   changes in place, it reads; only what nobody had before is then made by it. */
static syn_status add_reads(finder *f, uint32_t node, struct syn__pt_sim_use *use, syn_error *err) {
    for (size_t i = 0; i < f->n_read; i++) {
        const uint32_t storage = f->read[i];
        const bool is_new = f->current[storage] == SYN__PT_NONE;
        if (is_new && has(f->made, f->n_made, storage)) continue;
        if (is_new) SYN_TRY(add_tensor(f, storage, f->read_bytes[i], SYN__PT_NONE, err));
        const uint32_t writer = f->out->tensors[f->current[storage]].writer;
        if (writer != SYN__PT_NONE && !waits_for(f, node, writer)) continue;
        SYN_TRY(add_use(f, storage, f->read_bytes[i], err));
        use->reads++;
    }
    return SYN_OK;
}

static syn_status add_writes(finder *f, uint32_t node, struct syn__pt_sim_use *use,
                             syn_error *err) {
    for (size_t i = 0; i < f->n_made; i++) {
        const uint32_t storage = f->made[i];
        if (f->current[storage] != SYN__PT_NONE && has(f->read, f->n_read, storage)) continue;
        SYN_TRY(add_tensor(f, storage, f->made_bytes[i], node, err));
        SYN_TRY(add_use(f, storage, f->made_bytes[i], err));
        use->writes++;
    }
    return SYN_OK;
}

static syn_status add_node(finder *f, uint32_t node, syn_error *err) {
    const syn__pt_rank *rank = f->sim->rank;
    const syn__pt_sim_node *at = &f->sim->nodes[node];
    const syn__pt_op *op = &rank->ops[at->op];
    struct syn__pt_sim_use *use = &f->out->nodes[node];
    use->first = f->out->n_uses;
    if (at->role == SYN__PT_SIM_DELAY || op->host == SYN__PT_NONE) return SYN_OK;
    if (!at->dominates && at->role == SYN__PT_SIM_COMPUTE) return SYN_OK;
    const syn__pt_io io = syn__pt_io_of(&rank->host.nodes[op->host]);
    const bool device = rank->lanes[op->lane].device;
    SYN_TRY(list_storages(f, io.values[0], device, &f->read, &f->read_cap, &f->read_bytes,
                          &f->read_bytes_cap, &f->n_read, err));
    SYN_TRY(list_storages(f, io.values[1], device, &f->made, &f->made_cap, &f->made_bytes,
                          &f->made_bytes_cap, &f->n_made, err));
    SYN_TRY(add_reads(f, node, use, err));
    return add_writes(f, node, use, err);
}

/* ---- All nodes ---- */

static syn_status find_all(finder *f, syn_error *err) {
    const syn__pt_sim *sim = f->sim;
    const size_t n = sim->n_nodes;
    f->out->nodes = syn_calloc(n + 1, sizeof *f->out->nodes);
    f->lanes = syn_calloc(sim->rank->n_lanes + 1, sizeof *f->lanes);
    if (f->lanes != NULL) number_lanes(f);
    f->clocks = syn_calloc((n + 1) * (f->n_lanes + 1), sizeof *f->clocks);
    f->counts = syn_calloc(f->n_lanes + 1, sizeof *f->counts);
    if (f->out->nodes == NULL || f->lanes == NULL || f->clocks == NULL || f->counts == NULL)
        return SYN_FAIL_NOMEM(err, n * (f->n_lanes + 1) * sizeof *f->clocks,
                              "the tensors of a rank");
    for (size_t i = 0; i < n; i++) {
        set_clock(f, sim->sequence[i]);
        SYN_TRY(add_node(f, sim->sequence[i], err));
    }
    return SYN_OK;
}

syn_status syn__pt_sim_tensors_find(syn__pt_sim_tensors *t, const syn__pt_sim *sim,
                                    syn_error *err) {
    *t = (syn__pt_sim_tensors){.tensors = NULL};
    finder f = {.out = t, .sim = sim};
    const syn_status s = find_all(&f, err);
    syn_intern_free(&f.storages);
    syn_free(f.current);
    syn_free(f.clocks);
    syn_free(f.counts);
    syn_free(f.lanes);
    syn_free(f.read);
    syn_free(f.made);
    syn_free(f.read_bytes);
    syn_free(f.made_bytes);
    return s;
}

void syn__pt_sim_tensors_free(syn__pt_sim_tensors *t) {
    syn_free(t->tensors);
    syn_free(t->uses);
    syn_free(t->nodes);
    *t = (syn__pt_sim_tensors){.tensors = NULL};
}
