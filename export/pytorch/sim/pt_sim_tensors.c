/* Finds the tensors that each node reads and writes. A read is listed only if it is certain to come
   after the write. */
#include "export/pytorch/sim/pt_sim_tensors.h"
#include "export/pytorch/read/pt_tensors.h"
#include "syntorch/base/intern.h"

enum { READ, MADE, LISTS };

/* Maximum number of streams that get a number of their own. All further streams share one number,
   so the order of their nodes is unknown. */
enum { OTHER_TRACKS = 63, MAX_TRACKS };

typedef struct storage {
    uint32_t tensor;        /* the last tensor in the storage; SYN__PT_NONE: none yet */
    uint32_t listed[LISTS]; /* per list: 1 + the last node that listed the storage; `at` has its
                               position in the list */
    size_t at[LISTS];
} storage;

typedef struct finder {
    syn__pt_sim_tensors *out;
    const syn__pt_sim *sim;
    syn_intern ids;
    storage *storages;
    size_t n_storages, storages_cap;
    /* Vector clocks: per node and track (thread or stream), the number of nodes of the track that
       precede the node, including the node itself. Tracks are numbered on first use, because most
       of them are host threads, which have no nodes. */
    uint32_t *clocks, *counts, *tracks;
    size_t n_tracks;
    /* For the current node: the storages of its inputs, and those of its outputs, each once. */
    struct listed {
        uint32_t storage;
        int64_t bytes;
    } * lists[LISTS];
    size_t n[LISTS], cap[LISTS];
} finder;

/* ---- Order ---- */

static uint32_t track_of(const finder *f, uint32_t node) {
    return f->tracks[f->sim->rank->ops[f->sim->nodes[node].op].track];
}

static void number_tracks(finder *f) {
    const syn__pt_sim *sim = f->sim;
    for (size_t i = 0; i < sim->rank->n_tracks; i++) f->tracks[i] = SYN__PT_NONE;
    for (size_t i = 0; i < sim->n_nodes; i++) {
        uint32_t *track = &f->tracks[sim->rank->ops[sim->nodes[i].op].track];
        if (*track != SYN__PT_NONE) continue;
        *track = f->n_tracks < OTHER_TRACKS ? (uint32_t)f->n_tracks : OTHER_TRACKS;
        if (f->n_tracks < MAX_TRACKS) f->n_tracks++;
    }
}

static void set_clock(finder *f, uint32_t node) {
    const syn__pt_sim *sim = f->sim;
    uint32_t *own = f->clocks + node * f->n_tracks;
    for (size_t d = sim->first_dep[node]; d < sim->first_dep[node + 1]; d++) {
        const uint32_t *from = f->clocks + sim->deps[d].from * f->n_tracks;
        if ((sim->deps[d].class_ & SYN__PT_SIM_OF_DELAY) != 0) continue;
        for (size_t track = 0; track < f->n_tracks; track++)
            if (from[track] > own[track]) own[track] = from[track];
    }
    const uint32_t track = track_of(f, node);
    if (sim->nodes[node].role != SYN__PT_SIM_DELAY) own[track] = ++f->counts[track];
}

/* Whether `node` depends on `other`, an earlier node, directly or indirectly. */
static bool waits_for(const finder *f, uint32_t node, uint32_t other) {
    const uint32_t track = track_of(f, other);
    if (track == OTHER_TRACKS) return false;
    return f->clocks[node * f->n_tracks + track] >= f->clocks[other * f->n_tracks + track];
}

/* ---- Tensors ---- */

static syn_status add_tensor(finder *f, const struct listed *of, uint32_t writer, syn_error *err) {
    syn__pt_sim_tensors *t = f->out;
    storage *at = &f->storages[of->storage];
    syn__pt_sim_tensor one = {.bytes = of->bytes, .writer = writer};
    memcpy(&one.storage, syn_intern_get(&f->ids, of->storage), sizeof one.storage);
    if (at->tensor != SYN__PT_NONE) one.version = t->tensors[at->tensor].version + 1;
    SYN_TRY(syn_grow(&t->tensors, &t->cap, t->n + 1, sizeof *t->tensors, err));
    at->tensor = (uint32_t)t->n;
    t->tensors[t->n++] = one;
    return SYN_OK;
}

static syn_status add_use(finder *f, const struct listed *of, syn_error *err) {
    syn__pt_sim_tensors *t = f->out;
    const uint32_t tensor = f->storages[of->storage].tensor;
    if (of->bytes > t->tensors[tensor].bytes) t->tensors[tensor].bytes = of->bytes;
    SYN_TRY(syn_grow(&t->uses, &t->uses_cap, t->n_uses + 1, sizeof *t->uses, err));
    t->uses[t->n_uses++] = tensor;
    return SYN_OK;
}

static syn_status find_storage(finder *f, int64_t id, uint32_t *out, syn_error *err) {
    SYN_TRY(syn_intern_put(&f->ids, &id, sizeof id, out, err));
    if (*out < f->n_storages) return SYN_OK;
    SYN_TRY(syn_grow(&f->storages, &f->storages_cap, f->n_storages + 1, sizeof *f->storages, err));
    f->storages[f->n_storages++] = (storage){.tensor = SYN__PT_NONE};
    return SYN_OK;
}

/* Lists the storages of the tensors within a value. Each is listed once, with the end of the tensor
   that ends last in it. For device work, tensors on the CPU are skipped. */
static syn_status list_storages(finder *f, uint32_t node, int list, syn__str value, bool device,
                                syn_error *err) {
    syn__pt_scan s = syn__pt_scan_of(value);
    syn__pt_tensor t;
    f->n[list] = 0;
    while (value.bytes > 0 && syn__pt_next_tensor(&s, &t)) {
        uint32_t id;
        if (t.end_bytes <= 0 || (device && t.on_cpu)) continue;
        SYN_TRY(find_storage(f, t.storage, &id, err));
        SYN_TRY(syn_grow(&f->lists[list], &f->cap[list], f->n[list] + 1, sizeof **f->lists, err));
        storage *of = &f->storages[id];
        if (of->listed[list] != node + 1) {
            of->listed[list] = node + 1;
            of->at[list] = f->n[list];
            f->lists[list][f->n[list]++] = (struct listed){id, 0};
        }
        struct listed *at = &f->lists[list][of->at[list]];
        if (t.end_bytes > at->bytes) at->bytes = t.end_bytes;
    }
    return SYN_OK;
}

/* Adds the tensors that a node reads. Such a tensor must exist: if no earlier op wrote it, it
   exists from the start. An op also reads what it changes in place, unless no op wrote it before.
   In that case, the op creates it. */
static syn_status add_reads(finder *f, uint32_t node, struct syn__pt_sim_use *use, syn_error *err) {
    for (size_t i = 0; i < f->n[READ]; i++) {
        const struct listed *one = &f->lists[READ][i];
        const storage *at = &f->storages[one->storage];
        if (at->tensor == SYN__PT_NONE && at->listed[MADE] == node + 1) continue;
        if (at->tensor == SYN__PT_NONE) SYN_TRY(add_tensor(f, one, SYN__PT_NONE, err));
        const uint32_t writer = f->out->tensors[at->tensor].writer;
        if (writer != SYN__PT_NONE && !waits_for(f, node, writer)) continue;
        SYN_TRY(add_use(f, one, err));
        use->reads++;
    }
    return SYN_OK;
}

static syn_status add_writes(finder *f, uint32_t node, struct syn__pt_sim_use *use,
                             syn_error *err) {
    for (size_t i = 0; i < f->n[MADE]; i++) {
        const struct listed *one = &f->lists[MADE][i];
        const storage *at = &f->storages[one->storage];
        if (at->tensor != SYN__PT_NONE && at->listed[READ] == node + 1) continue;
        SYN_TRY(add_tensor(f, one, node, err));
        SYN_TRY(add_use(f, one, err));
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
    const bool device = rank->tracks[op->track].device;
    SYN_TRY(list_storages(f, node, READ, io.values[0], device, err));
    SYN_TRY(list_storages(f, node, MADE, io.values[1], device, err));
    SYN_TRY(add_reads(f, node, use, err));
    return add_writes(f, node, use, err);
}

/* ---- All nodes ---- */

static syn_status find_all(finder *f, syn_error *err) {
    const syn__pt_sim *sim = f->sim;
    const size_t n = sim->n_nodes;
    f->out->nodes = syn_calloc(n + 1, sizeof *f->out->nodes);
    f->tracks = syn_calloc(sim->rank->n_tracks + 1, sizeof *f->tracks);
    if (f->tracks != NULL) number_tracks(f);
    f->clocks = syn_calloc((n + 1) * (f->n_tracks + 1), sizeof *f->clocks);
    f->counts = syn_calloc(f->n_tracks + 1, sizeof *f->counts);
    if (f->out->nodes == NULL || f->tracks == NULL || f->clocks == NULL || f->counts == NULL)
        return SYN_FAIL_NOMEM(err, n * (f->n_tracks + 1) * sizeof *f->clocks,
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
    syn_intern_free(&f.ids);
    syn_free(f.storages);
    syn_free(f.clocks);
    syn_free(f.counts);
    syn_free(f.tracks);
    for (int list = 0; list < LISTS; list++) syn_free(f.lists[list]);
    return s;
}

void syn__pt_sim_tensors_free(syn__pt_sim_tensors *t) {
    syn_free(t->tensors);
    syn_free(t->uses);
    syn_free(t->nodes);
    *t = (syn__pt_sim_tensors){.tensors = NULL};
}
