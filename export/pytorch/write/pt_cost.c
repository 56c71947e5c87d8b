/* What a PyTorch op costs, from the shapes in the host trace. Multiply and add count one each.

   - A product of (m x k) and (k x n): 2mkn (Golub and Van Loan, Matrix Computations, 1.1).
   - A convolution: 2 for each element of the output, input channel of its group and tap of the
     kernel; backward the same for the input's gradient and for the weight's (Dumoulin and Visin
     2016, "A guide to convolution arithmetic": each is a convolution or its transpose). Of a
     transposed one the input's elements count.
   - Attention of T queries and S keys of D elements, values of E: scores 2TSD and their product
     with the values 2TSE; backward the scores again, dP and dV (E), dQ and dK (D): 2TS(3D + 2E)
     (Dao et al. 2022, FlashAttention, algorithms 1 and 4). All of T x S also under a mask. */
#include "export/pytorch/rank/pt_comm.h"
#include "export/pytorch/write/pt_sim.h"

#define MAX_DIMS   8
#define MAX_SHAPES 4

typedef struct shape {
    uint64_t dim[MAX_DIMS];
    size_t n; /* 0: no tensor, or one of no dimension */
} shape;

typedef struct op {
    const char *name;                        /* NUL-terminated */
    syn__str values[2], shapes[2], types[2]; /* inputs, outputs */
    shape in[MAX_SHAPES], out[2];
} op;

/* Products that end at the greatest value. */
static uint64_t times(uint64_t a, uint64_t b) {
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t elems(const shape *s) {
    uint64_t n = s->n != 0;
    for (size_t i = 0; i < s->n; i++) n = times(n, s->dim[i]);
    return n;
}

/* ---- Reading ---- */

/* A count; negative ones are none. */
static bool read_count(syn__str text, uint64_t *out) {
    int64_t v;
    if (!syn__loose_i64(text, &v) || v < 0) return false;
    *out = (uint64_t)v;
    return true;
}

static bool open_array(syn__loose *l, syn__str text) {
    syn__str at;
    if (text.bytes == 0) return false;
    syn__loose_init(l, text.text, text.bytes);
    return syn__loose_value(l, &at) == SYN__LOOSE_ARRAY;
}

/* Numbers only; a list of shapes counts as none. */
static shape read_shape(syn__str text) {
    shape s = {{0}, 0};
    syn__loose l;
    if (!open_array(&l, text)) return s;
    while (syn__loose_element(&l)) {
        syn__str at;
        if (syn__loose_skip(&l, &at) != SYN__LOOSE_NUMBER || s.n == MAX_DIMS ||
            !read_count(at, &s.dim[s.n++]))
            return (shape){{0}, 0};
    }
    return s;
}

static void read_shapes(syn__str text, shape *out, size_t n) {
    syn__loose l;
    if (!open_array(&l, text)) return;
    for (size_t i = 0; i < n && syn__loose_element(&l); i++) {
        syn__str at;
        if (syn__loose_skip(&l, &at) == SYN__LOOSE_ARRAY) out[i] = read_shape(at);
    }
}

static void find_parts(const syn__pt_host_node *node, op *o) {
    static const char *const flat[2][2] = {{"input_shapes", "input_types"},
                                           {"output_shapes", "output_types"}};
    for (int k = 0; k < 2; k++) {
        const syn__str all = {node->text, node->text_bytes};
        const syn__str part = k == 0 ? syn__file_texts(node) : syn__pt_outputs(node);
        syn__loose l;
        syn__str key, at;
        if (part.bytes == 0) continue;
        syn__loose_init(&l, part.text, part.bytes);
        if (*part.text != '{') { /* schema 1.0.1 */
            o->values[k] = part;
            o->shapes[k] = syn__loose_find(all, flat[k][0]);
            o->types[k] = syn__loose_find(all, flat[k][1]);
            continue;
        }
        if (syn__loose_value(&l, &at) != SYN__LOOSE_OBJECT) continue;
        while (syn__loose_member(&l, &key)) {
            if (syn__loose_skip(&l, &at) == SYN__LOOSE_NONE) break;
            if (syn__str_is(key, "values")) o->values[k] = at;
            else if (syn__str_is(key, "shapes")) o->shapes[k] = at;
            else if (syn__str_is(key, "types")) o->types[k] = at;
        }
    }
}

/* ---- Bytes ---- */

/* [tensor_id, storage_id, offset, num_elem, elem_bytes, device] */
static uint64_t tensor_bytes(syn__str text) {
    uint64_t number[2] = {0, 0};
    syn__loose l;
    syn__str at;
    if (!open_array(&l, text)) return 0;
    for (int i = 0; i < 5 && syn__loose_element(&l); i++) {
        if (syn__loose_skip(&l, &at) != SYN__LOOSE_NUMBER) return 0;
        if (i >= 3 && !read_count(at, &number[i - 3])) return 0;
    }
    return times(number[0], number[1]);
}

static uint64_t list_bytes(syn__str text) {
    uint64_t sum = 0;
    syn__loose l;
    syn__str at;
    if (!open_array(&l, text)) return 0;
    while (syn__loose_element(&l)) {
        if (syn__loose_skip(&l, &at) == SYN__LOOSE_ARRAY) sum = plus(sum, tensor_bytes(at));
    }
    return sum;
}

static bool begins(syn__str s, const char *with) {
    const size_t n = strlen(with);
    return s.bytes >= n && memcmp(s.text, with, n) == 0;
}

static uint64_t all_bytes(syn__str values, syn__str types) {
    uint64_t sum = 0;
    syn__loose v, t;
    syn__str value, type;
    if (!open_array(&v, values) || !open_array(&t, types)) return 0;
    while (syn__loose_element(&v) && syn__loose_element(&t)) {
        const bool is_array = syn__loose_skip(&v, &value) == SYN__LOOSE_ARRAY;
        if (syn__loose_skip(&t, &type) != SYN__LOOSE_STRING || !is_array) continue;
        if (begins(type, "\"Tensor")) sum = plus(sum, tensor_bytes(value));
        else if (begins(type, "\"GenericList[Tensor")) sum = plus(sum, list_bytes(value));
    }
    return sum;
}

/* A tensor without dimensions has one element. */
static uint64_t elems_of(syn__str text) {
    const shape tensor = read_shape(text);
    return tensor.n != 0 ? elems(&tensor) : text.bytes == 2;
}

/* Of Kineto's inputs, which are shapes and names of element types ("float", "c10::Half"); of the
   first max_tensors. */
static uint64_t shaped_bytes(syn__str shapes, syn__str types, size_t max_tensors) {
    uint64_t sum = 0;
    syn__loose s, t;
    syn__str text, type;
    if (!open_array(&s, shapes) || !open_array(&t, types)) return 0;
    while (syn__loose_element(&s) && syn__loose_element(&t)) {
        const bool is_array = syn__loose_skip(&s, &text) == SYN__LOOSE_ARRAY;
        if (syn__loose_skip(&t, &type) != SYN__LOOSE_STRING || !is_array || type.bytes < 2)
            continue;
        const syn__str name = {type.text + 1, type.bytes - 2};
        const int64_t bytes = syn__pt_dtype_bytes(name);
        const uint64_t n = elems_of(text);
        if (bytes <= 0 || n == 0) continue;
        sum = plus(sum, times(n, (uint64_t)bytes));
        if (--max_tensors == 0) break;
    }
    return sum;
}

int64_t syn__file_text_bytes(const syn__pt_host_node *node, size_t max_tensors) {
    op o = {.name = ""};
    find_parts(node, &o);
    const uint64_t bytes = shaped_bytes(o.shapes[0], o.types[0], max_tensors);
    return bytes > 0 && bytes <= INT64_MAX ? (int64_t)bytes : -1;
}

/* ---- Flops ---- */

static bool has(const op *o, const char *part) {
    return strstr(o->name, part) != NULL;
}

/* Input `index` is "true". */
static bool is_true(const op *o, size_t index) {
    syn__loose l;
    syn__str at = {"", 0};
    if (!open_array(&l, o->values[0])) return false;
    for (size_t i = 0; i <= index; i++) {
        if (!syn__loose_element(&l)) return false;
        syn__loose_skip(&l, &at);
    }
    return syn__str_is(at, "true");
}

/* a (.., m, k) times b (.., k, n) or (k). */
static uint64_t product(const shape *a, const shape *b) {
    if (a->n == 0 || b->n == 0) return 0;
    return times(2, times(elems(a), b->n > 1 ? b->dim[b->n - 1] : 1));
}

/* x (.., in), w (out, in) */
static uint64_t linear(const shape *x, const shape *w) {
    return w->n == 0 ? 0 : times(2, times(elems(x), w->n > 1 ? w->dim[0] : 1));
}

/* weight (out, in / groups, taps..), transposed (in, out / groups, taps..): its first dimension is
   that of the side whose elements count. */
static uint64_t convolution(const op *o) {
    const bool backward = has(o, "backward");
    const shape *in = &o->in[backward ? 1 : 0], *weight = &o->in[backward ? 2 : 1];
    const shape *out = backward ? &o->in[0] : &o->out[0];
    /* Those of cuDNN and its like have other arguments there. */
    const bool general = strncmp(o->name, "aten::convolution", 17) == 0 ||
                         strncmp(o->name, "aten::_convolution", 18) == 0;
    const bool transposed = has(o, "transpose") || (general && is_true(o, backward ? 7 : 6));
    if (weight->dim[0] == 0) return 0;
    const uint64_t one =
        times(2, times(elems(transposed ? in : out), elems(weight) / weight->dim[0]));
    if (!backward) return one;
    return times(one, (uint64_t)(o->out[0].n != 0) + (uint64_t)(o->out[1].n != 0));
}

/* q (B, H, T, D), k (B, H, S, D), v (B, H, S, E); of the ops that are not "scaled_dot_product" with
   H and T, S swapped. */
static uint64_t attention(const op *o) {
    const bool backward = has(o, "backward");
    const shape *q = &o->in[backward ? 1 : 0], *k = q + 1, *v = q + 2;
    const size_t rows = has(o, "scaled_dot_product") ? 2 : 1;
    if (q->n != 4 || k->n != 4 || v->n != 4) return 0;
    const uint64_t d = q->dim[3], e = v->dim[3];
    const uint64_t each = backward ? plus(times(3, d), times(2, e)) : plus(d, e);
    const uint64_t scores = times(times(q->dim[0], q->dim[1]), times(q->dim[2], k->dim[rows]));
    return times(2, times(scores, each));
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
        size_t first; /* of the two factors */
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
    op o = {.name = syn__pt_host_name(host, node->name).text}; /* the table ends texts with NUL */
    find_parts(node, &o);
    read_shapes(o.shapes[0], o.in, MAX_SHAPES);
    read_shapes(o.shapes[1], o.out, 2);
    if (host->made_of)
        return (syn__pt_cost){flops(&o), shaped_bytes(o.shapes[0], o.types[0], SIZE_MAX)};
    return (syn__pt_cost){
        flops(&o), plus(all_bytes(o.values[0], o.types[0]), all_bytes(o.values[1], o.types[1]))};
}
