/* Determines what the names of nodes mean for the compat converter; see pt_compat_convert.h. */
#include "export/chakra/wire/et_node.h"
#include "export/pytorch/compat/pt_compat_convert.h"
#include "export/text/loose_json.h"
#include "syntorch/base/memory.h"

/* ---- Names ---- */

static uint32_t flags_of(syn__str name) {
    static const struct {
        const char *word;
        uint32_t flag;
    } words[] = {{"process_group:init", SYN__NAME_GROUPS},
                 {"Optimizer.step", SYN__NAME_OPTIMIZER},
                 {"ncclDevKernel_SendRecv", SYN__NAME_SEND_RECV},
                 {"ncclDevKernel", SYN__NAME_NCCL},
                 {"ncclKernel", SYN__NAME_NCCL},
                 {"send", SYN__NAME_SEND},
                 {"recv", SYN__NAME_RECV},
                 {"nccl:all_to_all", SYN__NAME_ALL_TO_ALL}};
    uint32_t flags = SYN__NAME_READ;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (syn__str_has(name, words[i].word)) flags |= words[i].flag;
    if (syn__str_is(name, "record_param_comms")) flags |= SYN__NAME_PARAM;
    if (syn__str_is(name, "[pytorch|profiler|execution_graph|thread]") ||
        syn__str_is(name, "[pytorch|profiler|execution_trace|thread]"))
        flags |= SYN__NAME_ROOT;
    return flags;
}

/* The collective that the name implies: the first of these words that it contains, ignoring '_',
   '-' and case. */
static int32_t collective_of(syn__str name, uint32_t flags) {
    static const struct {
        const char *word;
        int32_t type; /* CollectiveCommType */
    } words[] = {{"allreduce", SYN__ET_ALL_REDUCE},
                 {"alltoall", SYN__ET_ALL_TO_ALL},
                 {"allgather", SYN__ET_ALL_GATHER},
                 {"reducescatter", SYN__ET_REDUCE_SCATTER},
                 {"broadcast", SYN__ET_BROADCAST}};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        for (size_t begin = 0; begin < name.bytes; begin++) {
            const char *word = words[w].word;
            for (size_t i = begin; i < name.bytes && *word != '\0'; i++) {
                const char c = name.text[i];
                if (c == '_' || c == '-') continue;
                if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != *word) break;
                word++;
            }
            if (*word == '\0') return words[w].type;
        }
    }
    return flags & SYN__NAME_SEND_RECV ? SYN__ET_ALL_TO_ALL : -1;
}

static bool decode(syn__converter *c, syn__str raw, syn__str *out) {
    *out = raw;
    if (memchr(raw.text, '\\', raw.bytes) == NULL && syn__str_is_utf8(raw)) return true;
    char *text = syn__arena_get(&c->arena, raw.bytes + 1);
    if (text == NULL) return false;
    out->text = text;
    out->bytes = syn__loose_decode(raw, text);
    return true;
}

/* The properties of string `id` of `names`. They are determined on first use. */
static const syn__compat_name *read_name(syn__converter *c, int table, const syn_intern *names,
                                         uint32_t id) {
    if (c->names[table] == NULL)
        c->names[table] = syn_calloc(names->n_entries + 1, sizeof(syn__compat_name));
    syn__compat_name *name = c->names[table] ? &c->names[table][id] : NULL;
    if (name == NULL || name->flags != 0) return name;
    const syn__str raw = {syn_intern_get(names, id), syn_intern_entry_bytes(names, id)};
    if (!decode(c, raw, &name->text)) return NULL;
    name->flags = flags_of(name->text);
    return name;
}

const syn__compat_name *syn__compat_host_text(syn__converter *c, uint32_t text) {
    return read_name(c, 0, &c->host->names, text);
}

const syn__compat_name *syn__compat_name_of(syn__converter *c, const syn__compat_node *node) {
    if (node->event == SYN__PT_NONE)
        return syn__compat_host_text(c, c->host->nodes[node->host].name);
    return read_name(c, 1, &c->device->names, c->device->events[node->event].name);
}

/* ---- Sizes ---- */

/* Adds num_elem * elem_bytes of [tensor_id, storage_id, offset, num_elem, elem_bytes, ...]. */
static bool tensor_bytes(syn__loose *l, int64_t *bytes) {
    int64_t values[2] = {0, 0};
    syn__str text;
    if (syn__loose_value(l, &text) != SYN__LOOSE_ARRAY) return false;
    size_t n = 0;
    for (; syn__loose_element(l); n++) {
        if (syn__loose_skip(l, &text) == SYN__LOOSE_NONE) return false;
        if ((n == 3 || n == 4) && !syn__loose_i64(text, &values[n - 3])) return false;
    }
    int64_t product;
    return n >= 5 && !__builtin_mul_overflow(values[0], values[1], &product) &&
           !__builtin_add_overflow(*bytes, product, bytes);
}

static bool list_bytes(syn__loose *l, int64_t *bytes) {
    syn__str text;
    if (syn__loose_value(l, &text) != SYN__LOOSE_ARRAY) return false;
    while (syn__loose_element(l))
        if (!tensor_bytes(l, bytes)) return false;
    return true;
}

/* The bytes of the node's inputs that are tensors or lists of tensors. */
static syn_status input_bytes(syn__converter *c, const syn__compat_node *node, int64_t *bytes) {
    const syn__str inputs = syn__pt_inputs(&c->host->nodes[node->host]);
    const syn__str values = syn__loose_find(inputs, "values"),
                   types = syn__loose_find(inputs, "types");
    syn__loose v, t;
    syn__str text;
    syn__loose_init(&v, values.text, values.bytes);
    syn__loose_init(&t, types.text, types.bytes);
    *bytes = 0;
    if (syn__loose_value(&v, &text) != SYN__LOOSE_ARRAY ||
        syn__loose_value(&t, &text) != SYN__LOOSE_ARRAY)
        return SYN_OK;
    while (syn__loose_element(&v) && syn__loose_element(&t)) {
        bool known = true;
        if (syn__loose_value(&t, &text) != SYN__LOOSE_STRING) break;
        if (syn__str_begins(text, "GenericList[Tensor")) known = list_bytes(&v, bytes);
        else if (syn__str_has(text, "Tensor")) known = tensor_bytes(&v, bytes);
        else syn__loose_skip(&v, NULL);
        if (!known)
            return SYN__COMPAT_STOP(c,
                                    "\"TypeError\", because an input of type %.*s of node %llu is "
                                    "not a tensor [id, storage, offset, elements, bytes of each]",
                                    (int)(text.bytes < 80 ? text.bytes : 80), text.text,
                                    (unsigned long long)node->id);
    }
    return SYN_OK;
}

/* ---- Communication ---- */

/* Finds "pg_name" of a node in its attributes or, for device work, in its event. */
static syn_status group_of(syn__converter *c, const syn__compat_node *node, syn__str *out) {
    const syn__pt_host_node *host = &c->host->nodes[node->host];
    syn__str text = syn__pt_attr(host, "pg_name");
    *out = (syn__str){"", 0};
    if (text.bytes == 0 && node->event != SYN__PT_NONE) {
        const syn__pt_event *e = &c->device->events[node->event];
        const syn__compat_name *name = syn__compat_name_of(c, node);
        const syn__str all = {e->text, e->text_bytes};
        if (name && syn__str_has(name->text, "ncclDevKernel"))
            text = syn__loose_find(syn__loose_find(all, "args"), "Process Group Name");
        if (syn__str_is(text, "null")) text.bytes = 0;
    }
    if (text.bytes == 0 && host->linked != SYN__PT_NONE) {
        text = c->host->linked[host->linked].pg_name;
        return text.bytes == 0 || decode(c, text, out)
                   ? SYN_OK
                   : SYN_FAIL(c->err, SYN_E_NOMEM, "out of memory for a group's name");
    }
    if (text.bytes == 0) return SYN_OK;
    if (*text.text != '"' || text.bytes < 2)
        return SYN__COMPAT_STOP(c, "\"TypeError\", because pg_name of node %llu is not a string",
                                (unsigned long long)node->id);
    text.text++;
    text.bytes -= 2;
    return decode(c, text, out) ? SYN_OK
                                : SYN_FAIL(c->err, SYN_E_NOMEM, "out of memory for a group's name");
}

/* A send or receive kernel gets the kind of its caller. */
static syn_status message_type(syn__converter *c, const syn__compat_node *node,
                               syn__compat_comm *out) {
    const syn__compat_node *parent = node->parent != SYN__PT_NONE ? &c->nodes[node->parent] : NULL;
    const syn__compat_name *name = parent ? syn__compat_name_of(c, parent) : NULL;
    if (name && (name->flags & SYN__NAME_PARAM)) {
        syn__str group;
        SYN_TRY(group_of(c, parent, &group));
        if (group.bytes != 0) out->group = group;
        parent = parent->parent != SYN__PT_NONE ? &c->nodes[parent->parent] : NULL;
        name = parent ? syn__compat_name_of(c, parent) : NULL;
    }
    if (parent == NULL)
        return SYN__COMPAT_STOP(c, "\"KeyError\", because the caller of node %llu is missing",
                                (unsigned long long)node->id);
    if (name == NULL) return SYN_FAIL(c->err, SYN_E_NOMEM, "out of memory for names");
    if (name->flags & SYN__NAME_SEND) out->type = SYN__ET_COMM_SEND_NODE;
    else if (name->flags & SYN__NAME_RECV) out->type = SYN__ET_COMM_RECV_NODE;
    else if (name->flags & SYN__NAME_ALL_TO_ALL) out->type = SYN__ET_COMM_COLL_NODE;
    return SYN_OK;
}

syn_status syn__compat_comm_of(syn__converter *c, const syn__compat_node *node,
                               syn__compat_comm *out) {
    *out = (syn__compat_comm){.type = SYN__ET_COMP_NODE, .group = {"", 0}};
    if (node->group) out->type = SYN__ET_METADATA_NODE;
    if (node->group || !node->gpu) return SYN_OK;
    const syn__compat_name *found = syn__compat_name_of(c, node);
    if (found == NULL) return SYN_FAIL(c->err, SYN_E_NOMEM, "out of memory for names");
    if (!(found->flags & (SYN__NAME_SEND_RECV | SYN__NAME_NCCL))) return SYN_OK;
    SYN_TRY(group_of(c, node, &out->group));
    if (found->flags & SYN__NAME_SEND_RECV) SYN_TRY(message_type(c, node, out));
    if (out->type == SYN__ET_COMP_NODE) out->type = SYN__ET_COMM_COLL_NODE;
    SYN_TRY(input_bytes(c, node, &out->bytes));
    if (out->type != SYN__ET_COMM_COLL_NODE) return SYN_OK;
    const int32_t collective = collective_of(found->text, found->flags);
    out->collective = collective;
    if (collective >= 0) return SYN_OK;
    return SYN__COMPAT_STOP(c,
                            "\"The name '%.*s' does not correspond to a recognized collective "
                            "communication type\" (node %llu); without --compat it becomes a "
                            "generic communication node",
                            (int)(found->text.bytes < 120 ? found->text.bytes : 120),
                            found->text.text, (unsigned long long)node->id);
}
