/* Tests pictures: what is collapsed, that nothing overlaps or is missing, colours, and unusual
   graphs. With "--draw FOLDER" the program writes sample pictures, which test_picture.py renders
   and checks. */
#include "export/picture/picture_cells.h"
#include "tests/support/picture_check.h"
#include "tests/support/ranks.h"
#include "tests/support/small_training.h"
#include "tests/support/test.h"

#include <stdbool.h>

/* ---- Geometry ---- */

/* A graph whose picture fits on a page: 2 layers, 8 heads, tp 2, 15 steps. */
static const gpt_shape page = {2, 8, 2, 15, 64, 16, 256};

static const syn_export_options plain;
static const syn_export_options unfolded = {.no_fold = true};
static const syn_export_options comm = {.comm_graph = true};
static const syn_export_options comm_unfolded = {.comm_graph = true, .no_fold = true};

static void test_geometry_gpt(void) {
    const int layers[] = {1, 2, 12}, tps[] = {1, 2, 8};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            const gpt_shape c = {layers[i], 8, tps[k], 3, 64, 16, 256};
            check_geometry(gpt_graph(&c, false), plain);
            check_geometry(gpt_graph(&c, false), unfolded);
            check_geometry(gpt_graph(&c, false), comm);
            check_geometry(gpt_graph(&c, false), comm_unfolded);
        }
}

/* Three labelled edges lead to one op, as in fused attention. */
static void test_geometry_labels(void) {
    picture_maker m;
    picture_start(&m, 1);
    const syn_spec spec = PICTURE_F32(2, 8, 8);
    const uint32_t x = picture_tensor(&m, "x", spec, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
    const picture_op op = {.op = "gelu", .label = "gelu", .category = SYN_CATEGORY_ELEMENTWISE};
    const uint32_t y = picture_add(&m, op, spec, PICTURE_IN(x));
    uint32_t in[3];
    for (int i = 0; i < 3; i++) {
        in[i] = i == 0 ? y : picture_add(&m, op, spec, PICTURE_IN(y));
        in[i] = picture_view(&m, "slice", "a_rather_long_name", spec, in[i]);
        in[i] = picture_view(&m, "permute", "permute", spec, in[i]);
    }
    picture_add(&m, op, spec, 3, in);
    check_geometry(picture_finish(&m), plain);
}

static void test_geometry_large(void) {
    const gpt_shape c = {96, 96, 2, 32, 12288, 2048, 50304};
    check_geometry(gpt_graph(&c, false), plain);
    check_geometry(gpt_graph(&c, false), unfolded);
    check_geometry(gpt_graph(&c, false), comm);
    check_geometry(gpt_graph(&c, false), comm_unfolded);
}

static void test_geometry_others(void) {
    for (uint32_t n = 1; n < 200; n += 23) check_geometry(picture_flat(n), plain);
    check_geometry(picture_flat(3000), plain);
    check_geometry(picture_flat(50000), unfolded);
    check_geometry(picture_bare(90), plain);
    check_geometry(picture_training(12, 4, -1), plain);
    check_geometry(picture_training(12, 4, -1), unfolded);
    check_geometry(picture_pipeline(4, 3), comm);
    check_geometry(picture_pipeline(4, 300), comm);
    check_geometry(picture_pipeline(12, 3), comm);
}

/* ---- Lists of tensors ---- */

/* Checks the boxes of lists of tensors. The optimizer has a box for the 28 parameters and one for
   their results, and a box for the two lists of moments and one for their results. With dp, a
   broadcast at the start makes the parameters equal on all ranks; it has two more boxes of 28
   parameters. The gradients have a box where their norm is computed and another where the optimizer
   uses them. With dp, their all-reduce is a bar. */
static void check_lists(syn_graph *graph, bool dp) {
    drawn x;
    const bool ok = draw(&x, graph, &plain);
    const int params = count_label(&x.d, SYN__PIC_PARAM, "28 parameters"),
              states = count_label(&x.d, SYN__PIC_STATE, "2 states"),
              bars = count_label(&x.d, SYN__PIC_COLLECTIVE, "28 gradients"),
              grads = count_label(&x.d, SYN__PIC_ELSEWHERE, "28 tensors");
    const double width = x.d.width;
    drop(&x);
    CHECK(ok);
    CHECK_INT(params, dp ? 4 : 2);
    CHECK_INT(states, 2);
    CHECK_INT(bars, dp);
    CHECK_INT(grads, 2);
    CHECK_MSG(width < 3000, "%g points wide", width);
}

static void test_lists(void) {
    for (int dp = 1; dp <= 2; dp++) {
        small_training t = {.config = &small_gpt,
                            .shape = {.tp = 1, .dp = dp},
                            .device = SYN_DEVICE_META,
                            .steps = 1,
                            .micro = 1,
                            .keep = true};
        syn_error err = {0};
        CHECK_OK(run_without_transport(dp, small_training_rank, &t, &err), err);
        check_geometry(rank_graph(t.ctx[0]), plain);
        check_geometry(rank_graph(t.ctx[0]), unfolded);
        check_geometry(rank_graph(t.ctx[0]), comm);
        check_lists(rank_graph(t.ctx[0]), dp == 2);
        drop_ranks(dp, t.ctx);
    }
}

/* ---- Collapsing ---- */

static void test_fold_plan(void) {
    const gpt_shape c = {12, 8, 2, 15, 64, 16, 256};
    syn_graph *g = gpt_graph(&c, false);
    syn_error err = {0};
    syn__pic_plan p;
    CHECK_OK(syn__pic_plan_make(&p, g, 0, SYN__PIC_FOLD_ALL, &err), err);
    CHECK_INT(p.n_steps, 16);
    CHECK_INT(p.folded_steps, 14); /* decode steps 2 to 15 are collapsed onto step 1 */
    CHECK_INT(p.folded_units, 22); /* 11 layers in prefill, and 11 in decode step 1 */
    CHECK_INT(p.steps[1].count, 15);
    CHECK_INT(p.units[1].count, 12);
    CHECK_STR(p.units[1].layer, "h.0");
    /* An op of the last layer of the last step is drawn as the same op of layer 0 of decode step
       1. */
    const uint32_t offset = p.units[p.n_units - 2].begin + 3;
    CHECK_INT(syn__pic_rep_of(&p, offset), p.units[p.steps[1].unit_begin + 1].begin + 3);
    CHECK_INT(p.totals.comms, 16 * (12 * 2 + 3));
    syn__pic_plan_free(&p);
    CHECK_OK(syn__pic_plan_make(&p, g, 0, SYN__PIC_FOLD_NONE, &err), err);
    CHECK_INT(p.folded_steps + p.folded_units, 0);
    const uint64_t sig = p.rank_sig;
    syn__pic_plan_free(&p);
    CHECK_OK(syn__pic_plan_make(&p, g, 1, SYN__PIC_FOLD_NONE, &err), err);
    CHECK(p.rank_sig == sig);
    syn__pic_plan_free(&p);
    syn_graph_free(g);
}

static void test_fold_odd_layer(void) {
    syn_error err = {0};
    syn_graph *g = picture_training(12, 1, 5);
    syn__pic_plan p;
    CHECK_OK(syn__pic_plan_make(&p, g, 0, SYN__PIC_FOLD_ALL, &err), err);
    /* h.1 to h.4 of forward; h.0 is different because it reads the input. */
    CHECK_INT(p.units[1].count, 4);
    CHECK_INT(p.units[5].count, 1); /* h.5 alone */
    CHECK_INT(p.units[6].count, 6); /* h.6 to h.11 */
    CHECK_INT(p.units[6].last, 11);
    syn__pic_plan_free(&p);
    syn_graph_free(g);
}

static void test_fold_pairs(void) {
    /* Microbatches with the same ops: fc, fc, send. */
    syn_error err = {0};
    syn_graph *g = picture_pipeline(2, 10);
    syn__pic_plan p;
    CHECK_OK(syn__pic_plan_make(&p, g, 0, SYN__PIC_FOLD_ALL, &err), err);
    int drawn_units = 0;
    for (size_t i = 0; i < p.n_units; i++) drawn_units += syn__pic_unit_drawn(&p, i);
    CHECK(drawn_units <= 6);
    syn__pic_plan_free(&p);
    syn_graph_free(g);
}

static void test_badges(void) {
    drawn x;
    const gpt_shape c = {12, 8, 2, 15, 64, 16, 256};
    CHECK(draw(&x, gpt_graph(&c, false), &plain));
    CHECK_INT(count_label(&x.d, SYN__PIC_BADGE,
                          "\xC3\x97"
                          "12 identical"),
              2);
    CHECK_INT(count_label(&x.d, SYN__PIC_BADGE,
                          "\xC3\x97"
                          "15 steps"),
              1);
    /* One layer in each of the two phases has 10 collectives. The shapes cover all decode steps. */
    CHECK_INT(count_look(&x.d, SYN__PIC_COLLECTIVE), 10);
    CHECK_INT(count_label(&x.d, SYN__PIC_ACTIVATION,
                          "f32[1,4,1,17\xE2\x80\xA6"
                          "31]"),
              3);
    CHECK_INT(count_label(&x.d, SYN__PIC_ACTIVATION, "f32[1,4,16,16]"), 3);
    drop(&x);
}

static void test_residuals(void) {
    drawn x;
    int n = 0;
    /* With more layers, the picture would need two columns. */
    const gpt_shape c = {2, 8, 2, 0, 64, 16, 256};
    CHECK(draw(&x, gpt_graph(&c, false), &unfolded));
    for (size_t i = 0; i < x.d.n_edges; i++)
        n += x.d.edges[i].line == SYN__PIC_RESIDUAL && x.d.edges[i].label != NULL;
    CHECK_INT(n, 2 * 2);
    drop(&x);
}

static void test_every_op_is_there(void) {
    drawn x;
    const gpt_shape c = {3, 8, 2, 1, 64, 16, 256};
    CHECK(draw(&x, gpt_graph(&c, false), &unfolded));
    syn_cursor cursor = {0};
    for (uint32_t i = 0; i < x.graph->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(x.graph, 0, i, &cursor);
        char id[32];
        int found = 0, incoming = 0;
        snprintf(id, sizeof id, "r0.o%d", (int)n->id);
        for (size_t b = 0; b < x.d.n_boxes; b++) {
            if (strcmp(x.d.boxes[b].id, id) != 0) continue;
            found++;
            for (size_t e = 0; e < x.d.n_edges; e++) incoming += x.d.edges[e].to == b;
        }
        CHECK_MSG(found == ((n->flags & SYN_NODE_VIRTUAL) == 0), "%s is there %d times", id, found);
        CHECK_MSG(found == 0 || incoming >= (n->n_inputs < 2 ? 1 : 2), "%s has %d edges", id,
                  incoming);
    }
    syn_cursor_free(&cursor);
    drop(&x);
}

static void test_ids_are_unique(void) {
    drawn x;
    const gpt_shape c = {2, 8, 2, 2, 64, 16, 256};
    for (int k = 0; k < 2; k++) {
        CHECK(draw(&x, gpt_graph(&c, false), k == 0 ? &unfolded : &comm));
        for (size_t a = 0; a < x.d.n_boxes; a++)
            for (size_t b = 0; b < a; b++)
                CHECK_MSG(strcmp(x.d.boxes[a].id, x.d.boxes[b].id) != 0, "%s twice",
                          x.d.boxes[a].id);
        drop(&x);
    }
}

/* ---- Colours ---- */

static void test_colours(void) {
    for (int look = 0; look <= SYN__PIC_ELSEWHERE; look++) {
        unsigned r, g, b;
        CHECK_INT(sscanf(syn__pic_style_of(look)->line, "#%2x%2x%2x", &r, &g, &b), 3);
        const bool red = look == SYN__PIC_COLLECTIVE || look == SYN__PIC_MESSAGE ||
                         look == SYN__PIC_OP + SYN_CATEGORY_COMMUNICATION;
        if (red) CHECK(r > g && r > b);
        else if (look >= SYN__PIC_ACTIVATION) CHECK(g > r && g > b);
        else CHECK(b > r && b > g);
    }
}

static bool is_red(const syn__pic_box *b) {
    return b->look == SYN__PIC_COLLECTIVE || b->look == SYN__PIC_MESSAGE;
}

static void test_edges_of_communication_are_red(void) {
    drawn x;
    for (int k = 0; k < 2; k++) {
        CHECK(draw(&x, gpt_graph(&page, false), k == 0 ? &plain : &comm));
        for (size_t i = 0; i < x.d.n_edges; i++) {
            const syn__pic_edge *e = &x.d.edges[i];
            const bool touches = is_red(&x.d.boxes[e->from]) || is_red(&x.d.boxes[e->to]);
            if (touches) CHECK_INT(e->line, SYN__PIC_RED);
            /* From the output of a collective, or in the legend. */
            else if (e->line == SYN__PIC_RED)
                CHECK(x.d.boxes[e->from].look == SYN__PIC_ACTIVATION ||
                      x.d.boxes[e->from].look == SYN__PIC_PLAIN);
        }
        drop(&x);
    }
}

/* ---- The communication view ---- */

static void test_comm_columns(void) {
    const struct { int tp, columns, badge; } cases[] = {{2, 2, 0}, {4, 4, 0}, {8, 4, 5}};
    for (int i = 0; i < 3; i++) {
        drawn x;
        const gpt_shape c = {12, 8, cases[i].tp, 15, 64, 16, 256};
        CHECK(draw(&x, gpt_graph(&c, false), &comm));
        const int bars = count_look(&x.d, SYN__PIC_COLLECTIVE);
        CHECK_INT(bars, 10);
        /* Every column must have an edge into each bar. */
        int in = 0;
        for (size_t e = 0; e < x.d.n_edges; e++)
            in += x.d.boxes[x.d.edges[e].to].look == SYN__PIC_COLLECTIVE;
        CHECK_INT(in, bars * cases[i].columns);
        char badge[32];
        snprintf(badge, sizeof badge, "\xC3\x97%d identical", cases[i].badge);
        CHECK_INT(count_label(&x.d, SYN__PIC_BADGE, badge), cases[i].badge > 0);
        CHECK_INT(count_label(&x.d, SYN__PIC_PLAIN, "ranks 3 \xE2\x80\xA6 7"), cases[i].badge > 0);
        drop(&x);
    }
}

static void test_comm_messages(void) {
    drawn x;
    CHECK(draw(&x, picture_pipeline(4, 3), &comm));
    int messages = 0;
    for (size_t i = 0; i < x.d.n_edges; i++) {
        const syn__pic_edge *e = &x.d.edges[i];
        const syn__pic_box *a = &x.d.boxes[e->from], *b = &x.d.boxes[e->to];
        if (a->look != SYN__PIC_MESSAGE || b->look != SYN__PIC_MESSAGE || fabs(a->x - b->x) < 1)
            continue;
        messages++;
        CHECK(b->y > a->y); /* time runs downwards */
    }
    CHECK_INT(messages, 3 * 3);
    drop(&x);
}

/* BERT's layers have long names. For a run of layers, the label has only the number of the last
   layer. The first layer reads an input, so it is not part of the run. */
static void test_comm_names(void) {
    static const char *const names[] = {"query", "key", "value", "scores", "probs", "context"};
    const picture_op sum = {.op = "all_reduce", .category = SYN_CATEGORY_COMMUNICATION};
    const syn_spec spec = PICTURE_F32(2, 8, 64);
    picture_maker m;
    picture_start(&m, 2);
    for (m.rank = 0; m.rank < 2; m.rank++) {
        m.n_nodes = m.n_tensors = m.n_comms = 0;
        uint32_t t = picture_tensor(&m, "x", spec, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
        for (int layer = 0; layer < 12; layer++) {
            picture_scope(&m, "encoder.layer.%d", layer);
            for (int i = 0; i < 6; i++) {
                const picture_op op = {.op = "mul", .label = names[i]};
                t = picture_add(&m, op, spec, PICTURE_IN(t));
            }
            t = picture_add(&m, sum, spec, PICTURE_IN(t));
        }
    }
    drawn x;
    CHECK(draw(&x, picture_finish(&m), &comm));
    int whole = 0;
    for (size_t i = 0; i < x.d.n_clusters; i++)
        whole += strstr(x.d.clusters[i].label, "<b>encoder.layer.1 \xE2\x80\xA6 11</b>") != NULL;
    CHECK_INT(whole, 1);
    CHECK_INT(count_label(&x.d, SYN__PIC_COLLECTIVE, "f32[8,64] \xC2\xB7 "), 2);
    drop(&x);
}

/* Ranks that would deadlock can still be drawn. */
static void test_comm_deadlock(void) {
    picture_maker m;
    const syn_spec spec = PICTURE_F32(1, 8);
    picture_start(&m, 2);
    for (int32_t r = 0; r < 2; r++) {
        m.rank = (uint32_t)r;
        m.n_nodes = m.n_tensors = 0;
        const uint32_t x = picture_message(&m, false, 0, 1 - r, 0, spec);
        picture_message(&m, true, x, 1 - r, 0, spec);
    }
    drawn x;
    CHECK(draw(&x, picture_finish(&m), &comm));
    CHECK_INT(count_look(&x.d, SYN__PIC_MESSAGE), 4);
    drop(&x);
}

/* ---- Options, unusual graphs ---- */

static void test_rank_option(void) {
    drawn x;
    int32_t rank = 1;
    const syn_export_options o = {.title = "My <title> & more", .rank = &rank};
    CHECK(draw(&x, gpt_graph(&page, false), &o));
    int other = 0;
    for (size_t i = 0; i < x.d.n_boxes; i++) other += strncmp(x.d.boxes[i].id, "r0.", 3) == 0;
    CHECK_INT(other, 0);
    CHECK_INT(count_label(&x.d, SYN__PIC_PLAIN, "My &lt;title&gt; &amp; more"), 1);
    drop(&x);
    rank = 7;
    CHECK(!draw(&x, gpt_graph(&page, false), &o));
    CHECK_INT(x.err.code, SYN_E_INVALID);
    CHECK_HAS(x.err.text, "rank 7 is not in the graph, whose 2 ranks go from 0 to 1");
    drop(&x);
}

static void test_empty(void) {
    const int32_t rank = 0;
    for (int k = 0; k < 2; k++) {
        syn_graph *g = NULL;
        syn_error err = {0};
        CHECK_OK(syn_graph_new(&g, &rank, 1, 1, &err), err);
        drawn x;
        CHECK_MSG(draw(&x, g, k == 0 ? &plain : &comm), "%s", x.err.text);
        CHECK(x.d.width > 0 && x.d.height > 0);
        drop(&x);
    }
}

static void test_hostile_names(void) {
    drawn x;
    CHECK_MSG(draw(&x, picture_hostile(), &plain), "%s", x.err.text);
    CHECK_INT(count_label(&x.d, SYN__PIC_OP, "<b><b>"), 0);
    drop(&x);
}

/* ---- Samples for test_picture.py ---- */

static int draw_file(syn_graph *g, const syn_export_options *o, const char *folder,
                     const char *name) {
    char path[4096];
    syn_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const syn_status s = syn_export_file(g, NULL, o, path, &err);
    if (s != SYN_OK) fprintf(stderr, "%s: %s\n", name, err.text);
    syn_graph_free(g);
    return s != SYN_OK;
}

static int draw_samples(const char *folder) {
    static const syn_export_options paper = {.page = SYN_PAGE_A4},
                                    slide = {.page = SYN_PAGE_SLIDE, .comm_graph = true},
                                    tensors = {.page = SYN_PAGE_SLIDE,
                                               .detail = SYN_DETAIL_TENSORS},
                                    time = {.page = SYN_PAGE_SLIDE, .view = SYN_VIEW_TIMELINE};
    static const gpt_shape big = {96, 96, 8, 32, 12288, 2048, 50304};
    return draw_file(gpt_graph(&page, false), &plain, folder, "trace.png") |
           draw_file(gpt_graph(&page, false), &plain, folder, "trace.svg") |
           draw_file(gpt_graph(&page, false), &plain, folder, "again.svg") |
           draw_file(gpt_graph(&page, false), &comm, folder, "comm.png") |
           draw_file(gpt_graph(&page, false), &comm, folder, "comm.svg") |
           draw_file(gpt_graph(&page, false), &paper, folder, "a4.svg") |
           draw_file(gpt_graph(&page, false), &slide, folder, "slide.png") |
           draw_file(gpt_graph(&page, false), &slide, folder, "slide.pdf") |
           draw_file(gpt_graph(&page, false), &plain, folder, "trace.pdf") |
           draw_file(gpt_graph(&page, false), &slide, folder, "page_comm.svg") |
           draw_file(gpt_graph(&page, false), &tensors, folder, "page_tensors.svg") |
           draw_file(gpt_graph(&page, false), &time, folder, "page_time.svg") |
           draw_file(gpt_graph(&big, false), &plain, folder, "big.svg") |
           draw_file(gpt_graph(&big, false), &comm, folder, "big_comm.svg") |
           draw_file(gpt_graph(&big, false), &unfolded, folder, "big_unfolded.png") |
           draw_file(picture_training(12, 4, -1), &plain, folder, "training.svg") |
           draw_file(picture_hostile(), &plain, folder, "hostile.svg");
}

static const test_case cases[] = {
    {"geometry_gpt", test_geometry_gpt},
    {"geometry_labels", test_geometry_labels},
    {"geometry_large", test_geometry_large},
    {"geometry_others", test_geometry_others},
    {"lists", test_lists},
    {"fold_plan", test_fold_plan},
    {"fold_odd_layer", test_fold_odd_layer},
    {"fold_pairs", test_fold_pairs},
    {"badges", test_badges},
    {"residuals", test_residuals},
    {"every_op_is_there", test_every_op_is_there},
    {"ids_are_unique", test_ids_are_unique},
    {"colours", test_colours},
    {"edges_of_communication_are_red", test_edges_of_communication_are_red},
    {"comm_columns", test_comm_columns},
    {"comm_messages", test_comm_messages},
    {"comm_names", test_comm_names},
    {"comm_deadlock", test_comm_deadlock},
    {"rank_option", test_rank_option},
    {"empty", test_empty},
    {"hostile_names", test_hostile_names},
};

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--draw") == 0) return draw_samples(argv[2]);
    return test_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
