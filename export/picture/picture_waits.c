/* Computes for each node which communications of its unit the node waits for, and which are the
   next communications that wait for the node. A box may only contain ops for which both agree
   (syn__pic_may_join), because the box is drawn as if each of its ops waited for everything that
   any of them waits for. */
#include "export/picture/picture_fold.h"
#include "export/walk/graph_walk.h"

#include "syntorch/base/memory.h"

/* The bit of communication number `number` of a unit. All communications from number 63 share the
   last bit. */
static uint64_t bit_of(uint32_t number) {
    return (uint64_t)1 << (number < 63 ? number : 63);
}

/* Whether the node `n` at `place` needs the result of its dependency k, which must be in the unit.
 *from: the place of the dependency. */
static bool needs(const syn__pic_plan *p, const syn__pic_unit *u, const syn_node *n, uint32_t k,
                  uint32_t place, uint32_t *from) {
    const uint32_t cls = n->deps[k].dep_class;
    *from = syn__pic_place_of(p, n->deps[k].node);
    return cls != SYN_DEP_STREAM && cls != SYN_DEP_GROUP && *from >= u->begin && *from < place;
}

static syn_status read_unit(syn__pic_plan *p, const syn__pic_unit *u, syn_error *err) {
    uint32_t comms = 0, from;
    const syn_node *n;
    for (uint32_t i = u->begin; i < u->end; i++) {
        SYN_TRY(syn__pic_node(p, i, &p->cursor, &n, err));
        /* `feeds` of a communication is the communication's own bit. */
        if (syn__walk_is_comm(n)) p->waits[i].feeds = bit_of(comms++);
        for (uint32_t k = 0; k < n->n_deps; k++)
            if (needs(p, u, n, k, i, &from))
                p->waits[i].waits |= p->waits[from].waits | p->waits[from].feeds;
    }
    for (uint32_t i = u->end; i-- > u->begin;) {
        SYN_TRY(syn__pic_node(p, i, &p->cursor, &n, err));
        for (uint32_t k = 0; k < n->n_deps; k++) {
            if (!needs(p, u, n, k, i, &from)) continue;
            const syn_node *maker;
            SYN_TRY(syn__pic_node(p, from, &p->other, &maker, err));
            if (!syn__walk_is_comm(maker)) p->waits[from].feeds |= p->waits[i].feeds;
        }
    }
    return SYN_OK;
}

syn_status syn__pic_plan_waits(syn__pic_plan *p, syn_error *err) {
    if (p->waits != NULL) return SYN_OK;
    p->waits = syn_calloc((size_t)p->n_nodes + 1, sizeof *p->waits);
    if (p->waits == NULL)
        return SYN_FAIL_NOMEM(err, (size_t)p->n_nodes * sizeof *p->waits, "a picture");
    for (size_t u = 0; u < p->n_units; u++)
        if (syn__pic_unit_drawn(p, u)) SYN_TRY(read_unit(p, &p->units[u], err));
    return SYN_OK;
}

bool syn__pic_may_join(const syn__pic_plan *p, syn__pic_waits *box, uint32_t node) {
    const syn__pic_waits *w = &p->waits[node];
    if (box->waits != w->waits || (box->feeds != 0 && w->feeds != 0 && box->feeds != w->feeds))
        return false;
    box->feeds |= w->feeds;
    return true;
}

/* Follows views from the node at *place back to the op that computed their data. */
static syn_status behind_views(syn__pic_plan *p, uint32_t *place, syn_error *err) {
    for (int hops = 0; hops < 64; hops++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(p, *place, &p->other, &n, err));
        if ((n->flags & SYN_NODE_VIRTUAL) == 0 || n->n_deps == 0) break;
        *place = syn__pic_place_of(p, n->deps[0].node);
    }
    return SYN_OK;
}

syn_status syn__pic_needs(syn__pic_plan *p, uint32_t first, uint32_t last, uint32_t from_first,
                          uint32_t from_last, bool data, bool *out, syn_error *err) {
    *out = false;
    for (uint32_t i = first; i <= last && !*out; i++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(p, i, &p->cursor, &n, err));
        for (uint32_t k = 0; k < n->n_deps && !*out; k++) {
            if (data && n->deps[k].dep_class != SYN_DEP_DATA) continue;
            uint32_t from = syn__pic_place_of(p, n->deps[k].node);
            SYN_TRY(behind_views(p, &from, err));
            *out = from >= from_first && from <= from_last;
        }
    }
    return SYN_OK;
}
