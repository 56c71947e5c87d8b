/* Parallel plans (plan.h): checks that the degrees fit the number of ranks, and computes strides
   and positions of ranks from them. */
#include "syntorch/plan.h"

#include <stdio.h>
#include <string.h>

/* The first is Megatron's. */
static const struct {
    const char *text;
    syn_axis axes[SYN_AXES];
} orders[SYN_PLAN_ORDERS] = {
    {"tp-dp-pp", {SYN_AXIS_TP, SYN_AXIS_DP, SYN_AXIS_PP}},
    {"tp-pp-dp", {SYN_AXIS_TP, SYN_AXIS_PP, SYN_AXIS_DP}},
    {"dp-tp-pp", {SYN_AXIS_DP, SYN_AXIS_TP, SYN_AXIS_PP}},
    {"dp-pp-tp", {SYN_AXIS_DP, SYN_AXIS_PP, SYN_AXIS_TP}},
    {"pp-tp-dp", {SYN_AXIS_PP, SYN_AXIS_TP, SYN_AXIS_DP}},
    {"pp-dp-tp", {SYN_AXIS_PP, SYN_AXIS_DP, SYN_AXIS_TP}},
};

int syn_plan_order_number(const syn_plan *plan) {
    int i = SYN_PLAN_ORDERS - 1;
    while (i > 0 && memcmp(orders[i].axes, plan->order, sizeof orders[i].axes) != 0) i--;
    return i;
}

const char *syn_plan_order_text(const syn_plan *plan) {
    return orders[syn_plan_order_number(plan)].text;
}

const syn_axis *syn_plan_order(const char *text) {
    int i = SYN_PLAN_ORDERS - 1;
    while (i >= 0 && strcmp(orders[i].text, text) != 0) i--;
    return i < 0 ? NULL : orders[i].axes;
}

const char *syn_schedule_name(syn_schedule schedule) {
    static const char *const names[] = {[SYN_SCHEDULE_1F1B] = "1f1b",
                                        [SYN_SCHEDULE_GPIPE] = "gpipe",
                                        [SYN_SCHEDULE_INTERLEAVED] = "interleaved",
                                        [SYN_SCHEDULE_ZB_H1] = "zb-h1",
                                        [SYN_SCHEDULE_DUALPIPE] = "dualpipe"};
    return (unsigned)schedule < sizeof names / sizeof *names ? names[schedule] : "?";
}

const char *syn_cp_comm_name(syn_cp_comm comm) {
    static const char *const names[] = {[SYN_CP_P2P] = "p2p",
                                        [SYN_CP_ALL_GATHER] = "all_gather",
                                        [SYN_CP_A2A] = "a2a",
                                        [SYN_CP_A2A_P2P] = "a2a+p2p"};
    return (unsigned)comm < sizeof names / sizeof *names ? names[comm] : "?";
}

/* " x cp 4", or nothing without context parallelism. */
static const char *cp_text(const syn_plan *p, char buf[24]) {
    buf[0] = '\0';
    if (p->cp > 1) snprintf(buf, 24, " x cp %d", p->cp);
    return buf;
}

/* Replaces degrees of 0 by 1, except for dp. Sets *others to the product of all degrees except dp,
   which fits in 31 bits. */
static syn_status check_degrees(syn_plan *p, int64_t *others, syn_error *err) {
    const struct {
        const char *name;
        int32_t *degree;
    } degrees[] = {{"tp", &p->tp}, {"pp", &p->pp},   {"cp", &p->cp}, {"ep", &p->ep},
                   {"dp", &p->dp}, {"etp", &p->etp}, {"kv", &p->kv}, {"vp", &p->vp}};
    const bool own_etp = p->etp != 0;
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
        if (*degrees[i].degree < 0)
            return SYN_FAIL(err, SYN_E_INVALID, "%s must be at least 1, not %d", degrees[i].name,
                            *degrees[i].degree);
        if (*degrees[i].degree == 0 && degrees[i].degree != &p->dp) *degrees[i].degree = 1;
    }
    if (!own_etp) p->etp = p->ep > 1 ? 1 : p->tp;
    if (p->ranks < 0)
        return SYN_FAIL(err, SYN_E_INVALID, "the number of ranks must be at least 1, not %d",
                        p->ranks);
    *others = (int64_t)p->tp * p->pp;
    if (*others <= INT32_MAX / p->cp) *others *= p->cp;
    else *others = INT64_MAX;
    char cp[24];
    if (*others > INT32_MAX / (p->dp ? p->dp : 1))
        return SYN_FAIL(err, SYN_E_INVALID, "tp %d%s x dp %d x pp %d exceeds %d ranks", p->tp,
                        cp_text(p, cp), p->dp ? p->dp : 1, p->pp, INT32_MAX);
    return SYN_OK;
}

static syn_status check_cp(const syn_plan *p, syn_error *err) {
    const bool both = p->cp_comm == SYN_CP_A2A_P2P;
    if (p->cp == 1 && (p->cp_comm != SYN_CP_P2P || p->cp_a2a))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "exchanging keys and values (cp_comm) needs at least 2 ranks that share a "
                        "sequence (cp), not 1");
    if (p->cp_a2a && !both)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "groups of %d ranks (cp_a2a) need cp_comm a2a+p2p, not %s", p->cp_a2a,
                        syn_cp_comm_name(p->cp_comm));
    if (both && (p->cp_a2a < 2 || p->cp_a2a >= p->cp || p->cp % p->cp_a2a != 0))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "cp_comm a2a+p2p needs the number of ranks that exchange heads (cp_a2a): a "
                        "divisor of cp %d from 2 to half of it, not %d",
                        p->cp, p->cp_a2a);
    return SYN_OK;
}

/* The options of a schedule need a pipeline. */
static syn_status check_schedule(const syn_plan *p, syn_error *err) {
    if (p->vp > 1 && p->schedule != SYN_SCHEDULE_INTERLEAVED)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%d chunks per pipeline stage (vp) need the interleaved schedule", p->vp);
    if (p->microbatch_group > 0 && p->vp == 1)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "groups of %d microbatches need more than one chunk per pipeline stage "
                        "(vp)",
                        p->microbatch_group);
    if (p->schedule == SYN_SCHEDULE_DUALPIPE && p->pp % 2 != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the schedule dualpipe needs an even number of stages (pp), not %d: each "
                        "rank has a stage from either half",
                        p->pp);
    if (p->schedule == SYN_SCHEDULE_DUALPIPE && p->zero == 3)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "zero 3 is not supported with the schedule dualpipe; use zero 1 or 2");
    if (p->pp > 1 || (p->vp == 1 && p->schedule == SYN_SCHEDULE_1F1B)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "a pipeline schedule needs at least 2 stages (pp), not %d",
                    p->pp);
}

static syn_status check_hsdp(syn_plan *p, syn_error *err) {
    const int32_t ranks = syn_plan_dp_cp(p);
    if (p->hsdp == 0) p->hsdp = ranks;
    if (p->hsdp == ranks) return SYN_OK;
    if (p->zero != 3) return SYN_FAIL(err, SYN_E_INVALID, "hybrid sharding (hsdp) needs ZeRO 3");
    if (p->hsdp < 2)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "hybrid sharding (hsdp) needs groups of at least 2 ranks, not %d", p->hsdp);
    if (ranks % p->hsdp != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "groups of %d ranks (hsdp) do not divide the %d data-parallel ranks (dp%s)",
                        p->hsdp, ranks, p->cp > 1 ? " x cp" : "");
    return SYN_OK;
}

/* The experts' ranks are those of a stage in another arrangement, so both arrangements must divide
   the ranks into the same stages. */
static syn_status check_experts(const syn_plan *p, syn_error *err) {
    const int64_t ranks = (int64_t)p->tp * syn_plan_dp_cp(p), each = (int64_t)p->etp * p->ep;
    int32_t dense = 1, experts = 1;
    char cp[24];
    if (ranks % each != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "tp %d%s x dp %d = %lld ranks are not a multiple of etp %d x ep %d = %lld",
                        p->tp, cp_text(p, cp), p->dp, (long long)ranks, p->etp, p->ep,
                        (long long)each);
    for (int i = 0; p->order[i] != SYN_AXIS_PP; i++) {
        dense *= p->order[i] == SYN_AXIS_TP ? p->tp : syn_plan_dp_cp(p);
        experts *= p->order[i] == SYN_AXIS_TP ? p->etp : p->ep * syn_plan_edp(p);
    }
    if (p->etp > 1 && p->ep > 1) {
        int32_t stride[3];
        syn_plan_expert_strides(p, stride);
        if (stride[1] != stride[0] * p->etp)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "etp %d x ep %d needs a rank order with tp directly before dp, not %s",
                            p->etp, p->ep, syn_plan_order_text(p));
    }
    if (p->pp == 1 || dense == experts) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "the rank order %s needs as many ranks along etp as along tp, not %d and %d",
                    syn_plan_order_text(p), p->etp, p->tp);
}

static syn_status check_order(const syn_plan *p, syn_error *err) {
    bool named[SYN_AXES] = {false};
    for (int i = 0; i < SYN_AXES; i++) {
        const syn_axis a = p->order[i];
        if ((unsigned)a >= SYN_AXES || named[a])
            return SYN_FAIL(err, SYN_E_INVALID, "the rank order must name each axis once");
        named[a] = true;
    }
    return SYN_OK;
}

syn_status syn_plan_complete(syn_plan *p, syn_error *err) {
    int64_t others = 0;
    if (p->zero > 3) return SYN_FAIL(err, SYN_E_INVALID, "ZeRO beyond stage 3 is not supported");
    SYN_TRY(check_degrees(p, &others, err));
    SYN_TRY(check_cp(p, err));
    if (p->ranks == 0) p->ranks = (int32_t)others * (p->dp ? p->dp : 1);
    if (p->dp == 0 && p->ranks % others != 0) {
        char pp[24] = "", cp[24];
        if (p->pp > 1) snprintf(pp, sizeof pp, " x pp %d", p->pp);
        return SYN_FAIL(err, SYN_E_INVALID, "%d ranks are not a multiple of tp %d%s%s", p->ranks,
                        p->tp, cp_text(p, cp), pp);
    }
    if (p->dp == 0) p->dp = p->ranks / (int32_t)others;
    char cp[24];
    if (others * p->dp != p->ranks)
        return SYN_FAIL(err, SYN_E_INVALID, "tp %d%s x dp %d x pp %d is %lld ranks, not %d", p->tp,
                        cp_text(p, cp), p->dp, p->pp, (long long)(others * p->dp), p->ranks);
    if (p->tp % p->kv != 0)
        return SYN_FAIL(err, SYN_E_INVALID, "kv %d does not divide tp %d", p->kv, p->tp);
    if (p->zero > 0 && syn_plan_replicas(p) == 1)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "zero %d needs at least 2 data-parallel ranks (dp), but there is 1",
                        p->zero);
    SYN_TRY(check_hsdp(p, err));
    SYN_TRY(check_schedule(p, err));
    if (!p->order) p->order = orders[0].axes;
    SYN_TRY(check_order(p, err));
    return check_experts(p, err);
}

void syn_plan_strides(const syn_plan *p, int32_t stride[SYN_AXES]) {
    const int32_t n[SYN_AXES] = {p->tp, syn_plan_dp_cp(p), p->pp};
    for (int i = 0, ranks = 1; i < SYN_AXES; i++) {
        stride[p->order[i]] = ranks;
        ranks *= n[p->order[i]];
    }
}

int32_t syn_plan_ring(const syn_plan *p) {
    if (p->cp_comm == SYN_CP_A2A) return 1;
    return p->cp_comm == SYN_CP_A2A_P2P ? p->cp / p->cp_a2a : p->cp;
}

int32_t syn_plan_ring_index(const syn_plan *p, int32_t rank) {
    int32_t stride[SYN_AXES];
    const int32_t ring = syn_plan_ring(p);
    syn_plan_strides(p, stride);
    return ring == 1 ? 0 : rank / stride[SYN_AXIS_DP] % p->cp / (p->cp / ring);
}

void syn_plan_expert_strides(const syn_plan *p, int32_t stride[3]) {
    int32_t ranks = 1;
    for (int i = 0; i < SYN_AXES; i++) {
        if (p->order[i] == SYN_AXIS_TP) {
            stride[0] = ranks;
            ranks *= p->etp;
        } else if (p->order[i] == SYN_AXIS_DP) {
            stride[1] = ranks;
            stride[2] = ranks * p->ep;
            ranks *= p->ep * syn_plan_edp(p);
        } else ranks *= p->pp;
    }
}

int32_t syn_plan_first_expert_rank(const syn_plan *p, int32_t rank) {
    int32_t stride[3] = {1, 1, 1};
    syn_plan_expert_strides(p, stride);
    return rank - rank / stride[2] % syn_plan_edp(p) * stride[2];
}

bool syn_plan_saves(const syn_plan *p, int32_t rank) {
    int32_t stride[SYN_AXES];
    syn_plan_strides(p, stride);
    if (rank / stride[SYN_AXIS_PP] % p->pp >= p->pp / syn_plan_copies(p)) return false;
    return rank / stride[SYN_AXIS_DP] % syn_plan_dp_cp(p) == 0 ||
           syn_plan_first_expert_rank(p, rank) == rank;
}

int32_t syn_plan_programs(const syn_plan *p) {
    return syn_plan_ring(p) * (p->skewed ? p->ep : 1);
}

int32_t syn_plan_program(const syn_plan *p, int32_t rank) {
    int32_t stride[3];
    syn_plan_expert_strides(p, stride);
    const int32_t experts = p->skewed ? rank / stride[1] % p->ep : 0;
    return syn_plan_ring_index(p, rank) * (p->skewed ? p->ep : 1) + experts;
}

/* The number of nodes on which the n ranks first, first + stride, ... are. Strides shorter than a
   node skip no node, and longer ones reach another node with each step. */
static int32_t count_nodes(int32_t first, int32_t stride, int32_t n, int32_t node_ranks) {
    if (stride >= node_ranks) return n;
    return (first + (n - 1) * stride) / node_ranks - first / node_ranks + 1;
}

/* The number of stages of a pipeline that are on another node than the next one. */
static int32_t count_crossings(int32_t first, int32_t stride, int32_t n, int32_t node_ranks) {
    int32_t crossings = 0;
    for (int32_t i = 1; i < n; i++)
        crossings += (first + i * stride) / node_ranks != (first + (i - 1) * stride) / node_ranks;
    return crossings;
}

/* Orders groups by the time of their collectives: the more nodes, the larger, and among groups on
   equally many nodes, the fewer ranks are on one node, because these share the links of the node.
   Exact for groups on up to two nodes. */
static int64_t spread_of(int32_t first, int32_t stride, int32_t n, int32_t node_ranks) {
    const int32_t nodes = count_nodes(first, stride, n, node_ranks);
    int32_t most = nodes == 1 ? n : (node_ranks - 1) / stride + 1;
    if (nodes == 2) {
        const int32_t here = (node_ranks - first % node_ranks - 1) / stride + 1;
        most = here > n - here ? here : n - here;
    }
    return (int64_t)nodes * (n + 1) - most;
}

enum { RANK_GROUPS = 5 };

/* The groups of a rank, most important first: tp, cp, dp (with hybrid sharding: the ranks that
   divide the state, then those that have copies), and the pipeline. */
static void rank_groups(const syn_plan *p, const int32_t *stride, int32_t r, int32_t node_ranks,
                        int64_t out[RANK_GROUPS]) {
    const int32_t t = stride[SYN_AXIS_TP], d = stride[SYN_AXIS_DP], s = stride[SYN_AXIS_PP];
    const int32_t all = syn_plan_dp_cp(p), own = r / d % all, k = p->hsdp;
    out[0] = spread_of(r - r / t % p->tp * t, t, p->tp, node_ranks);
    out[1] = spread_of(r - own % p->cp * d, d, p->cp, node_ranks);
    out[2] = spread_of(r - own % k * d, d, k, node_ranks);
    out[3] = spread_of(r - own / k * k * d, k * d, all / k, node_ranks);
    out[4] = count_crossings(r - r / s % p->pp * s, s, p->pp, node_ranks);
}

int32_t syn_plan_slowest_rank(const syn_plan *p, int32_t node_ranks) {
    int32_t stride[SYN_AXES], slowest = 0;
    int64_t most[RANK_GROUPS] = {0};
    syn_plan_strides(p, stride);
    for (int32_t r = 0; r < p->ranks; r++) {
        int64_t groups[RANK_GROUPS];
        int at = 0;
        rank_groups(p, stride, r, node_ranks, groups);
        while (at < RANK_GROUPS && groups[at] == most[at]) at++;
        if (at == RANK_GROUPS || groups[at] < most[at]) continue;
        memcpy(most, groups, sizeof most);
        slowest = r;
    }
    return slowest;
}
