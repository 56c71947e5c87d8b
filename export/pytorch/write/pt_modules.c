/* Finds the module of each op; see pt_modules.h. */
#include "export/pytorch/write/pt_modules.h"

#include "syntorch/base/memory.h"

#define MAX_DEPTH 32 /* maximum number of modules in a path */

typedef struct finder {
    const syn__pt_rank *rank;
    syn__pt_modules *out;
    uint32_t *of_event;  /* per event: event of the innermost module around it */
    syn__pt_map open;    /* thread -> event of its innermost open module */
    syn__pt_map forward; /* sequence number of a forward op -> event of its module */
    syn_error *err;
} finder;

static int64_t end_of(const syn__pt_event *e) {
    return e->ts_ns + (e->dur_ns > 0 ? e->dur_ns : 0);
}

/* Finds the module around each event. Events are ordered by start, so the modules of the thread
   that are open when an event starts enclose it. */
static syn_status nest(finder *f) {
    const syn__pt_device *d = &f->rank->device;
    for (uint32_t i = 0; i < d->n_events; i++) {
        const syn__pt_event *e = &d->events[i];
        const bool module = e->class_ == SYN__PT_MODULE;
        f->of_event[i] = f->out->outer[i] = SYN__PT_NONE;
        if (!module && e->class_ != SYN__PT_CPU_OP) continue;
        uint32_t *top = syn__pt_map_put(&f->open, e->tid);
        if (top == NULL) return SYN_FAIL_NOMEM(f->err, 64, "modules");
        while (*top != SYN__PT_NONE && end_of(&d->events[*top]) <= e->ts_ns)
            *top = f->out->outer[*top];
        f->of_event[i] = f->out->outer[i] = *top;
        if (module) *top = i;
    }
    return SYN_OK;
}

static const syn__pt_host_node *host_of(const finder *f, const syn__pt_op *op) {
    return op->host != SYN__PT_NONE && !syn__pt_is_device(op) ? &f->rank->host.nodes[op->host]
                                                              : NULL;
}

static syn_status note_forward(finder *f) {
    for (size_t i = 0; i < f->rank->n_ops; i++) {
        const syn__pt_op *op = &f->rank->ops[i];
        const syn__pt_host_node *n = host_of(f, op);
        f->out->of_op[i] = SYN__PT_NONE;
        if (n == NULL || op->event == SYN__PT_NONE) continue;
        const uint32_t module = f->of_event[op->event];
        f->out->of_op[i] = module;
        if (module == SYN__PT_NONE || n->seq_id < 0 || n->fw_tid != 0) continue;
        uint32_t *at = syn__pt_map_put(&f->forward, (uint64_t)n->seq_id);
        if (at == NULL) return SYN_FAIL_NOMEM(f->err, 64, "modules");
        *at = module;
    }
    return SYN_OK;
}

/* Whether the op belongs to the backward pass. A device trace alone does not record the thread of
   the forward op, so the name is checked, too. */
static bool is_backward(const finder *f, const syn__pt_op *op, const syn__pt_host_node *n) {
    return n->fw_tid != 0 ||
           syn__str_has(syn__pt_op_name(f->rank, op), "autograd::engine::evaluate_function");
}

static void take_backward(finder *f) {
    for (size_t i = 0; i < f->rank->n_ops; i++) {
        const syn__pt_host_node *n = host_of(f, &f->rank->ops[i]);
        if (n != NULL && f->out->of_op[i] == SYN__PT_NONE && n->seq_id >= 0 &&
            is_backward(f, &f->rank->ops[i], n))
            f->out->of_op[i] = syn__pt_map_get(&f->forward, (uint64_t)n->seq_id);
    }
}

/* Gives each op without a module of its own the module of its nearest caller that has one. */
static void take_callers(finder *f) {
    uint32_t *of_op = f->out->of_op;
    for (size_t i = 0; i < f->rank->n_ops; i++) {
        uint32_t op = (uint32_t)i;
        for (int k = 0; k < 64 && op != SYN__PT_NONE && of_op[op] == SYN__PT_NONE; k++)
            op = f->rank->ops[op].parent;
        if (op != SYN__PT_NONE) of_op[i] = of_op[op];
    }
}

syn_status syn__pt_modules_find(syn__pt_modules *out, const syn__pt_rank *rank, syn_error *err) {
    if (rank->device.n_class[SYN__PT_MODULE] == 0 || rank->n_ops == 0) return SYN_OK;
    const size_t n = rank->device.n_events;
    finder f = {.rank = rank, .out = out, .err = err};
    f.of_event = syn_calloc(n, sizeof *f.of_event);
    out->outer = syn_calloc(n, sizeof *out->outer);
    out->of_op = syn_calloc(rank->n_ops, sizeof *out->of_op);
    const bool allocated = f.of_event != NULL && out->outer != NULL && out->of_op != NULL;
    syn_status s = allocated ? nest(&f) : SYN_FAIL_NOMEM(err, n * sizeof *out->outer, "modules");
    if (s == SYN_OK) s = note_forward(&f);
    if (s == SYN_OK) {
        take_backward(&f);
        take_callers(&f);
    }
    syn_free(f.of_event);
    syn__pt_map_free(&f.open);
    syn__pt_map_free(&f.forward);
    return s;
}

void syn__pt_modules_free(syn__pt_modules *modules) {
    syn_free(modules->of_op);
    syn_free(modules->outer);
}

size_t syn__pt_module_path(const syn__pt_rank *rank, const syn__pt_modules *modules, uint32_t op,
                           char *text) {
    uint32_t path[MAX_DEPTH];
    size_t n = 0, bytes = 0;
    if (modules->of_op == NULL) return 0;
    for (uint32_t e = modules->of_op[op]; e != SYN__PT_NONE && n < MAX_DEPTH; e = modules->outer[e])
        path[n++] = e;
    while (n-- > 0) {
        syn__str name = syn__pt_device_name(&rank->device, rank->device.events[path[n]].name);
        name.text += sizeof SYN__PT_MODULE_NAME - 1;
        name.bytes -= sizeof SYN__PT_MODULE_NAME - 1;
        if (text != NULL && bytes > 0) text[bytes] = '/';
        if (bytes > 0) bytes++;
        if (text != NULL) memcpy(text + bytes, name.text, name.bytes);
        bytes += name.bytes;
    }
    return bytes;
}
