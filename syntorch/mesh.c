/* Computes the position of a rank in a parallel plan, and opens its process groups (mesh.h). */
#include "syntorch/mesh.h"

#include <stdio.h>

#include "syntorch/base/memory.h"

static const char *const axis_names[SYN_AXES] = {"tp", "dp", "pp"};

/* Sets the sizes and strides of the mesh and the rank's coordinates. */
static void place(syn_mesh *mesh, int32_t rank, const syn_plan *plan) {
    *mesh = (syn_mesh){
        .size = {[SYN_AXIS_TP] = plan->tp, [SYN_AXIS_DP] = plan->dp, [SYN_AXIS_PP] = plan->pp}};
    syn_plan_strides(plan, mesh->stride);
    for (int a = 0; a < SYN_AXES; a++) mesh->index[a] = rank / mesh->stride[a] % mesh->size[a];
}

/* The number of a rank's group along an axis. Groups are numbered by their first rank, that is, by
   their coordinates along the other axes. */
static int32_t number_of(const syn_mesh *mesh, int axis, int32_t rank) {
    const int32_t stride = mesh->stride[axis];
    return rank / (stride * mesh->size[axis]) * stride + rank % stride;
}

/* Opens the group of the n ranks first, first + stride, ... Its name is `name` followed by
   `number`, and its id is id + number. */
static syn_status open_group(const syn_group **out, syn_comm *comm, uint32_t id, const char *name,
                             int32_t number, int32_t first, int32_t stride, int32_t n,
                             syn_error *err) {
    char full[16];
    syn_group *group;
    int32_t *ranks = syn_malloc((size_t)n * sizeof *ranks);
    if (!ranks) return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *ranks, "a group");
    for (int32_t i = 0; i < n; i++) ranks[i] = first + i * stride;
    snprintf(full, sizeof full, "%s%d", name, number);
    const syn_status s =
        syn_comm_open_group(comm, id + (uint32_t)number, full, ranks, n, &group, err);
    syn_free(ranks);
    if (s == SYN_OK) *out = group;
    return s;
}

static syn_status open_kv(syn_mesh *mesh, syn_comm *comm, uint32_t id, int32_t n, syn_error *err) {
    const int32_t tp = mesh->size[SYN_AXIS_TP], stride = mesh->stride[SYN_AXIS_TP];
    const int32_t index = mesh->index[SYN_AXIS_TP];
    if (n == 1) return SYN_OK;
    const int32_t part = index / n;
    return open_group(&mesh->kv, comm, id, "kv",
                      number_of(mesh, SYN_AXIS_TP, comm->rank) * (tp / n) + part,
                      comm->rank + (part * n - index) * stride, stride, n, err);
}

static syn_status open_embedding(syn_mesh *mesh, syn_comm *comm, uint32_t *id, syn_error *err) {
    const int32_t stages = mesh->size[SYN_AXIS_PP], stage = mesh->index[SYN_AXIS_PP];
    const int32_t stride = mesh->stride[SYN_AXIS_PP];
    if (stages == 2) mesh->embedding = mesh->group[SYN_AXIS_PP];
    if (stages <= 2) return SYN_OK;
    const uint32_t first = *id;
    *id += (uint32_t)(comm->size / stages);
    if (stage > 0 && stage < stages - 1) return SYN_OK;
    return open_group(&mesh->embedding, comm, first, "embedding",
                      number_of(mesh, SYN_AXIS_PP, comm->rank), comm->rank - stage * stride,
                      (stages - 1) * stride, 2, err);
}

/* Opens the group of the ranks that hold the model together, in Megatron-LM's order: the
   tensor-parallel ranks of the first stage, then those of the next. */
static syn_status open_model(syn_mesh *mesh, syn_comm *comm, uint32_t *id, syn_error *err) {
    const int32_t tp = mesh->size[SYN_AXIS_TP], pp = mesh->size[SYN_AXIS_PP], n = tp * pp;
    const int32_t dp = mesh->index[SYN_AXIS_DP];
    char name[16];
    syn_group *group;
    mesh->model = mesh->group[tp > 1 ? SYN_AXIS_TP : SYN_AXIS_PP];
    if (tp == 1 || pp == 1) return SYN_OK;
    int32_t *ranks = syn_malloc((size_t)n * sizeof *ranks);
    if (!ranks) return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *ranks, "a group");
    for (int32_t i = 0; i < n; i++)
        ranks[i] = dp * mesh->stride[SYN_AXIS_DP] + i % tp * mesh->stride[SYN_AXIS_TP] +
                   i / tp * mesh->stride[SYN_AXIS_PP];
    snprintf(name, sizeof name, "model%d", dp);
    const syn_status s = syn_comm_open_group(comm, *id + (uint32_t)dp, name, ranks, n, &group, err);
    syn_free(ranks);
    *id += (uint32_t)mesh->size[SYN_AXIS_DP];
    if (s == SYN_OK) mesh->model = group;
    return s;
}

/* Opens the group of all ranks. */
static syn_status open_world(syn_mesh *mesh, syn_comm *comm, uint32_t *id, syn_error *err) {
    const int32_t dp = mesh->size[SYN_AXIS_DP];
    mesh->world = dp == 1 ? mesh->model : mesh->group[SYN_AXIS_DP];
    if (dp == 1 || dp == comm->size) return SYN_OK;
    return open_group(&mesh->world, comm, (*id)++, "world", 0, 0, 1, comm->size, err);
}

/* Opens one of the groups of `n` ranks into which a dp group is divided. first: index of the
   group's first rank within the dp group; step: distance of its ranks there. number: of the group
   within the dp group. */
static syn_status open_part(const syn_group **out, const syn_mesh *mesh, syn_comm *comm,
                            uint32_t *id, const char *name, int32_t number, int32_t first,
                            int32_t step, int32_t n, syn_error *err) {
    const int32_t dp = mesh->size[SYN_AXIS_DP], stride = mesh->stride[SYN_AXIS_DP];
    const int32_t base = comm->rank - mesh->index[SYN_AXIS_DP] * stride;
    const uint32_t begin = *id;
    *id += (uint32_t)(comm->size / n);
    return open_group(out, comm, begin, name,
                      number_of(mesh, SYN_AXIS_DP, comm->rank) * (dp / n) + number,
                      base + first * stride, step * stride, n, err);
}

static syn_status open_shards(syn_mesh *mesh, syn_comm *comm, uint32_t id, int32_t n,
                              syn_error *err) {
    const int32_t dp = mesh->size[SYN_AXIS_DP], index = mesh->index[SYN_AXIS_DP];
    mesh->shard = mesh->group[SYN_AXIS_DP];
    if (n < dp) {
        SYN_TRY(open_part(&mesh->shard, mesh, comm, &id, "shard", index / n, index - index % n, 1,
                          n, err));
        SYN_TRY(open_part(&mesh->replicas, mesh, comm, &id, "replicas", index % n, index % n, n,
                          dp / n, err));
    }
    return open_part(&mesh->gather, mesh, comm, &id, "gather", index / n, index - index % n, 1, n,
                     err);
}

syn_status syn_mesh_open(syn_mesh *mesh, syn_comm *comm, const syn_plan *plan, syn_error *err) {
    syn_plan whole = *plan;
    if (whole.ranks == 0) whole.ranks = comm->size;
    SYN_TRY(syn_plan_complete(&whole, err));
    if (whole.ranks != comm->size)
        return SYN_FAIL(err, SYN_E_INVALID, "the plan has %d ranks, the world has %d", whole.ranks,
                        comm->size);
    place(mesh, comm->rank, &whole);
    uint32_t id = 1;
    for (int a = 0; a < SYN_AXES; a++) {
        const int32_t n = mesh->size[a], stride = mesh->stride[a];
        if (n == 1) continue;
        SYN_TRY(open_group(&mesh->group[a], comm, id, axis_names[a], number_of(mesh, a, comm->rank),
                           comm->rank - mesh->index[a] * stride, stride, n, err));
        id += (uint32_t)(comm->size / n);
    }
    SYN_TRY(open_kv(mesh, comm, id, whole.kv, err));
    if (whole.kv > 1) id += (uint32_t)(comm->size / whole.kv);
    SYN_TRY(open_embedding(mesh, comm, &id, err));
    SYN_TRY(open_model(mesh, comm, &id, err));
    if (whole.zero > 0) SYN_TRY(open_world(mesh, comm, &id, err));
    return whole.zero == 3 ? open_shards(mesh, comm, id, whole.hsdp, err) : SYN_OK;
}
