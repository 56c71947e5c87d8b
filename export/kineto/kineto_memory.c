/* Finds the lifetimes of a rank's storages; see kineto_memory.h. */
#include "export/kineto/kineto_memory.h"

#include <stdlib.h>

#include "syntorch/base/memory.h"

typedef struct life {
    uint32_t first, last; /* index plus one of the first event that writes the storage, and of the
                             last event that uses it; 0: none */
} life;

typedef struct finder {
    syn__kineto_memory *memory;
    const syn__kineto_plan *plan;
    syn__walk *walk;
    life *lives; /* per tensor; only used for tensors that own their storage */
    syn_error *err;
} finder;

/* Finds the tensor that owns the storage. */
static syn_status owner(finder *f, uint32_t tensor, uint32_t *out) {
    const syn_graph_tensor *t;
    const uint32_t n = f->walk->graph->ranks[f->walk->rank_index].n_tensors;
    SYN_TRY(syn__walk_tensor(f->walk, tensor, &t, f->err));
    *out = t->base < n ? t->base : tensor;
    return SYN_OK;
}

static bool ends_later(const finder *f, uint32_t event, uint32_t other) {
    return other == 0 || f->plan->events[event].end >= f->plan->events[other - 1].end;
}

/* Extends the lifetimes of the storages that an event uses. Only compute ops and the communications
   themselves use tensors; calls just pass them on. */
static syn_status use(finder *f, uint32_t event) {
    const syn__kineto_event *e = &f->plan->events[event];
    const syn_node *node;
    uint32_t own;
    if (e->kind != SYN__KINETO_OP && e->kind != SYN__KINETO_LIBRARY) return SYN_OK;
    SYN_TRY(syn__walk_node(f->walk, e->node, &node, f->err));
    const bool side = node->n_outputs > 1 || node->phase == SYN_PHASE_RECOMPUTE;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        SYN_TRY(owner(f, node->outputs[i], &own));
        if (f->lives[own].first == 0) f->lives[own].first = event + 1;
        /* A result of the run stays. An output beside others, or a recomputed one, need not be a
           result: forward does not read what is saved for backward. */
        if (side && f->lives[own].last == 0) f->lives[own].last = event + 1;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        SYN_TRY(owner(f, node->inputs[i], &own));
        if (ends_later(f, event, f->lives[own].last)) f->lives[own].last = event + 1;
    }
    return SYN_OK;
}

static syn_status add(finder *f, uint32_t tensor, uint32_t event, int64_t ns, int64_t bytes) {
    syn__kineto_memory *m = f->memory;
    SYN_TRY(syn_grow(&m->changes, &m->changes_cap, m->n_changes + 1, sizeof *m->changes, f->err));
    m->changes[m->n_changes++] = (syn__kineto_change){ns, bytes, tensor, event};
    return SYN_OK;
}

/* Adds the changes of a storage. A storage that no event writes exists from the start. Parameters,
   inputs, states, and storages that no op reads are never released. */
static syn_status add_life(finder *f, uint32_t tensor) {
    const syn_graph_tensor *t;
    const life *l = &f->lives[tensor];
    SYN_TRY(syn__walk_tensor(f->walk, tensor, &t, f->err));
    if (t->base != tensor) return SYN_OK;
    const int64_t bytes = (int64_t)syn_spec_bytes(&t->spec);
    const uint32_t stays = SYN_TENSOR_PARAM | SYN_TENSOR_INPUT | SYN_TENSOR_STATE;
    if (t->producer == SYN_NO_NODE || l->first == 0) {
        f->memory->before += bytes;
        if ((t->flags & stays) || l->last == 0) return SYN_OK;
    } else {
        SYN_TRY(add(f, tensor, l->first - 1, f->plan->events[l->first - 1].start, bytes));
        if (l->last == 0 || (t->flags & stays)) return SYN_OK;
    }
    return add(f, tensor, l->last - 1, f->plan->events[l->last - 1].end, -bytes);
}

static int by_time(const void *a, const void *b) {
    const syn__kineto_change *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    if (x->event != y->event) return x->event < y->event ? -1 : 1;
    if ((x->bytes < 0) != (y->bytes < 0)) return x->bytes < 0 ? 1 : -1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static syn_status find(finder *f) {
    const uint32_t n = f->walk->graph->ranks[f->walk->rank_index].n_tensors;
    for (uint32_t i = 0; i < f->plan->n_events; i++) SYN_TRY(use(f, i));
    for (uint32_t i = 0; i < n; i++) SYN_TRY(add_life(f, i));
    if (f->memory->n_changes > 1)
        qsort(f->memory->changes, f->memory->n_changes, sizeof *f->memory->changes, by_time);
    return SYN_OK;
}

syn_status syn__kineto_memory_find(syn__kineto_memory *out, const syn__kineto_plan *plan,
                                   syn__walk *walk, syn_error *err) {
    const size_t n = (size_t)walk->graph->ranks[walk->rank_index].n_tensors + 1;
    *out = (syn__kineto_memory){0};
    finder f = {.memory = out,
                .plan = plan,
                .walk = walk,
                .lives = syn_calloc(n, sizeof *f.lives),
                .err = err};
    const syn_status status =
        f.lives != NULL ? find(&f) : SYN_FAIL_NOMEM(err, n * sizeof *f.lives, "tensor lifetimes");
    syn_free(f.lives);
    if (status != SYN_OK) syn__kineto_memory_free(out);
    return status;
}

void syn__kineto_memory_free(syn__kineto_memory *memory) {
    syn_free(memory->changes);
    *memory = (syn__kineto_memory){0};
}
