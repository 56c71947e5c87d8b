/* Transfers of KV caches between ranks; see cache_transfer.h. Messages are sent after the step in
   program order. Each depends only on its layer, so it starts while later layers run, and it does
   not hold up their collectives. */
#include "models/cache_transfer.h"

#include "models/causal.h"
#include "models/paged.h"

static syn_tensor *slot_of(syn_tensor *all, int64_t layer, int64_t n, int64_t part) {
    return &all[layer * n + part];
}

static bool is_latent(const syn_model *m) {
    return m->config.latent.kv > 0;
}

static int64_t width(const syn_model *m, syn_tensor cache) {
    return syn_tensor_dim(m->ctx, cache, 3);
}

void syn__caches_post(syn_model *m, syn__cache_transfer *t) {
    m->paged.transfer = t;
    for (int64_t i = 0; i < m->part.n_layers; i++)
        for (int64_t k = 0; k < t->n_received; k++) {
            const syn__cache_part *p = &t->received[k];
            const syn__kv_cache *cache = &m->caches[i];
            const int64_t values = is_latent(m) ? 0 : width(m, cache->v);
            const syn_spec spec = {(int32_t)m->options.dtype,
                                   4,
                                   {1, p->n_heads, p->tokens, width(m, cache->k) + values}};
            *slot_of(t->messages, i, t->n_received, k) =
                syn_recv(m->ctx, &spec, p->peer, p->tag + (int32_t)i);
        }
}

/* Appends one prompt's keys and values (1, G, T, D + Dv). */
static void append(syn_model *m, syn__kv_cache *cache, syn_tensor x) {
    syn_ctx *ctx = m->ctx;
    const syn_spec spec = {SYN_I32, 1, {syn_tensor_dim(ctx, x, 2)}};
    const int64_t keys = width(m, cache->k);
    const syn_tensor slots = syn_input(ctx, "received_slots", &spec, NULL);
    const syn_tensor k = is_latent(m) ? x : syn_slice(ctx, x, 3, 0, keys);
    cache->k = syn_name(ctx, syn_paged_append(ctx, cache->k, k, slots), SYN__CACHE_COPY);
    if (is_latent(m)) return;
    const syn_tensor v = syn_slice(ctx, x, 3, keys, width(m, cache->v));
    cache->v = syn_name(ctx, syn_paged_append(ctx, cache->v, v, slots), SYN__CACHE_COPY);
}

/* Joins the heads of n parts. syn_concat accepts 16 tensors. */
static syn_tensor join(syn_model *m, const syn_tensor *parts, int64_t n) {
    syn_tensor list[16] = {parts[0]};
    for (int64_t k = 1; k < n;) {
        int used = 1;
        while (used < 16 && k < n) list[used++] = parts[k++];
        list[0] = syn_name(m->ctx, syn_concat(m->ctx, list, used, 1), SYN__CACHE_COPY);
    }
    return list[0];
}

void syn__caches_take(syn_model *m, int64_t i) {
    const syn__cache_transfer *t = m->paged.transfer;
    int64_t first = 0;
    for (int64_t k = 1; t && k <= t->n_received; k++) {
        if (k < t->n_received && t->received[k].prompt == t->received[first].prompt) continue;
        const syn_tensor *parts = slot_of(t->messages, i, t->n_received, first);
        append(m, &m->caches[i], join(m, parts, k - first));
        first = k;
    }
}

void syn__caches_pack(syn_model *m, int64_t i) {
    const syn__cache_transfer *t = m->paged.transfer;
    syn_ctx *ctx = m->ctx;
    for (int64_t k = 0; t && k < t->n_sent; k++) {
        const syn__cache_part *p = &t->sent[k];
        const syn_tensor caches[2] = {m->caches[i].k, m->caches[i].v};
        const int n = is_latent(m) ? 1 : 2;
        syn_tensor views[2];
        for (int c = 0; c < n; c++) {
            views[c] = syn_slice(ctx, caches[c], 1, p->first_head, p->n_heads);
            views[c] = syn_slice(ctx, views[c], 2, 0, p->tokens);
        }
        syn_tensor *packed = slot_of(t->packed, i, t->n_sent, k);
        *packed = n == 1 ? views[0] : syn_name(ctx, syn_concat(ctx, views, n, 3), SYN__CACHE_COPY);
        syn_pin(ctx, *packed);
    }
}

void syn__caches_send(syn_model *m) {
    const syn__cache_transfer *t = m->paged.transfer;
    m->paged.transfer = NULL;
    for (int64_t i = 0; i < m->part.n_layers; i++)
        for (int64_t k = 0; k < t->n_sent; k++) {
            const syn_tensor packed = *slot_of(t->packed, i, t->n_sent, k);
            syn_send(m->ctx, packed, t->sent[k].peer, t->sent[k].tag + (int32_t)i);
            syn_unpin(m->ctx, packed);
        }
}
