/* Tests pictures for paper and slides: the text must be large enough to read, and every collective
   must be shown. */
#include "tests/support/picture_check.h"
#include "tests/support/ranks.h"
#include "tests/support/small_training.h"
#include "tests/support/test.h"

#include <string.h>

static const syn_page pages[] = {SYN_PAGE_A4, SYN_PAGE_SLIDE};

/* The size of the page's smallest text, in points. */
static double smallest(const syn__pic_drawing *d) {
    double w, h;
    return syn__pic_smallest(d) * syn__pic_page_scale(d, d->page, &w, &h);
}

static const syn__pic_cluster *frame(const syn__pic_drawing *d, const char *tip) {
    for (size_t i = 0; i < d->n_clusters; i++)
        if (strcmp(d->clusters[i].tip, tip) == 0) return &d->clusters[i];
    return NULL;
}

/* Draws the graph and checks that its text is large enough to read. */
static void draw_page(drawn *x, syn_graph *g, const syn_export_options *o) {
    CHECK_MSG(draw(x, g, o), "%s", x->err.text);
    CHECK_MSG(smallest(&x->d) >= (o->page == SYN_PAGE_A4 ? 5.5 : 6), "text of %g points",
              smallest(&x->d));
}

/* On a slide, the phases of generation are drawn side by side. */
static void test_comm_of_generation(void) {
    for (int tp = 2; tp <= 8; tp *= 2) {
        const gpt_shape c = {12, 8, tp, 15, 64, 16, 256};
        for (int p = 0; p < 2; p++) {
            const syn_export_options o = {.comm_graph = true, .page = pages[p]};
            drawn x;
            check_geometry(gpt_graph(&c, false), o);
            draw_page(&x, gpt_graph(&c, false), &o);
            const syn__pic_cluster *a = frame(&x.d, "prefill"),
                                   *b = frame(&x.d, "decode, steps 1 \xE2\x80\xA6 15");
            CHECK(a != NULL && b != NULL);
            if (a != NULL && b != NULL && pages[p] == SYN_PAGE_SLIDE)
                CHECK_MSG(b->x0 > a->x1, "decode is not beside prefill");
            CHECK(count_look(&x.d, SYN__PIC_COLLECTIVE) >= 2 * 4);
            drop(&x);
        }
    }
}

static bool train(small_training *t, const syn_model_config *config, int tp, int dp, int micro) {
    syn_error err = {0};
    *t = (small_training){.config = config,
                          .shape = {.tp = tp, .dp = dp},
                          .device = SYN_DEVICE_META,
                          .steps = 1,
                          .micro = micro,
                          .keep = true};
    return run_without_transport(tp * dp, small_training_rank, t, &err) == SYN_OK;
}

static syn_graph *all_ranks(const small_training *t) {
    const int n = t->shape.tp * t->shape.dp;
    syn_graph *graphs[TRAINING_MAX_RANKS], *all = NULL;
    syn_error err = {0};
    for (int r = 0; r < n; r++) graphs[r] = rank_graph(t->ctx[r]);
    return syn_graph_union(&all, graphs, (uint32_t)n, &err) == SYN_OK ? all : NULL;
}

/* A page has a bar for every kind and group of collectives in a step. */
static void test_comm_of_training(void) {
    static const struct {
        int tp, dp, micro;
        const char *bars[4];
    } meshes[] = {{1, 2, 1, {"dp0 {0,1}"}},
                  {2, 1, 1, {"tp0 {0,1}"}},
                  {2, 2, 1, {"tp0 {0,1}", "dp0 {0,2}", "dp1 {1,3}"}},
                  {2, 1, 2, {"tp0 {0,1}"}},
                  {2, 2, 2, {"tp0 {0,1}", "dp0 {0,2}"}}};
    for (int i = 0; i < 5; i++)
        for (int p = 0; p < 2; p++) {
            const syn_export_options o = {.comm_graph = true, .page = pages[p]};
            small_training t;
            drawn x;
            CHECK(train(&t, &small_gpt, meshes[i].tp, meshes[i].dp, meshes[i].micro));
            check_geometry(all_ranks(&t), o);
            draw_page(&x, all_ranks(&t), &o);
            for (int k = 0; k < 4 && meshes[i].bars[k] != NULL; k++)
                CHECK_MSG(count_label(&x.d, SYN__PIC_COLLECTIVE, meshes[i].bars[k]) > 0,
                          "no bar of %s", meshes[i].bars[k]);
            drop(&x);
            drop_ranks(meshes[i].tp * meshes[i].dp, t.ctx);
        }
}

/* If the text of the requested level of detail is too small to read, the next coarser level whose
   text is large enough is drawn. The picture names its level. Sharding is shown as long as ops are
   drawn, and collectives are always drawn. */
static void test_trace_levels(void) {
    static const syn_detail levels[] = {SYN_DETAIL_TENSORS, SYN_DETAIL_OPS, SYN_DETAIL_MODULES,
                                        SYN_DETAIL_LAYERS};
    static const char *const names[] = {"tensors", "ops", "modules", "layers"};
    small_training t;
    int obeyed = 0;
    CHECK(train(&t, &small_bert, 2, 2, 1));
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < 2; p++) {
            const syn_export_options o = {.page = pages[p], .detail = levels[i]};
            drawn x;
            char said[64];
            check_geometry(rank_graph(t.ctx[0]), o);
            draw_page(&x, rank_graph(t.ctx[0]), &o);
            snprintf(said, sizeof said, "Level of detail: %s.", names[i]);
            const int as_asked = count_label(&x.d, SYN__PIC_PLAIN, said);
            snprintf(said, sizeof said, "Level of detail %s is unreadable here.", names[i]);
            CHECK_INT(count_label(&x.d, SYN__PIC_PLAIN, said), !as_asked);
            obeyed += as_asked;
            const int cuts = count_label(&x.d, SYN__PIC_OP + SYN_CATEGORY_MATMUL, "weight: rows ");
            CHECK_MSG(!as_asked || (cuts > 0) == (levels[i] == SYN_DETAIL_OPS), "%s: %d cuts",
                      names[i], cuts);
            int enters = 0;
            for (size_t k = 0; k < x.d.n_edges; k++)
                enters += x.d.edges[k].label != NULL && strstr(x.d.edges[k].label, "tp_enter");
            if (as_asked) CHECK_INT(enters > 0, levels[i] <= SYN_DETAIL_OPS);
            /* Each layer has two collectives in forward and two in backward, and there are those of
               both kinds of gradients. */
            CHECK(count_look(&x.d, SYN__PIC_COLLECTIVE) >= 4);
            CHECK(count_label(&x.d, SYN__PIC_COLLECTIVE, "gradients") > 0);
            drop(&x);
        }
    CHECK(obeyed > 0);
    drop_ranks(4, t.ctx);
}

/* For generation, a sheet of paper shows ops, for one rank and also for two. A slide shows the
   requested level. */
static void test_trace_of_generation(void) {
    for (int tp = 1; tp <= 2; tp++) {
        const gpt_shape c = {12, 8, tp, 15, 64, 16, 256};
        const syn_export_options sheet = {.page = SYN_PAGE_A4},
                                 slide = {.page = SYN_PAGE_SLIDE, .detail = SYN_DETAIL_LAYERS},
                                 free_slide = {.page = SYN_PAGE_SLIDE};
        drawn x;
        check_geometry(gpt_graph(&c, false), sheet);
        check_geometry(gpt_graph(&c, false), slide);
        check_geometry(gpt_graph(&c, false), free_slide);
        draw_page(&x, gpt_graph(&c, false), &sheet);
        CHECK_INT(count_label(&x.d, SYN__PIC_PLAIN, "tensors are not drawn"), 1);
        CHECK(tp == 1 || count_look(&x.d, SYN__PIC_COLLECTIVE) >= 10);
        drop(&x);
        draw_page(&x, gpt_graph(&c, false), &slide);
        CHECK_INT(count_label(&x.d, SYN__PIC_PLAIN, "Level of detail: layers."), 1);
        for (size_t i = 0; i < x.d.n_boxes; i++) /* also if the layer spans two columns */
            if (strstr(x.d.boxes[i].label, "<b>mlp</b>") != NULL)
                CHECK_INT(x.d.clusters[x.d.boxes[i].cluster].level, 1);
        CHECK(tp == 1 || count_look(&x.d, SYN__PIC_COLLECTIVE) >= 10);
        drop(&x);
    }
}

static const syn__pic_box *find_box(const syn__pic_drawing *d, const char *id) {
    for (size_t i = 0; i < d->n_boxes; i++)
        if (strcmp(d->boxes[i].id, id) == 0) return &d->boxes[i];
    return NULL;
}

/* The number of edges into (or out of) a box, without the edges of tensors next to it. */
static int degree(const syn__pic_drawing *d, const syn__pic_box *b, bool in) {
    int n = 0;
    for (size_t i = 0; i < d->n_edges; i++) {
        const syn__pic_edge *e = &d->edges[i];
        const int other = d->boxes[in ? e->from : e->to].look;
        const bool tensor = other >= SYN__PIC_ACTIVATION && other <= SYN__PIC_ELSEWHERE;
        n += !tensor && &d->boxes[in ? e->to : e->from] == b;
    }
    return n;
}

/* The number of boxes whose edges changed because of a column break. The same number of edges must
   lead to a box as before. If edges led out of it, at least one must still do so. */
static int count_changed_boxes(const syn__pic_drawing *whole, const syn__pic_drawing *broken) {
    int n = 0;
    for (size_t i = 0; i < whole->n_boxes; i++) {
        const syn__pic_box *a = &whole->boxes[i], *b = find_box(broken, a->id);
        if (a->id[0] != 'r' || b == NULL || strcmp(a->label, b->label) != 0) continue;
        const bool in = degree(whole, a, true) == degree(broken, b, true);
        const bool out = (degree(whole, a, false) > 0) == (degree(broken, b, false) > 0);
        if (in && out) continue;
        if (n++ < 5)
            fprintf(stderr, "%s: %d and %d edges in, %d and %d out\n", a->id,
                    degree(whole, a, true), degree(broken, b, true), degree(whole, a, false),
                    degree(broken, b, false));
    }
    return n;
}

/* If a column break cuts an edge, both of its ends are marked. Tested for data, for skip
   connections across several columns, and for edges that only give an order. */
static void test_column_breaks(void) {
    const gpt_shape c = {12, 8, 2, 15, 64, 16, 256};
    static const syn_detail levels[] = {SYN_DETAIL_OPS, SYN_DETAIL_MODULES, SYN_DETAIL_LAYERS};
    int cut_ends = 0;
    for (int k = 0; k < 6; k++) {
        const syn_export_options plain = {.detail = levels[k / 2]},
                                 o = {.page = pages[k % 2], .detail = levels[k / 2]};
        drawn a, b;
        CHECK(draw(&a, gpt_graph(&c, false), &plain));
        draw_page(&b, gpt_graph(&c, false), &o);
        CHECK_INT(count_changed_boxes(&a.d, &b.d), 0);
        const int from = count_label(&b.d, SYN__PIC_PLAIN, "<i>from"),
                  to = count_label(&b.d, SYN__PIC_PLAIN, "<i>to");
        CHECK_MSG((from > 0) == (to > 0), "%d from, %d to", from, to);
        cut_ends += from;
        for (size_t i = 0; i < b.d.n_boxes; i++)
            if (strstr(b.d.boxes[i].label, "<b>residual</b>") != NULL)
                CHECK_INT(degree(&b.d, &b.d.boxes[i], true), 2);
        drop(&a);
        drop(&b);
        check_geometry(gpt_graph(&c, false), o);
    }
    CHECK(cut_ends > 0);
    drawn bare; /* 100 ops without tensors, in columns of 42 ops */
    CHECK(draw(&bare, picture_bare(100), &(syn_export_options){.detail = SYN_DETAIL_OPS}));
    CHECK(count_label(&bare.d, SYN__PIC_PLAIN, "<i>from") > 0);
    int lonely = 0;
    for (size_t i = 0; i < bare.d.n_boxes; i++)
        lonely += bare.d.boxes[i].id[0] == 'r' && strstr(bare.d.boxes[i].id, "from") == NULL &&
                  strstr(bare.d.boxes[i].id, "to") == NULL &&
                  degree(&bare.d, &bare.d.boxes[i], true) == 0;
    CHECK_INT(lonely, 1); /* only the first op has no predecessor */
    drop(&bare);
    check_geometry(picture_bare(100), (syn_export_options){.detail = SYN_DETAIL_OPS});
}

/* The text on a page must be large enough to read, for any option and any graph. */
static void test_always_readable(void) {
    static const syn_detail levels[] = {SYN_DETAIL_AUTO, SYN_DETAIL_TENSORS, SYN_DETAIL_LAYERS};
    static const gpt_shape large = {24, 16, 4, 3, 1024, 64, 50304};
    char title[600];
    memset(title, 'W', sizeof title);
    title[sizeof title - 1] = '\0';
    for (int graph = 0; graph < 6; graph++)
        for (int p = 0; p < 2; p++)
            for (int k = 0; k < 7; k++) {
                syn_export_options o = {.page = pages[p], .no_fold = k >= 5};
                drawn x;
                if (graph >= 2 && k > 0 && k < 6) continue;
                if (TEST_REDUCED && (graph + p + k) % 4 != 0) continue;
                if (k < 3) o.detail = levels[k];
                if (k == 3 || k == 6) o.comm_graph = true;
                if (k == 4) o.view = SYN_VIEW_TIMELINE;
                if (k == 4 || k == 3) o.title = title;
                draw_page(&x,
                          graph == 0   ? gpt_graph(&large, false)
                          : graph == 1 ? picture_training(12, 2, 5)
                          : graph == 2 ? picture_flat(300)
                          : graph == 3 ? picture_bare(150)
                          : graph == 4 ? picture_pipeline(6, 3)
                                       : picture_hostile(),
                          &o);
                drop(&x);
            }
}

/* The number of edges that begin (or end) at a text with these words. */
static int count_cut_ends(const syn__pic_drawing *d, const char *words, bool begin) {
    int n = 0;
    for (size_t i = 0; i < d->n_edges; i++) {
        const syn__pic_edge *e = &d->edges[i];
        n += strstr(d->boxes[begin ? e->from : e->to].label, words) != NULL;
    }
    return n;
}

/* If a phase continues in another panel, each rank has an arrow that leads to the panel and one
   that comes from it. */
static void test_comm_breaks(void) {
    const gpt_shape c = {2, 8, 2, 0, 64, 16, 256};
    const syn_export_options o = {.comm_graph = true, .page = SYN_PAGE_A4, .no_fold = true};
    drawn x;
    check_geometry(gpt_graph(&c, false), o);
    draw_page(&x, gpt_graph(&c, false), &o);
    CHECK_INT(count_cut_ends(&x.d, "<i>to 2 of 2</i>", false), 2);
    CHECK_INT(count_cut_ends(&x.d, "<i>from 1 of 2</i>", true), 2);
    int parts = 0;
    for (size_t i = 0; i < x.d.n_clusters; i++)
        parts += strstr(x.d.clusters[i].label, "prefill  (1 of 2)") != NULL ||
                 strstr(x.d.clusters[i].label, "prefill  (2 of 2)") != NULL;
    CHECK_INT(parts, 2);
    drop(&x);
}

static const test_case cases[] = {
    {"comm_breaks", test_comm_breaks},
    {"always_readable", test_always_readable},
    {"column_breaks", test_column_breaks},
    {"trace_levels", test_trace_levels},
    {"trace_of_generation", test_trace_of_generation},
    {"comm_of_generation", test_comm_of_generation},
    {"comm_of_training", test_comm_of_training},
};

TEST_MAIN(cases)
