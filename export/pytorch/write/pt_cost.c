/* Computes the cost of a PyTorch op from the shapes in the host trace or, if there is none, in the
   device trace. A multiplication and an addition count as one flop each.
   - Product of (m x k) and (k x n): 2mkn (Golub and Van Loan, Matrix Computations, 1.1).
   - Convolution: 2 flops for each combination of an element of the output, an input channel of its
     group, and a tap of the kernel. In backward, the gradient of the input and the gradient of the
     weight each cost as much as the forward convolution, because each is a convolution or its
     transpose (Dumoulin and Visin 2016, "A guide to convolution arithmetic"). For a transposed
     convolution, the elements of the input count instead. A device trace alone does not record
     outputs; their sizes follow from strides, paddings and dilations (relationship 15 of the
     guide).
   - Attention of T queries and S keys with D elements each, and values with E elements: 2TSD for
     the scores, and 2TSE for the product of scores and values. In backward, the scores (computed
     again), dQ and dK cost 2TSD each, and dP and dV cost 2TSE each, together 2TS(3D + 2E) (Dao et
     al. 2022, FlashAttention, algorithms 1 and 4). All T x S scores count, even with a mask. */
#include "export/pytorch/write/pt_cost.h"
#include "export/pytorch/read/pt_tensors.h"

#define MAX_SHAPES 4

typedef struct op {
    const char *name; /* NUL-terminated */
    syn__pt_io io;
    syn__pt_shape in[MAX_SHAPES], out[2];
} op;

static bool has(const op *o, const char *part) {
    return strstr(o->name, part) != NULL;
}

/* The JSON text of an element of a list; bytes 0 if there is none. */
static syn__str element(syn__str list, size_t index) {
    syn__loose l;
    syn__str at = {"", 0};
    const syn__str none = at;
    if (!syn__loose_open_array(&l, list)) return none;
    for (size_t i = 0; i <= index; i++) {
        if (!syn__loose_element(&l)) return none;
        syn__loose_skip(&l, &at);
    }
    return at;
}

/* Whether input `index` is true. Host traces write booleans as words, and Kineto writes them as
   strings. */
static bool is_true(const op *o, size_t index) {
    const syn__str at = element(o->io.values[0], index);
    return syn__str_is(at, "true") || syn__str_is(at, "\"True\"");
}

/* Reads number `index` of the list that is input `input`. If the list has only one number, it
   applies to all dimensions. */
static bool number_at(const op *o, size_t input, size_t index, uint64_t *out) {
    const syn__str list = element(o->io.values[0], input);
    syn__str at = element(list, index);
    if (at.bytes == 0 && index > 0) at = element(list, 0);
    return syn__loose_u64(at, out) && *out <= UINT32_MAX;
}

/* The flops of a (.., m, k) times b (.., k, n) or b (k). */
static uint64_t product(const syn__pt_shape *a, const syn__pt_shape *b) {
    if (a->n == 0 || b->n == 0) return 0;
    return syn__pt_mul(2, syn__pt_mul(syn__pt_elems(a), b->n > 1 ? b->dim[b->n - 1] : 1));
}

/* The flops of x (.., in) times the transposed w (out, in). */
static uint64_t linear(const syn__pt_shape *x, const syn__pt_shape *w) {
    return w->n == 0 ? 0 : syn__pt_mul(2, syn__pt_mul(syn__pt_elems(x), w->n > 1 ? w->dim[0] : 1));
}

/* The positions of stride, padding and dilation among the inputs of a convolution. Input 0 is the
   image, and input 1 is the weight. */
typedef struct places {
    const char *name;
    uint8_t stride, padding, dilation; /* dilation 0: none */
} places;

static const places *places_of(const op *o) {
    static const places all[] = {{"aten::convolution", 3, 4, 5},
                                 {"aten::_convolution", 3, 4, 5},
                                 {"aten::convolution_overrideable", 3, 4, 5},
                                 {"aten::cudnn_convolution", 3, 2, 4},
                                 {"aten::cudnn_convolution_relu", 3, 4, 5},
                                 {"aten::cudnn_convolution_add_relu", 5, 6, 7},
                                 {"aten::miopen_convolution", 4, 3, 5},
                                 {"aten::miopen_depthwise_convolution", 4, 3, 5},
                                 {"aten::miopen_convolution_relu", 3, 4, 5},
                                 {"aten::mkldnn_convolution", 4, 3, 5},
                                 {"aten::_slow_conv2d_forward", 4, 5, 0},
                                 {"aten::slow_conv3d_forward", 4, 5, 0},
                                 {"aten::slow_conv_dilated2d", 4, 5, 6},
                                 {"aten::slow_conv_dilated3d", 4, 5, 6},
                                 {"aten::_conv_depthwise2d", 4, 5, 6},
                                 {"aten::conv_depthwise3d", 4, 5, 6}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(o->name, all[i].name) == 0) return &all[i];
    return NULL;
}

/* The number of elements of a convolution's output; 0: unknown. */
static uint64_t convolved(const op *o) {
    const syn__pt_shape *in = &o->in[0], *weight = &o->in[1];
    const places *at = places_of(o);
    if (o->out[0].n != 0 || o->io.shapes[1].bytes != 0) return syn__pt_elems(&o->out[0]);
    if (at == NULL || in->n < 3 || in->n != weight->n) return 0;
    uint64_t elems = syn__pt_mul(in->dim[0], weight->dim[0]);
    for (size_t i = 2; i < in->n; i++) {
        uint64_t stride, padding, dilation = 1;
        if (!number_at(o, at->stride, i - 2, &stride) || stride == 0) return 0;
        if (!number_at(o, at->padding, i - 2, &padding)) return 0;
        if (at->dilation != 0 && !number_at(o, at->dilation, i - 2, &dilation)) return 0;
        const uint64_t all = syn__pt_add(in->dim[i], 2 * padding);
        const uint64_t reach =
            weight->dim[i] == 0 ? 1 : syn__pt_mul(dilation, weight->dim[i] - 1) + 1;
        if (all < reach) return 0;
        elems = syn__pt_mul(elems, (all - reach) / stride + 1);
    }
    return elems;
}

/* The number of gradients that were requested, of the image and of the weight. A device trace alone
   has the mask as last input, such as "[True, False, True]". */
static uint64_t n_gradients(const op *o) {
    if (o->io.shapes[1].bytes != 0)
        return (uint64_t)(o->out[0].n != 0) + (uint64_t)(o->out[1].n != 0);
    const syn__str mask = element(o->io.values[0], 10);
    uint64_t n = 0;
    for (size_t i = 0, commas = 0; i < mask.bytes && commas < 2; i++) {
        n += mask.text[i] == 'T';
        commas += mask.text[i] == ',';
    }
    return n;
}

/* The flops of a convolution. The weight is (out, in / groups, taps..), or (in, out / groups,
   taps..) if the convolution is transposed. In both cases, its first dimension belongs to the
   tensor whose elements count. */
static uint64_t convolution(const op *o) {
    const bool backward = has(o, "backward");
    const syn__pt_shape *in = &o->in[backward ? 1 : 0], *weight = &o->in[backward ? 2 : 1];
    const uint64_t out = backward ? syn__pt_elems(&o->in[0]) : convolved(o);
    /* Only these ops have `transposed` as an argument; convolutions of cuDNN and similar libraries
       have other arguments there. */
    const bool general = strncmp(o->name, "aten::convolution", 17) == 0 ||
                         strncmp(o->name, "aten::_convolution", 18) == 0;
    const bool transposed = has(o, "transpose") || (general && is_true(o, backward ? 7 : 6));
    if (weight->dim[0] == 0) return 0;
    const uint64_t one = syn__pt_mul(2, syn__pt_mul(transposed ? syn__pt_elems(in) : out,
                                                    syn__pt_elems(weight) / weight->dim[0]));
    return backward ? syn__pt_mul(one, n_gradients(o)) : one;
}

/* The flops of attention: q (B, H, T, D), k (B, H, S, D), v (B, H, S, E). In ops other than
   "scaled_dot_product", H is swapped with T and S. */
static uint64_t attention(const op *o) {
    const bool backward = has(o, "backward");
    const syn__pt_shape *q = &o->in[backward ? 1 : 0], *k = q + 1, *v = q + 2;
    const size_t rows = has(o, "scaled_dot_product") ? 2 : 1;
    if (q->n != 4 || k->n != 4 || v->n != 4) return 0;
    const uint64_t d = q->dim[3], e = v->dim[3];
    const uint64_t each =
        backward ? syn__pt_add(syn__pt_mul(3, d), syn__pt_mul(2, e)) : syn__pt_add(d, e);
    const uint64_t scores =
        syn__pt_mul(syn__pt_mul(q->dim[0], q->dim[1]), syn__pt_mul(q->dim[2], k->dim[rows]));
    return syn__pt_mul(2, syn__pt_mul(scores, each));
}

static bool is_convolution(const op *o) {
    static const char *const parts[] = {"convolution", "conv1d",    "conv2d",
                                        "conv3d",      "slow_conv", "conv_depthwise"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (has(o, parts[i])) return true;
    }
    return false;
}

static uint64_t flops(const op *o) {
    static const struct {
        const char *name;
        size_t first; /* input that is the first factor of the product */
    } products[] = {{"aten::mm", 0},         {"aten::bmm", 0},
                    {"aten::matmul", 0},     {"aten::mv", 0},
                    {"aten::_scaled_mm", 0}, {"aten::_int_mm", 0},
                    {"aten::addmm", 1},      {"aten::baddbmm", 1},
                    {"aten::addmv", 1},      {"aten::_addmm_activation", 1}};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (strcmp(o->name, products[i].name) == 0)
            return product(&o->in[products[i].first], &o->in[products[i].first + 1]);
    }
    if (strcmp(o->name, "aten::linear") == 0) return linear(&o->in[0], &o->in[1]);
    if (is_convolution(o)) return convolution(o);
    if (has(o, "attention") || has(o, "flash_attn")) return attention(o);
    return 0;
}

syn__pt_cost syn__pt_cost_of(const syn__pt_host *host, const syn__pt_host_node *node) {
    op o = {.name = syn__pt_host_name(host, node->name).text, /* strings in the table of names end
                                                                 with NUL */
            .io = syn__pt_io_of(node)};
    const syn__pt_io *io = &o.io;
    syn__pt_read_shapes(io->shapes[0], o.in, MAX_SHAPES);
    syn__pt_read_shapes(io->shapes[1], o.out, 2);
    if (node->has & SYN__PT_MADE)
        return (syn__pt_cost){flops(&o),
                              syn__pt_shaped_bytes(io->shapes[0], io->types[0], SIZE_MAX)};
    return (syn__pt_cost){flops(&o), syn__pt_add(syn__pt_typed_bytes(io->values[0], io->types[0]),
                                                 syn__pt_typed_bytes(io->values[1], io->types[1]))};
}
