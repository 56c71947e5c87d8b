/* Writes the tensors that a node reads and writes, in the form that ASTRA-sim needs on every node
   to track local memory: the string lists `inputs` and `outputs`, in which names and sizes in bytes
   alternate. Each storage is listed as a whole under the tensor that owns it, so that only one node
   writes it: for views and new in-place versions, the owner is listed. No node writes parameters
   and inputs; they exist from the start. */
#include <stdlib.h>
#include <string.h>

#include "export/chakra/et_walk.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/number.h"

#define TAG (SYN__ET_STRING_LIST_VALUES << 3 | SYN__ET_WIRE_LEN) /* tag of a list element */

static syn_status tensor_at(syn__et_walk *walk, uint32_t tensor, const syn_graph_tensor **out,
                            syn_error *err) {
    *out = syn_graph_tensor_at(walk->graph, walk->rank, tensor, &walk->tensors);
    if (*out != NULL) return SYN_OK;
    return SYN_FAIL(err, walk->tensors.error.code, "%s", walk->tensors.error.text);
}

static int compare(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sets walk->owners to the tensors that own the storages of the given tensors, in ascending order
   without duplicates. own_only: skips given tensors that do not own their storage. */
static syn_status find_owners(syn__et_walk *walk, const uint32_t *tensors, uint32_t n_tensors,
                              bool own_only, size_t *n, syn_error *err) {
    const uint32_t n_all = walk->graph->ranks[walk->rank].n_tensors;
    *n = 0;
    SYN_TRY(syn_grow(&walk->owners, &walk->owners_cap, n_tensors, sizeof *walk->owners, err));
    for (uint32_t i = 0; i < n_tensors; i++) {
        const syn_graph_tensor *t;
        SYN_TRY(tensor_at(walk, tensors[i], &t, err));
        if (own_only && t->base != tensors[i]) continue;
        walk->owners[(*n)++] = t->base < n_all ? t->base : tensors[i];
    }
    if (*n > 1) qsort(walk->owners, *n, sizeof *walk->owners, compare);
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++)
        if (i == 0 || walk->owners[i] != walk->owners[i - 1])
            walk->owners[kept++] = walk->owners[i];
    *n = kept;
    return SYN_OK;
}

static void put_text(syn__buf *buf, const char *text, size_t bytes) {
    syn__et_put_varint(buf, TAG);
    syn__et_put_varint(buf, bytes);
    syn__buf_put(buf, text, bytes);
}

/* Appends the tensor's name and its size in bytes. The name has the form "t57"; parameters, inputs
   and states add their own name, as in "t3 wte.weight". */
static syn_status put_tensor(syn__et_walk *walk, uint32_t tensor, syn_error *err) {
    const uint32_t named = SYN_TENSOR_PARAM | SYN_TENSOR_INPUT | SYN_TENSOR_STATE;
    const syn_graph_tensor *t;
    char number[SYN_DECIMAL_TEXT + 2], *const end = number + sizeof number - 1, *first;
    SYN_TRY(tensor_at(walk, tensor, &t, err));
    const bool has_name = (t->flags & named) != 0 && t->name != NULL;
    const syn__str name = syn__arena_utf8(&walk->arena, syn__str_of(has_name ? t->name : ""));
    if (name.text == NULL) return SYN_FAIL_NOMEM(err, 1, "a tensor's name");
    *end = ' ';
    first = syn_decimal(tensor, end);
    *--first = 't';
    const size_t n = (size_t)(end - first) + has_name;
    syn__et_put_varint(&walk->list, TAG);
    syn__et_put_varint(&walk->list, n + name.bytes);
    syn__buf_put(&walk->list, first, n);
    syn__buf_put(&walk->list, name.text, name.bytes);
    first = syn_decimal(syn_spec_bytes(&t->spec), end);
    put_text(&walk->list, first, (size_t)(end - first));
    return SYN_OK;
}

static syn_status add_list(syn__et_walk *walk, const char *name, size_t n, syn_error *err) {
    walk->list.bytes = 0;
    for (size_t i = 0; i < n; i++) SYN_TRY(put_tensor(walk, walk->owners[i], err));
    char *data = (char *)syn__arena_get(&walk->arena, walk->list.bytes + 1);
    if (data == NULL || walk->list.failed)
        return SYN_FAIL_NOMEM(err, walk->list.bytes, "a node's tensors");
    if (walk->list.bytes > 0) memcpy(data, walk->list.data, walk->list.bytes);
    const syn__et_attr a =
        syn__et_data(syn__str_of(name), SYN__ET_STRING_LIST, (syn__str){data, walk->list.bytes});
    return syn__et_walk_add(walk, &a, err);
}

syn_status syn__et_describe_tensors(syn__et_walk *walk, const syn_node *node, syn_error *err) {
    size_t n;
    SYN_TRY(find_owners(walk, node->inputs, node->n_inputs, false, &n, err));
    SYN_TRY(add_list(walk, "inputs", n, err));
    SYN_TRY(find_owners(walk, node->outputs, node->n_outputs, true, &n, err));
    return add_list(walk, "outputs", n, err);
}
