/* Computes shapes and sizes of the tensors of an op. A host trace writes tensors as lists of
   numbers. A device trace alone has only shapes and the names of dtypes. */
#include "export/pytorch/read/pt_tensors.h"
#include "export/pytorch/read/pt_names.h"
#include "export/pytorch/read/pt_scan.h"

/* ---- Reading ---- */

/* Parses a count. Fails for negative numbers. */
static bool read_count(syn__str text, uint64_t *out) {
    int64_t v;
    if (!syn__loose_i64(text, &v) || v < 0) return false;
    *out = (uint64_t)v;
    return true;
}

static syn__pt_shape read_shape(syn__str text) {
    syn__pt_shape s = {{0}, 0};
    syn__loose l;
    if (!syn__loose_open_array(&l, text)) return s;
    while (syn__loose_element(&l)) {
        syn__str at;
        if (syn__loose_skip(&l, &at) != SYN__LOOSE_NUMBER || s.n == SYN__PT_MAX_DIMS ||
            !read_count(at, &s.dim[s.n++]))
            return (syn__pt_shape){{0}, 0};
    }
    return s;
}

void syn__pt_read_shapes(syn__str text, syn__pt_shape *out, size_t n) {
    syn__loose l;
    memset(out, 0, n * sizeof *out);
    if (!syn__loose_open_array(&l, text)) return;
    for (size_t i = 0; i < n && syn__loose_element(&l); i++) {
        syn__str at;
        if (syn__loose_skip(&l, &at) == SYN__LOOSE_ARRAY) out[i] = read_shape(at);
    }
}

syn__pt_io syn__pt_io_of(const syn__pt_host_node *node) {
    syn__pt_io io = {0};
    static const char *const flat[2][2] = {{"input_shapes", "input_types"},
                                           {"output_shapes", "output_types"}};
    for (int k = 0; k < 2; k++) {
        const syn__str all = {node->text, node->text_bytes};
        const syn__str part = k == 0 ? syn__pt_inputs(node) : syn__pt_outputs(node);
        syn__loose l;
        syn__str key, at;
        if (part.bytes == 0) continue;
        syn__loose_init(&l, part.text, part.bytes);
        if (*part.text != '{') { /* schema 1.0.1 */
            io.values[k] = part;
            io.shapes[k] = syn__loose_find(all, flat[k][0]);
            io.types[k] = syn__loose_find(all, flat[k][1]);
            continue;
        }
        if (syn__loose_value(&l, &at) != SYN__LOOSE_OBJECT) continue;
        while (syn__loose_member(&l, &key)) {
            if (syn__loose_skip(&l, &at) == SYN__LOOSE_NONE) break;
            if (syn__str_is(key, "values")) io.values[k] = at;
            else if (syn__str_is(key, "shapes")) io.shapes[k] = at;
            else if (syn__str_is(key, "types")) io.types[k] = at;
        }
    }
    return io;
}

/* ---- Bytes ---- */

/* The bytes of a tensor [tensor_id, storage_id, offset, num_elem, elem_bytes, device]. */
static uint64_t tensor_bytes(syn__str text) {
    uint64_t number[2] = {0, 0};
    syn__loose l;
    syn__str at;
    if (!syn__loose_open_array(&l, text)) return 0;
    for (int i = 0; i < 5 && syn__loose_element(&l); i++) {
        if (syn__loose_skip(&l, &at) != SYN__LOOSE_NUMBER) return 0;
        if (i >= 3 && !read_count(at, &number[i - 3])) return 0;
    }
    return syn__pt_mul(number[0], number[1]);
}

static uint64_t list_bytes(syn__str text) {
    uint64_t sum = 0;
    syn__loose l;
    syn__str at;
    if (!syn__loose_open_array(&l, text)) return 0;
    while (syn__loose_element(&l)) {
        if (syn__loose_skip(&l, &at) == SYN__LOOSE_ARRAY) sum = syn__pt_add(sum, tensor_bytes(at));
    }
    return sum;
}

uint64_t syn__pt_typed_bytes(syn__str values, syn__str types) {
    uint64_t sum = 0;
    syn__loose v, t;
    syn__str value, type;
    if (!syn__loose_open_array(&v, values) || !syn__loose_open_array(&t, types)) return 0;
    while (syn__loose_element(&v) && syn__loose_element(&t)) {
        const bool is_array = syn__loose_skip(&v, &value) == SYN__LOOSE_ARRAY;
        if (syn__loose_skip(&t, &type) != SYN__LOOSE_STRING || !is_array) continue;
        if (syn__str_begins(type, "\"Tensor")) sum = syn__pt_add(sum, tensor_bytes(value));
        else if (syn__str_begins(type, "\"GenericList[Tensor"))
            sum = syn__pt_add(sum, list_bytes(value));
    }
    return sum;
}

/* The number of elements of a shape. A tensor without dimensions has one element. */
static uint64_t elems_of(syn__str text) {
    const syn__pt_shape tensor = read_shape(text);
    return tensor.n != 0 ? syn__pt_elems(&tensor) : text.bytes == 2;
}

uint64_t syn__pt_shaped_bytes(syn__str shapes, syn__str types, size_t max_tensors) {
    uint64_t sum = 0;
    syn__loose s, t;
    syn__str text, type;
    if (!syn__loose_open_array(&s, shapes) || !syn__loose_open_array(&t, types)) return 0;
    while (syn__loose_element(&s) && syn__loose_element(&t)) {
        const bool is_array = syn__loose_skip(&s, &text) == SYN__LOOSE_ARRAY;
        if (syn__loose_skip(&t, &type) != SYN__LOOSE_STRING || !is_array || type.bytes < 2)
            continue;
        const syn__str name = {type.text + 1, type.bytes - 2};
        const int64_t bytes = syn__pt_dtype_bytes(name);
        const uint64_t n = elems_of(text);
        if (bytes <= 0 || n == 0) continue;
        sum = syn__pt_add(sum, syn__pt_mul(n, (uint64_t)bytes));
        if (--max_tensors == 0) break;
    }
    return sum;
}

int64_t syn__pt_input_bytes(const syn__pt_host_node *node, size_t max_tensors) {
    const syn__pt_io io = syn__pt_io_of(node);
    const uint64_t bytes = syn__pt_shaped_bytes(io.shapes[0], io.types[0], max_tensors);
    return bytes > 0 && bytes <= INT64_MAX ? (int64_t)bytes : -1;
}

/* Finds the shape, or list of shapes, of argument `index`, and the name of its type. */
static bool find_argument(const syn__pt_host_node *node, size_t index, syn__str *shape,
                          syn__str *type) {
    const syn__pt_io io = syn__pt_io_of(node);
    syn__loose s, t;
    bool found = syn__loose_open_array(&s, io.shapes[0]) && syn__loose_open_array(&t, io.types[0]);
    for (size_t i = 0; found && i <= index; i++)
        found = syn__loose_element(&s) && syn__loose_element(&t) &&
                syn__loose_skip(&s, shape) != SYN__LOOSE_NONE &&
                syn__loose_skip(&t, type) != SYN__LOOSE_NONE;
    if (!found || *shape->text != '[' || type->bytes < 2 || *type->text != '"') return false;
    type->text++;
    type->bytes -= 2;
    return true;
}

int64_t syn__pt_argument_elem_bytes(const syn__pt_host_node *node, size_t index) {
    syn__str shape, type;
    return find_argument(node, index, &shape, &type) ? syn__pt_dtype_bytes(type) : 0;
}

int64_t syn__pt_argument_elems(const syn__pt_host_node *node, size_t index) {
    syn__str shape, type, at;
    syn__loose l;
    uint64_t n = 0;
    if (!find_argument(node, index, &shape, &type)) return -1;
    if (syn__pt_dtype_bytes(type) > 0) {
        n = elems_of(shape);
    } else {
        if (!syn__str_is(type, "TensorList") || !syn__loose_open_array(&l, shape)) return -1;
        while (syn__loose_element(&l) && syn__loose_skip(&l, &at) == SYN__LOOSE_ARRAY)
            n = syn__pt_add(n, elems_of(at));
        if (n == 0) return -1; /* before PyTorch 2.2, Kineto did not write shapes of lists */
    }
    return n <= INT64_MAX ? (int64_t)n : -1;
}

/* ---- Tensors at any depth ---- */

typedef struct tensor {
    int64_t storage, offset, bytes;
    syn__str device;
} tensor;

/* Reads the tensor whose opening bracket was just read, and moves past it. If the list is not a
   tensor, returns false and does not change the position. */
static bool take_tensor(syn__pt_scan *s, tensor *out) {
    const syn__pt_scan before = *s;
    int64_t fields[5] = {0};
    syn__str text;
    size_t n = 0;
    while (n < 5 && syn__pt_scan_next(s, &text) == 'w' && syn__pt_scan_i64(text, &fields[n])) n++;
    if (n == 5 && syn__pt_scan_next(s, &text) == 's' && fields[3] >= 0 && fields[4] >= 0) {
        syn__pt_scan_leave(s);
        *out = (tensor){fields[1], syn__pt_mul_i64(fields[2], fields[4]),
                        syn__pt_mul_i64(fields[3], fields[4]), text};
        return true;
    }
    *s = before;
    return false;
}

int64_t syn__pt_tensor_bytes(syn__str value) {
    syn__pt_scan s = syn__pt_scan_of(value);
    syn__str text;
    int64_t sum = -1;
    tensor t;
    for (char c = syn__pt_scan_next(&s, &text); c != 0; c = syn__pt_scan_next(&s, &text)) {
        if (c != '[' || !take_tensor(&s, &t)) continue;
        if (sum < 0) sum = 0;
        sum = t.bytes > INT64_MAX - sum ? INT64_MAX : sum + t.bytes;
    }
    return sum;
}

bool syn__pt_next_tensor(syn__pt_scan *s, syn__pt_tensor *out) {
    syn__str text;
    tensor t;
    for (char c = syn__pt_scan_next(s, &text); c != 0; c = syn__pt_scan_next(s, &text)) {
        if (c != '[' || !take_tensor(s, &t)) continue;
        const int64_t before = t.offset > 0 ? t.offset : 0;
        *out =
            (syn__pt_tensor){t.storage, t.bytes > INT64_MAX - before ? INT64_MAX : before + t.bytes,
                             syn__str_is(t.device, "cpu")};
        return true;
    }
    return false;
}

void syn__pt_find_devices(syn__str value, bool *on_cpu, bool *elsewhere) {
    syn__pt_scan s = syn__pt_scan_of(value);
    syn__str text;
    tensor t;
    for (char c = syn__pt_scan_next(&s, &text); c != 0; c = syn__pt_scan_next(&s, &text)) {
        if (c != '[' || !take_tensor(&s, &t) || t.device.bytes == 0) continue;
        if (syn__str_is(t.device, "cpu")) *on_cpu = true;
        else *elsewhere = true;
    }
}
