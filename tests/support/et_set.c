/* Implements et_set.h: the records of the valid trace set and the edits that tests make. */
#include "tests/support/et_set.h"

syn__et_attr set_int(const char *name, uint32_t field, int64_t value) {
    return syn__et_number(name, field, (uint64_t)value);
}

syn__et_attr set_text(const char *name, const char *value) {
    return syn__et_data(syn__str_of(name), SYN__ET_STRING, syn__str_of(value));
}

syn__et_attr *set_attr(set_node *n, const char *name) {
    for (size_t i = 0; i < n->n_attrs; i++)
        if (syn__str_is(n->attrs[i].name, name)) return &n->attrs[i];
    n->attrs[n->n_attrs] = set_int(name, SYN__ET_INT64, 0);
    return &n->attrs[n->n_attrs++];
}

void set_value(set_node *n, const char *name, int64_t value) {
    set_attr(n, name)->bits = (uint64_t)value;
}

void set_drop(set_node *n, const char *name) {
    syn__et_attr *a = set_attr(n, name);
    *a = n->attrs[--n->n_attrs];
}

/* Appends a node to the rank; it depends on the rank's previous node. */
static set_node *set_add(et_set *s, int rank, uint32_t type, const char *name) {
    const size_t i = s->n[rank]++;
    set_node *n = &s->nodes[rank][i];
    *n = (set_node){.id = i + 1, .type = type, .name = name};
    if (i > 0) n->data[n->n_data++] = i;
    n->attrs[n->n_attrs++] = set_int("is_cpu_op", SYN__ET_BOOL, 0);
    return n;
}

set_node *set_comp(et_set *s, int rank) {
    set_node *n = set_add(s, rank, SYN__ET_COMP_NODE, "work");
    n->attrs[n->n_attrs++] = set_int("num_ops", SYN__ET_INT64, 1000000);
    n->attrs[n->n_attrs++] = set_int("tensor_size", SYN__ET_UINT64, 4096);
    return n;
}

set_node *set_coll(et_set *s, int rank, const char *group, int64_t kind, int64_t size) {
    set_node *n = set_add(s, rank, SYN__ET_COMM_COLL_NODE, "together");
    n->attrs[n->n_attrs++] = set_int("comm_type", SYN__ET_INT64, kind);
    n->attrs[n->n_attrs++] = set_int("comm_size", SYN__ET_INT64, size);
    if (group != NULL) n->attrs[n->n_attrs++] = set_text("pg_name", group);
    return n;
}

set_node *set_message(et_set *s, int rank, bool send, int64_t tag, int64_t size) {
    set_node *n =
        set_add(s, rank, send ? SYN__ET_COMM_SEND_NODE : SYN__ET_COMM_RECV_NODE, "message");
    n->attrs[n->n_attrs++] = set_int(send ? "comm_dst" : "comm_src", SYN__ET_INT32, 1 - rank);
    n->attrs[n->n_attrs++] = set_int("comm_tag", SYN__ET_INT32, tag);
    n->attrs[n->n_attrs++] = set_int("comm_size", SYN__ET_INT64, size);
    return n;
}

et_set set_clean(void) {
    et_set s = {.groups = "{\"1\": [0, 1], \"2\": [1, 0]}"};
    for (int rank = 0; rank < 2; rank++) {
        set_comp(&s, rank);
        set_coll(&s, rank, "1", 0, 64);
        set_comp(&s, rank);
        set_coll(&s, rank, "1", 2, 32);
        set_message(&s, rank, rank == 0, 3, 16);
        set_comp(&s, rank);
        set_coll(&s, rank, NULL, 7, 128);
        set_coll(&s, rank, "2", 0, 64);
    }
    return s;
}

void set_put(syn__buf *out, const syn__buf *message) {
    syn__et_put_varint(out, message->bytes);
    syn__buf_put(out, message->data, message->bytes);
}

syn__buf set_bytes(const et_set *s, int rank) {
    syn__buf out = {0}, message = {0};
    const syn__et_meta meta = {.version = {"1.0.0", 5}};
    syn__et_put_meta(&message, &meta);
    if (!s->no_meta) set_put(&out, &message);
    for (size_t i = 0; i < s->n[rank]; i++) {
        const set_node *n = &s->nodes[rank][i];
        const syn__et_node node = {.id = n->id,
                                   .name = syn__str_of(n->name),
                                   .type = n->type,
                                   .duration_micros = n->micros,
                                   .ctrl = n->ctrl,
                                   .data = n->data,
                                   .n_ctrl = n->n_ctrl,
                                   .n_data = n->n_data,
                                   .attrs = n->attrs,
                                   .n_attrs = n->n_attrs};
        message.bytes = 0;
        syn__et_put_node(&message, &node);
        set_put(&out, &message);
    }
    if (rank == 0) {
        syn__buf_put(&out, s->tail, s->tail_bytes);
        out.bytes -= s->cut_bytes;
    }
    syn__buf_free(&message);
    return out;
}

syn_status validate(const et_set *s, int mode, syn_validation *out, syn_error *err) {
    const syn_validate_options how = {.any_node = mode == ANY_NODE, .single = mode == SINGLE};
    syn_validator *v;
    *out = (syn_validation){0};
    SYN_TRY(syn_validator_open(&v, &how, 2, err));
    syn_status status = SYN_OK;
    if (s->groups != NULL)
        status = syn_validator_groups(v, "groups", s->groups, strlen(s->groups), err);
    for (int rank = 0; rank < (mode == SINGLE ? 1 : 2) && status == SYN_OK; rank++) {
        syn__buf file = set_bytes(s, rank);
        status = syn_validator_add(v, rank, file.data == NULL ? "" : file.data, file.bytes, err);
        syn__buf_free(&file);
    }
    const syn_status closed = syn_validator_close(v, status == SYN_OK ? out : NULL, err);
    return status == SYN_OK ? closed : status;
}
