/* Computes shapes and sizes of the tensors in the inputs and outputs of a host node. Host traces
   write a tensor as [id, storage, offset, elements, bytes per element, "device"]. Nodes made from a
   device trace have only shapes and the names of dtypes ("float", "c10::Half"). */
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
    size_t n; /* 0: not a tensor, or a scalar tensor */
} syn__pt_shape;

/* The JSON texts of a node's inputs [0] and outputs [1], as in the file. bytes 0: absent. */
typedef struct syn__pt_io {
    syn__str values[2], shapes[2], types[2];
} syn__pt_io;

syn__pt_io syn__pt_io_of(const syn__pt_host_node *node);
/* Reads the first n shapes of a list. An entry that is not a shape, such as a list of shapes, gets
   no dimensions. */
void syn__pt_read_shapes(syn__str shapes, syn__pt_shape *out, size_t n);

/* The bytes of all tensors, and of lists of tensors, among `values`. types: the types of the
   values. */
uint64_t syn__pt_typed_bytes(syn__str values, syn__str types);
/* The bytes of the first max_tensors tensors, from their shapes and dtypes. */
uint64_t syn__pt_shaped_bytes(syn__str shapes, syn__str types, size_t max_tensors);
/* The same for the inputs of a node that was made from a device trace; -1: it has no tensors. */
int64_t syn__pt_input_bytes(const syn__pt_host_node *node, size_t max_tensors);
/* For a node that was made from a device trace. The first function returns the number of elements
   of argument `index`, which is a tensor or a list of tensors; -1 if it is neither. The second
   function returns its bytes per element; 0 for a list, because Kineto does not write its dtype. */
int64_t syn__pt_argument_elems(const syn__pt_host_node *node, size_t index);
int64_t syn__pt_argument_elem_bytes(const syn__pt_host_node *node, size_t index);
/* The bytes of all tensors within a value, at any depth; -1 if there are none. */
int64_t syn__pt_tensor_bytes(syn__str value);

typedef struct syn__pt_tensor {
    int64_t storage;   /* id of the storage; a later storage at the same address has the same id */
    int64_t end_bytes; /* offset in the storage at which the tensor ends, in bytes */
    bool on_cpu;
} syn__pt_tensor;

/* Reads the next tensor within a value, at any depth. Returns false if there are no more. */
bool syn__pt_next_tensor(syn__pt_scan *s, syn__pt_tensor *out);

/* *on_cpu: whether any tensor within a value is on the CPU. *elsewhere: whether any is on another
   device. Tensors without a device are ignored. */
void syn__pt_find_devices(syn__str value, bool *on_cpu, bool *elsewhere);

/* Arithmetic for sizes, which saturates instead of overflowing. */
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
