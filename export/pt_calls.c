/* Which host ops belong to one call of a communication library.

   A call leaves up to four ops behind, usually within each other: _c10d_functional::X, c10d::X,
   record_param_comms, and the library's own "nccl:X" or "gloo:X", which may also stand around
   record_param_comms. Ops of libraries that run in threads of their own (gloo) end long after the
   call, so the trace hangs them, and later calls, from whatever was open: they are told apart by
   kind and order, not by nesting. */
#include "export/pt_calls.h"
#include "syntorch/memory.h"

#define MAX_WAITING 256 /* calls of a library's threads that are looked through */

enum { UNSEEN, NO_CALL, RECORD, API, FUNCTIONAL, BACKEND };

syn__et_str syn__pt_op_name(const syn__pt_rank *rank, const syn__pt_op *op) {
    const syn__et_str none = {"", 0};
    if (syn__pt_is_device(op) && op->event != SYN__PT_NONE)
        return syn__pt_device_name(&rank->device, rank->device.events[op->event].name);
    if (op->host == SYN__PT_NONE) return none;
    return syn__pt_host_name(&rank->host, rank->host.nodes[op->host].name);
}

static bool begins(syn__et_str s, const char *prefix) {
    const size_t n = strlen(prefix);
    return s.bytes > n && memcmp(s.text, prefix, n) == 0;
}

/* "nccl:all_reduce", not "c10d::..." */
static bool is_library(syn__et_str name) {
    size_t i = 0;
    while (i < name.bytes && ((name.text[i] >= 'a' && name.text[i] <= 'z') ||
                              (name.text[i] >= '0' && name.text[i] <= '9')))
        i++;
    return i > 0 && i + 1 < name.bytes && name.text[i] == ':' && name.text[i + 1] != ':';
}

static uint8_t level_of(syn__et_str name) {
    if (syn__et_str_is(name, "record_param_comms")) return RECORD;
    const uint8_t level = begins(name, "c10d::") ? API
                          : begins(name, "_c10d_functional::") || begins(name, "c10d_functional::")
                              ? FUNCTIONAL
                          : is_library(name) ? BACKEND
                                             : NO_CALL;
    if (level == NO_CALL || syn__pt_call_kind(name) < 0) return NO_CALL;
    return level;
}

static uint8_t level_at(syn__pt_calls *c, uint32_t name) {
    if (c->name_level[name] == UNSEEN)
        c->name_level[name] = level_of(syn__pt_host_name(&c->rank->host, name));
    return c->name_level[name];
}

static syn_status add(syn__pt_calls *c, int kind, uint32_t *out) {
    const syn__pt_call blank = {SYN__PT_NONE, SYN__PT_NONE, SYN__PT_NONE, SYN__PT_NONE,
                                SYN__PT_NONE, kind,         false};
    SYN_TRY(syn_grow(&c->calls, &c->calls_cap, c->n_calls + 1, sizeof *c->calls, c->err));
    *out = (uint32_t)c->n_calls;
    c->calls[c->n_calls++] = blank;
    return SYN_OK;
}

/* The first kind that is known counts. */
static void set_kind(syn__pt_call *call, int kind) {
    if (call->kind == SYN__PT_CALL_UNKNOWN) call->kind = kind;
}

/* The call above the op, joined if it lacks such a part yet; else a new one. */
static syn_status join_api(syn__pt_calls *c, uint32_t op, uint32_t above, uint32_t *out) {
    const int kind = syn__pt_call_kind(syn__pt_op_name(c->rank, &c->rank->ops[op]));
    const bool inside = above != SYN__PT_NONE && c->calls[above].functional != SYN__PT_NONE;
    if (inside && c->calls[above].api == SYN__PT_NONE && c->calls[above].kind == kind) *out = above;
    else SYN_TRY(add(c, kind, out));
    c->calls[*out].api = op;
    c->in_record[op] = 0;
    return SYN_OK;
}

static syn_status join_record(syn__pt_calls *c, uint32_t op, uint32_t above, int kind,
                              uint32_t *out) {
    const bool again = c->in_record[op];
    c->in_record[op] = 1;
    if (above == SYN__PT_NONE) {
        SYN_TRY(add(c, kind, out));
    } else if (c->calls[above].record == SYN__PT_NONE || again) {
        *out = above;
        if (again) return SYN_OK;
    } else {
        const syn__pt_call around = c->calls[above];
        SYN_TRY(add(c, kind, out));
        c->calls[*out].api = around.api;
        c->calls[*out].functional = around.functional;
    }
    c->calls[*out].record = op;
    return SYN_OK;
}

/* gloo does a reduce-scatter by all-reduces. */
static bool fits(const syn__pt_call *call, int kind) {
    if (call->api == SYN__PT_NONE && call->record == SYN__PT_NONE) return false;
    if (call->kind == SYN__PT_CALL_REDUCE_SCATTER && kind == SYN__PT_CALL_ALL_REDUCE) return true;
    return call->kind == kind && call->backend == SYN__PT_NONE;
}

/* Of a device trace alone, where gloo's ops are in threads of its own: the first call, of any
   thread, that lacks such an op. Ops come in the order of their begin. */
static uint32_t waiting(syn__pt_calls *c, int kind) {
    if (!c->rank->host.made_of) return SYN__PT_NONE;
    while (c->first_waiting < c->n_calls && c->calls[c->first_waiting].backend != SYN__PT_NONE)
        c->first_waiting++;
    for (size_t i = c->first_waiting; i < c->n_calls && i < c->first_waiting + MAX_WAITING; i++)
        if (c->calls[i].backend == SYN__PT_NONE && fits(&c->calls[i], kind)) return (uint32_t)i;
    return SYN__PT_NONE;
}

static syn_status join_backend(syn__pt_calls *c, uint32_t op, uint32_t above, uint32_t *out) {
    const syn__pt_op *o = &c->rank->ops[op];
    const int kind = syn__pt_call_kind(syn__pt_op_name(c->rank, o));
    const uint32_t last = c->last[o->lane];
    const bool in_record = above != SYN__PT_NONE && c->calls[above].record != SYN__PT_NONE;
    if (in_record) *out = above;
    else if (last != SYN__PT_NONE && fits(&c->calls[last], kind)) *out = last;
    else if (above != SYN__PT_NONE && fits(&c->calls[above], kind)) *out = above;
    else if ((*out = waiting(c, kind)) == SYN__PT_NONE) SYN_TRY(add(c, kind, out));
    if (c->calls[*out].backend == SYN__PT_NONE) c->calls[*out].backend = op;
    return SYN_OK;
}

static syn_status take_host(syn__pt_calls *c, uint32_t index, uint32_t above) {
    const syn__pt_op *op = &c->rank->ops[index];
    const syn__pt_host_node *node = &c->rank->host.nodes[op->host];
    const uint8_t level = level_at(c, node->name);
    uint32_t call = above;
    if (level == NO_CALL) return SYN_OK;
    if (level == RECORD) {
        const int kind = syn__pt_record_kind(c->rank, op);
        if (kind == SYN__PT_CALL_NONE) return SYN_OK;
        SYN_TRY(join_record(c, index, above, kind, &call));
        set_kind(&c->calls[call], kind);
    } else if (level == API) {
        SYN_TRY(join_api(c, index, above, &call));
    } else if (level == FUNCTIONAL) {
        SYN_TRY(add(c, syn__pt_call_kind(syn__pt_op_name(c->rank, op)), &call));
        c->calls[call].functional = index;
    } else {
        SYN_TRY(join_backend(c, index, above, &call));
    }
    c->call_of[index] = call;
    c->last[op->lane] = call;
    return SYN_OK;
}

/* Sets the pointer that `out` points to. */
static syn_status new_table(syn__pt_calls *c, void *out, size_t n, size_t bytes, int fill) {
    void *table = syn_calloc(n != 0 ? n : 1, bytes);
    if (table == NULL) return SYN_FAIL_NOMEM(c->err, n * bytes, "finding communication");
    memset(table, fill, n * bytes);
    memcpy(out, &table, sizeof table);
    return SYN_OK;
}

syn_status syn__pt_calls_open(syn__pt_calls *c, syn__pt_rank *rank, syn_error *err) {
    memset(c, 0, sizeof *c);
    c->rank = rank;
    c->err = err;
    c->n_ops = rank->n_ops;
    SYN_TRY(new_table(c, &c->call_of, rank->n_ops, sizeof *c->call_of, 0xFF));
    SYN_TRY(new_table(c, &c->in_record, rank->n_ops, 1, 0));
    SYN_TRY(new_table(c, &c->last, rank->n_lanes, sizeof *c->last, 0xFF));
    SYN_TRY(new_table(c, &c->name_level, rank->host.names.n_entries, 1, UNSEEN));
    SYN_TRY(new_table(c, &c->kernel_name, rank->device.names.n_entries, 1, 0));
    for (uint32_t i = 0; i < rank->n_ops; i++) {
        const syn__pt_op *op = &rank->ops[i];
        /* what is linked by time alone is told nothing by the op that it hangs from */
        const bool called = op->kind != SYN__PT_OP_HOST || op->around == SYN__PT_NONE;
        const uint32_t parent = op->by_time ? SYN__PT_NONE : called ? op->parent : op->around;
        const uint32_t above =
            parent != SYN__PT_NONE && parent < i ? c->call_of[parent] : SYN__PT_NONE;
        c->call_of[i] = above;
        c->in_record[i] = above != SYN__PT_NONE && c->in_record[parent];
        if (op->kind == SYN__PT_OP_HOST && op->host != SYN__PT_NONE)
            SYN_TRY(take_host(c, i, above));
    }
    return SYN_OK;
}

void syn__pt_calls_close(syn__pt_calls *c) {
    syn_free(c->calls);
    syn_free(c->call_of);
    syn_free(c->in_record);
    syn_free(c->last);
    syn_free(c->name_level);
    syn_free(c->kernel_name);
}
