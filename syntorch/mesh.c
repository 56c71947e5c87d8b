/* Computes the position of a rank in a parallel plan, and its process groups (mesh.h). */
#include "syntorch/mesh.h"

#include <stdio.h>

#include "syntorch/base/memory.h"

/* Sets the sizes and strides of the mesh and the rank's coordinates. */
static void place(syn_mesh *mesh, int32_t rank, const syn_plan *plan) {
    *mesh = (syn_mesh){.size = {[SYN_AXIS_TP] = plan->tp,
                                [SYN_AXIS_DP] = syn_plan_dp_cp(plan),
                                [SYN_AXIS_PP] = plan->pp}};
    syn_plan_strides(plan, mesh->stride);
    for (int a = 0; a < SYN_AXES; a++) mesh->index[a] = rank / mesh->stride[a] % mesh->size[a];
}

/* ---- Groups ---- */

/* The number of a rank's group along an axis. Groups are numbered by their first rank, that is, by
   their coordinates along the other axes. */
static int32_t number_of(const syn_mesh *mesh, int axis, int32_t rank) {
    const int32_t stride = mesh->stride[axis];
    return rank / (stride * mesh->size[axis]) * stride + rank % stride;
}

/* The rank's group along an axis. */
static syn_mesh_group along(const syn_mesh *mesh, int axis, int32_t rank) {
    const int32_t n = mesh->size[axis], stride = mesh->stride[axis];
    return (syn_mesh_group){
        .first = rank - mesh->index[axis] * stride, .n = n, .stride = stride, .inner = n};
}

/* Sets *out to the group number `number` of the `count` groups of a kind, whose ids begin at *id.
   Does nothing if the group has one rank. */
static void put(syn_mesh_group *out, syn_mesh_group group, const char *name, int32_t number,
                int32_t count, uint32_t *id) {
    if (group.n == 1) return;
    *out = group;
    out->id = *id + (uint32_t)number;
    snprintf(out->name, sizeof out->name, "%s%d", name, number);
    *id += (uint32_t)count;
}

/* Puts a group of a stage's ranks, which is group number `number` of its kind; there are `count`.
   With DualPipe it has the ranks of both stages of this rank: those of the lower one, then those of
   the higher one. below: number of groups of one stage whose numbers follow each other. */
static void put_of_stage(const syn_mesh *mesh, const syn_plan *p, syn_mesh_group g,
                         const char *name, int32_t number, int32_t count, int32_t below,
                         uint32_t *id, syn_mesh_group *out) {
    const int32_t stride = mesh->stride[SYN_AXIS_PP], stages = p->pp,
                  stage = mesh->index[SYN_AXIS_PP], mirror = stages - 1 - stage,
                  lower = stage < mirror ? stage : mirror;
    if (syn_plan_copies(p) == 2) {
        g.first += (lower - stage) * stride;
        g.inner = g.n;
        g.outer_stride = (stages - 1 - 2 * lower) * stride;
        g.n *= 2;
        number = number / (stages * below) * (stages / 2 * below) + lower * below + number % below;
        count /= 2;
    }
    put(out, g, name, number, count, id);
}

static void put_axes(const syn_mesh *mesh, int32_t rank, const syn_plan *p, uint32_t *id,
                     syn_mesh_group *groups) {
    const int32_t dp = mesh->size[SYN_AXIS_DP], stage_stride = mesh->stride[SYN_AXIS_PP];
    const int32_t below = stage_stride / (mesh->stride[SYN_AXIS_DP] < stage_stride ? dp : 1);
    put(&groups[SYN_MESH_TP], along(mesh, SYN_AXIS_TP, rank), "tp",
        number_of(mesh, SYN_AXIS_TP, rank), p->ranks / p->tp, id);
    put_of_stage(mesh, p, along(mesh, SYN_AXIS_DP, rank), p->cp > 1 ? "dp_cp" : "dp",
                 number_of(mesh, SYN_AXIS_DP, rank), p->ranks / dp, below, id,
                 &groups[SYN_MESH_DP]);
    put(&groups[SYN_MESH_PP], along(mesh, SYN_AXIS_PP, rank), "pp",
        number_of(mesh, SYN_AXIS_PP, rank), p->ranks / p->pp, id);
}

/* The ranks that have the same key and value heads: n neighbours along tp. */
static void put_kv(const syn_mesh *mesh, int32_t rank, int32_t ranks, int32_t n, uint32_t *id,
                   syn_mesh_group *out) {
    const int32_t part = mesh->index[SYN_AXIS_TP] / n;
    syn_mesh_group g = along(mesh, SYN_AXIS_TP, rank);
    g.first += part * n * g.stride;
    g.n = g.inner = n;
    put(out, g, "kv", number_of(mesh, SYN_AXIS_TP, rank) * (mesh->size[SYN_AXIS_TP] / n) + part,
        ranks / n, id);
}

/* The first and the last stage. With two stages, this is the pp group. With DualPipe, both are on
   the same rank. */
static void put_embedding(const syn_mesh *mesh, const syn_plan *p, int32_t rank, uint32_t *id,
                          syn_mesh_group *out) {
    const int32_t stages = mesh->size[SYN_AXIS_PP], stage = mesh->index[SYN_AXIS_PP];
    syn_mesh_group g = along(mesh, SYN_AXIS_PP, rank);
    if (stages <= 2 || syn_plan_copies(p) == 2) return;
    g.n = g.inner = 2;
    g.stride *= stages - 1;
    put(out, g, "embedding", number_of(mesh, SYN_AXIS_PP, rank), p->ranks / stages, id);
    if (stage > 0 && stage < stages - 1) out->id = 0;
}

/* The ranks that hold the model together, in Megatron-LM's order: the tensor-parallel ranks of the
   first stage, then those of the next. */
static void put_model(const syn_mesh *mesh, uint32_t *id, syn_mesh_group *out) {
    const int32_t tp = mesh->size[SYN_AXIS_TP], pp = mesh->size[SYN_AXIS_PP];
    const int32_t dp = mesh->index[SYN_AXIS_DP];
    if (tp == 1 || pp == 1) return;
    put(out,
        (syn_mesh_group){.first = dp * mesh->stride[SYN_AXIS_DP],
                         .n = tp * pp,
                         .stride = mesh->stride[SYN_AXIS_TP],
                         .inner = tp,
                         .outer_stride = mesh->stride[SYN_AXIS_PP]},
        "model", dp, mesh->size[SYN_AXIS_DP], id);
}

static void put_world(const syn_mesh *mesh, int32_t ranks, uint32_t *id, syn_mesh_group *out) {
    const int32_t dp = mesh->size[SYN_AXIS_DP];
    if (dp > 1 && dp < ranks)
        put(out, (syn_mesh_group){.n = ranks, .stride = 1, .inner = ranks}, "world", 0, 1, id);
}

/* One of the groups of `n` ranks into which a dp group is divided: number `number`, with the ranks
   first, first + step, ... of the dp group. */
static void put_part(const syn_mesh *mesh, int32_t rank, int32_t ranks, const char *name,
                     int32_t number, int32_t first, int32_t step, int32_t n, uint32_t *id,
                     syn_mesh_group *out) {
    syn_mesh_group g = along(mesh, SYN_AXIS_DP, rank);
    g.first += first * g.stride;
    g.stride *= step;
    g.n = g.inner = n;
    put(out, g, name, number_of(mesh, SYN_AXIS_DP, rank) * (mesh->size[SYN_AXIS_DP] / n) + number,
        ranks / n, id);
}

/* hsdp: ranks that divide the parameters. */
static void put_shards(const syn_mesh *mesh, int32_t rank, int32_t ranks, int32_t hsdp,
                       uint32_t *id, syn_mesh_group *groups) {
    const int32_t dp = mesh->size[SYN_AXIS_DP], index = mesh->index[SYN_AXIS_DP];
    const int32_t part = index / hsdp, first = index - index % hsdp;
    if (hsdp < dp) {
        put_part(mesh, rank, ranks, "shard", part, first, 1, hsdp, id, &groups[SYN_MESH_SHARD]);
        put_part(mesh, rank, ranks, "replicas", index % hsdp, index % hsdp, hsdp, dp / hsdp, id,
                 &groups[SYN_MESH_REPLICAS]);
    }
    put_part(mesh, rank, ranks, "gather", part, first, 1, hsdp, id, &groups[SYN_MESH_GATHER]);
}

/* The experts' groups. The ranks of a stage are a box of etp x ep x edp ranks (plan.h); a group is
   numbered by its first rank, as those of the other axes. */
static void put_experts(const syn_mesh *mesh, const syn_plan *p, int32_t rank, uint32_t *id,
                        syn_mesh_group *groups) {
    const int32_t pp_stride = mesh->stride[SYN_AXIS_PP];
    const int32_t n[3] = {p->etp, p->ep, syn_plan_edp(p)};
    int32_t stride[3], index[3], number[3];
    if (p->ep == 1 && p->etp == p->tp) return;
    syn_plan_expert_strides(p, stride);
    for (int a = 0; a < 3; a++) {
        index[a] = rank / stride[a] % n[a];
        number[a] = rank / (stride[a] * n[a]) * stride[a] + rank % stride[a];
    }
    syn_mesh_group along[3];
    for (int a = 0; a < 3; a++)
        along[a] = (syn_mesh_group){
            .first = rank - index[a] * stride[a], .n = n[a], .stride = stride[a], .inner = n[a]};
    put(&groups[SYN_MESH_EP], along[1], "ep", number[1], p->ranks / n[1], id);
    if (p->etp != p->tp)
        put(&groups[SYN_MESH_ETP], along[0], "etp", number[0], p->ranks / n[0], id);
    syn_mesh_group both = along[0];
    both.first -= index[1] * stride[1];
    both.n = n[0] * n[1];
    if (n[0] == 1) both.stride = stride[1];
    both.inner = both.n; /* syn_plan_complete requires that the ranks follow each other */
    const int32_t stage = rank / pp_stride % p->pp, stages = p->pp;
    if (n[0] > 1 && n[1] > 1)
        put(&groups[SYN_MESH_EXPERTS], both, "experts", stage * n[2] + index[2], n[2] * stages, id);
    put_of_stage(mesh, p, along[2], "edp", number[2], p->ranks / n[2],
                 pp_stride / (stride[2] < pp_stride ? n[2] : 1), id, &groups[SYN_MESH_EDP]);
    both.first -= stage * pp_stride;
    both.n *= stages;
    both.outer_stride = pp_stride;
    if (stages > 1 && both.inner > 1)
        put(&groups[SYN_MESH_EXPERT_MODEL], both, "expert_model", index[2], n[2], id);
}

/* In inference, the ranks of a dp group that share experts. If these are the whole dp group, or tp
   is 1, another group has the same ranks. */
static void put_expert_dp(const syn_mesh *mesh, const syn_plan *p, int32_t rank, uint32_t *id,
                          syn_mesh_group *out) {
    const int32_t n = p->etp * p->ep / p->tp, index = mesh->index[SYN_AXIS_DP];
    if (p->tp == 1 || n < 2 || n == mesh->size[SYN_AXIS_DP]) return;
    put_part(mesh, rank, p->ranks, "expert_dp", index / n, index - index % n, 1, n, id, out);
}

/* The group of n ranks that are `stride` apart, in a plan whose ranks are divided into such
   groups. */
static void put_strided(int32_t rank, int32_t ranks, const char *name, int32_t stride, int32_t n,
                        uint32_t *id, syn_mesh_group *out) {
    const syn_mesh_group g = {
        .first = rank - rank / stride % n * stride, .n = n, .stride = stride, .inner = n};
    put(out, g, name, rank / (stride * n) * stride + rank % stride, ranks / n, id);
}

/* The ranks that share the tokens of a sequence are the first cp along SYN_AXIS_DP, then the next,
   and so on. */
static void put_context(const syn_plan *p, int32_t rank, int32_t stride, uint32_t *id,
                        syn_mesh_group *groups) {
    put_strided(rank, p->ranks, "cp", stride, p->cp, id, &groups[SYN_MESH_CP]);
    if (p->cp_comm != SYN_CP_A2A_P2P) return;
    put_strided(rank, p->ranks, "cp_a2a", stride, p->cp_a2a, id, &groups[SYN_MESH_CP_A2A]);
    put_strided(rank, p->ranks, "cp_p2p", stride * p->cp_a2a, p->cp / p->cp_a2a, id,
                &groups[SYN_MESH_CP_P2P]);
}

/* Groups of all tp ranks: those that have the tokens of the same sequences, and those of a stage.
   They differ from other groups only if both tp and the other axis have several ranks. */
static void put_counts(const syn_mesh *mesh, const syn_plan *p, uint32_t *id,
                       syn_mesh_group *groups) {
    const int32_t tp = mesh->size[SYN_AXIS_TP], dp = mesh->size[SYN_AXIS_DP],
                  index = mesh->index[SYN_AXIS_DP], stage = mesh->index[SYN_AXIS_PP],
                  sequences = index / p->cp;
    const bool stages_last = mesh->stride[SYN_AXIS_PP] > mesh->stride[SYN_AXIS_DP];
    const int32_t number = stages_last ? stage * p->dp + sequences : sequences * p->pp + stage;
    syn_mesh_group g = {.first = stage * mesh->stride[SYN_AXIS_PP],
                        .n = tp * dp,
                        .stride = mesh->stride[SYN_AXIS_TP],
                        .inner = tp,
                        .outer_stride = mesh->stride[SYN_AXIS_DP]},
                   cp = g;
    cp.first += sequences * p->cp * mesh->stride[SYN_AXIS_DP];
    cp.n = tp * p->cp;
    if (tp == 1) return;
    if (p->cp > 1) put(&groups[SYN_MESH_TP_CP], cp, "tp_cp", number, p->dp * p->pp, id);
    if (p->dp > 1) put(&groups[SYN_MESH_STAGE], g, "stage", stage, p->pp, id);
}

void syn_mesh_groups(const syn_plan *plan, int32_t rank, syn_mesh_group groups[SYN_MESH_KINDS]) {
    syn_mesh mesh;
    uint32_t id = 1;
    for (int k = 0; k < SYN_MESH_KINDS; k++) groups[k] = (syn_mesh_group){0};
    place(&mesh, rank, plan);
    put_axes(&mesh, rank, plan, &id, groups);
    put_kv(&mesh, rank, plan->ranks, plan->kv, &id, &groups[SYN_MESH_KV]);
    put_embedding(&mesh, plan, rank, &id, &groups[SYN_MESH_EMBEDDING]);
    put_model(&mesh, &id, &groups[SYN_MESH_MODEL]);
    if (plan->zero > 0) put_world(&mesh, plan->ranks, &id, &groups[SYN_MESH_WORLD]);
    if (plan->zero == 3) put_shards(&mesh, rank, plan->ranks, plan->hsdp, &id, groups);
    put_experts(&mesh, plan, rank, &id, groups);
    if (plan->inference) put_expert_dp(&mesh, plan, rank, &id, &groups[SYN_MESH_EXPERT_DP]);
    put_context(plan, rank, mesh.stride[SYN_AXIS_DP], &id, groups);
    if (plan->counts) put_counts(&mesh, plan, &id, groups);
}

/* ---- Opening ---- */

static syn_status open_group(const syn_group **out, syn_comm *comm, const syn_mesh_group *g,
                             syn_error *err) {
    syn_group *group;
    if (g->id == 0) return SYN_OK;
    int32_t *ranks = syn_malloc((size_t)g->n * sizeof *ranks);
    if (!ranks) return SYN_FAIL_NOMEM(err, (size_t)g->n * sizeof *ranks, "a group");
    for (int32_t i = 0; i < g->n; i++) ranks[i] = syn_mesh_group_rank(g, i);
    const syn_status s = syn_comm_open_group(comm, g->id, g->name, ranks, g->n, &group, err);
    syn_free(ranks);
    if (s == SYN_OK) *out = group;
    return s;
}

/* Sets the groups that are others' groups in this plan. */
static void set_equal_groups(syn_mesh *mesh, const syn_plan *plan) {
    const syn_group *dp = mesh->group[SYN_AXIS_DP], *pp = mesh->group[SYN_AXIS_PP];
    if (plan->pp == 2 && syn_plan_copies(plan) == 1) mesh->embedding = pp;
    if (plan->tp == 1 || plan->pp == 1) mesh->model = plan->tp > 1 ? mesh->group[SYN_AXIS_TP] : pp;
    if (plan->zero > 0 && !mesh->world) mesh->world = syn_plan_dp_cp(plan) == 1 ? mesh->model : dp;
    if (plan->zero == 3 && !mesh->shard) mesh->shard = dp;
    if (plan->cp_comm == SYN_CP_A2A) mesh->cp_a2a = mesh->cp;
    else if (plan->cp_comm != SYN_CP_A2A_P2P) mesh->cp_p2p = mesh->cp;
    if (plan->counts && !mesh->tp_cp)
        mesh->tp_cp = plan->tp > 1 ? mesh->group[SYN_AXIS_TP] : mesh->cp;
    if (plan->counts && !mesh->stage) mesh->stage = plan->tp > 1 ? mesh->tp_cp : dp;
    if (plan->etp == plan->tp) mesh->etp = mesh->group[SYN_AXIS_TP];
    if (plan->ep == 1) mesh->experts = mesh->etp;
    else if (plan->etp == 1) mesh->experts = mesh->ep;
    if (plan->inference && plan->tp == 1) mesh->expert_dp = mesh->experts;
    else if (plan->inference && !mesh->expert_dp && plan->etp * plan->ep > plan->tp)
        mesh->expert_dp = dp;
    if (plan->ep == 1 && plan->etp == plan->tp) {
        mesh->edp = dp;
        mesh->expert_model = mesh->model;
    } else if (plan->pp == 1) mesh->expert_model = mesh->experts;
    else if (plan->ep == 1 && plan->etp == 1) mesh->expert_model = pp;
}

syn_status syn_mesh_open_part(syn_mesh *mesh, syn_comm *comm, const syn_plan *plan, int32_t first,
                              uint32_t first_id, syn_error *err) {
    const int32_t rank = comm->rank - first;
    syn_plan whole = *plan;
    syn_mesh_group groups[SYN_MESH_KINDS];
    SYN_TRY(syn_plan_complete(&whole, err));
    if (rank < 0 || rank >= whole.ranks)
        return SYN_FAIL(err, SYN_E_INVALID, "rank %d is not among the %d ranks from rank %d on",
                        comm->rank, whole.ranks, first);
    place(mesh, rank, &whole);
    syn_mesh_groups(&whole, rank, groups);
    for (int k = 0; k < SYN_MESH_KINDS; k++) {
        if (groups[k].id == 0) continue;
        groups[k].first += first;
        groups[k].id += first_id - 1;
    }
    const syn_group **const out[SYN_MESH_KINDS] = {[SYN_MESH_TP] = &mesh->group[SYN_AXIS_TP],
                                                   [SYN_MESH_DP] = &mesh->group[SYN_AXIS_DP],
                                                   [SYN_MESH_PP] = &mesh->group[SYN_AXIS_PP],
                                                   [SYN_MESH_KV] = &mesh->kv,
                                                   [SYN_MESH_EMBEDDING] = &mesh->embedding,
                                                   [SYN_MESH_MODEL] = &mesh->model,
                                                   [SYN_MESH_WORLD] = &mesh->world,
                                                   [SYN_MESH_SHARD] = &mesh->shard,
                                                   [SYN_MESH_REPLICAS] = &mesh->replicas,
                                                   [SYN_MESH_GATHER] = &mesh->gather,
                                                   [SYN_MESH_EP] = &mesh->ep,
                                                   [SYN_MESH_ETP] = &mesh->etp,
                                                   [SYN_MESH_EXPERTS] = &mesh->experts,
                                                   [SYN_MESH_EDP] = &mesh->edp,
                                                   [SYN_MESH_EXPERT_MODEL] = &mesh->expert_model,
                                                   [SYN_MESH_EXPERT_DP] = &mesh->expert_dp,
                                                   [SYN_MESH_CP] = &mesh->cp,
                                                   [SYN_MESH_CP_A2A] = &mesh->cp_a2a,
                                                   [SYN_MESH_CP_P2P] = &mesh->cp_p2p,
                                                   [SYN_MESH_TP_CP] = &mesh->tp_cp,
                                                   [SYN_MESH_STAGE] = &mesh->stage};
    for (int k = 0; k < SYN_MESH_KINDS; k++) SYN_TRY(open_group(out[k], comm, &groups[k], err));
    set_equal_groups(mesh, &whole);
    return SYN_OK;
}

syn_status syn_mesh_open(syn_mesh *mesh, syn_comm *comm, const syn_plan *plan, syn_error *err) {
    syn_plan whole = *plan;
    if (whole.ranks == 0) whole.ranks = comm->size;
    SYN_TRY(syn_plan_complete(&whole, err));
    if (whole.ranks != comm->size)
        return SYN_FAIL(err, SYN_E_INVALID, "the plan has %d ranks, the world has %d", whole.ranks,
                        comm->size);
    return syn_mesh_open_part(mesh, comm, &whole, 0, 1, err);
}
