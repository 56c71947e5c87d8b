/* Replays profile astra-sim event by event. When a slot is free, it runs the ready node with the
   lowest id. */
#include "export/pytorch/sim/pt_replay.h"
#include "export/pytorch/sim/pt_sim_heap.h"
#include "export/pytorch/sim/pt_sim_steps.h"
#include "syntorch/base/memory.h"

enum { COMPUTE, COMMUNICATE, SLOTS };

/* A slot for computation or communication. It runs steps, because a node with a delay has two: step
   2 * i is the delay and step 2 * i + 1 is the node, where i is the position of the node in the
   file. */
typedef struct slot {
    syn__pt_sim_heap ready; /* ready steps */
    uint32_t step;          /* the running step */
    bool busy;
    int64_t until_us;
} slot;

typedef struct replay {
    const syn__pt_sim *sim;
    slot slots[SLOTS];
    uint32_t *place; /* per node: its position in the file */
    uint32_t *left;  /* per step: number of open dependencies */
    size_t *first;   /* first edge of each node, grouped by source */
    syn__pt_dep *children;
    int64_t now_us;
    syn_pytorch_replay_row *rows; /* per slot */
} replay;

static const syn__pt_sim_node *node_of(const replay *r, uint32_t step) {
    return &r->sim->nodes[r->sim->sequence[step / 2]];
}

static bool is_delay(uint32_t step) {
    return step % 2 == 0;
}

/* The first step of the node. */
static uint32_t entry(const replay *r, uint32_t node) {
    return 2 * r->place[node] + (r->sim->nodes[node].delay_us > 0 ? 0 : 1);
}

static void make_ready(replay *r, uint32_t step) {
    const bool compute = syn__pt_sim_is_compute(node_of(r, step)); /* the delay of a node has the
                                                                      node's slot */
    syn__pt_sim_push(&r->slots[compute ? COMPUTE : COMMUNICATE].ready, step);
}

static void take(replay *r, int which) {
    slot *s = &r->slots[which];
    if (s->busy || s->ready.n == 0) return;
    s->step = syn__pt_sim_pop(&s->ready);
    const syn__pt_sim_node *node = node_of(r, s->step);
    const int64_t us = is_delay(s->step) ? node->delay_us : node->end_us - node->start_us;
    s->busy = true;
    s->until_us = r->now_us > INT64_MAX - us ? INT64_MAX : r->now_us + us;
    r->rows[which].n_ops++;
    r->rows[which].busy_ns += us > (INT64_MAX - r->rows[which].busy_ns) / 1000 ? 0 : us * 1000;
}

static void finish(replay *r, slot *s) {
    const uint32_t step = s->step, node = r->sim->sequence[step / 2];
    s->busy = false;
    if (is_delay(step)) make_ready(r, step + 1);
    for (size_t i = r->first[node]; i < r->first[node + 1]; i++) {
        const syn__pt_dep *d = &r->children[i];
        const bool of_delay = d->class_ & SYN__PT_SIM_OF_DELAY && r->sim->nodes[node].delay_us > 0;
        const uint32_t to = entry(r, d->from);
        if (of_delay == is_delay(step) && --r->left[to] == 0) make_ready(r, to);
    }
}

static void run(replay *r) {
    const syn__pt_sim *sim = r->sim;
    memcpy(r->rows[COMPUTE].name, "compute", sizeof "compute");
    memcpy(r->rows[COMMUNICATE].name, "communication", sizeof "communication");
    syn__pt_sim_list_edges(sim, false, r->first, r->children);
    for (uint32_t i = 0; i < sim->n_nodes; i++) r->place[sim->sequence[i]] = i;
    for (size_t i = 0; i < sim->n_edges; i++) r->left[entry(r, sim->edges[i].to)]++;
    for (uint32_t i = 0; i < sim->n_nodes; i++) {
        const uint32_t step = entry(r, sim->sequence[i]);
        if (r->left[step] == 0) make_ready(r, step);
    }
    for (;;) {
        for (int k = 0; k < SLOTS; k++) take(r, k);
        int64_t next = INT64_MAX;
        bool any = false;
        for (int k = 0; k < SLOTS; k++) {
            if (!r->slots[k].busy) continue;
            any = true;
            if (r->slots[k].until_us < next) next = r->slots[k].until_us;
        }
        if (!any) return;
        r->now_us = next;
        for (int k = 0; k < SLOTS; k++) {
            if (!r->slots[k].busy || r->slots[k].until_us > next) continue;
            r->rows[k].replayed_ns = next > INT64_MAX / 1000 ? INT64_MAX : next * 1000;
            finish(r, &r->slots[k]);
        }
    }
}

/* ---- Measured times ---- */

static int64_t end_after(const syn__pt_op *op, int64_t origin) {
    const int64_t wall = op->wall_ns > 0 ? op->wall_ns : 0;
    if (op->start_ns == SYN__PT_NO_NS) return 0;
    const uint64_t after = (uint64_t)op->start_ns - (uint64_t)origin + (uint64_t)wall;
    return after > INT64_MAX ? INT64_MAX : (int64_t)after;
}

static void measure(const syn__pt_sim *sim, syn_pytorch_replay *out) {
    const syn__pt_rank *rank = sim->rank;
    int64_t origin = INT64_MAX;
    for (size_t i = 0; i < rank->n_ops; i++) {
        const int64_t at = rank->ops[i].start_ns;
        if (at != SYN__PT_NO_NS && at < origin) origin = at;
    }
    for (size_t i = 0; i < rank->n_ops; i++) {
        const int64_t end = end_after(&rank->ops[i], origin);
        if (end > out->measured_ns) out->measured_ns = end;
    }
    for (size_t i = 0; i < sim->n_nodes; i++) {
        const syn__pt_sim_node *node = &sim->nodes[i];
        syn_pytorch_replay_row *row =
            &out->rows[syn__pt_sim_is_compute(node) ? COMPUTE : COMMUNICATE];
        const int64_t end = node->role == SYN__PT_SIM_DELAY
                                ? (node->end_us - syn__pt_sim_micros(origin)) * 1000
                                : end_after(&rank->ops[node->op], origin);
        if (end > row->measured_ns) row->measured_ns = end;
    }
}

/* ---- The whole replay ---- */

static syn_status replay_nodes(const syn__pt_sim *sim, syn_pytorch_replay *out, syn_error *err) {
    const size_t n = sim->n_nodes + 2;
    replay r = {.sim = sim,
                .place = (uint32_t *)syn_malloc(n * sizeof(uint32_t)),
                .left = (uint32_t *)syn_calloc(n, 2 * sizeof(uint32_t)),
                .first = (size_t *)syn_malloc(n * sizeof(size_t)),
                .children = (syn__pt_dep *)syn_malloc((sim->n_edges + 1) * sizeof(syn__pt_dep)),
                .rows =
                    (syn_pytorch_replay_row *)syn_calloc(SLOTS, sizeof(syn_pytorch_replay_row))};
    bool complete = r.place != NULL && r.left != NULL && r.first != NULL && r.children != NULL &&
                    r.rows != NULL;
    for (int k = 0; k < SLOTS; k++) {
        r.slots[k].ready.at = (uint32_t *)syn_malloc(n * sizeof(uint32_t));
        complete = complete && r.slots[k].ready.at != NULL;
    }
    *out = (syn_pytorch_replay){0, 0, r.rows, SLOTS};
    if (complete) {
        run(&r);
        measure(sim, out);
    }
    for (int k = 0; k < SLOTS; k++) {
        if (complete && r.rows[k].replayed_ns > out->replayed_ns)
            out->replayed_ns = r.rows[k].replayed_ns;
        syn_free(r.slots[k].ready.at);
    }
    syn_free(r.place);
    syn_free(r.left);
    syn_free(r.first);
    syn_free(r.children);
    if (complete) return SYN_OK;
    syn_free(r.rows);
    *out = (syn_pytorch_replay){0, 0, NULL, 0};
    return SYN_FAIL_NOMEM(err, 2 * n * sizeof(uint32_t), "a replay");
}

syn_status syn__pt_replay_sim(const syn__pt_rank *rank, syn_pytorch_replay *out, syn_error *err) {
    syn__pt_sim sim;
    *out = (syn_pytorch_replay){0, 0, NULL, 0};
    syn_status status = syn__pt_sim_make(&sim, rank, err);
    if (status == SYN_OK && sim.n_nodes >= UINT32_MAX / 2)
        status = SYN_FAIL(err, SYN_E_UNSUPPORTED, "the trace has too many ops for a replay");
    if (status == SYN_OK) status = replay_nodes(&sim, out, err);
    syn__pt_sim_free(&sim);
    return status;
}
