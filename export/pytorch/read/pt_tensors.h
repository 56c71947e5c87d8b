/* The tensors among a host node's inputs and outputs: shapes and bytes. Host traces write a
   tensor as [id, storage, offset, elements, bytes each, "device"]; nodes that are made of a device
   trace have shapes and names of element types ("float", "c10::Half"). */
#ifndef EXPORT_PT_TENSORS_H
#define EXPORT_PT_TENSORS_H

#include "export/pytorch/read/pt_host.h"
#include "export/pytorch/read/pt_scan.h"
#include "syntorch/base/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_MAX_DIMS 8

typedef struct syn__pt_shape {
    uint64_t dim[SYN__PT_MAX_DIMS];
    size_t n; /* 0: no tensor, or one of no dimension */
} syn__pt_shape;

/* Lists of a node's inputs (0) and outputs (1), as written; bytes 0: absent. */
typedef struct syn__pt_io {
    syn__str values[2], shapes[2], types[2];
} syn__pt_io;

syn__pt_io syn__pt_io_of(const syn__pt_host_node *node);
/* The first n shapes; what is a list of shapes, or none, has no dimension. */
void syn__pt_read_shapes(syn__str shapes, syn__pt_shape *out, size_t n);

/* Bytes of the tensors, and lists of tensors, among values of these types. */
uint64_t syn__pt_typed_bytes(syn__str values, syn__str types);
/* Bytes of the first max_tensors tensors of these shapes and element types. */
uint64_t syn__pt_shaped_bytes(syn__str shapes, syn__str types, size_t max_tensors);
/* The same of a node made of a device trace's op: of its first inputs; -1 none. */
int64_t syn__pt_input_bytes(const syn__pt_host_node *node, size_t max_tensors);
/* Of a node made of a device trace's op: elements of argument `index`, a tensor or a list of
   tensors; -1 if it is neither. Bytes of an element; 0 of a list, whose type Kineto does not
   write. */
int64_t syn__pt_argument_elems(const syn__pt_host_node *node, size_t index);
int64_t syn__pt_argument_elem_bytes(const syn__pt_host_node *node, size_t index);
/* Bytes of all tensors wherever they stand within a value; -1 if there is none. */
int64_t syn__pt_tensor_bytes(syn__str value);

typedef struct syn__pt_tensor {
    int64_t storage;   /* id: tensors of one storage have it, also later ones at its address */
    int64_t end_bytes; /* of the storage, where the tensor ends */
    bool on_cpu;
} syn__pt_tensor;

/* The next tensor within a value, wherever it stands; false: there are no more. */
bool syn__pt_next_tensor(syn__pt_scan *s, syn__pt_tensor *out);

/* Sets what is so of any tensor within a value; those without a device are passed over. */
void syn__pt_find_devices(syn__str value, bool *on_cpu, bool *elsewhere);

/* Sizes beyond the greatest value stay there. */
static inline uint64_t syn__pt_mul(uint64_t a, uint64_t b) {
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}
static inline uint64_t syn__pt_add(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
static inline int64_t syn__pt_mul_i64(int64_t a, int64_t b) {
    int64_t out;
    return syn_mul_i64(a, b, &out) ? out : INT64_MAX;
}
static inline uint64_t syn__pt_elems(const syn__pt_shape *s) {
    uint64_t n = s->n != 0;
    for (size_t i = 0; i < s->n; i++) n = syn__pt_mul(n, s->dim[i]);
    return n;
}

#ifdef __cplusplus
}
#endif
#endif
