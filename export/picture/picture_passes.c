/* Reorders the nodes of training steps for drawing. A pass is a forward and its backward, which are
   drawn side by side. Collectives over gradients run during backward, but only the optimizer waits
   for them, so they are moved after backward and drawn as bars. Communication of forward's results
   stays in its place. */
#include "export/picture/picture_fold.h"
#include "export/walk/graph_walk.h"

#include <string.h>

#include "syntorch/base/memory.h"

typedef struct sorter {
    syn__pic_plan *plan;
    uint8_t *used; /* per node: another op of forward or backward uses its data */
    uint32_t *section;
} sorter;

static bool in_pass(syn_phase p) {
    return p == SYN_PHASE_FORWARD || p == SYN_PHASE_BACKWARD || p == SYN_PHASE_RECOMPUTE;
}

/* Marks the nodes whose data another op of forward or backward uses. Iterates backwards: before it
   reaches the producer of a view, it has seen whether the view is used. */
static syn_status find_used(sorter *s, syn_error *err) {
    syn__pic_plan *p = s->plan;
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(p, i, &p->cursor, &n, err));
        if (!in_pass(n->phase) || ((n->flags & SYN_NODE_VIRTUAL) != 0 && !s->used[i])) continue;
        for (uint32_t k = 0; k < n->n_deps; k++)
            if (n->deps[k].dep_class == SYN_DEP_DATA) s->used[n->deps[k].node] = 1;
    }
    return SYN_OK;
}

static uint32_t part_of(syn_phase phase) {
    if (phase == SYN_PHASE_FORWARD) return SYN__PIC_FORWARD;
    return in_pass(phase) ? SYN__PIC_BACKWARD : SYN__PIC_REST;
}

/* Whether a forward node after a backward begins a new pass. It does only if another backward
   follows in the same step. Otherwise it processes the loss at the end of the step. */
static syn_status begins_pass(sorter *s, uint32_t i, uint32_t step, bool *out, syn_error *err) {
    syn__pic_plan *p = s->plan;
    for (*out = false; i < p->n_nodes && !*out; i++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(p, i, &p->cursor, &n, err));
        if (n->step != step) break;
        *out = part_of(n->phase) == SYN__PIC_BACKWARD;
    }
    return SYN_OK;
}

/* Computes the section of every node. Each pass has four sections. */
static syn_status find_sections(sorter *s, bool *training, syn_error *err) {
    syn__pic_plan *p = s->plan;
    uint32_t pass = 0, step = 0, seen = 0; /* seen: parts of the pass so far, as bits */
    bool late = false;
    *training = false;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(p, i, &p->cursor, &n, err));
        const uint32_t part = part_of(n->phase);
        const bool bucket =
            part == SYN__PIC_BACKWARD && n->kind == SYN_NODE_COLLECTIVE && !s->used[i];
        const bool new_step = i > 0 && n->step != step;
        bool new_pass = new_step;
        step = n->step;
        if (new_step || part != SYN__PIC_FORWARD) late = false;
        if (!new_step && part == SYN__PIC_FORWARD && seen > 1u << SYN__PIC_FORWARD && !late) {
            SYN_TRY(begins_pass(s, i, step, &new_pass, err));
            late = !new_pass;
        }
        if (new_pass) pass++, seen = 0;
        seen |= 1u << part;
        *training = *training || (seen & 3) == 3;
        s->section[i] = pass * SYN__PIC_SECTIONS + (bucket ? SYN__PIC_BUCKETS : part);
    }
    return SYN_OK;
}

/* Sorts plan->order by section. Within a section, nodes stay in order of time. Passes are already
   in order. */
static void sort(sorter *s) {
    syn__pic_plan *p = s->plan;
    uint32_t at = 0;
    for (uint32_t begin = 0, end; begin < p->n_nodes; begin = end) {
        const uint32_t pass = s->section[begin] / SYN__PIC_SECTIONS;
        for (end = begin; end < p->n_nodes && s->section[end] / SYN__PIC_SECTIONS == pass;) end++;
        for (uint32_t part = 0; part < SYN__PIC_SECTIONS; part++)
            for (uint32_t i = begin; i < end; i++) {
                if (s->section[i] % SYN__PIC_SECTIONS != part) continue;
                p->order[at].node = i;
                p->order[at].section = s->section[i];
                p->order[i].place = at++;
            }
    }
}

syn_status syn__pic_plan_order(syn__pic_plan *plan, syn_error *err) {
    sorter s = {plan, syn_calloc((size_t)plan->n_nodes + 1, 1),
                syn_calloc((size_t)plan->n_nodes + 1, sizeof *s.section)};
    syn__pic_order *order = syn_calloc((size_t)plan->n_nodes + 1, sizeof *order);
    bool training = false;
    syn_status status = SYN_OK;
    if (s.used == NULL || s.section == NULL || order == NULL)
        status = SYN_FAIL_NOMEM(err, (size_t)plan->n_nodes * sizeof *order, "the order of nodes");
    if (status == SYN_OK) status = find_used(&s, err);
    if (status == SYN_OK) status = find_sections(&s, &training, err);
    if (status == SYN_OK && training) {
        plan->order = order;
        order = NULL;
        sort(&s);
    }
    syn_free(s.used);
    syn_free(s.section);
    syn_free(order);
    return status;
}

syn_status syn__pic_plan_sections(syn__pic_plan *plan, const syn__pass *passes, size_t n,
                                  syn_error *err) {
    size_t next = 0;
    plan->order = syn_calloc((size_t)plan->n_nodes + 1, sizeof *plan->order);
    if (plan->order == NULL)
        return SYN_FAIL_NOMEM(err, (size_t)plan->n_nodes * sizeof *plan->order,
                              "the order of nodes");
    for (uint32_t i = 0; i < plan->n_nodes; i++) {
        while (next < n && passes[next].last < i) next++;
        const bool inside = next < n && passes[next].first <= i;
        const bool back = inside && (passes[next].kind == SYN__PASS_BACKWARD ||
                                     passes[next].kind == SYN__PASS_WEIGHTS);
        const uint32_t part = back ? SYN__PIC_BACKWARD : inside ? SYN__PIC_FORWARD : SYN__PIC_REST;
        plan->order[i] = (syn__pic_order){i, (uint32_t)next * SYN__PIC_SECTIONS + part, i};
    }
    return SYN_OK;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    return (a ^ (b >> 7)) * 0x9E3779B97F4A7C15u + b;
}

static uint32_t pass_of(const syn__pic_unit *u) {
    return u->section / SYN__PIC_SECTIONS;
}

/* The combined signature of the units of the same layer in the opposite part (forward or backward)
   of the pass of unit i; 0 if there are none. */
static uint64_t other_side(const syn__pic_plan *p, const uint64_t *sigs, size_t i) {
    const syn__pic_unit *u = &p->units[i];
    uint64_t h = 0;
    size_t k = i;
    while (k > 0 && pass_of(&p->units[k - 1]) == pass_of(u)) k--;
    for (; k < p->n_units && pass_of(&p->units[k]) == pass_of(u); k++)
        if (p->units[k].section == (u->section ^ 1) && strcmp(p->units[k].layer, u->layer) == 0)
            h = mix(h, sigs[k]);
    return h;
}

syn_status syn__pic_pair_layers(syn__pic_plan *p, syn_error *err) {
    uint64_t *sigs = syn_calloc(p->n_units + 1, sizeof *sigs);
    if (sigs == NULL) return SYN_FAIL_NOMEM(err, p->n_units * sizeof *sigs, "layers");
    for (size_t i = 0; i < p->n_units; i++) sigs[i] = p->units[i].sig;
    for (size_t i = 0; i < p->n_units; i++) {
        syn__pic_unit *u = &p->units[i];
        const uint32_t part = u->section % SYN__PIC_SECTIONS;
        if (u->layer[0] == '\0' || part > SYN__PIC_BACKWARD) continue;
        u->sig = mix(u->sig, other_side(p, sigs, i));
    }
    syn_free(sigs);
    return SYN_OK;
}
