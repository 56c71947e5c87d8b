/* Tests the communication view when there are more ranks than columns: which ranks each column and
   bar represents. */
#include "tests/support/picture_check.h"
#include "tests/support/ranks.h"
#include "tests/support/small_training.h"
#include "tests/support/test.h"

#include <string.h>

static const syn_export_options comm = {.comm_graph = true};

static const syn_model_config two_layers = {.family = &syn_gpt_family,
                                            .name = "two",
                                            .n_layer = 2,
                                            .n_embd = 64,
                                            .n_head = 8,
                                            .n_positions = 24,
                                            .n_inner = 256,
                                            .vocab_size = 512,
                                            .norm_epsilon = 1e-5,
                                            .activation = SYN_GELU_TANH,
                                            .tied = true};

static bool draw_mesh(drawn *x, small_training *t, int tp, int dp) {
    syn_error err = {0};
    *t = (small_training){.config = &two_layers,
                          .shape = {.tp = tp, .dp = dp},
                          .device = SYN_DEVICE_META,
                          .steps = 1,
                          .micro = 1,
                          .keep = true};
    if (run_without_transport(tp * dp, small_training_rank, t, &err) != SYN_OK) return false;
    syn_graph *graphs[32], *all = NULL;
    for (int r = 0; r < tp * dp; r++) graphs[r] = rank_graph(t->ctx[r]);
    return syn_graph_union(&all, graphs, (uint32_t)(tp * dp), &err) == SYN_OK &&
           draw(x, all, &comm);
}

typedef struct bar {
    const char *text;
    int columns; /* the number of columns that the bar spans */
} bar;

/* Checks that the columns are `heads`, that every collective is one of `bars`, and that every bar
   is drawn. */
static void check_mesh(int tp, int dp, const char *const *heads, const bar *bars, int n_bars) {
    small_training t;
    drawn x;
    CHECK(draw_mesh(&x, &t, tp, dp));
    for (int k = 0; k < 4; k++)
        CHECK_MSG(count_label(&x.d, SYN__PIC_PLAIN, heads[k]) == 1, "no column %s", heads[k]);
    double lane = 0;
    for (size_t i = 0; i < x.d.n_boxes; i++)
        if (x.d.boxes[i].look == SYN__PIC_RUN && strncmp(x.d.boxes[i].id, "legend", 6) != 0)
            lane = x.d.boxes[i].w;
    int seen[8] = {0};
    for (size_t i = 0; i < x.d.n_boxes; i++) {
        const syn__pic_box *b = &x.d.boxes[i];
        int of = -1;
        if (b->look != SYN__PIC_COLLECTIVE || strncmp(b->id, "legend", 6) == 0) continue;
        for (int k = 0; k < n_bars; k++)
            if (strstr(b->label, bars[k].text) != NULL) of = k;
        CHECK_MSG(of >= 0, "not expected: %s", b->label);
        const int columns = (int)(b->w / (lane + 40)) + 1;
        CHECK_MSG(columns == bars[of].columns, "%s: %d columns", bars[of].text, columns);
        seen[of]++;
    }
    for (int k = 0; k < n_bars; k++) CHECK_MSG(seen[k] > 0, "no bar of %s", bars[k].text);
    drop(&x);
    drop_ranks(tp * dp, t.ctx);
}

/* A column represents ranks of whole groups, so that no bar spans ranks outside its group. */
static void test_mesh(void) {
    static const char *const by_four[] = {">ranks 0, 4<", ">ranks 1, 5<", ">ranks 2, 6<",
                                          ">ranks 3, 7<"};
    static const bar wide[] = {{"tp0 {0,1,2,3} and 1 similar \xC2\xB7", 4},
                               {"dp0 {0,4} \xC2\xB7", 1},
                               {"dp1 {1,5} \xC2\xB7", 1},
                               {"dp2 {2,6} \xC2\xB7", 1},
                               {"dp3 {3,7} \xC2\xB7", 1}};
    check_mesh(4, 2, by_four, wide, 5);
    static const char *const by_two[] = {">rank 0<", ">rank 1<", ">ranks 2, 4, 6<",
                                         ">ranks 3, 5, 7<"};
    static const bar both[] = {{"tp0 {0,1} \xC2\xB7", 2},
                               {"tp1 {2,3} and 2 similar \xC2\xB7", 2},
                               {"dp0 {0,2,4,6} \xC2\xB7", 3},
                               {"dp1 {1,3,5,7} \xC2\xB7", 3}};
    check_mesh(2, 4, by_two, both, 4);
    static const char *const rest[] = {">rank 0<", "ranks 1 \xE2\x80\xA6 7", ">ranks 8, 16<",
                                       "rank 9 and 13 identical"};
    static const bar large[] = {{"tp0 {0,1,2,\xE2\x80\xA6,7} \xC2\xB7", 2},
                                {"tp1 {8,9,10,\xE2\x80\xA6,15} and 1 similar \xC2\xB7", 2},
                                {"dp0 {0,8,16} \xC2\xB7", 3},
                                {"dp1 {1,9,17} and 6 similar \xC2\xB7", 3}};
    check_mesh(8, 3, rest, large, 4);
}

static int count_frames(const drawn *x, const char *tip, double *top) {
    int n = 0;
    for (size_t i = 0; i < x->d.n_clusters; i++) {
        const syn__pic_cluster *c = &x->d.clusters[i];
        if (c->level != 0 || strcmp(c->tip, tip) != 0) continue;
        *top = c->y0;
        n++;
    }
    return n;
}

/* Gradient buckets must not split the layers of backward. The all-reduce of the loss must not begin
   another panel of forward. */
static void test_training_step(void) {
    small_training t;
    drawn x;
    CHECK(draw_mesh(&x, &t, 2, 2));
    static const char *const frames[] = {"forward", "backward", "gradients, during backward",
                                         "optimizer"};
    double before = 0, top = 0;
    for (int k = 0; k < 4; k++) {
        CHECK_INT(count_frames(&x, frames[k], &top), 1);
        CHECK_MSG(top > before, "%s stands too high", frames[k]);
        before = top;
    }
    /* The layers of forward, and those of backward. */
    CHECK_INT(count_label(&x.d, SYN__PIC_BADGE, "2 identical"), 2);
    /* The loss and the gradients. */
    CHECK(count_label(&x.d, SYN__PIC_COLLECTIVE, "dp0 {0,2}") >= 2);
    CHECK_MSG(x.d.height < 2600, "%g points high", x.d.height);
    drop(&x);
    drop_ranks(4, t.ctx);
}

/* ---- Edges between boxes ---- */

static uint32_t unary(picture_maker *m, const char *op, uint32_t x) {
    const bool sums = strcmp(op, "all_reduce") == 0;
    return picture_add(
        m,
        (picture_op){.op = op,
                     .label = op,
                     .category = sums ? SYN_CATEGORY_COMMUNICATION : SYN_CATEGORY_OTHER,
                     .flops = 1000},
        PICTURE_F32(2, 8, 64), PICTURE_IN(x));
}

/* Two layers whose attention and MLP read the same norm and are added, as in GPT-J and GPT-NeoX.
   products_first: both projections come before both all-reduces. */
static syn_graph *parallel_residual(bool products_first) {
    picture_maker m;
    picture_start(&m, 2);
    for (m.rank = 0; m.rank < 2; m.rank++) {
        m.n_nodes = m.n_tensors = m.n_comms = 0;
        picture_scope(&m, "embed");
        uint32_t x = unary(&m, "embed",
                           picture_tensor(&m, "ids", PICTURE_F32(1, 8), SYN_TENSOR_INPUT,
                                          SYN_NO_NODE, SYN_NO_TENSOR));
        for (int layer = 0; layer < 2; layer++) {
            picture_scope(&m, "h.%d.ln", layer);
            const uint32_t norm = unary(&m, "norm", x);
            picture_scope(&m, "h.%d.attn", layer);
            uint32_t attn = unary(&m, "dense", unary(&m, "attention", unary(&m, "qkv", norm)));
            if (!products_first) attn = unary(&m, "all_reduce", attn);
            picture_scope(&m, "h.%d.mlp", layer);
            uint32_t mlp = unary(&m, "proj", unary(&m, "gelu", unary(&m, "fc", norm)));
            if (products_first) attn = unary(&m, "all_reduce", attn);
            mlp = unary(&m, "all_reduce", mlp);
            picture_scope(&m, "h.%d", layer);
            const syn_spec spec = PICTURE_F32(2, 8, 64);
            x = picture_add(&m, (picture_op){.op = "add", .label = "sum"}, spec,
                            PICTURE_IN(attn, mlp));
            x = picture_add(&m, (picture_op){.op = "add", .label = "residual"}, spec,
                            PICTURE_IN(x, norm));
        }
    }
    m.rank = 1;
    return picture_finish(&m);
}

/* Whether a path of edges leads from one box to the other. */
static bool leads(const syn__pic_drawing *d, size_t from, size_t to) {
    for (size_t i = 0; i < d->n_edges; i++)
        if (d->edges[i].from == from && (d->edges[i].to == to || leads(d, d->edges[i].to, to)))
            return true;
    return false;
}

static size_t box_with(const syn__pic_drawing *d, const char *label) {
    size_t i = 0;
    while (i + 1 < d->n_boxes && strstr(d->boxes[i].label, label) == NULL) i++;
    return i;
}

/* Only the addition waits for the all-reduces. Neither the MLP nor attention does. */
static void test_parallel_residual(void) {
    static const syn_export_options views[] = {
        {.detail = SYN_DETAIL_MODULES}, {.detail = SYN_DETAIL_LAYERS}, {.comm_graph = true}};
    for (int k = 0; k < 6; k++) {
        drawn x;
        const syn_export_options *o = &views[k / 2];
        CHECK_MSG(draw(&x, parallel_residual(k % 2 == 0), o), "%s", x.err.text);
        const char *const names[] = {k / 2 == 0 ? "<b>h.0.mlp" : "<b>mlp",
                                     k / 2 == 0 ? "<b>h.0.attn" : "<b>attn"};
        const size_t mlp = box_with(&x.d, names[0]), attn = box_with(&x.d, names[1]);
        const size_t sum = box_with(&x.d, k / 2 == 0 ? "<b>h.0<" : "sum, residual");
        CHECK(strstr(x.d.boxes[mlp].label, names[0]) && strstr(x.d.boxes[attn].label, names[1]));
        int bars = 0;
        for (size_t i = 0; i < x.d.n_boxes; i++) {
            if (x.d.boxes[i].look != SYN__PIC_COLLECTIVE || x.d.boxes[i].id[0] != 'r') continue;
            bars++;
            CHECK_MSG(!leads(&x.d, i, mlp) && !leads(&x.d, i, attn), "view %d: %s is waited for",
                      k / 2, x.d.boxes[i].id);
            /* In columns of ranks, a box only has an edge from the box above it. */
            CHECK(o->comm_graph || leads(&x.d, i, sum));
        }
        CHECK_INT(bars, 2);
        CHECK(o->comm_graph || (!leads(&x.d, attn, mlp) && !leads(&x.d, mlp, attn)));
        drop(&x);
        check_geometry(parallel_residual(k % 2 == 0), *o);
    }
}

static const test_case cases[] = {
    {"parallel_residual", test_parallel_residual},
    {"mesh", test_mesh},
    {"training_step", test_training_step},
};

TEST_MAIN(cases)
