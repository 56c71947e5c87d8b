/* Tests the device mesh: the groups of every rank, computed on fake communicators and compared with
   Megatron-LM's documented example and with the definition of a group. */
#include "comm/comm.h"
#include "syntorch/mesh.h"
#include "tests/support/test.h"

#define WORLD 64

/* The meshes of all ranks of one world. */
struct world {
    int32_t size;
    syn_comm *comm[WORLD];
    syn_mesh mesh[WORLD];
};

static bool open_world(struct world *w, int32_t size, const syn_plan *shape) {
    syn_error err = {0};
    *w = (struct world){.size = size};
    for (int32_t r = 0; r < size; r++)
        if (syn_comm_fake_new(&w->comm[r], r, size, &err) != SYN_OK ||
            syn_mesh_open(&w->mesh[r], w->comm[r], shape, &err) != SYN_OK) {
            fprintf(stderr, "%s\n", err.text);
            return false;
        }
    return true;
}

static void close_world(struct world *w) {
    for (int32_t r = 0; r < w->size; r++) syn_comm_close(w->comm[r]);
}

static bool group_is(const syn_group *g, uint32_t id, const char *name, const int32_t *ranks,
                     int32_t n) {
    return g && g->id == id && strcmp(g->name, name) == 0 && g->size == n &&
           memcmp(g->ranks, ranks, (size_t)n * sizeof *ranks) == 0;
}

/* In inference, the tp ranks that share experts have the same tokens, and other ranks others. */
static void experts_of_inference(void) {
    struct world w;
    CHECK(open_world(&w, 16, &(syn_plan){.tp = 2, .dp = 8, .ep = 4, .inference = true}));
    for (int32_t r = 0; r < 16; r++) {
        const int32_t first = r / 4 * 4 + r % 2, ranks[2] = {first, first + 2};
        const syn_group *g = w.mesh[r].expert_dp;
        CHECK(g && g->size == 2 && memcmp(g->ranks, ranks, sizeof ranks) == 0);
        CHECK(strncmp(g->name, "expert_dp", 9) == 0 && g->id > w.mesh[r].edp->id);
    }
    close_world(&w);
    static const struct {
        syn_plan plan;
        syn_mesh_kind same; /* the group that expert_dp is; SYN_MESH_KINDS: it is none */
    } plans[] = {{{.tp = 2, .dp = 8, .ep = 16, .inference = true}, SYN_MESH_DP},
                 {{.tp = 1, .dp = 16, .ep = 4, .inference = true}, SYN_MESH_EP},
                 {{.tp = 2, .dp = 8, .ep = 2, .inference = true}, SYN_MESH_KINDS},
                 {{.tp = 2, .dp = 8, .ep = 4, .sp = true}, SYN_MESH_KINDS}};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        CHECK(open_world(&w, 16, &plans[i].plan));
        const syn_mesh *m = &w.mesh[5];
        CHECK(m->expert_dp == (plans[i].same == SYN_MESH_DP   ? m->group[SYN_AXIS_DP]
                               : plans[i].same == SYN_MESH_EP ? m->ep
                                                              : NULL));
        close_world(&w);
    }
}

/* The example of Megatron-LM's documentation: 16 ranks with tensor size 2 and pipeline size 4, and
   therefore data size 2. */
static void sixteen_ranks_as_megatron_has_them(void) {
    static const int32_t tp[8][2] = {{0, 1}, {2, 3},   {4, 5},   {6, 7},
                                     {8, 9}, {10, 11}, {12, 13}, {14, 15}};
    static const int32_t dp[8][2] = {{0, 2},  {1, 3},  {4, 6},   {5, 7},
                                     {8, 10}, {9, 11}, {12, 14}, {13, 15}};
    static const int32_t pp[4][4] = {{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}};
    struct world w;
    char name[16];
    int seen = 0;
    CHECK(open_world(&w, 16, &(syn_plan){.tp = 2, .dp = 2, .pp = 4}));
    for (int32_t r = 0; r < 16; r++) {
        const syn_mesh *m = &w.mesh[r];
        for (int g = 0; g < 8; g++)
            for (int i = 0; i < 2; i++) {
                snprintf(name, sizeof name, "tp%d", g);
                if (tp[g][i] == r)
                    seen += group_is(m->group[SYN_AXIS_TP], (uint32_t)(1 + g), name, tp[g], 2) &&
                            m->index[SYN_AXIS_TP] == i && m->group[SYN_AXIS_TP]->index == i;
                snprintf(name, sizeof name, "dp%d", g);
                if (dp[g][i] == r)
                    seen += group_is(m->group[SYN_AXIS_DP], (uint32_t)(9 + g), name, dp[g], 2) &&
                            m->index[SYN_AXIS_DP] == i && m->group[SYN_AXIS_DP]->index == i;
            }
        for (int g = 0; g < 4; g++)
            for (int i = 0; i < 4; i++) {
                snprintf(name, sizeof name, "pp%d", g);
                if (pp[g][i] == r)
                    seen += group_is(m->group[SYN_AXIS_PP], (uint32_t)(17 + g), name, pp[g], 4) &&
                            m->index[SYN_AXIS_PP] == i && m->group[SYN_AXIS_PP]->index == i;
            }
    }
    close_world(&w);
    CHECK_INT(seen, 3 * 16);
}

/* DualPipe: stages s and 3 - s are on the ranks with these indices along pp, so a dp group has the
   dp ranks of both, and an edp group the ranks with the same experts. */
static void dualpipe_has_groups_of_two_stages(void) {
    static const int32_t dp[2][4] = {{0, 1, 6, 7}, {2, 3, 4, 5}};
    static const int32_t edp[4][2] = {{0, 6}, {1, 7}, {2, 4}, {3, 5}};
    static const int32_t apart[2][4] = {{0, 4, 3, 7}, {1, 5, 2, 6}}; /* pp first */
    static const syn_axis pp_first[SYN_AXES] = {SYN_AXIS_PP, SYN_AXIS_TP, SYN_AXIS_DP};
    syn_plan plan = {.dp = 2, .pp = 4, .ep = 2, .schedule = SYN_SCHEDULE_DUALPIPE};
    struct world w;
    char name[16];
    int seen = 0;
    CHECK(open_world(&w, 8, &plan));
    for (int32_t r = 0; r < 8; r++) {
        const int32_t stage = r / 2, lower = stage < 2 ? stage : 3 - stage;
        const syn_mesh *m = &w.mesh[r];
        snprintf(name, sizeof name, "dp%d", (int)lower);
        seen += group_is(m->group[SYN_AXIS_DP], (uint32_t)(1 + lower), name, dp[lower], 4);
        const int32_t k = 2 * lower + r % 2;
        snprintf(name, sizeof name, "edp%d", (int)k);
        seen += m->edp && strcmp(m->edp->name, name) == 0 && m->edp->size == 2 &&
                memcmp(m->edp->ranks, edp[k], sizeof edp[k]) == 0;
        seen += m->embedding == NULL;
    }
    close_world(&w);
    CHECK_INT(seen, 3 * 8);
    plan.order = pp_first;
    CHECK(open_world(&w, 8, &plan));
    seen = 0;
    for (int32_t r = 0; r < 8; r++) {
        const int32_t lower = r % 4 < 2 ? r % 4 : 3 - r % 4;
        snprintf(name, sizeof name, "dp%d", (int)lower);
        seen +=
            group_is(w.mesh[r].group[SYN_AXIS_DP], (uint32_t)(1 + lower), name, apart[lower], 4);
    }
    close_world(&w);
    CHECK_INT(seen, 8);
}

/* Whether two ranks belong to the same group of an axis: their indices along all other axes are
   equal. */
static bool share(const syn_mesh *a, const syn_mesh *b, int axis) {
    for (int c = 0; c < SYN_AXES; c++)
        if (c != axis && a->index[c] != b->index[c]) return false;
    return true;
}

/* The number of groups whose members disagree on id, name or order, plus the number of ids that two
   groups have. */
static int disagreements(const struct world *w) {
    int bad = 0;
    for (int32_t r = 0; r < w->size; r++)
        for (int32_t q = 0; q < w->size; q++)
            for (int a = 0; a < SYN_AXES; a++) {
                const syn_group *g = w->mesh[r].group[a], *other = w->mesh[q].group[a];
                bad += (g == NULL) != (w->mesh[r].size[a] == 1);
                if (!g) continue;
                bad += g->ranks[w->mesh[r].index[a]] != r;
                bad += share(&w->mesh[r], &w->mesh[q], a) !=
                       group_is(other, g->id, g->name, g->ranks, g->size);
                for (int b = 0; b < SYN_AXES; b++)
                    bad += b != a && w->mesh[q].group[b] && w->mesh[q].group[b]->id == g->id;
            }
    return bad;
}

/* Every shape of several world sizes, in every order of axes: no two ranks have the same position,
   each group consists of the ranks of its axis, and all members agree on their group. */
static void every_shape_in_every_order(void) {
    static const syn_axis orders[6][SYN_AXES] = {
        {SYN_AXIS_TP, SYN_AXIS_DP, SYN_AXIS_PP}, {SYN_AXIS_TP, SYN_AXIS_PP, SYN_AXIS_DP},
        {SYN_AXIS_DP, SYN_AXIS_TP, SYN_AXIS_PP}, {SYN_AXIS_DP, SYN_AXIS_PP, SYN_AXIS_TP},
        {SYN_AXIS_PP, SYN_AXIS_TP, SYN_AXIS_DP}, {SYN_AXIS_PP, SYN_AXIS_DP, SYN_AXIS_TP}};
    static const int32_t sizes[] = {1, 6, 8, 12};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int32_t tp = 1; tp <= sizes[s]; tp++)
            for (int32_t dp = 1; dp * tp <= sizes[s]; dp++) {
                if (sizes[s] % (tp * dp) != 0) continue;
                const int32_t n[SYN_AXES] = {tp, dp, sizes[s] / tp / dp};
                for (int o = 0; o < 6; o++) {
                    const syn_plan shape = {.tp = n[0], .dp = n[1], .pp = n[2], .order = orders[o]};
                    struct world w;
                    int bad = !open_world(&w, sizes[s], &shape);
                    for (int32_t r = 0; !bad && r < w.size; r++) {
                        const int32_t *i = w.mesh[r].index;
                        const syn_axis a = orders[o][0], b = orders[o][1], c = orders[o][2];
                        bad += i[a] + n[a] * (i[b] + n[b] * i[c]) != r || i[c] >= n[c];
                    }
                    if (!bad) bad = disagreements(&w);
                    close_world(&w);
                    CHECK_MSG(bad == 0, "tp %d, dp %d of %d, order %d: %d", tp, dp, sizes[s], o,
                              bad);
                }
            }
}

/* The group ids of a world are 1, 2, ... without gaps. */
static void ids_count_from_one(void) {
    struct world w;
    bool seen[32] = {false};
    CHECK(open_world(&w, 24, &(syn_plan){.tp = 4, .pp = 6}));
    for (int32_t r = 0; r < 24; r++)
        for (int a = 0; a < SYN_AXES; a++)
            if (w.mesh[r].group[a] && w.mesh[r].group[a]->id < 32)
                seen[w.mesh[r].group[a]->id] = true;
    close_world(&w);
    for (int id = 0; id < 32; id++) CHECK_INT(seen[id], id >= 1 && id <= 24 / 4 + 24 / 6);
}

/* Megatron-LM's groups over several axes: "model" has all ranks with the same coordinate along dp,
   with tp as the fastest axis (parallel_state.py, model_parallel_group). */
/* A plan of four ranks within a world of eight. */
static void part_of_a_world(void) {
    const syn_plan plan = {.tp = 2, .dp = 2};
    syn_error err = {0};
    for (int32_t r = 1; r < 8; r++) {
        syn_comm *comm;
        syn_mesh mesh;
        CHECK_OK(syn_comm_fake_new(&comm, r, 8, &err), err);
        const syn_status s = syn_mesh_open_part(&mesh, comm, &plan, 3, 10, &err);
        if (r < 3 || r > 6) {
            CHECK_INT(s, SYN_E_INVALID);
            CHECK_HAS(err.text, "is not among the 4 ranks from rank 3 on");
            err = (syn_error){0};
        } else {
            const int32_t first = r < 5 ? 3 : 5, tp[2] = {first, first + 1},
                          dp[2] = {r < 5 ? r : r - 2, r < 5 ? r + 2 : r};
            CHECK_OK(s, err);
            CHECK(group_is(mesh.group[SYN_AXIS_TP], r < 5 ? 10 : 11, r < 5 ? "tp0" : "tp1", tp, 2));
            CHECK(group_is(mesh.group[SYN_AXIS_DP], 12 + (uint32_t)(r - first),
                           r == first ? "dp0" : "dp1", dp, 2));
        }
        syn_comm_close(comm);
    }
}

static void groups_of_several_axes(void) {
    static const int32_t model[2][4] = {{0, 1, 4, 5}, {2, 3, 6, 7}},
                         all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int32_t reversed[2][4] = {{0, 4, 1, 5}, {2, 6, 3, 7}};
    static const syn_axis order[SYN_AXES] = {SYN_AXIS_PP, SYN_AXIS_DP, SYN_AXIS_TP};
    struct world w;
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 2, .pp = 2, .zero = 1}));
    for (int32_t r = 0; r < 8; r++) {
        const int d = w.mesh[r].index[SYN_AXIS_DP];
        CHECK(group_is(w.mesh[r].model, 13 + (uint32_t)d, d ? "model1" : "model0", model[d], 4));
        CHECK(group_is(w.mesh[r].world, 15, "world0", all, 8));
        CHECK(w.mesh[r].model->ranks[w.mesh[r].model->index] == r);
    }
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 2, .pp = 2, .order = order}));
    for (int32_t r = 0; r < 8; r++) {
        const int d = w.mesh[r].index[SYN_AXIS_DP];
        CHECK(group_is(w.mesh[r].model, 13 + (uint32_t)d, d ? "model1" : "model0", reversed[d], 4));
        CHECK(!w.mesh[r].world);
    }
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 2, .zero = 2})); /* one group is not opened twice */
    CHECK(w.mesh[3].model == w.mesh[3].group[SYN_AXIS_TP] && w.mesh[3].world->size == 8);
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 2, .zero = 3})); /* dp groups are opened twice */
    for (int32_t r = 0; r < 8; r++) {
        const syn_group *g = w.mesh[r].group[SYN_AXIS_DP];
        CHECK(group_is(w.mesh[r].gather, 8 + (uint32_t)r % 2, r % 2 ? "gather1" : "gather0",
                       g->ranks, 4));
    }
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 2, .zero = 3, .hsdp = 2}));
    static const int32_t shard[4][2] = {{0, 2}, {4, 6}, {1, 3}, {5, 7}};
    static const int32_t replicas[4][2] = {{0, 4}, {2, 6}, {1, 5}, {3, 7}};
    for (int32_t r = 0; r < 8; r++) { /* after 4 tp groups, 2 dp groups and the world */
        const int s = r % 2 * 2 + r / 4, k = r % 2 * 2 + r / 2 % 2;
        char name[16];
        snprintf(name, sizeof name, "shard%d", s);
        CHECK(group_is(w.mesh[r].shard, 8 + (uint32_t)s, name, shard[s], 2));
        snprintf(name, sizeof name, "replicas%d", k);
        CHECK(group_is(w.mesh[r].replicas, 12 + (uint32_t)k, name, replicas[k], 2));
        snprintf(name, sizeof name, "gather%d", s);
        CHECK(group_is(w.mesh[r].gather, 16 + (uint32_t)s, name, shard[s], 2));
    }
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.zero = 2}));
    CHECK(!w.mesh[3].model && w.mesh[3].world == w.mesh[3].group[SYN_AXIS_DP]);
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.pp = 8}));
    CHECK(w.mesh[3].model == w.mesh[3].group[SYN_AXIS_PP] && !w.mesh[3].world);
    close_world(&w);
}

/* tp 2, dp 4, pp 2 and four ranks that share whole experts, as in Megatron-LM. Then the same ranks
   with experts that two ranks share. */
static void experts_have_groups(void) {
    static const int32_t model[2][8] = {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}};
    static const int32_t quarter[4][4] = {
        {0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}};
    struct world w;
    char name[24];
    CHECK(open_world(&w, 16, &(syn_plan){.tp = 2, .dp = 4, .pp = 2, .ep = 4, .etp = 1}));
    for (int32_t r = 0; r < 16; r++) { /* after 8 tp, 4 dp, 8 pp and 4 model groups */
        const syn_mesh *m = &w.mesh[r];
        const int32_t same = r / 8 * 4 + r % 4, edp[2] = {r / 8 * 8 + r % 4, r / 8 * 8 + r % 4 + 4};
        snprintf(name, sizeof name, "ep%d", r / 4);
        CHECK(group_is(m->ep, 25 + (uint32_t)r / 4, name, quarter[r / 4], 4));
        CHECK(m->experts == m->ep && !m->etp);
        snprintf(name, sizeof name, "edp%d", same);
        CHECK(group_is(m->edp, 29 + (uint32_t)same, name, edp, 2));
        snprintf(name, sizeof name, "expert_model%d", r / 4 % 2);
        CHECK(group_is(m->expert_model, 37 + (uint32_t)r / 4 % 2, name, model[r / 4 % 2], 8));
    }
    close_world(&w);
    CHECK(open_world(&w, 16, &(syn_plan){.tp = 2, .dp = 4, .pp = 2, .ep = 2, .etp = 2}));
    for (int32_t r = 0; r < 16; r++) {
        const syn_mesh *m = &w.mesh[r];
        const int32_t number = r / 4 * 2 + r % 2,
                      ep[2] = {r / 4 * 4 + r % 2, r / 4 * 4 + r % 2 + 2};
        snprintf(name, sizeof name, "ep%d", number);
        CHECK(group_is(m->ep, 25 + (uint32_t)number, name, ep, 2));
        CHECK(m->etp == m->group[SYN_AXIS_TP]);
        snprintf(name, sizeof name, "experts%d", r / 4);
        CHECK(group_is(m->experts, 33 + (uint32_t)r / 4, name, quarter[r / 4], 4));
        CHECK(m->edp->size == 2 && m->edp->ranks[1] - m->edp->ranks[0] == 4);
        CHECK(m->expert_model->size == 8);
    }
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 2, .pp = 2, .etp = 1})); /* whole experts */
    CHECK(w.mesh[3].expert_model == w.mesh[3].group[SYN_AXIS_PP] && w.mesh[3].edp->size == 4);
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 2, .dp = 4})); /* no groups of their own */
    CHECK(w.mesh[3].edp == w.mesh[3].group[SYN_AXIS_DP] && !w.mesh[3].ep);
    CHECK(w.mesh[3].etp == w.mesh[3].group[SYN_AXIS_TP]);
    close_world(&w);
}

/* tp 2, cp 2, dp 2, pp 2 as in Megatron-LM, where cp varies faster than dp. Then rings of groups
   that exchange heads, and experts, which are divided among tp, cp and dp neighbours. */
static void context_has_groups(void) {
    static const int32_t dp_cp[4][4] = {
        {0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}};
    static const int32_t cp[8][2] = {{0, 2},  {1, 3},  {4, 6},   {5, 7},
                                     {8, 10}, {9, 11}, {12, 14}, {13, 15}};
    struct world w;
    char name[24];
    CHECK(open_world(&w, 16, &(syn_plan){.tp = 2, .cp = 2, .pp = 2}));
    for (int32_t r = 0; r < 16; r++) { /* after 8 tp, 4 dp_cp, 8 pp and 4 model groups */
        const syn_mesh *m = &w.mesh[r];
        const int all = r / 8 * 2 + r % 2, own = r / 4 * 2 + r % 2;
        snprintf(name, sizeof name, "dp_cp%d", all);
        CHECK(group_is(m->group[SYN_AXIS_DP], 9 + (uint32_t)all, name, dp_cp[all], 4));
        snprintf(name, sizeof name, "cp%d", own);
        CHECK(group_is(m->cp, 25 + (uint32_t)own, name, cp[own], 2));
        CHECK(m->cp_p2p == m->cp && !m->cp_a2a);
        CHECK(m->size[SYN_AXIS_DP] == 4 && m->index[SYN_AXIS_DP] == r / 2 % 4);
    }
    close_world(&w);
    const syn_plan both = {.ranks = 16, .tp = 2, .cp = 4, .cp_comm = SYN_CP_A2A_P2P, .cp_a2a = 2};
    syn_plan whole = both;
    syn_error err = {0};
    CHECK_OK(syn_plan_complete(&whole, &err), err);
    CHECK(open_world(&w, 16, &both));
    for (int32_t r = 0; r < 16; r++) { /* after 8 tp, 2 dp_cp and 4 cp groups */
        const syn_mesh *m = &w.mesh[r];
        const int32_t ring[2] = {r / 8 * 8 + r % 4, r / 8 * 8 + r % 4 + 4};
        const int all = r / 8 * 2 + r % 2, own = r / 4 * 2 + r % 2, outer = r / 8 * 4 + r % 4;
        snprintf(name, sizeof name, "cp%d", all);
        CHECK(m->cp->id == 11 + (uint32_t)all && strcmp(m->cp->name, name) == 0 &&
              m->cp->size == 4);
        snprintf(name, sizeof name, "cp_a2a%d", own);
        CHECK(group_is(m->cp_a2a, 15 + (uint32_t)own, name, cp[own], 2));
        snprintf(name, sizeof name, "cp_p2p%d", outer);
        CHECK(group_is(m->cp_p2p, 23 + (uint32_t)outer, name, ring, 2));
        CHECK(syn_plan_ring(&whole) == 2 && syn_plan_ring_index(&whole, r) == r / 4 % 2);
    }
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 2, .cp = 2, .ep = 4, .etp = 1}));
    CHECK(w.mesh[5].ep->size == 4 && w.mesh[5].ep->ranks[0] == 4 && w.mesh[5].edp->size == 2);
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.cp = 8, .cp_comm = SYN_CP_A2A, .zero = 1}));
    CHECK(w.mesh[5].cp_a2a == w.mesh[5].cp && !w.mesh[5].cp_p2p);
    CHECK(w.mesh[5].world == w.mesh[5].group[SYN_AXIS_DP] && w.mesh[5].world != w.mesh[5].cp);
    close_world(&w);
}

/* The groups in which routers' counts are summed. Equal groups are not opened twice. */
static void counts_have_groups(void) {
    struct world w;
    char name[24];
    CHECK(open_world(&w, 16, &(syn_plan){.tp = 2, .cp = 2, .pp = 2, .counts = true}));
    for (int32_t r = 0; r < 16; r++) { /* after 8 tp, 4 dp_cp, 8 pp, 4 model and 8 cp groups */
        const syn_mesh *m = &w.mesh[r];
        const int32_t near = r / 4 * 4, first = r / 8 * 8,
                      stage[8] = {first,     first + 1, first + 2, first + 3,
                                  first + 4, first + 5, first + 6, first + 7};
        const int32_t both[4] = {near, near + 1, near + 2, near + 3};
        snprintf(name, sizeof name, "tp_cp%d", r / 4);
        CHECK(group_is(m->tp_cp, 33 + (uint32_t)r / 4, name, both, 4));
        snprintf(name, sizeof name, "stage%d", r / 8);
        CHECK(group_is(m->stage, 37 + (uint32_t)r / 8, name, stage, 8));
    }
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 2, .dp = 4, .counts = true}));
    CHECK(w.mesh[5].tp_cp == w.mesh[5].group[SYN_AXIS_TP] && w.mesh[5].stage->size == 8);
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.cp = 2, .counts = true}));
    CHECK(w.mesh[5].tp_cp == w.mesh[5].cp && w.mesh[5].stage == w.mesh[5].group[SYN_AXIS_DP]);
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.tp = 4, .cp = 2, .counts = true}));
    CHECK(w.mesh[5].tp_cp->size == 8 && w.mesh[5].stage == w.mesh[5].tp_cp);
    close_world(&w);
    CHECK(open_world(&w, 8, &(syn_plan){.dp = 8}));
    CHECK(!w.mesh[5].tp_cp && !w.mesh[5].stage);
    close_world(&w);
}

static void shapes_that_are_refused(void) {
    static const syn_axis twice[SYN_AXES] = {SYN_AXIS_TP, SYN_AXIS_DP, SYN_AXIS_TP};
    static const syn_axis apart[SYN_AXES] = {SYN_AXIS_TP, SYN_AXIS_PP, SYN_AXIS_DP};
    static const syn_axis data_first[SYN_AXES] = {SYN_AXIS_DP, SYN_AXIS_TP, SYN_AXIS_PP};
    static const syn_axis unknown[SYN_AXES] = {SYN_AXIS_TP, SYN_AXIS_DP, SYN_AXES};
    static const struct {
        syn_plan shape;
        const char *says;
    } bad[] = {
        {{.tp = 3}, "8 ranks are not a multiple of tp 3"},
        {{.tp = 2, .pp = 3}, "8 ranks are not a multiple of tp 2 x pp 3"},
        {{.tp = 2, .dp = 2}, "tp 2 x dp 2 x pp 1 is 4 ranks, not 8"},
        {{.ranks = 4, .tp = 2}, "the plan has 4 ranks, the world has 8"},
        {{.tp = 2, .dp = 2, .pp = 4}, "tp 2 x dp 2 x pp 4 is 16 ranks, not 8"},
        {{.tp = -8}, "tp must be at least 1, not -8"},
        {{.dp = -4}, "dp must be at least 1, not -4"},
        {{.tp = 8, .kv = 3}, "kv 3 does not divide tp 8"},
        {{.tp = 2, .cp = 3}, "8 ranks are not a multiple of tp 2 x cp 3"},
        {{.cp = 2, .dp = 2}, "tp 1 x cp 2 x dp 2 x pp 1 is 4 ranks, not 8"},
        {{.cp = -2}, "cp must be at least 1, not -2"},
        {{.cp_comm = SYN_CP_A2A}, "needs at least 2 ranks that share a sequence (cp), not 1"},
        {{.cp = 4, .cp_a2a = 2}, "groups of 2 ranks (cp_a2a) need cp_comm a2a+p2p, not p2p"},
        {{.cp = 8, .cp_comm = SYN_CP_A2A_P2P, .cp_a2a = 3},
         "a divisor of cp 8 from 2 to half of it, not 3"},
        {{.cp = 8, .cp_comm = SYN_CP_A2A_P2P, .cp_a2a = 8},
         "a divisor of cp 8 from 2 to half of it, not 8"},
        {{.cp = 2, .ep = 3}, "tp 1 x cp 2 x dp 4 = 8 ranks are not a multiple of etp 1 x ep 3 = 3"},
        {{.cp = 2, .zero = 3, .hsdp = 3},
         "groups of 3 ranks (hsdp) do not divide the 8 data-parallel ranks (dp x cp)"},
        {{.tp = INT32_MAX, .cp = INT32_MAX}, "exceeds 2147483647 ranks"},
        {{.ep = 3}, "tp 1 x dp 8 = 8 ranks are not a multiple of etp 1 x ep 3 = 3"},
        {{.tp = 2, .ep = 8, .etp = 2},
         "tp 2 x dp 4 = 8 ranks are not a multiple of etp 2 x ep 8 = 16"},
        {{.etp = 3}, "8 ranks are not a multiple of etp 3 x ep 1 = 3"},
        {{.tp = 2, .pp = 2, .ep = 2, .etp = 1, .order = apart},
         "the rank order tp-pp-dp needs as many ranks along etp as along tp, not 1 and 2"},
        {{.tp = 2, .ep = 2, .etp = 2, .order = data_first},
         "etp 2 x ep 2 needs a rank order with tp directly before dp, not dp-tp-pp"},
        {{.zero = 4}, "ZeRO beyond stage 3 is not supported"},
        {{.tp = 8, .zero = 1}, "zero 1 needs at least 2 data-parallel ranks (dp), but there is 1"},
        {{.zero = 2, .hsdp = 2}, "hybrid sharding (hsdp) needs ZeRO 3"},
        {{.zero = 3, .hsdp = 3},
         "groups of 3 ranks (hsdp) do not divide the 8 data-parallel ranks (dp)"},
        {{.schedule = SYN_SCHEDULE_ZB_H1},
         "a pipeline schedule needs at least 2 stages (pp), not 1"},
        {{.pp = 1, .schedule = SYN_SCHEDULE_DUALPIPE},
         "needs an even number of stages (pp), not 1"},
        {{.pp = 2, .zero = 3, .schedule = SYN_SCHEDULE_DUALPIPE}, "use zero 1 or 2"},
        {{.pp = 2, .vp = 2}, "2 chunks per pipeline stage (vp) need the interleaved schedule"},
        {{.vp = -2}, "vp must be at least 1, not -2"},
        {{.tp = INT32_MAX, .dp = INT32_MAX, .pp = INT32_MAX}, "exceeds 2147483647 ranks"},
        {{.tp = 8, .order = twice}, "name each axis once"},
        {{.tp = 8, .order = unknown}, "name each axis once"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        syn_error err = {0};
        syn_comm *comm;
        syn_mesh mesh;
        CHECK_OK(syn_comm_fake_new(&comm, 3, 8, &err), err);
        const syn_status s = syn_mesh_open(&mesh, comm, &bad[i].shape, &err);
        const bool opened = syn_comm_group(comm, 1) != NULL; /* ids start at 1 */
        syn_comm_close(comm);
        CHECK_INT(s, SYN_E_INVALID);
        CHECK(!opened);
        CHECK_HAS(err.text, bad[i].says);
    }
}

static const test_case cases[] = {
    {"sixteen_ranks_as_megatron_has_them", sixteen_ranks_as_megatron_has_them},
    {"dualpipe has groups of two stages", dualpipe_has_groups_of_two_stages},
    {"every_shape_in_every_order", every_shape_in_every_order},
    {"ids_count_from_one", ids_count_from_one},
    {"part_of_a_world", part_of_a_world},
    {"groups_of_several_axes", groups_of_several_axes},
    {"experts_have_groups", experts_have_groups},
    {"experts_of_inference", experts_of_inference},
    {"context_has_groups", context_has_groups},
    {"counts_have_groups", counts_have_groups},
    {"shapes_that_are_refused", shapes_that_are_refused},
};

TEST_MAIN(cases)
