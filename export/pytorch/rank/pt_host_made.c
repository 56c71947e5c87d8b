/* Adds host nodes made from CPU events; see pt_host_made.h. */
#include "export/pytorch/rank/pt_host_made.h"

#include <inttypes.h>
#include <stdio.h>

#include "export/pytorch/rank/pt_event_inputs.h"
#include "export/pytorch/read/pt_events.h"
#include "syntorch/base/memory.h"

#define TEXT_BYTES 1024 /* size of a node's text without name and inputs */

/* Writes the JSON text of a node as the observer would. */
static syn_status write_text(syn__arena *arena, syn__pt_host_node *n, syn__str name,
                             syn__str inputs, syn_error *err) {
    static const char none[] = "{\"values\": [], \"shapes\": [], \"types\": []}";
    const size_t capacity = TEXT_BYTES + name.bytes + inputs.bytes;
    char *text = syn__arena_get(arena, capacity), *at = text;
    if (!text) return SYN_FAIL_NOMEM(err, capacity, "a host node");
    if (inputs.bytes == 0) inputs = syn__str_of(none);
    at += snprintf(at, capacity, "{\"id\": %" PRIu64 ", \"name\": \"%.*s\", \"inputs\": ", n->id,
                   (int)name.bytes, name.text);
    n->inputs = (uint32_t)(at - text);
    n->inputs_bytes = (uint32_t)inputs.bytes;
    memcpy(at, inputs.text, inputs.bytes);
    at += inputs.bytes;
    at += snprintf(at, capacity - (size_t)(at - text),
                   ", \"outputs\": %s, \"attrs\": "
                   "[{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": %" PRIu64 "}, "
                   "{\"name\": \"fw_parent\", \"type\": \"uint64\", \"value\": 0}, "
                   "{\"name\": \"seq_id\", \"type\": \"int64\", \"value\": %" PRId64 "}, "
                   "{\"name\": \"scope\", \"type\": \"uint64\", \"value\": %" PRIu64 "}, "
                   "{\"name\": \"tid\", \"type\": \"uint64\", \"value\": %" PRIu64 "}, "
                   "{\"name\": \"fw_tid\", \"type\": \"uint64\", \"value\": 0}, "
                   "{\"name\": \"op_schema\", \"type\": \"string\", \"value\": \"\"}]}",
                   none, n->rf_id, n->seq_id, n->scope, n->tid);
    n->text = text;
    n->text_bytes = (uint32_t)(at - text);
    return SYN_OK;
}

syn_status syn__pt_add_made(syn__pt_rank *rank, uint32_t event, uint64_t id, uint64_t tid,
                            uint64_t rf_id, syn_error *err) {
    syn__pt_host *h = &rank->host;
    const syn__pt_event *e = &rank->device.events[event];
    const syn__str name = syn__pt_device_name(&rank->device, e->name);
    syn__str inputs;
    syn__pt_host_node n = {.id = id,
                           .tid = tid,
                           .rf_id = rf_id,
                           .scope = syn__pt_is_annotation(e) ? SYN__PT_USER_SCOPE : 0,
                           .has = SYN__PT_HAS_ALL_ATTRS | SYN__PT_MADE,
                           .linked = SYN__PT_NONE};
    SYN_TRY(syn_intern_put(&h->names, name.text, name.bytes, &n.name, err));
    SYN_TRY(syn__pt_event_inputs(&rank->arena, e, &inputs, &n.seq_id, err));
    SYN_TRY(write_text(&rank->arena, &n, name, inputs, err));
    SYN_TRY(syn_grow(&h->nodes, &h->nodes_cap, h->n_nodes + 1, sizeof *h->nodes, err));
    SYN_TRY(syn_grow(&h->made_of, &h->made_cap, h->n_made + 1, sizeof *h->made_of, err));
    h->nodes[h->n_nodes++] = n;
    h->made_of[h->n_made++] = event;
    return SYN_OK;
}
