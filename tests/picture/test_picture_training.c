/* Tests pictures of training steps: forward and backward are side by side, collectives of gradients
   are bars, and every op of a step is drawn exactly once. */
#include "syntorch/base/memory.h"
#include "tests/support/picture_check.h"
#include "tests/support/ranks.h"
#include "tests/support/small_training.h"
#include "tests/support/test.h"

#include <inttypes.h>

static const syn_export_options folded;
static const syn_export_options unfolded = {.no_fold = true};
static const syn_export_options comm = {.comm_graph = true};

/* Large enough for two gradient buckets of at least 1 MiB, and small enough to draw every op. */
static const syn_model_config two_layers = {.family = &syn_gpt_family,
                                            .name = "two",
                                            .n_layer = 2,
                                            .n_embd = 192,
                                            .n_head = 4,
                                            .n_positions = 24,
                                            .n_inner = 768,
                                            .vocab_size = 512,
                                            .norm_epsilon = 1e-5,
                                            .activation = SYN_GELU_TANH,
                                            .tied = true};

typedef struct variant {
    const syn_model_config *config;
    int tp, dp, micro, steps;
    syn_recompute_mode recompute;
} variant;

static const variant plain_gpt = {&two_layers, 1, 1, 1, 1, SYN_RECOMPUTE_NONE};
static const variant two_ranks = {&two_layers, 1, 2, 1, 1, SYN_RECOMPUTE_NONE};
static const variant mesh = {&two_layers, 2, 2, 1, 1, SYN_RECOMPUTE_NONE};
static const variant accumulated = {&two_layers, 1, 2, 2, 1, SYN_RECOMPUTE_NONE};
static const variant recomputed = {&two_layers, 1, 2, 1, 1, SYN_RECOMPUTE_FULL};
static const variant two_steps = {&two_layers, 1, 2, 1, 2, SYN_RECOMPUTE_NONE};
static const variant berts = {&small_bert, 2, 2, 1, 1, SYN_RECOMPUTE_NONE};

/* Runs the variant on meta. Call drop_ranks with t->ctx afterwards. */
static bool train(const variant *v, small_training *t) {
    syn_error err = {0};
    *t = (small_training){.config = v->config,
                          .shape = {.tp = v->tp, .dp = v->dp},
                          .device = SYN_DEVICE_META,
                          .steps = v->steps,
                          .micro = v->micro,
                          .recompute = v->recompute,
                          .keep = true};
    const bool ok = run_without_transport(v->tp * v->dp, small_training_rank, t, &err) == SYN_OK;
    if (!ok) fprintf(stderr, "%s\n", err.text);
    return ok;
}

/* ---- Looking up parts of a drawing ---- */

static const syn__pic_box *find_op(const drawn *x, uint32_t node, int *times) {
    const syn__pic_box *found = NULL;
    syn_cursor cursor = {0};
    char id[48];
    snprintf(id, sizeof id, "r0.o%" PRIu64, syn_graph_node(x->graph, 0, node, &cursor)->id);
    syn_cursor_free(&cursor);
    *times = 0;
    for (size_t i = 0; i < x->d.n_boxes; i++)
        if (strcmp(x->d.boxes[i].id, id) == 0) found = &x->d.boxes[i], ++*times;
    return found;
}

/* The panel around a box; NULL if there is none. */
static const syn__pic_cluster *panel_of(const drawn *x, const syn__pic_box *b) {
    int32_t c = b->cluster;
    while (c >= 0 && x->d.clusters[c].parent >= 0) c = x->d.clusters[c].parent;
    return c >= 0 ? &x->d.clusters[c] : NULL;
}

static bool is_in_panel(const drawn *x, const syn__pic_box *b, const char *panel) {
    const syn__pic_cluster *c = panel_of(x, b);
    return c != NULL && strncmp(c->tip, panel, strlen(panel)) == 0;
}

static int count_panels(const drawn *x, const char *name) {
    int n = 0;
    for (size_t i = 0; i < x->d.n_clusters; i++)
        n += x->d.clusters[i].level == 0 && strncmp(x->d.clusters[i].tip, name, strlen(name)) == 0;
    return n;
}

/* Whether the node is a bucket's collective as models/training/data_parallel.c records it. */
static bool is_bucket(const syn_node *n) {
    return n->kind == SYN_NODE_COLLECTIVE && n->phase == SYN_PHASE_BACKWARD &&
           strcmp(n->scope, "data_parallel") == 0;
}

/* ---- Geometry ---- */

static void test_geometry(void) {
    const variant *all[] = {&plain_gpt,  &two_ranks, &mesh, &accumulated,
                            &recomputed, &two_steps, &berts};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        small_training t;
        CHECK(train(all[i], &t));

        check_geometry(rank_graph(t.ctx[0]), folded);
        check_geometry(rank_graph(t.ctx[0]), unfolded);
        check_geometry(rank_graph(t.ctx[0]), comm);
        drop_ranks(all[i]->tp * all[i]->dp, t.ctx);
    }
}

/* ---- Every op is drawn once, in its panel ---- */

static const char *panel_for(const syn_node *n) {
    if (is_bucket(n)) return "gradients";
    if (n->phase == SYN_PHASE_FORWARD) return "forward";
    return n->phase == SYN_PHASE_OPTIMIZER ? "optimizer" : "backward";
}

static void check_places(const variant *v) {
    small_training t;
    drawn x;
    CHECK(train(v, &t));
    CHECK(draw(&x, rank_graph(t.ctx[0]), &unfolded));
    syn_cursor cursor = {0};
    int buckets = 0;
    for (uint32_t i = 0; i < x.graph->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(x.graph, 0, i, &cursor);
        const bool drawn_op = (n->flags & SYN_NODE_VIRTUAL) == 0;
        int times;
        const syn__pic_box *b = find_op(&x, i, &times);
        CHECK_MSG(times == (drawn_op ? 1 : 0), "o%" PRIu64 " is there %d times", n->id, times);
        CHECK_MSG(!drawn_op || is_in_panel(&x, b, panel_for(n)), "o%" PRIu64 " is not in %s", n->id,
                  panel_for(n));
        buckets += is_bucket(n);
    }
    const int passes = v->micro * v->steps;
    CHECK_INT(count_panels(&x, "forward"), passes);
    CHECK_INT(count_panels(&x, "backward"), passes);
    CHECK_INT(count_panels(&x, "gradients"), v->dp > 1 ? v->steps : 0);
    CHECK_INT(count_panels(&x, "optimizer"), v->steps);
    CHECK_INT(buckets > 0, v->dp > 1);
    syn_cursor_free(&cursor);
    drop(&x);
    drop_ranks(v->tp * v->dp, t.ctx);
}

static void test_places(void) {
    check_places(&plain_gpt);
    check_places(&two_ranks);
    check_places(&mesh);
    check_places(&accumulated);
    check_places(&recomputed);
    check_places(&two_steps);
    check_places(&berts);
}

/* ---- Bands ---- */

static const char *tip_of(const drawn *x, int32_t cluster) {
    return cluster >= 0 ? x->d.clusters[cluster].tip : "";
}

/* The number of frames of backward that have the same name, the same parent's name and the same
   vertical extent as frame `f` of forward. */
static int count_side_by_side(const drawn *x, const syn__pic_cluster *f) {
    int n = 0;
    for (size_t i = 0; i < x->d.n_clusters; i++) {
        const syn__pic_cluster *b = &x->d.clusters[i];
        const bool layer = f->level == 1 ||
                           strcmp(tip_of(x, f->parent), tip_of(x, b->parent)) == 0 ||
                           x->d.clusters[f->parent].level == 0;
        n += b->level == f->level && strcmp(b->tip, f->tip) == 0 && layer && b->x0 > f->x1 &&
             fabs(b->y0 - f->y0) < 0.1 && fabs(b->y1 - f->y1) < 0.1;
    }
    return n;
}

/* Checks that each frame of forward is next to the same frame of backward, and that there are at
   least `least` frames. */
static void check_bands(const variant *v, int least) {
    small_training t;
    drawn x;
    CHECK(train(v, &t));
    CHECK(draw(&x, rank_graph(t.ctx[0]), &unfolded));
    int n = 0;
    for (size_t i = 0; i < x.d.n_clusters; i++) {
        const syn__pic_cluster *f = &x.d.clusters[i], *up = f;
        while (up->parent >= 0) up = &x.d.clusters[up->parent];
        if (f->level == 0 || strncmp(up->tip, "forward", 7) != 0) continue;
        if (strcmp(f->tip, "loss") == 0 || strcmp(f->tip, "data_parallel") == 0) continue;
        n++;
        CHECK_MSG(count_side_by_side(&x, f) == 1, "%s has %d frames beside it", f->tip,
                  count_side_by_side(&x, f));
    }
    CHECK_MSG(n >= least, "%d frames", n);
    drop(&x);
    drop_ranks(v->tp * v->dp, t.ctx);
}

static void test_bands(void) {
    check_bands(&plain_gpt, 2 * 3 + 2); /* two layers with attn and mlp; embed and head */
    check_bands(&two_ranks, 2 * 3 + 2);
    check_bands(&mesh, 2 * 3 + 2);
    check_bands(&berts, 2 * 4 + 2);
}

/* Layers are collapsed in the same way on both sides, although h.5 is different only in forward. */
static void test_bands_of_folded_layers(void) {
    drawn x;
    CHECK(draw(&x, picture_training(12, 1, 5), &folded));
    int n = 0;
    for (size_t i = 0; i < x.d.n_clusters; i++) {
        const syn__pic_cluster *f = &x.d.clusters[i];
        if (f->level != 1 || strcmp(tip_of(&x, f->parent), "forward") != 0) continue;
        int beside = 0;
        for (size_t k = 0; k < x.d.n_clusters; k++) {
            const syn__pic_cluster *b = &x.d.clusters[k];
            beside += b->level == 1 && strcmp(tip_of(&x, b->parent), "backward") == 0 &&
                      fabs(b->y0 - f->y0) < 0.1 && fabs(b->y1 - f->y1) < 0.1;
        }
        n++;
        CHECK_MSG(beside == 1, "%s has %d frames beside it", f->tip, beside);
    }
    CHECK_INT(n, 4); /* h.0, which reads the input; h.1 to h.4; h.5; the others */
    drop(&x);
}

/* In forward, data flows downwards, and in backward upwards. */
static void test_time(void) {
    small_training t;
    drawn x;
    CHECK(train(&mesh, &t));
    CHECK(draw(&x, rank_graph(t.ctx[0]), &unfolded));
    int down = 0, up = 0;
    for (size_t i = 0; i < x.d.n_edges; i++) {
        const syn__pic_box *a = &x.d.boxes[x.d.edges[i].from], *b = &x.d.boxes[x.d.edges[i].to];
        const bool ops = strncmp(b->id, "r0.o", 4) == 0 && panel_of(&x, a) == panel_of(&x, b);
        /* Skips edges that come from a box further left. */
        if (!ops || a->x + a->w / 2 < b->x - b->w / 2) continue;
        if (is_in_panel(&x, a, "forward")) down += a->y < b->y ? 1 : -1000;
        if (is_in_panel(&x, a, "backward")) up += a->y > b->y ? 1 : -1000;
    }
    CHECK_MSG(down > 40 && up > 40, "%d edges down, %d up", down, up);
    drop(&x);
    drop_ranks(4, t.ctx);
}

/* ---- Bars ---- */

/* The bar of bucket `node` spans the boxes of all ops that compute its gradients, and little
   more. */
static void check_bar(const drawn *x, uint32_t node, const syn_node *n) {
    int times;
    const syn__pic_box *bar = find_op(x, node, &times);
    CHECK_INT(times, 1);
    double top = INFINITY, bottom = -INFINITY;
    for (uint32_t k = 0; k < n->n_deps; k++) {
        if (n->deps[k].dep_class != SYN_DEP_DATA) continue;
        const syn__pic_box *b = find_op(x, n->deps[k].node, &times);
        if (times == 0) continue; /* this gradient's op is a view */
        top = fmin(top, b->y - b->h / 2);
        bottom = fmax(bottom, b->y + b->h / 2);
        CHECK_MSG(b->x < bar->x, "%s stands left of its bar", b->id);
    }
    char said[64];
    const double over = top - (bar->y - bar->h / 2), under = bar->y + bar->h / 2 - bottom;
    CHECK_MSG(over > -0.1 && under > -0.1, "%g and %g points too short", -over, -under);
    CHECK_MSG(over < 40 && under < 40, "%g and %g points too long", over, under);
    snprintf(said, sizeof said, "%u gradients", n->n_inputs);
    CHECK_HAS(bar->label, said);
    snprintf(said, sizeof said, "all_reduce  %.3g MiB", (double)n->comm_bytes / (1 << 20));
    CHECK_HAS(bar->label, said);
    CHECK_INT(bar->look, SYN__PIC_COLLECTIVE);
}

static void test_bars(void) {
    small_training t;
    drawn x;
    CHECK(train(&two_ranks, &t));
    CHECK(draw(&x, rank_graph(t.ctx[0]), &unfolded));
    syn_cursor cursor = {0};
    int n_bars = 0;
    for (uint32_t i = 0; i < x.graph->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(x.graph, 0, i, &cursor);
        if (!is_bucket(n)) continue;
        check_bar(&x, i, n);
        n_bars++;
    }
    CHECK_MSG(n_bars > 1, "%d buckets", n_bars);
    syn_cursor_free(&cursor);
    drop(&x);
    drop_ranks(2, t.ctx);
}

/* If several layers are drawn as one, the collectives of their gradients become one bar next to
   this layer. Its label lists them. */
static void test_bars_of_folded_layers(void) {
    small_training t;
    drawn x;
    CHECK(train(&two_ranks, &t));
    CHECK(draw(&x, rank_graph(t.ctx[0]), &folded));
    /* Buckets do not split layers. */
    CHECK_INT(count_label(&x.d, SYN__PIC_BADGE, "2 identical"), 2);
    syn_cursor cursor = {0};
    const syn__pic_box *bar = NULL;
    char said[32];
    int buckets = 0, times;
    for (uint32_t i = 0; i < x.graph->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(x.graph, 0, i, &cursor);
        if (!is_bucket(n)) continue;
        const syn__pic_box *b = find_op(&x, i, &times);
        CHECK_MSG(buckets++ > 0 || times == 1, "no bar for the first bucket");
        if (bar == NULL) bar = b;
        CHECK_MSG(b == NULL || b == bar, "bucket %d has a bar of its own", buckets);
        snprintf(said, sizeof said, "%d. ", buckets);
        CHECK_HAS(bar->label, said);
        for (uint32_t k = 0; k < n->n_deps; k++) {
            const syn__pic_box *op = find_op(&x, n->deps[k].node, &times);
            if (n->deps[k].dep_class != SYN_DEP_DATA || times == 0) continue;
            CHECK(op->y > bar->y - bar->h / 2 && op->y < bar->y + bar->h / 2);
        }
    }
    CHECK_MSG(buckets > 1, "%d buckets", buckets);
    snprintf(said, sizeof said, "%d all_reduce  ", buckets);
    CHECK_HAS(bar->label, said);
    syn_cursor_free(&cursor);
    drop(&x);
    drop_ranks(2, t.ctx);
}

/* Two collectives over the same gradients are drawn side by side. Backward uses the result of a
   third collective, so it is drawn as an op. The loss is all-reduced at the end of the step. */
static void test_lanes(void) {
    picture_maker m;
    drawn x;
    const syn_spec spec = PICTURE_F32(2, 64, 64);
    const picture_op sum = {
        .op = "all_reduce", .label = "all_reduce", .category = SYN_CATEGORY_COMMUNICATION};
    const picture_op product = {
        .op = "matmul", .label = "matmul", .category = SYN_CATEGORY_MATMUL, .flops = 1000};
    picture_start(&m, 1);
    const uint32_t in =
        picture_tensor(&m, "batch", spec, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
    m.phase = SYN_PHASE_FORWARD;
    picture_scope(&m, "h.0.mlp");
    const uint32_t y = picture_add(&m, product, spec, PICTURE_IN(in, in));
    m.phase = SYN_PHASE_BACKWARD;
    const uint32_t dy = picture_add(&m, product, spec, PICTURE_IN(y, y));
    const uint32_t dx = picture_add(&m, sum, spec, PICTURE_IN(dy));
    const uint32_t dw = picture_add(&m, product, spec, PICTURE_IN(dx, in));
    picture_scope(&m, "data_parallel");
    picture_add(&m, sum, spec, PICTURE_IN(dy, dw));
    picture_add(&m, sum, spec, PICTURE_IN(dy, dw));
    m.phase = SYN_PHASE_FORWARD;
    picture_add(&m, sum, spec, PICTURE_IN(y));
    CHECK(draw(&x, picture_finish(&m), &folded));
    static const char *const panels[] = {"forward",   "backward",  "backward", "backward",
                                         "gradients", "gradients", "forward"};
    const syn__pic_box *b[7];
    for (uint32_t i = 0; i < 7; i++) {
        int times;
        b[i] = find_op(&x, i, &times);
        CHECK_INT(times, 1);
        CHECK_MSG(is_in_panel(&x, b[i], panels[i]), "%s is not in %s", b[i]->id, panels[i]);
    }
    CHECK_INT(count_panels(&x, "forward"), 1);
    CHECK(fabs(b[4]->y - b[5]->y) < 0.1 && b[4]->x + b[4]->w / 2 < b[5]->x - b[5]->w / 2);
    check_geometry(x.graph, folded);
    x.graph = NULL;
    drop(&x);
}

/* ---- Tensors saved for backward ---- */

/* The number of different forward tensors that node `node` reads, directly or through views. */
static int count_kept(const syn_graph *g, uint32_t node) {
    uint32_t seen[64];
    int n_seen = 0;
    syn_cursor cursor = {0}, other = {0};
    const syn_node *n = syn_graph_node(g, 0, node, &cursor);
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        uint32_t tensor = n->inputs[i], from = SYN_NO_NODE;
        for (;;) {
            from = syn_graph_tensor_at(g, 0, tensor, &other)->producer;
            if (from == SYN_NO_NODE) break;
            const syn_node *d = syn_graph_node(g, 0, from, &other);
            if ((d->flags & SYN_NODE_VIRTUAL) == 0) break;
            tensor = d->inputs[0];
        }
        if (from == SYN_NO_NODE) continue;
        if (syn_graph_node(g, 0, from, &other)->phase != SYN_PHASE_FORWARD) continue;
        bool known = false;
        for (int k = 0; k < n_seen; k++) known = known || seen[k] == tensor;
        if (!known && n_seen < 64) seen[n_seen++] = tensor;
    }
    syn_cursor_free(&cursor);
    syn_cursor_free(&other);
    return n_seen;
}

static void test_kept(void) {
    small_training t;
    drawn x;
    CHECK(train(&plain_gpt, &t));
    CHECK(draw(&x, rank_graph(t.ctx[0]), &unfolded));
    int want = 0, lines = 0;
    syn_cursor cursor = {0};
    for (uint32_t i = 0; i < x.graph->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(x.graph, 0, i, &cursor);
        if (n->phase == SYN_PHASE_BACKWARD && !(n->flags & SYN_NODE_VIRTUAL))
            want += count_kept(x.graph, i);
    }
    syn_cursor_free(&cursor);
    for (size_t i = 0; i < x.d.n_edges; i++) {
        const syn__pic_edge *e = &x.d.edges[i];
        const syn__pic_box *a = &x.d.boxes[e->from], *b = &x.d.boxes[e->to];
        if (e->line != SYN__PIC_SAVED || a->look == SYN__PIC_PLAIN) continue;
        lines++;
        CHECK(is_in_panel(&x, a, "forward") && is_in_panel(&x, b, "backward"));
    }
    CHECK_MSG(want > 2 * 8, "%d tensors are kept", want);
    CHECK_INT(lines, want);
    drop(&x);
    drop_ranks(1, t.ctx);
}

/* Each tp_enter of forward is connected with the all-reduce of its gradient: two per layer, and one
   in the head. */
static void test_pairs(void) {
    small_training t;
    drawn x;
    CHECK(train(&mesh, &t));
    CHECK(draw(&x, rank_graph(t.ctx[0]), &unfolded));
    int lines = 0;
    for (size_t i = 0; i < x.d.n_edges; i++) {
        const syn__pic_edge *e = &x.d.edges[i];
        const syn__pic_box *a = &x.d.boxes[e->from], *b = &x.d.boxes[e->to];
        if (e->line != SYN__PIC_PAIR || a->look == SYN__PIC_PLAIN) continue;
        lines++;
        CHECK(is_in_panel(&x, a, "forward") && is_in_panel(&x, b, "backward"));
        CHECK_HAS(a->tip, "op: linear");
        CHECK_HAS(b->tip, "op: all_reduce");
        const size_t scope = strcspn(strstr(a->tip, "  "), "/");
        CHECK(strncmp(strstr(a->tip, "  "), strstr(b->tip, "  "), scope) == 0);
    }
    CHECK_INT(lines, 2 * (int)mesh.config->n_layer + 1);
    drop(&x);
    drop_ranks(small_training_ranks(&t), t.ctx);
}

/* ---- Errors ---- */

/* If any allocation fails, drawing must report it without a leak. */
static void test_memory(void) {
    small_training t;
    bool done = false;
    int failed = 0;
    CHECK(train(&two_ranks, &t));
    for (uint64_t after = 0; !done && after < 10000; after++) {
        drawn x;
        syn_graph *graph = rank_graph(t.ctx[0]);
        syn_memory_fail_after(after);
        done = draw(&x, graph, &folded);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (!done) CHECK_INT(x.err.code, SYN_E_NOMEM);
        failed += !done;
        drop(&x);
    }
    CHECK_MSG(done && failed > 40, "%d allocations failed", failed);
    drop_ranks(2, t.ctx);
}

static const test_case cases[] = {
    {"geometry", test_geometry},
    {"places", test_places},
    {"bands", test_bands},
    {"bands_of_folded_layers", test_bands_of_folded_layers},
    {"time", test_time},
    {"bars", test_bars},
    {"bars_of_folded_layers", test_bars_of_folded_layers},
    {"lanes", test_lanes},
    {"kept", test_kept},
    {"pairs", test_pairs},
    {"memory", test_memory},
};

int main(int argc, char **argv) {
    return test_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
