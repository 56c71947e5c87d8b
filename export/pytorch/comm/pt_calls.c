/* Finds the host ops that belong to each call of a communication library.
   A call has up to four ops, which are usually nested: _c10d_functional::X, c10d::X,
   record_param_comms, and the library op "nccl:X" or "gloo:X". The library op may also enclose
   record_param_comms. A library with its own threads (gloo) begins and ends its ops long after the
   call, so nesting does not show to which call they belong. Record function ids show it: the call
   creates the library op, so the id of that op is the next id in the calling thread, no matter when
   the op begins. */
#include "export/pytorch/comm/pt_calls.h"
#include "export/pytorch/comm/pt_call_facts.h"
#include "export/pytorch/read/pt_names.h"
#include "syntorch/base/memory.h"

#define MAX_WAITING 256 /* maximum number of calls searched for the call of a library op */

enum { UNSEEN, NO_CALL, RECORD, API, FUNCTIONAL, BACKEND };

static uint8_t level_of(syn__str name) {
    if (syn__str_is(name, "record_param_comms")) return RECORD;
    const uint8_t level =
        syn__str_begins(name, "c10d::") ? API
        : syn__str_begins(name, "_c10d_functional::") || syn__str_begins(name, "c10d_functional::")
            ? FUNCTIONAL
        : syn__pt_is_library_call(name) ? BACKEND
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
                                SYN__PT_NONE, SYN__PT_NONE, kind,         false};
    SYN_TRY(syn_grow(&c->calls, &c->calls_cap, c->n_calls + 1, sizeof *c->calls, c->err));
    *out = (uint32_t)c->n_calls;
    c->calls[c->n_calls++] = blank;
    return SYN_OK;
}

/* Sets the kind of a call unless it is known already. */
static void set_kind(syn__pt_call *call, int kind) {
    if (call->kind == SYN__PT_CALL_UNKNOWN) call->kind = kind;
}

/* Adds an api op (c10d::X) to the enclosing call if that call has none yet, otherwise to a new
   call. */
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

/* Whether a library op of that kind can belong to the call. gloo runs a reduce-scatter as several
   all-reduces (older versions: as an all-reduce and a scatter), and a monitored barrier as
   messages. */
static bool fits(const syn__pt_call *call, int kind) {
    if (call->api == SYN__PT_NONE && call->record == SYN__PT_NONE) return false;
    const bool is_part = kind == SYN__PT_CALL_ALL_REDUCE || kind == SYN__PT_CALL_SCATTER;
    const bool is_message = kind == SYN__PT_CALL_SEND || kind == SYN__PT_CALL_RECV;
    if (call->kind == SYN__PT_CALL_REDUCE_SCATTER && is_part) return true;
    if (call->kind == SYN__PT_CALL_BARRIER && is_message) return true;
    return call->kind == kind && call->backend == SYN__PT_NONE;
}

/* ---- Callers of library ops ---- */

static const syn__pt_host_node *host_node(const syn__pt_calls *c, uint32_t op) {
    return &c->rank->host.nodes[c->rank->ops[op].host];
}

static bool has_rf_id(const syn__pt_host_node *node) {
    return (node->has & SYN__PT_HAS_RF_ID) != 0 && node->rf_id != 0;
}

/* The number of entries of by_rf_id whose id is lower. */
static size_t count_below(const syn__pt_calls *c, uint64_t rf_id) {
    size_t low = 0, high = c->n_by_rf_id;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (c->by_rf_id[mid].rf_id < rf_id) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* Adds an op that may create library ops to by_rf_id. Ops come almost in the order of their ids. An
   id that is far out of order must be damaged, so it is ignored. */
static syn_status add_by_rf_id(syn__pt_calls *c, uint32_t op, uint32_t call) {
    const syn__pt_host_node *node = host_node(c, op);
    if (!has_rf_id(node)) return SYN_OK;
    const size_t at = count_below(c, node->rf_id), n_behind = c->n_by_rf_id - at;
    if (n_behind > MAX_WAITING) return SYN_OK;
    SYN_TRY(
        syn_grow(&c->by_rf_id, &c->by_rf_id_cap, c->n_by_rf_id + 1, sizeof *c->by_rf_id, c->err));
    memmove(c->by_rf_id + at + 1, c->by_rf_id + at, n_behind * sizeof *c->by_rf_id);
    c->by_rf_id[at] = (syn__pt_call_id){node->rf_id, call, c->rank->ops[op].track};
    c->n_by_rf_id++;
    return SYN_OK;
}

/* The first list in a text that contains no other list. In the inputs of a library op, this is its
   tensor or the shape of its tensor. */
static syn__str innermost(syn__str text) {
    size_t begin = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.text[i] == '[') begin = i;
        if (text.text[i] == ']' && i > begin + 1)
            return (syn__str){text.text + begin, i + 1 - begin};
    }
    return (syn__str){"", 0};
}

static bool holds(syn__str text, syn__str part) {
    for (size_t i = 0; part.bytes != 0 && i + part.bytes <= text.bytes; i++)
        if (text.text[i] == part.text[0] && memcmp(text.text + i, part.text, part.bytes) == 0)
            return true;
    return false;
}

/* How similar a call and a library op are: 2 points for the same tensor, and 1 point for the same
   thread. A device trace alone does not have the calling thread, so all calls get this point. */
static int match_score(const syn__pt_calls *c, const syn__pt_call *call, uint32_t op) {
    const uint32_t of = call->api != SYN__PT_NONE ? call->api : call->record;
    const syn__pt_host_node *caller = host_node(c, of), *node = host_node(c, op);
    const syn__str tensor = innermost(syn__pt_inputs(node));
    return 2 * holds(syn__pt_inputs(caller), tensor) +
           (c->rank->host.from_event != NULL || caller->tid == node->tid);
}

enum { NO_MATCH = -1, FULL_MATCH = 3 };

static void consider(const syn__pt_calls *c, uint32_t call, uint32_t op, int kind, int *best,
                     uint32_t *out) {
    if (*best == FULL_MATCH || !fits(&c->calls[call], kind)) return;
    const int how = match_score(c, &c->calls[call], op);
    if (how <= *best) return;
    *best = how;
    *out = call;
}

/* Finds the call that created a library op: the last call that a thread began before it created the
   op. If this is possible for several threads, the call that is most similar to the op is
   chosen. */
static uint32_t find_caller(syn__pt_calls *c, uint32_t op, int kind) {
    uint32_t out = SYN__PT_NONE;
    int best = NO_MATCH;
    size_t i = count_below(c, host_node(c, op)->rf_id);
    for (int tries = 0; i > 0 && tries < MAX_WAITING; tries++) {
        const syn__pt_call_id *m = &c->by_rf_id[--i];
        if (c->looked[m->track] == op) continue;
        c->looked[m->track] = op;
        consider(c, m->call, op, kind, &best, &out);
    }
    return out;
}

/* Finds the call of a library op without record function ids. A library processes calls in order,
   and the ops are ordered by start, so the op belongs to the first call that has no library op
   yet. */
static uint32_t waiting(syn__pt_calls *c, uint32_t op, int kind) {
    uint32_t out = SYN__PT_NONE;
    int best = NO_MATCH;
    while (c->first_waiting < c->n_calls && c->calls[c->first_waiting].backend != SYN__PT_NONE)
        c->first_waiting++;
    for (size_t i = c->first_waiting; i < c->n_calls && i < c->first_waiting + MAX_WAITING; i++)
        if (c->calls[i].backend == SYN__PT_NONE) consider(c, (uint32_t)i, op, kind, &best, &out);
    if (out == SYN__PT_NONE && c->n_calls > 0) /* it may be another op of the last call */
        consider(c, (uint32_t)c->n_calls - 1, op, kind, &best, &out);
    return out;
}

/* Whether both ops ran in the same thread according to the device trace. */
static bool in_one_thread(const syn__pt_rank *r, const syn__pt_op *a, const syn__pt_op *b) {
    return a->event != SYN__PT_NONE && b->event != SYN__PT_NONE &&
           r->device.events[a->event].tid == r->device.events[b->event].tid;
}

/* Marks an op that runs concurrently with the calling thread as detached. Its parent becomes the op
   of the call, which only launched it. */
static void detach(syn__pt_calls *c, uint32_t op, const syn__pt_call *call) {
    const uint32_t by = call->api != SYN__PT_NONE      ? call->api
                        : call->record != SYN__PT_NONE ? call->record
                                                       : call->functional;
    syn__pt_op *o = &c->rank->ops[op];
    if (by == SYN__PT_NONE || by >= op || c->rank->ops[by].track == o->track) return;
    o->detached = true;
    o->till_wait = in_one_thread(c->rank, o, &c->rank->ops[by]);
    o->parent = by;
}

static bool ends_later(const syn__pt_rank *r, uint32_t op, uint32_t other) {
    const syn__pt_op *a = &r->ops[op], *b = &r->ops[other];
    return a->detached && b->detached && syn__pt_op_end(a) > syn__pt_op_end(b);
}

static syn_status join_backend(syn__pt_calls *c, uint32_t op, uint32_t above, uint32_t *out) {
    const int kind = syn__pt_call_kind(syn__pt_op_name(c->rank, &c->rank->ops[op]));
    *out = SYN__PT_NONE;
    if (above != SYN__PT_NONE && c->calls[above].record != SYN__PT_NONE) *out = above;
    else if (has_rf_id(host_node(c, op)) && c->n_by_rf_id > 0) *out = find_caller(c, op, kind);
    else if (above != SYN__PT_NONE && fits(&c->calls[above], kind)) *out = above;
    else *out = waiting(c, op, kind);
    if (*out == SYN__PT_NONE) SYN_TRY(add(c, kind, out));
    syn__pt_call *call = &c->calls[*out];
    detach(c, op, call);
    if (call->backend == SYN__PT_NONE) call->backend = call->latest = op;
    else if (ends_later(c->rank, op, call->latest)) call->latest = op;
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
    return level == BACKEND ? SYN_OK : add_by_rf_id(c, index, call);
}

/* Allocates a table of n entries and stores it in the pointer to which `out` points. */
static syn_status new_table(syn__pt_calls *c, void *out, size_t n, size_t bytes, int fill) {
    void *table = syn_calloc(n != 0 ? n : 1, bytes);
    if (table == NULL) return SYN_FAIL_NOMEM(c->err, n * bytes, "the communication of a trace");
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
    SYN_TRY(new_table(c, &c->looked, rank->n_tracks, sizeof *c->looked, 0xFF));
    SYN_TRY(new_table(c, &c->name_level, rank->host.names.n_entries, 1, UNSEEN));
    SYN_TRY(new_table(c, &c->kernel_name, rank->device.names.n_entries, 1, 0));
    for (uint32_t i = 0; i < rank->n_ops; i++) {
        const syn__pt_op *op = &rank->ops[i];
        /* a parent that is only a guess by time does not identify the call */
        const bool called = op->kind != SYN_PYTORCH_OP_HOST || op->around == SYN__PT_NONE;
        const uint32_t parent = op->by_time ? SYN__PT_NONE : called ? op->parent : op->around;
        const uint32_t above =
            parent != SYN__PT_NONE && parent < i ? c->call_of[parent] : SYN__PT_NONE;
        c->call_of[i] = above;
        c->in_record[i] = above != SYN__PT_NONE && c->in_record[parent];
        if (op->kind == SYN_PYTORCH_OP_HOST && op->host != SYN__PT_NONE)
            SYN_TRY(take_host(c, i, above));
    }
    return SYN_OK;
}

void syn__pt_calls_close(syn__pt_calls *c) {
    syn_free(c->calls);
    syn_free(c->call_of);
    syn_free(c->in_record);
    syn_free(c->by_rf_id);
    syn_free(c->looked);
    syn_free(c->name_level);
    syn_free(c->kernel_name);
}
