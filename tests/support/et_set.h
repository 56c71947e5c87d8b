/* A small valid trace set of two ranks, for the tests of the validator. Tests modify its records
   before they are converted to bytes. */
#ifndef TESTS_ET_SET_H
#define TESTS_ET_SET_H

#include <stdlib.h>
#include <string.h>

#include "export/chakra/wire/et_node.h"
#include "export/validate.h"

#define SET_NODES 16
#define SET_ATTRS 12
#define SET_DEPS  4

enum { SIMULATOR, ANY_NODE, SINGLE }; /* modes of validate() */

/* A node record. ctrl, data: ids of the nodes that it depends on. */
typedef struct set_node {
    uint64_t id;
    uint32_t type;
    const char *name;
    uint64_t ctrl[SET_DEPS], data[SET_DEPS];
    size_t n_ctrl, n_data, n_attrs;
    uint64_t micros;
    syn__et_attr attrs[SET_ATTRS];
} set_node;

/* The records of both ranks' files. */
typedef struct et_set {
    set_node nodes[2][SET_NODES];
    size_t n[2];
    const char *groups; /* contents of the group file; NULL: no file */
    bool no_meta;       /* files begin without metadata */
    const char *tail;   /* bytes after rank 0's last node */
    /* cut_bytes: bytes removed from the end of rank 0's file */
    size_t tail_bytes, cut_bytes;
} et_set;

/* Attributes with a value of the oneof `field`, and with a string. The name must stay valid. */
syn__et_attr set_int(const char *name, uint32_t field, int64_t value);

syn__et_attr set_text(const char *name, const char *value);

/* The attribute of that name; adds it if there is none. */
syn__et_attr *set_attr(set_node *n, const char *name);

/* Set an integer attribute of a node, and remove an attribute. */
void set_value(set_node *n, const char *name, int64_t value);

void set_drop(set_node *n, const char *name);

/* Append a computation, or a collective of a group. Each node depends on the rank's previous
   node. */
set_node *set_comp(et_set *s, int rank);

set_node *set_coll(et_set *s, int rank, const char *group, int64_t kind, int64_t size);

/* Appends a send to the other rank or a receive from it. */
set_node *set_message(et_set *s, int rank, bool send, int64_t tag, int64_t size);

/* The valid trace set. Both ranks have nodes 1 to 8: compute, collective in group 1, compute,
   collective in group 1, message from rank 0, compute, collective of all ranks, collective in group
   2. Each node depends on the one before. */
et_set set_clean(void);

/* Appends a message with its length to a file. */
void set_put(syn__buf *out, const syn__buf *message);

/* The bytes of a rank's file; the caller frees them with syn__buf_free. */
syn__buf set_bytes(const et_set *s, int rank);

/* Validates a set in one of the modes above. */
syn_status validate(const et_set *s, int mode, syn_validation *out, syn_error *err);

#endif
