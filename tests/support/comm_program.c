/* Implements comm_program.h: generates the list of operations, runs it in each rank's order, and
   compares each result with comm_reference.h. */
#include "tests/support/comm_program.h"
#include "tests/support/comm_calls.h"
#include "tests/support/comm_reference.h"
#include "tests/support/random.h"

#include <stdlib.h>

enum {
    MAX_RANKS = 8,
    N_GROUPS = 5,
    /* Maximum number of elements per operation. It covers inputs that communicators copy and inputs
       that they do not. */
    ELEMS = 700,
    PART_ELEMS = 500, /* the same for parts, because the segments have gaps between them */
    N_OPEN = 12,
    AHEAD = 5, /* a rank chooses among the next AHEAD operations */
    FILL_BYTE = 0xa5
};

typedef struct operation {
    int step;
    syn_comm_call x;
    size_t n_elems;       /* total over all its segments; with parts, length of a part */
    syn_request *request; /* NULL: the slot is free */
    syn_segment segments[SYN_MAX_LIST];
    uint64_t in[ELEMS * MAX_RANKS], out[ELEMS * MAX_RANKS], want[ELEMS * MAX_RANKS];
} operation;

typedef struct rank_state {
    syn_comm *comm;
    const comm_program *program;
    uint64_t own; /* random state of this rank only */
    syn_group *groups[N_GROUPS];
    uint64_t all[MAX_RANKS][ELEMS * MAX_RANKS]; /* scratch memory: the inputs of all members */
    operation open[N_OPEN];
    int first; /* the first step that has not been started */
    bool started[];
} rank_state;

static uint64_t dice_of(const comm_program *p, int step) {
    uint64_t state = p->seed * 1000003 + (uint64_t)step + 1;
    for (int i = 0; i < 8; i++) (void)random_u64(&state);
    return random_u64(&state);
}

/* ---- The list ---- */

/* Opens the groups that this rank belongs to: the world, and random ranks in random order. */
static syn_status open_groups(rank_state *s, syn_error *err) {
    for (uint32_t g = 0; g < N_GROUPS; g++) {
        int32_t ranks[MAX_RANKS], n = s->comm->size;
        uint64_t state = s->program->seed * 31 + g + 1;
        bool member = false;
        for (int32_t r = 0; r < n; r++) ranks[r] = r;
        for (int32_t r = n - 1; r > 0 && g > 0; r--) {
            const int32_t k = (int32_t)(random_u64(&state) >> 32) & INT32_MAX;
            const int32_t kept = ranks[r];
            ranks[r] = ranks[k % (r + 1)];
            ranks[k % (r + 1)] = kept;
        }
        if (g > 0) n = 1 + (int32_t)((random_u64(&state) >> 32) % (uint64_t)n);
        for (int32_t i = 0; i < n; i++) member = member || ranks[i] == s->comm->rank;
        const uint32_t id = (uint32_t)s->program->seed * N_GROUPS + g + 1;
        if (member) SYN_TRY(syn_comm_open_group(s->comm, id, "g", ranks, n, &s->groups[g], err));
    }
    return SYN_OK;
}

static bool is_message(const syn_comm_call *x) {
    return x->kind == SYN_COMM_SEND || x->kind == SYN_COMM_RECV;
}

/* Sets *x to the operation of a step on this rank. Returns false if the rank does not take part. */
static bool call_at(const rank_state *s, int step, syn_comm_call *x, size_t *n_elems) {
    static const syn_comm_kind kinds[] = {SYN_COMM_ALL_REDUCE, SYN_COMM_ALL_GATHER,
                                          SYN_COMM_REDUCE_SCATTER, SYN_COMM_BROADCAST,
                                          SYN_COMM_BARRIER};
    const uint64_t dice = dice_of(s->program, step), size = (uint64_t)s->comm->size;
    *x = (syn_comm_call){.kind = kinds[dice % 5],
                         .dtype = (syn_dtype)((dice >> 8) % SYN_DTYPE_COUNT),
                         .reduce = (syn_reduce)((dice >> 16) % SYN_REDUCE_COUNT)};
    *n_elems = (dice >> 24) % (dice >> 23 & 1 ? ELEMS : 20);
    if (s->program->any_sum && x->dtype != SYN_I32 && x->dtype != SYN_I64 &&
        x->reduce != SYN_REDUCE_MIN)
        x->reduce = SYN_REDUCE_MAX;
    if (dice >> 36 & 1) {
        const int32_t from = (int32_t)((dice >> 40) % size), to = (int32_t)((dice >> 44) % size);
        x->kind = s->comm->rank == from ? SYN_COMM_SEND : SYN_COMM_RECV;
        x->peer = s->comm->rank == from ? to : from;
        x->tag = (int32_t)(dice >> 48 & 1);
        return from != to && (s->comm->rank == from || s->comm->rank == to);
    }
    x->group = s->groups[(dice >> 40) % N_GROUPS];
    if (x->group != NULL) x->root = (int32_t)((dice >> 48) % (uint64_t)x->group->size);
    return x->group != NULL;
}

/* Whether two operations must be started in the order of the list. */
static bool ordered(const syn_comm_call *x, const syn_comm_call *y) {
    if (!is_message(x)) return x->group == y->group;
    return x->kind == y->kind && x->peer == y->peer && x->tag == y->tag;
}

/* ---- Running the list ---- */

/* Splits `left` elements into n_segments segments, with a gap of one element between them in `in`
   and `out`. */
static void cut(operation *o, int32_t n_segments, size_t left, uint64_t state) {
    const size_t bytes = syn_dtype_bytes(o->x.dtype);
    size_t at = 0;
    o->x.n_segments = n_segments;
    o->x.segments = o->segments;
    for (int32_t i = 0; i < n_segments; i++) {
        const size_t n = i < n_segments - 1 ? (random_u64(&state) >> 32) % (left + 1) : left;
        o->segments[i] = (syn_segment){(char *)o->in + at * bytes, (char *)o->out + at * bytes, n};
        at += n + 1;
        left -= n;
    }
}

/* Copies contiguous elements into the segments. n_elems: the count if there is only one segment. */
static void place(const operation *o, void *to, const void *from, size_t n_elems) {
    const size_t bytes = syn_dtype_bytes(o->x.dtype);
    const char *next = from;
    if (o->x.n_segments < 2) memcpy(to, from, n_elems * bytes);
    for (int32_t i = 0; i < o->x.n_segments && o->x.n_segments > 1; i++) {
        const syn_segment *s = &o->segments[i];
        const size_t at = (size_t)((char *)s->out - (char *)o->out);
        memcpy((char *)to + at, next, s->n_elems * bytes);
        next += s->n_elems * bytes;
    }
}

static void expect_nothing(operation *o) {
    memset(o->want, FILL_BYTE, sizeof o->want);
    memset(o->out, FILL_BYTE, sizeof o->out);
}

static void expect(operation *o, const void *result, size_t n_elems) {
    expect_nothing(o);
    place(o, o->want, result, n_elems);
}

static uint64_t seed_of(int step, int32_t member) {
    return (uint64_t)step * 16 + (uint64_t)member + 1;
}

static void plan_message(rank_state *s, operation *o) {
    const int32_t from = o->x.kind == SYN_COMM_SEND ? s->comm->rank : o->x.peer;
    cut(o, 1, o->n_elems, 0);
    reference_fill(s->all[0], o->n_elems, o->x.dtype, seed_of(o->step, from));
    memcpy(o->in, s->all[0], sizeof o->in);
    expect(o, s->all[0], o->x.kind == SYN_COMM_SEND ? 0 : o->n_elems);
}

/* The number of segments of a collective: often 1. */
static int32_t list_length(uint64_t dice) {
    return dice >> 53 & 1 ? 1 + (int32_t)((dice >> 54) % SYN_MAX_LIST) : 1;
}

/* An all_gather or a reduce_scatter, often with padding. */
static void plan_parts(rank_state *s, operation *o) {
    const syn_group *group = o->x.group;
    const uint64_t dice = dice_of(s->program, o->step);
    const bool scatters = o->x.kind == SYN_COMM_REDUCE_SCATTER;
    const size_t n = o->n_elems %= PART_ELEMS, bytes = n * syn_dtype_bytes(o->x.dtype);
    const size_t all = n * (size_t)group->size,
                 padding = dice >> 52 & 1 ? (dice >> 33) % (n + 1) : 0;
    uint64_t result[ELEMS * MAX_RANKS];
    const void *ins[MAX_RANKS];
    cut(o, list_length(dice), all - padding, dice);
    o->x.n_part = n;
    o->x.part = scatters ? o->out : o->in;
    for (int32_t k = 0; k < group->size; k++) {
        ins[k] = s->all[k];
        reference_fill(s->all[k], scatters ? all : n, o->x.dtype, seed_of(o->step, k));
        if (!scatters) memcpy((char *)result + (size_t)k * bytes, s->all[k], bytes);
    }
    if (!scatters) {
        memcpy(o->in, s->all[group->index], bytes);
        expect(o, result, all - padding);
        return;
    }
    const size_t first = n * (size_t)group->index;
    const size_t real = all - padding < first       ? 0
                        : all - padding < first + n ? all - padding - first
                                                    : n;
    place(o, o->in, s->all[group->index], all - padding);
    expect_nothing(o);
    memset(o->want, 0, bytes);
    reference_reduce(ins, group->size, first, o->want, real, o->x.dtype, o->x.reduce);
}

static void plan_collective(rank_state *s, operation *o) {
    static const void *const nothing = "";
    const syn_group *group = o->x.group;
    const size_t n = o->n_elems;
    const uint64_t dice = dice_of(s->program, o->step);
    cut(o, o->x.kind == SYN_COMM_BARRIER ? 1 : list_length(dice), n, dice);
    uint64_t result[ELEMS * MAX_RANKS];
    const void *ins[MAX_RANKS];
    for (int32_t k = 0; k < group->size; k++) {
        ins[k] = s->all[k];
        reference_fill(s->all[k], n, o->x.dtype, seed_of(o->step, k));
    }
    place(o, o->in, s->all[group->index], n);
    if (o->x.kind == SYN_COMM_BARRIER) expect(o, nothing, 0);
    if (o->x.kind == SYN_COMM_BROADCAST) expect(o, s->all[o->x.root], n);
    if (o->x.kind == SYN_COMM_ALL_REDUCE) {
        reference_reduce(ins, group->size, 0, result, n, o->x.dtype, o->x.reduce);
        expect(o, result, n);
    }
    if (o->x.kind == SYN_COMM_BARRIER) return;
    for (int32_t i = 0; i < o->x.n_segments; i++) { /* some of the segments are in place */
        syn_segment *one = &o->segments[i];
        if (!(random_u64(&s->own) >> 40 & 1)) continue;
        memcpy(one->out, one->in, one->n_elems * syn_dtype_bytes(o->x.dtype));
        one->in = one->out;
    }
}

static syn_status check(const operation *o, syn_error *err) {
    if (memcmp(o->out, o->want, sizeof o->out) == 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "step %d, %s of %d elements of %s in %d tensors: wrong result", o->step,
                    syn_comm_kind_name(o->x.kind), (int)o->n_elems, syn_dtype_name(o->x.dtype),
                    (int)o->x.n_segments);
}

static syn_status finish(rank_state *s, operation *o, syn_error *err) {
    SYN_TRY(wait_for(s->comm, o->request, err));
    o->request = NULL;
    return check(o, err);
}

/* Waits for one operation in flight. Its step is before s->first, so all earlier operations of the
   list have been started. Does nothing if there is no such operation. */
static syn_status finish_any(rank_state *s, syn_error *err) {
    const uint64_t at = random_u64(&s->own) >> 32;
    for (uint64_t i = 0; i < N_OPEN; i++) {
        operation *o = &s->open[(at + i) % N_OPEN];
        if (o->request != NULL && o->step < s->first) return finish(s, o, err);
    }
    return SYN_OK;
}

/* Chooses the step to start next. */
static int choose(const rank_state *s, uint64_t dice) {
    const int step = s->first + (int)(dice % AHEAD);
    syn_comm_call x, earlier;
    size_t n_elems;
    if (s->program->in_order || step >= s->program->n_steps || s->started[step] ||
        !call_at(s, step, &x, &n_elems))
        return s->first;
    for (int i = s->first; i < step; i++)
        if (!s->started[i] && call_at(s, i, &earlier, &n_elems) && ordered(&x, &earlier))
            return s->first;
    return step;
}

static operation *free_slot(rank_state *s) {
    for (int i = 0; i < N_OPEN; i++)
        if (s->open[i].request == NULL) return &s->open[i];
    return NULL;
}

static syn_status start(rank_state *s, int step, syn_error *err) {
    operation *o = free_slot(s);
    /* Fewer than AHEAD open operations are at or after s->first, so at least one may be waited
       for. */
    while (o == NULL) {
        SYN_TRY(finish_any(s, err));
        o = free_slot(s);
    }
    o->step = step;
    s->started[step] = true;
    if (!call_at(s, step, &o->x, &o->n_elems)) return SYN_OK;
    if (is_message(&o->x)) plan_message(s, o);
    else if (o->x.kind == SYN_COMM_ALL_GATHER || o->x.kind == SYN_COMM_REDUCE_SCATTER)
        plan_parts(s, o);
    else plan_collective(s, o);
    const bool blocks = step == s->first && (random_u64(&s->own) >> 40) % 4 == 0;
    if (!blocks) return start_call(s->comm, o->x, &o->request, err);
    SYN_TRY(syn_comm_run(s->comm, &o->x, NULL, err));
    return check(o, err);
}

static syn_status run(rank_state *s, syn_error *err) {
    const int n_steps = s->program->n_steps;
    SYN_TRY(open_groups(s, err));
    while (s->first < n_steps) {
        const uint64_t dice = random_u64(&s->own) >> 32;
        SYN_TRY(start(s, choose(s, dice), err));
        while (s->first < n_steps && s->started[s->first]) s->first++;
        if (dice >> 8 & 1) SYN_TRY(finish_any(s, err));
    }
    for (int i = 0; i < N_OPEN; i++) SYN_TRY(finish_any(s, err));
    return SYN_OK;
}

syn_status comm_program_run(syn_comm *comm, const comm_program *program, syn_error *err) {
    rank_state *s = calloc(1, sizeof *s + (size_t)program->n_steps * sizeof *s->started);
    if (s == NULL) return SYN_FAIL(err, SYN_E_NOMEM, "a random program");
    s->comm = comm;
    s->program = program;
    s->own = program->seed * 104729 + (uint64_t)comm->rank + 1;
    const syn_status status = run(s, err);
    /* Makes all operations in flight fail. */
    if (status != SYN_OK) comm->ops->abort(comm, err->text);
    else free(s);
    return status;
}
