/* Tests the flops and bytes of PyTorch's ops (pt_cost.h). The expected values were worked out by
   hand from the formulas in pt_cost.c. */
#include "tests/support/test.h"

#include "export/pytorch/write/pt_cost.h"
#include "tests/support/pt_hand.h"

/* The cost of an op. The other arguments are lists as in a host trace; out_shapes: those of its
   outputs. */
static syn__pt_cost cost(const char *name, const char *in_shapes, const char *in_values,
                         const char *in_types, const char *out_shapes) {
    static char text[4096];
    hand h;
    snprintf(text, sizeof text,
             "{\"inputs\": {\"values\": %s, \"shapes\": %s, \"types\": %s}, "
             "\"outputs\": {\"values\": [], \"shapes\": %s, \"types\": []}}",
             in_values, in_shapes, in_types, out_shapes);
    const hand_op row = {.name = name, .kind = SYN_PYTORCH_OP_HOST, .text = text};
    hand_make(&h, &row, 1);
    const syn__pt_cost c = syn__pt_cost_of(&h.rank.host, &h.nodes[0]);
    hand_free(&h);
    return c;
}

/* The flops of an op that is known from a device trace alone. Its inputs are in the form in which
   pt_host_from_events.c writes them, without outputs. */
static long long device_flops(const char *name, const char *in_shapes, const char *in_values) {
    static char text[4096];
    hand h;
    snprintf(text, sizeof text, "{\"values\": %s, \"shapes\": %s}", in_values, in_shapes);
    const hand_op row = {.name = name, .kind = SYN_PYTORCH_OP_HOST};
    hand_make(&h, &row, 1);
    h.nodes[0].text = text;
    h.nodes[0].text_bytes = h.nodes[0].inputs_bytes = (uint32_t)strlen(text);
    h.rank.host.from_event = &h.nodes[0].name;
    const long long n = (long long)syn__pt_cost_of(&h.rank.host, &h.nodes[0]).flops;
    h.rank.host.from_event = NULL;
    hand_free(&h);
    return n;
}

static long long flops(const char *name, const char *in, const char *out) {
    return (long long)cost(name, in, "[]", "[]", out).flops;
}

static void test_products(void) {
    /* 2 * 3 * 5 * 7 = 210 flops */
    CHECK_INT(flops("aten::mm", "[[3,5],[5,7]]", "[[3,7]]"), 210);
    CHECK_INT(flops("aten::addmm", "[[7],[3,5],[5,7],[],[]]", "[[3,7]]"), 210);
    CHECK_INT(flops("aten::_addmm_activation", "[[7],[3,5],[5,7]]", "[[3,7]]"), 210);
    CHECK_INT(flops("aten::bmm", "[[4,3,5],[4,5,7]]", "[[4,3,7]]"), 840);
    CHECK_INT(flops("aten::baddbmm", "[[4,3,7],[4,3,5],[4,5,7]]", "[[4,3,7]]"), 840);
    CHECK_INT(flops("aten::mv", "[[3,5],[5]]", "[[3]]"), 30);
    /* The input is (2, 3, 5) and the weight (7, 5). */
    CHECK_INT(flops("aten::linear", "[[2,3,5],[7,5],[7]]", "[[2,3,7]]"), 420);
    CHECK_INT(flops("aten::matmul", "[[2,3,5],[5,7]]", "[[2,3,7]]"), 420);
    CHECK_INT(flops("aten::add", "[[3,5],[3,5]]", "[[3,5]]"), 0);
    CHECK_INT(flops("aten::mm", "[[],[5,7]]", "[[3,7]]"), 0);
    CHECK_INT(flops("aten::mm", "[]", "[]"), 0);
    CHECK_INT(flops("aten::addmm", "[[7],[3,5]]", "[]"), 0);
}

static void test_convolutions(void) {
    /* ResNet's first convolution: the output has 2 x 64 x 112 x 112 = 1,605,632 elements, each a
       sum of 3 x 7 x 7 = 147 products. */
    const char *in = "[[2,3,224,224],[64,3,7,7],[[],[]],[]]", *out = "[[2,64,112,112]]";
    CHECK_INT(flops("aten::cudnn_convolution", in, out), 2LL * 1605632 * 147);
    CHECK_INT(flops("aten::convolution", in, out), 2LL * 1605632 * 147);
    CHECK_INT(flops("aten::conv2d", in, out), 2LL * 1605632 * 147);
    /* With 4 groups, the weight is (8, 16 / 4, 3). The output has 8 x 10 elements, each a sum of
       4 x 3 products. */
    CHECK_INT(flops("aten::conv1d", "[[1,16,12],[8,4,3]]", "[[1,8,10]]"), 2 * 80 * 12);
    /* Depthwise: each output element is a sum over the 3 x 3 taps of a single channel. */
    CHECK_INT(flops("aten::_conv_depthwise2d", "[[1,8,6,6],[8,1,3,3]]", "[[1,8,4,4]]"),
              2 * 128 * 9);
    /* Transposed: the weight has 6 input channels, 5 output channels and 2 taps. Each of the 6 x 7
       input elements is multiplied by 5 x 2 weights. */
    CHECK_INT(flops("aten::cudnn_convolution_transpose", "[[1,6,7],[6,5,2]]", "[[1,5,14]]"),
              2 * 42 * 10);
    const char *values = "[[1],[2],null,[2],[0],[1],true,[0],1]";
    CHECK_INT(cost("aten::convolution", "[[1,6,7],[6,5,2]]", values, "[]", "[[1,5,14]]").flops,
              2 * 42 * 10);
    /* In cudnn_convolution, the argument at that position is `benchmark`, not `transposed`. */
    CHECK_INT(cost("aten::cudnn_convolution", "[[1,6,7],[5,6,1]]", values, "[]", "[[1,5,7]]").flops,
              2 * 35 * 6);
    CHECK_INT(flops("aten::_convert_weight_to_int4pack", in, out), 0);
    CHECK_INT(flops("aten::convolution", "[[2,3,224,224],[]]", out), 0);
    CHECK_INT(flops("aten::convolution", "[[2,3,4],[0,3,7]]", out), 0);
}

static void test_convolutions_of_device_traces(void) {
    /* ResNet's first convolution has stride 2 and padding 3. The ops have these arguments at
       different positions. */
    const char *in = "[[2,3,224,224],[64,3,7,7],[]]";
    const long long all = 2LL * 1605632 * 147;
    const struct {
        const char *name, *values;
    } rows[] = {{"aten::convolution", "[\"\",\"\",\"\",[2, 2],[3, 3],[1, 1],\"False\",[0, 0],1]"},
                {"aten::cudnn_convolution", "[\"\",\"\",[3, 3],[2, 2],[1, 1],1,\"False\"]"},
                {"aten::miopen_convolution", "[\"\",\"\",\"\",[3],[2],[1],1,\"False\"]"},
                {"aten::cudnn_convolution_relu", "[\"\",\"\",\"\",[2, 2],[3, 3],[1, 1],1]"},
                {"aten::_slow_conv2d_forward", "[\"\",\"\",[7, 7],\"\",[2, 2],[3, 3]]"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_INT(device_flops(rows[i].name, in, rows[i].values), all);
    /* With dilation 2, three taps span 5 elements. In a row of 10 elements with stride 3, there are
       2 such spans. */
    CHECK_INT(device_flops("aten::convolution", "[[1,4,10],[6,4,3],[]]",
                           "[\"\",\"\",\"\",[3],[0],[2],\"False\",[0],1]"),
              2 * 12 * 12);
    CHECK_INT(device_flops("aten::convolution", "[[1,6,7],[6,5,2],[]]",
                           "[\"\",\"\",\"\",[2],[0],[1],\"True\",[0],1]"),
              2 * 42 * 10);
    CHECK_INT(device_flops("aten::convolution", in, "[]"), 0);
    CHECK_INT(device_flops("aten::convolution", "[[1,4,2],[6,4,3],[]]",
                           "[\"\",\"\",\"\",[1],[0],[1],\"False\",[0],1]"),
              0);
    CHECK_INT(device_flops("aten::convolution", "[[1,4,2],[6,4,3],[]]",
                           "[\"\",\"\",\"\",[0],[1],[1],\"False\",[0],1]"),
              0);
    /* The last argument says which gradients are requested: of the input, the weight and the bias.
       Those of input and weight are convolutions. */
    const char *back = "[[2,64,112,112],[2,3,224,224],[64,3,7,7]]";
    static char values[256];
    const struct {
        const char *mask;
        int n;
    } masks[] = {{"\"[True, True, False]\"", 2}, {"\"[False, True, True]\"", 1}, {"\"\"", 0}};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        snprintf(values, sizeof values,
                 "[\"\",\"\",\"\",[0],[2, 2],[3, 3],[1, 1],\"False\",[0, 0],1,%s]", masks[i].mask);
        CHECK_INT(device_flops("aten::convolution_backward", back, values), masks[i].n * all);
    }
}

static void test_convolutions_backward(void) {
    /* The inputs are grad_output, input and weight. In the outputs, gradients that were not
       requested have empty shapes. */
    const char *in = "[[2,64,112,112],[2,3,224,224],[64,3,7,7],[[]]]";
    const long long one = 2LL * 1605632 * 147;
    CHECK_INT(flops("aten::convolution_backward", in, "[[2,3,224,224],[64,3,7,7],[]]"), 2 * one);
    CHECK_INT(flops("aten::convolution_backward", in, "[[],[64,3,7,7],[]]"), one);
    CHECK_INT(flops("aten::convolution_backward", in, "[[2,3,224,224],[],[]]"), one);
    /* Transposed: the elements of the input (1, 6, 7) count. */
    CHECK_INT(cost("aten::convolution_backward", "[[1,5,14],[1,6,7],[6,5,2]]",
                   "[[1],[2],[3],null,[2],[0],[1],true]", "[]", "[[1,6,7],[6,5,2]]")
                  .flops,
              2 * 2 * 42 * 10);
}

static void test_attention(void) {
    /* 2 samples, 3 heads, 5 queries, 7 keys of 11 elements, and values of 13 elements. */
    const char *heads_first = "[[2,3,5,11],[2,3,7,11],[2,3,7,13],[]]";
    const char *rows_first = "[[2,5,3,11],[2,7,3,11],[2,7,3,13],[]]";
    const long long pairs = 2 * 3 * 5 * 7;
    CHECK_INT(flops("aten::_scaled_dot_product_flash_attention", heads_first, "[]"),
              2 * pairs * (11 + 13));
    CHECK_INT(flops("aten::_scaled_dot_product_efficient_attention", heads_first, "[]"),
              2 * pairs * (11 + 13));
    CHECK_INT(flops("aten::_flash_attention_forward", rows_first, "[]"), 2 * pairs * (11 + 13));
    CHECK_INT(flops("flash_attn::_flash_attn_forward", rows_first, "[]"), 2 * pairs * (11 + 13));
    CHECK_INT(flops("aten::_scaled_dot_product_flash_attention_backward",
                    "[[2,3,5,13],[2,3,5,11],[2,3,7,11],[2,3,7,13]]", "[]"),
              2 * pairs * (3 * 11 + 2 * 13));
    CHECK_INT(flops("aten::_flash_attention_backward",
                    "[[2,5,3,13],[2,5,3,11],[2,7,3,11],[2,7,3,13]]", "[]"),
              2 * pairs * (3 * 11 + 2 * 13));
    /* Sequences of different lengths share one dimension, and their lengths are not recorded, so
       the flops are unknown. */
    CHECK_INT(flops("aten::_flash_attention_forward", "[[9,3,11],[9,3,11],[9,3,11]]", "[]"), 0);
}

static long long bytes(const char *values, const char *types) {
    return (long long)cost("aten::add", "[]", values, types, "[]").bytes;
}

static void test_bytes(void) {
    const char *a = "[1,2,0,10,4,\"cuda:0\"]", *b = "[3,2,0,100,2,\"cuda:0\"]";
    char values[256], many[256];
    snprintf(values, sizeof values, "[%s, %s, 1, [10, 4, 4, 4, 4], null]", a, b);
    CHECK_INT(bytes(values,
                    "[\"Tensor(float)\",\"Tensor(c10::Half)\",\"Int\",\"GenericList[Int,Int,"
                    "Int,Int,Int]\",\"None\"]"),
              40 + 200);
    snprintf(many, sizeof many, "[[%s, %s], %s]", a, b, a);
    CHECK_INT(bytes(many, "[\"GenericList[Tensor(float),Tensor(c10::Half)]\",\"Tensor(float)\"]"),
              280);
    CHECK_INT(bytes("[\"<Tensor>\", 7, []]", "[\"Tensor\",\"Tensor\",\"Tensor\"]"), 0);
    CHECK_INT(bytes("[[1,2,0,-1,4,\"cpu\"]]", "[\"Tensor(float)\"]"), 0);
    CHECK_INT(bytes("[]", "[\"Tensor(float)\"]"), 0);
}

/* In schema 1.0.1, shapes and types are members of the node, not of its "inputs" and "outputs". */
static void test_flat(void) {
    static const char text[] =
        "{\"name\": \"aten::mm\", \"input_shapes\": [[3,5],[5,7]], \"input_types\": "
        "[\"Tensor(float)\",\"Tensor(float)\"], \"output_shapes\": [[3,7]], \"output_types\": "
        "[\"Tensor(float)\"], \"inputs\": [[1,2,0,15,4,\"cpu\"],[3,4,0,35,4,\"cpu\"]], "
        "\"outputs\": [[5,6,0,21,4,\"cpu\"]]}";
    const hand_op row = {.name = "aten::mm", .kind = SYN_PYTORCH_OP_HOST, .text = text};
    hand h;
    hand_make(&h, &row, 1);
    h.nodes[0].outputs_bytes = (uint32_t)(strrchr(text, ']') + 1 - strstr(text, "[[5,6"));
    const syn__pt_cost c = syn__pt_cost_of(&h.rank.host, &h.nodes[0]);
    hand_free(&h);
    CHECK_INT(c.flops, 210);
    CHECK_INT(c.bytes, 284);
}

static void test_large(void) {
    /* Results that do not fit into 64 bits become UINT64_MAX. Shapes are ignored if they have such
       numbers, negative numbers, or more than eight dimensions. */
    CHECK(cost("aten::mm", "[[4294967296,4294967296],[4294967296,4]]", "[]", "[]", "[]").flops ==
          UINT64_MAX);
    CHECK(cost("aten::mm", "[[99999999999999999999,2],[2,4]]", "[]", "[]", "[]").flops == 0);
    CHECK(cost("aten::mm", "[[-3,5],[5,7]]", "[]", "[]", "[]").flops == 0);
    CHECK(cost("aten::mm", "[[1,1,1,1,1,1,1,1,2],[2,4]]", "[]", "[]", "[]").flops == 0);
    CHECK(cost("aten::add", "[]", "[[1,2,0,4294967296,4294967296,\"cpu\"],[1,2,0,1,1,\"cpu\"]]",
               "[\"Tensor(float)\",\"Tensor(float)\"]", "[]")
              .bytes == UINT64_MAX);
}

static void test_damage(void) {
    /* The node is truncated at each byte. Sanitizers check that nothing is read beyond its end. */
    static const char whole[] = "{\"inputs\": {\"values\": [[1,2,0,15,4,\"cpu\"]], \"shapes\": "
                                "[[3,5],[5,7]], \"types\": [\"Tensor(float)\"]}";
    for (size_t n = 12; n < sizeof whole; n++) {
        char *text = calloc(1, n + SYN__LOOSE_PADDING);
        CHECK(text != NULL);
        memcpy(text, whole, n);
        const syn__pt_host_node node = {.text = text,
                                        .text_bytes = (uint32_t)n,
                                        .inputs = 11,
                                        .inputs_bytes = (uint32_t)n - 11};
        const hand_op row = {.name = "aten::mm", .kind = SYN_PYTORCH_OP_HOST};
        hand h;
        hand_make(&h, &row, 1);
        const syn__pt_cost c = syn__pt_cost_of(&h.rank.host, &node);
        hand_free(&h);
        free(text);
        CHECK(c.flops == 0 || c.flops == 210);
    }
}

static const test_case cases[] = {
    {"products", test_products},
    {"convolutions", test_convolutions},
    {"convolutions_of_device_traces", test_convolutions_of_device_traces},
    {"convolutions_backward", test_convolutions_backward},
    {"attention", test_attention},
    {"bytes", test_bytes},
    {"flat", test_flat},
    {"large", test_large},
    {"damage", test_damage}};
TEST_MAIN(cases)
