/* Tests the labels of boxes: names are complete and fit inside the shapes, and one box may
   represent several equal ops. */
#include "export/picture/picture_text.h"
#include "tests/support/picture_check.h"
#include "tests/support/test.h"

#include <string.h>

static const syn_export_options plain;
static const syn_export_options unfolded = {.no_fold = true};

/* Names as long as those of BERT and Llama are shown completely, on two lines, so that readers can
   distinguish them. */
static void test_names_are_whole(void) {
    static const char *const names[][2] = {
        {"cls.predictions.transform.dense.weight", "<b>transform.dense.weight</b>"},
        {"cls.predictions.transform.dense.bias", "<b>transform.dense.bias</b>"},
        {"embeddings.word_embeddings.weight", "<b>word_embeddings.weight</b>"},
        {"h.0.post_attention_layernorm.weight", "<b>post_attention_layernorm.weight</b>"}};
    const syn_spec spec = PICTURE_F32(1, 64);
    picture_maker m;
    picture_start(&m, 1);
    picture_scope(&m, "h.0");
    uint32_t x = picture_tensor(&m, "x", spec, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint32_t w =
            picture_tensor(&m, names[i][0], spec, SYN_TENSOR_PARAM, SYN_NO_NODE, SYN_NO_TENSOR);
        x = picture_add(&m, (picture_op){.op = "add"}, spec, PICTURE_IN(x, w));
    }
    drawn d;
    syn_graph *g = picture_finish(&m);
    CHECK(draw(&d, g, &plain));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK_INT(count_label(&d.d, SYN__PIC_PARAM, names[i][1]), 1);
    CHECK_INT(count_label(&d.d, SYN__PIC_PARAM, "\xE2\x80\xA6"), 0);
    d.graph = NULL;
    drop(&d);
    check_geometry(g, plain);
}

/* A tensor without a name gets its id as name. A name that ends with a slash, or with the dot after
   the name of its layer, is shown completely. */
static void test_unnamed(void) {
    static const char *const names[][2] = {{"", "<b>t0</b>"},       {"  ", "<b>t1</b>"},
                                           {"/", "<b>/</b>"},       {"///", "<b>///</b>"},
                                           {"a/x/", "<b>a/x/</b>"}, {"h.0.", "<b>h.0.</b>"},
                                           {"a/x", "<b>x</b>"},     {"\x01/", "<b>?/</b>"}};
    enum { N = sizeof names / sizeof *names };
    const syn_spec spec = PICTURE_F32(1, 64);
    picture_maker m;
    uint32_t w[N];
    picture_start(&m, 1);
    picture_scope(&m, "h.0");
    for (int i = 0; i < N; i++)
        w[i] = picture_tensor(&m, names[i][0], spec, SYN_TENSOR_PARAM, SYN_NO_NODE, SYN_NO_TENSOR);
    for (int i = 0; i < N; i++)
        picture_add(&m, (picture_op){.op = i < N - 1 ? "add" : " ", .label = " "}, spec,
                    PICTURE_IN(w[i]));
    drawn d;
    CHECK(draw(&d, picture_finish(&m), &plain));
    for (int i = 0; i < N; i++)
        CHECK_MSG(count_label(&d.d, SYN__PIC_PARAM, names[i][1]) == 1, "'%s'", names[i][0]);
    CHECK_INT(count_label(&d.d, SYN__PIC_OP, "<b>add</b>"), N - 1);
    for (size_t i = 0; i < d.d.n_boxes; i++) {
        CHECK(strstr(d.d.boxes[i].label, "<b></b>") == NULL);
        CHECK(strstr(d.d.boxes[i].label, "\"></font>") == NULL);
    }
    drop(&d);
    syn_graph *g = picture_hostile(); /* the last four ops have no names */
    CHECK(draw(&d, g, &plain));
    CHECK_INT(count_label(&d.d, SYN__PIC_OP, "<b>o"), 4);
    drop(&d);
}

/* Checks how wide a hexagon and an octagon are at the corners of the text, 11 points from the
   middle, and how high the part of a pentagon above its point is. */
static void test_text_is_inside(void) {
    const struct {
        int category;
        double cut, from;
    } shapes[] = {{SYN_CATEGORY_NORM, 0.25, 0}, {SYN_CATEGORY_ATTENTION, 0.293, 0.207}};
    const syn_spec spec = PICTURE_F32(2, 768, 768);
    for (size_t i = 0; i < 2; i++) {
        const picture_op op = {.op = "layernorm",
                               .label = "LayerNorm",
                               .category = (syn_category)shapes[i].category,
                               .flops = 515000000};
        picture_maker m;
        picture_start(&m, 1);
        picture_add(&m, op, spec,
                    PICTURE_IN(picture_tensor(&m, "x", spec, SYN_TENSOR_INPUT, SYN_NO_NODE,
                                              SYN_NO_TENSOR)));
        drawn x;
        CHECK(draw(&x, picture_finish(&m), &plain));
        const syn__pic_box *b = &x.d.boxes[0];
        const double text =
            syn__pic_width("LayerNorm", 10, true) + syn__pic_width("  layernorm", 10, false);
        const double at = 11 / b->h, half = 0.5 - shapes[i].from;
        const double inset = b->w * shapes[i].cut * (at - shapes[i].from) / half;
        CHECK_INT(b->look, SYN__PIC_OP + shapes[i].category);
        CHECK_MSG(b->w - 2 * inset > text + 24, "%g of %g points", b->w - 2 * inset, text);
        drop(&x);
    }
    const syn__pic_style *s = syn__pic_style_of(SYN__PIC_OP + SYN_CATEGORY_REDUCTION);
    /* The vertical sides of an invhouse end here. */
    const double high = 32 + s->more, upper = 0.655 * high;
    CHECK(high / 2 - s->foot / 2 + 11 < upper);
    CHECK_STR(s->shape, "invhouse");
}

/* An optimizer calls the same ops for each bucket. They are drawn as one box or, if collapsing is
   off, as one box each. */
static void test_optimizer_is_folded(void) {
    for (int k = 0; k < 2; k++) {
        picture_maker m;
        drawn x;
        const syn_spec spec = PICTURE_F32(2, 64, 64);
        picture_start(&m, 1);
        uint32_t y =
            picture_tensor(&m, "batch", spec, SYN_TENSOR_INPUT, SYN_NO_NODE, SYN_NO_TENSOR);
        m.phase = SYN_PHASE_FORWARD;
        y = picture_add(&m, (picture_op){.op = "matmul"}, spec, PICTURE_IN(y));
        m.phase = SYN_PHASE_BACKWARD;
        y = picture_add(&m, (picture_op){.op = "matmul"}, spec, PICTURE_IN(y));
        m.phase = SYN_PHASE_OPTIMIZER;
        uint32_t norm = picture_add(&m, (picture_op){.op = "square_sum"}, spec, PICTURE_IN(y));
        for (int i = 0; i < 6; i++) {
            const uint32_t next =
                picture_add(&m, (picture_op){.op = "square_sum"}, spec, PICTURE_IN(y));
            norm = picture_add(&m, (picture_op){.op = "add"}, spec, PICTURE_IN(norm, next));
        }
        norm = picture_add(&m, (picture_op){.op = "sqrt"}, spec, PICTURE_IN(norm));
        for (int i = 0; i < 7; i++)
            picture_add(&m, (picture_op){.op = "adamw"}, spec, PICTURE_IN(norm, y));
        syn_graph *g = picture_finish(&m);
        CHECK(draw(&x, g, k == 0 ? &plain : &unfolded));
        CHECK_INT(count_label(&x.d, SYN__PIC_RUN, "<b>6 \xC3\x97 square_sum, add</b>"), k == 0);
        CHECK_INT(count_label(&x.d, SYN__PIC_RUN, "<b>7 \xC3\x97 adamw</b>"), k == 0);
        CHECK_INT(count_label(&x.d, SYN__PIC_OP, "<b>adamw</b>"), k == 0 ? 0 : 7);
        CHECK_INT(count_label(&x.d, SYN__PIC_OP, "<b>sqrt</b>"), 1);
        x.graph = NULL;
        drop(&x);
        check_geometry(g, k == 0 ? plain : unfolded);
    }
}

static const test_case cases[] = {
    {"names_are_whole", test_names_are_whole},
    {"unnamed", test_unnamed},
    {"text_is_inside", test_text_is_inside},
    {"optimizer_is_folded", test_optimizer_is_folded},
};

TEST_MAIN(cases)
