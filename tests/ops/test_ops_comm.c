/* Tests collectives and messages as ops. Ranks that are threads are compared with naive sums, and
   the same program runs on meta with the fake communicator. */
#include "comm/comm.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { RANKS_MAX = 4 };

/* One world. Every rank generates `x` of all ranks from the same seed, so it knows the expected
   results. */
struct plan {
    int size;
    bool overlap;
    uint64_t seed;
    uint64_t hash[RANKS_MAX];
    bool failed[RANKS_MAX];
};

static void inputs_of_all(ref *x, int size, syn_dtype dtype, uint64_t seed, syn_spec spec) {
    ref_seed(seed);
    spec.dtype = (int32_t)dtype;
    for (int r = 0; r < size; r++)
        ref_fill(&x[r], spec, dtype == SYN_F32 ? -2 : -5, dtype == SYN_F32 ? 2 : 5);
}

/* A random shape whose dimensions are multiples of `size`. */
static syn_spec shape(int round, int size) {
    ref_seed((uint64_t)round + 1000);
    syn_spec s = {SYN_F32, (int32_t)ref_int(1, 4), {0}};
    for (int d = 0; d < s.rank; d++) s.dims[d] = ref_int(round % 9 == 8 ? 0 : 1, 2) * size;
    return s;
}

static double reduced(const ref *x, int size, int64_t at, syn_reduce how) {
    double r = x[0].v[at];
    for (int k = 1; k < size; k++) {
        const double v = x[k].v[at];
        r = how == SYN_REDUCE_MIN    ? fmin(r, v)
            : how == SYN_REDUCE_MAX  ? fmax(r, v)
            : how == SYN_REDUCE_PROD ? r * v
                                     : r + v;
    }
    if (how == SYN_REDUCE_AVG) r = x[0].spec.dtype == SYN_F32 ? r / size : trunc(r / size);
    return r;
}

static void naive_all_reduce(const ref *x, int size, syn_reduce how, ref *want) {
    want->spec = x[0].spec;
    for (int64_t i = 0; i < syn_spec_elems(&want->spec); i++) want->v[i] = reduced(x, size, i, how);
}

static void naive_all_gather(const ref *x, int size, int axis, ref *want) {
    want->spec = x[0].spec;
    want->spec.dims[axis] *= size;
    for (int64_t i = 0; i < syn_spec_elems(&want->spec); i++) {
        int64_t index[SYN_MAX_RANK];
        ref_index(&want->spec, i, index);
        const int64_t part = x[0].spec.dims[axis], from = index[axis] / part;
        index[axis] %= part;
        want->v[i] = x[from].v[ref_at(&x[0].spec, index)];
    }
}

static void naive_reduce_scatter(const ref *x, int size, int rank, syn_reduce how, int axis,
                                 ref *want) {
    want->spec = x[0].spec;
    want->spec.dims[axis] /= size;
    for (int64_t i = 0; i < syn_spec_elems(&want->spec); i++) {
        int64_t index[SYN_MAX_RANK];
        ref_index(&want->spec, i, index);
        index[axis] += rank * want->spec.dims[axis];
        want->v[i] = reduced(x, size, ref_at(&x[0].spec, index), how);
    }
}

/* Calls one coalesced collective with three tensors, the second of which is a view of the first.
   Each result must be the same as with a separate call. */
static bool coalesced(syn_ctx *ctx, const syn_group *group, const ref *x, int size, int root,
                      bool check) {
    static _Thread_local ref want[2];
    const int64_t n = syn_spec_elems(&x[0].spec) / 2;
    for (int reduce = 0; reduce < 2; reduce++) {
        syn_tensor xs[3];
        for (int k = 0; k < 3; k++) xs[k] = ref_dense(ctx, &x[group->index]);
        xs[1] = syn_slice(ctx, syn_reshape(ctx, xs[1], (const int64_t[]){-1}, 1), 0, n, n);
        naive_all_reduce(x, size, SYN_REDUCE_SUM, &want[0]);
        if (!reduce) want[0] = x[root];
        want[1].spec = (syn_spec){x[0].spec.dtype, 1, {n}};
        for (int64_t i = 0; i < n; i++) want[1].v[i] = want[0].v[n + i];
        if (reduce) syn_all_reduce_coalesced(ctx, xs, 3, SYN_REDUCE_SUM, group);
        else syn_broadcast_coalesced(ctx, xs, 3, root, group);
        for (int k = 0; k < 3 && check; k++)
            if (!ref_check(ctx, xs[k], &want[k == 1], 1e-6)) return false;
    }
    return true;
}

/* The same for this rank's part of a list of n tensors. Gathering the parts again gives the whole
   list on all ranks. */
static bool coalesced_parts(syn_ctx *ctx, const syn_group *group, const ref *x, int size, int n,
                            int64_t padding, bool check) {
    static _Thread_local ref all, want;
    const int64_t elems = syn_spec_elems(&x[0].spec),
                  part = (n * elems + size - 1) / size + padding;
    syn_tensor xs[3];
    for (int k = 0; k < n; k++) xs[k] = ref_dense(ctx, &x[group->index]);
    naive_all_reduce(x, size, SYN_REDUCE_SUM, &all);
    want.spec = (syn_spec){all.spec.dtype, 1, {part}};
    for (int64_t i = 0; i < part; i++) {
        const int64_t at = group->index * part + i;
        want.v[i] = at < n * elems ? all.v[at % elems] : 0;
    }
    const syn_tensor y = syn_reduce_scatter_coalesced(ctx, xs, n, SYN_REDUCE_SUM, part, group);
    if (check && !ref_check(ctx, y, &want, 1e-6)) return false;
    syn_all_gather_coalesced(ctx, xs, n, y, group);
    for (int k = 0; k < n && check; k++)
        if (!ref_check(ctx, xs[k], &all, 1e-6)) return false;
    return true;
}

/* Rows that rank `from` sends to rank `to`; some ranks send nothing. In every fourth round all
   numbers are equal. */
static int64_t sent(int round, int from, int to) {
    return round % 4 == 3 ? 2 : (from + 2 * to + round) % 4;
}

/* What rank `me` sends, or with `back` what it gets: each row has the numbers of both ranks. */
static void rows_of(ref *x, int round, int size, int me, bool back, syn_dtype dtype) {
    int64_t at = 0;
    for (int other = 0; other < size; other++) {
        const int from = back ? other : me, to = back ? me : other;
        for (int64_t i = 0; i < sent(round, from, to); i++, at++)
            for (int k = 0; k < 3; k++)
                x->v[3 * at + k] = from * 1000 + to * 100 + 3 * (double)i + k;
    }
    x->spec = (syn_spec){(int32_t)dtype, 2, {at, 3}};
}

/* Rows arrive in the order of the ranks, and can be sent back. */
static bool all_to_all(syn_ctx *ctx, const syn_group *group, int size, int round, syn_dtype dtype,
                       bool check) {
    static _Thread_local ref x, want;
    const int me = group->index;
    int64_t to[RANKS_MAX], from[RANKS_MAX], most = 0;
    for (int r = 0; r < size; r++) {
        int64_t sends = 0, gets = 0;
        for (int i = 0; i < size; i++) sends += sent(round, r, i), gets += sent(round, i, r);
        most = sends > most ? sends : most;
        most = gets > most ? gets : most;
        to[r] = sent(round, me, r);
        from[r] = sent(round, r, me);
    }
    rows_of(&x, round, size, me, false, dtype);
    rows_of(&want, round, size, me, true, dtype);
    const syn_tensor t = ref_dense(ctx, &x);
    const syn_deepep dispatch = {.choice = {8, 2, 1, 1}},
                     combine = {.combine = true, .choice = {8, 2, 1, 1}};
    const bool deepep = round % 2 == 0;
    const syn_tensor y = deepep ? syn_deepep_all_to_all(ctx, t, to, from, most, &dispatch, group)
                                : syn_all_to_all(ctx, t, to, from, most, group);
    const syn_tensor back = deepep ? syn_deepep_all_to_all(ctx, y, from, to, most, &combine, group)
                                   : syn_all_to_all(ctx, y, from, to, most, group);
    return !check || (ref_check(ctx, y, &want, 0) && ref_check(ctx, back, &x, 0));
}

/* Runs all collectives, axes, reductions and dtypes. check: also compare values. */
static bool program(syn_ctx *ctx, const syn_group *group, int size, bool check) {
    static _Thread_local ref x[RANKS_MAX], want;
    const int me = group->index;
    bool ok = true;
    for (int round = 0; round < 12 && ok; round++) {
        const syn_dtype dtype = (syn_dtype[]){SYN_F32, SYN_I32, SYN_I64}[round % 3];
        const syn_spec spec = shape(round, size);
        inputs_of_all(x, size, dtype, (uint64_t)round, spec);
        const uint64_t state = ref_state;
        /* All ranks use the same layout, because the trace depends on it. */
        syn_tensor t = ref_wild(ctx, &x[me]);
        for (int how = 0; how < SYN_REDUCE_COUNT && ok; how++) {
            naive_all_reduce(x, size, (syn_reduce)how, &want);
            const syn_tensor y = syn_all_reduce(ctx, t, (syn_reduce)how, group);
            ok = !check || ref_check(ctx, y, &want, 1e-6);
        }
        for (int axis = 0; axis < spec.rank && ok; axis++) {
            naive_all_gather(x, size, axis, &want);
            const syn_tensor y = syn_all_gather(ctx, t, axis % 2 ? axis - spec.rank : axis, group);
            ok = !check || ref_check(ctx, y, &want, 0);
            for (int how = 0; how < SYN_REDUCE_COUNT && ok; how++) {
                naive_reduce_scatter(x, size, me, (syn_reduce)how, axis, &want);
                const syn_tensor z = syn_reduce_scatter(ctx, t, (syn_reduce)how,
                                                        axis % 2 ? axis - spec.rank : axis, group);
                ok = !check || ref_check(ctx, z, &want, 1e-6);
            }
        }
        if (spec.rank > 1 && ok) { /* cutting what was gathered gives the input */
            naive_all_gather(x, size, 1, &want);
            const syn_tensor y = syn_gather_tokens(ctx, t, round % 2, group);
            const syn_tensor own = syn_cut_tokens(ctx, y, group);
            ok = !check || (ref_check(ctx, y, &want, 0) && ref_check(ctx, own, &x[me], 0));
        }
        for (int root = 0; root < size && ok; root++) {
            const syn_tensor y = syn_broadcast(ctx, t, root, group);
            ok = !check || ref_check(ctx, y, &x[root], 0);
        }
        ok = ok && coalesced(ctx, group, x, size, round % size, check) &&
             coalesced_parts(ctx, group, x, size, 1 + round % 3, round / 3 % 2, check);
        ok = ok && all_to_all(ctx, group, size, round, dtype, check);
        ok = ok && (!check || ref_check(ctx, t, &x[me], 0)); /* the inputs must not change */
        syn_send(ctx, t, (me + 1) % size, round);
        const syn_tensor got = syn_recv(ctx, &x[0].spec, (me + size - 1) % size, round);
        ok = ok && (!check || ref_check(ctx, got, &x[(me + size - 1) % size], 0));
        syn_barrier(ctx, group);
        ref_state = state;
    }
    return ok && syn_ctx_status(ctx) == SYN_OK;
}

static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    struct plan *plan = arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    int32_t ranks[RANKS_MAX];
    for (int r = 0; r < plan->size; r++) ranks[r] = r;
    syn_status s = syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err);
    if (s == SYN_OK) s = syn_comm_open_group(comm, 1, "tp0", ranks, plan->size, &group, err);
    if (s == SYN_OK) {
        syn_ctx_set_overlap(ctx, plan->overlap);
        plan->failed[comm->rank] = !program(ctx, group, plan->size, true);
        s = syn_ctx_check(ctx, err);
        if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(ctx), err);
        plan->hash[comm->rank] = syn_trace_hash(syn_ctx_trace(ctx));
    }
    syn_ctx_free(ctx);
    return s;
}

static void test_worlds(void) {
    for (int k = 0; k < 2 * (RANKS_MAX - 1); k++) {
        const int size = 2 + k / 2;
        struct plan plan = {.size = size, .overlap = k % 2 == 1};
        syn_error err = {0};
        CHECK_OK(syn_local_run(size, rank_main, &plan, &err), err);
        for (int r = 0; r < size; r++) {
            CHECK_MSG(!plan.failed[r], "rank %d of %d", r, size);
            syn_comm *fake = NULL;
            syn_group *group = NULL;
            int32_t ranks[RANKS_MAX] = {0, 1, 2, 3};
            CHECK_OK(syn_comm_fake_new(&fake, r, size, &err), err);
            CHECK_OK(syn_comm_open_group(fake, 1, "tp0", ranks, size, &group, &err), err);
            syn_ctx *meta = ref_ctx(SYN_DEVICE_META, fake);
            syn_ctx_set_overlap(meta, plan.overlap);
            const bool ok = program(meta, group, size, false);
            CHECK_MSG(ok, "%s", syn_ctx_error(meta)->text);
            CHECK_MSG(syn_trace_hash(syn_ctx_trace(meta)) == plan.hash[r], "rank %d of %d", r,
                      size);
            syn_ctx_free(meta);
            syn_comm_close(fake);
        }
    }
}

/* Two groups of two ranks in a world of four. One lists its ranks in descending order, and shards
   must have the order of the group. */
static syn_status subgroup_main(syn_comm *comm, void *arg, syn_error *err) {
    bool *ok = arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    const int32_t evens[2] = {2, 0}, odds[2] = {1, 3};
    const bool even = comm->rank % 2 == 0;
    SYN_TRY(syn_comm_open_group(comm, even ? 5 : 6, even ? "a" : "b", even ? evens : odds, 2,
                                &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    static _Thread_local ref x, want;
    x.spec = (syn_spec){SYN_F32, 2, {1, 1}};
    x.v[0] = comm->rank;
    const syn_tensor t = ref_dense(ctx, &x);
    want.spec = (syn_spec){SYN_F32, 2, {1, 2}};
    for (int k = 0; k < 2; k++) want.v[k] = even ? evens[k] : odds[k];
    ok[comm->rank] = ref_check(ctx, syn_all_gather(ctx, t, 1, group), &want, 0);
    want.spec = x.spec;
    want.v[0] = even ? evens[1] : odds[1];
    ok[comm->rank] = ok[comm->rank] && ref_check(ctx, syn_broadcast(ctx, t, 1, group), &want, 0);
    want.v[0] = even ? 2 : 4;
    ok[comm->rank] =
        ok[comm->rank] && ref_check(ctx, syn_all_reduce(ctx, t, SYN_REDUCE_SUM, group), &want, 0);
    const syn_status s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static void test_subgroups(void) {
    bool ok[4] = {false};
    syn_error err = {0};
    CHECK_OK(syn_local_run(4, subgroup_main, ok, &err), err);
    for (int r = 0; r < 4; r++) CHECK_MSG(ok[r], "rank %d", r);
}

/* If shapes differ, every rank must fail with a message that names the op. */
static syn_status disagree_main(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    syn_ctx *ctx = NULL;
    syn_group *group = NULL;
    const int32_t ranks[2] = {0, 1};
    SYN_TRY(syn_comm_open_group(comm, 1, "tp0", ranks, 2, &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_push_scope(ctx, "layer");
    const syn_tensor y =
        syn_all_reduce(ctx, ZEROS(ctx, SYN_F32, 3 + comm->rank), SYN_REDUCE_SUM, group);
    syn_status s = syn_ctx_status(ctx);
    if (s == SYN_OK || y.id != 0) s = SYN_FAIL(err, SYN_E_INVALID, "the mismatch went unnoticed");
    else syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

static void test_disagreement(void) {
    syn_error err = {0};
    CHECK_INT(syn_local_run(2, disagree_main, NULL, &err), SYN_E_COMM);
    CHECK_HAS(err.text, "all_reduce");
}

/* A collective without a communicator fails with a message. */
static void test_without_a_communicator(void) {
    const int32_t ranks[2] = {0, 1};
    const syn_group group = {1, "tp0", ranks, 2, 0, NULL};
    for (int device = 0; device < 2; device++) {
        syn_ctx *ctx = ref_ctx(device ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL);
        CHECK_INT(syn_all_reduce(ctx, ZEROS(ctx, SYN_F32, 2), SYN_REDUCE_SUM, &group).id, 0);
        CHECK_HAS(syn_ctx_error(ctx)->text, "communicator");
        syn_ctx_free(ctx);
    }
    syn_error err = {0};
    syn_comm *fake = NULL;
    syn_ctx *ctx = NULL;
    CHECK_OK(syn_comm_fake_new(&fake, 0, 2, &err), err);
    CHECK_INT(syn_ctx_new(&ctx, SYN_DEVICE_CPU, fake, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "meta");
    syn_comm_close(fake);
}

/* Contexts that outlive their communicator. Their data, trace and groups stay valid, and so do
   results that were in flight when the communicator was closed. Further communication fails. */
typedef struct left_behind {
    bool overlap;
    syn_ctx *ctx;
    syn_tensor sum;
    syn_group *group;
} left_behind;

static syn_status leave_behind(syn_comm *comm, void *arg, syn_error *err) {
    left_behind *left = (left_behind *)arg + comm->rank;
    const int32_t ranks[2] = {0, 1};
    const syn_spec spec = {SYN_F32, 1, {2}};
    const float values[2] = {1, (float)comm->rank};
    SYN_TRY(syn_comm_open_group(comm, 1, "tp0", ranks, 2, &left->group, err));
    SYN_TRY(syn_ctx_new(&left->ctx, SYN_DEVICE_CPU, comm, err));
    const syn_tensor x = syn_input(left->ctx, "x", &spec, values);
    syn_ctx_set_overlap(left->ctx, left->overlap);
    left->sum = syn_all_reduce(left->ctx, x, SYN_REDUCE_SUM, left->group);
    return syn_ctx_status(left->ctx);
}

static void check_left_behind(const left_behind *left, int32_t rank) {
    float sum[2];
    syn_graph *graph = NULL;
    syn_error err = {0};
    const syn_trace *trace = syn_ctx_trace(left->ctx);
    CHECK_OK(syn_tensor_read(left->ctx, left->sum, sum, sizeof sum), *syn_ctx_error(left->ctx));
    CHECK(sum[0] == 2 && sum[1] == 1);
    CHECK_STR(left->group->name, "tp0");
    CHECK_INT(syn_ctx_comm(left->ctx)->rank, rank);
    const syn_tensor twice = syn_add(left->ctx, left->sum, left->sum);
    CHECK_OK(syn_tensor_read(left->ctx, twice, sum, sizeof sum), *syn_ctx_error(left->ctx));
    CHECK(sum[0] == 4 && sum[1] == 2);
    if (rank == 0) syn_all_reduce(left->ctx, twice, SYN_REDUCE_SUM, left->group);
    else syn_send(left->ctx, twice, 0, 7);
    CHECK_INT(syn_ctx_status(left->ctx), SYN_E_INVALID);
    CHECK_STR(syn_ctx_error(left->ctx)->text,
              rank == 0
                  ? "all_reduce: the communicator of rank 0 is closed and accepts no more calls"
                  : "send: the communicator of rank 1 is closed and accepts no more calls");
    CHECK_OK(syn_trace_graph(&graph, &trace, 1, NULL, &err), err);
    CHECK_INT(graph->ranks[0].n_nodes, 2);
    syn_graph_free(graph);
}

static void test_contexts_outlive_communicators(void) {
    for (int overlap = 0; overlap < 2; overlap++) {
        left_behind left[2] = {{.overlap = overlap}, {.overlap = overlap}};
        syn_error err = {0};
        CHECK_OK(syn_local_run(2, leave_behind, left, &err), err);
        for (int32_t r = 0; r < 2; r++) {
            check_left_behind(&left[r], r);
            syn_ctx_free(left[r].ctx);
        }
    }
}

/* Two contexts share a communicator and are freed before and after it is closed. */
static void test_contexts_share_a_communicator(void) {
    syn_error err = {0};
    syn_comm *fake = NULL;
    syn_ctx *a = NULL, *b = NULL;
    const int32_t ranks[2] = {0, 1};
    syn_group *group = NULL;
    CHECK_OK(syn_comm_fake_new(&fake, 0, 2, &err), err);
    CHECK_OK(syn_comm_open_group(fake, 1, "tp0", ranks, 2, &group, &err), err);
    CHECK_OK(syn_ctx_new(&a, SYN_DEVICE_META, fake, &err), err);
    CHECK_OK(syn_ctx_new(&b, SYN_DEVICE_META, fake, &err), err);
    syn_ctx_free(a);
    syn_barrier(b, group);
    CHECK_OK(syn_ctx_status(b), *syn_ctx_error(b));
    syn_comm_close(fake);
    syn_barrier(b, group);
    CHECK_HAS(syn_ctx_error(b)->text, "barrier: the communicator of rank 0 is closed");
    syn_ctx_free(b);
    syn_comm_close(NULL);
}

static const test_case cases[] = {
    {"worlds", test_worlds},
    {"subgroups", test_subgroups},
    {"disagreement", test_disagreement},
    {"without a communicator", test_without_a_communicator},
    {"contexts outlive communicators", test_contexts_outlive_communicators},
    {"contexts share a communicator", test_contexts_share_a_communicator},
};
TEST_MAIN(cases)
