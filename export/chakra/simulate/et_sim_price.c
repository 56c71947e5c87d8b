/* Remembers the times of collectives on the machine: a training step calls each of a few
   collectives many times. */
#include "export/chakra/simulate/et_sim_run.h"
#include "syntorch/base/memory.h"

#define NO_TIME SYN__SIM_NO_TIME

static uint32_t price_slot(const syn__sim_run_state *s, uint32_t group, int comm_type,
                           uint64_t bytes) {
    uint64_t hash = ((uint64_t)group << 8 | (uint64_t)comm_type) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ bytes) * 0x9E3779B97F4A7C15u;
    for (uint32_t i = (uint32_t)(hash >> 32);; i++) {
        const syn__sim_price *p = &s->prices[i & (s->prices_cap - 1)];
        if (p->ns == NO_TIME ||
            (p->group == group && p->comm_type == comm_type && p->bytes == bytes))
            return i & (s->prices_cap - 1);
    }
}

static syn_status grow_prices(syn__sim_run_state *s) {
    const uint32_t cap = s->prices_cap == 0 ? 256 : s->prices_cap * 2;
    syn__sim_price *old = s->prices;
    const uint32_t n_old = s->prices_cap;
    s->prices = syn_malloc(cap * sizeof *s->prices);
    if (s->prices == NULL) {
        s->prices = old;
        return SYN_FAIL_NOMEM(s->err, cap * sizeof *old, "the times of collectives");
    }
    s->prices_cap = cap;
    for (uint32_t i = 0; i < cap; i++) s->prices[i].ns = NO_TIME;
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].ns != NO_TIME)
            s->prices[price_slot(s, old[i].group, old[i].comm_type, old[i].bytes)] = old[i];
    syn_free(old);
    return SYN_OK;
}

syn_status syn__sim_price_of(syn__sim_run_state *s, uint32_t group, const syn__sim_call *call,
                             uint64_t *out) {
    if (2 * (s->n_prices + 1) > s->prices_cap) SYN_TRY(grow_prices(s));
    syn__sim_price *p = &s->prices[price_slot(s, group, call->comm_type, call->bytes)];
    if (p->ns == NO_TIME) {
        const syn__sim_group *g = &s->set->groups[group];
        uint64_t ns;
        SYN_TRY(syn__sim_collective_ns(s->set->machine, g->ranks, g->n_ranks, call->comm_type,
                                       call->bytes, &ns, s->err));
        *p = (syn__sim_price){group, call->comm_type, call->bytes, ns};
        s->n_prices++;
    }
    *out = syn__sim_scaled(p->ns, call->scale);
    return SYN_OK;
}
