/* Implements pt_hand.h: fills the tables that the readers of PyTorch traces would fill. */
#include "tests/support/pt_hand.h"

#include <stdlib.h>

static const char *hand_text(hand *h, const char *text) {
    char *copy = h->texts + h->n_texts;
    h->n_texts += strlen(text) + SYN__LOOSE_PADDING;
    if (h->n_texts > sizeof h->texts) abort();
    return strcpy(copy, text);
}

static int hand_class(char letter) {
    static const char letters[] = "CPLSYGT";
    return (int)(strchr(letters, letter) - letters);
}

static void hand_deps(hand *h, size_t i, const char *deps) {
    char *end;
    h->first_dep[i] = (uint32_t)h->rank.n_deps;
    for (const char *p = deps != NULL ? deps : ""; *p != '\0'; p = *end == ' ' ? end + 1 : end) {
        const unsigned long from = strtoul(p, &end, 10);
        h->deps[h->rank.n_deps++] = (syn__pt_dep){(uint32_t)from, (uint32_t)hand_class(*end++)};
    }
}

static void hand_one(hand *h, const hand_op *row, size_t i) {
    syn__pt_rank *r = &h->rank;
    syn__pt_op *op = &h->ops[i];
    const char *text = hand_text(h, row->text != NULL ? row->text : "{}");
    *op = (syn__pt_op){.host = SYN__PT_NONE,
                       .event = SYN__PT_NONE,
                       .parent = row->parent != 0 ? (uint32_t)row->parent - 1 : SYN__PT_NONE,
                       .track = row->track,
                       .comm = row->comm != 0 ? (uint32_t)row->comm - 1 : SYN__PT_NONE,
                       .kind = (uint8_t)row->kind,
                       .start_ns = row->start,
                       .wall_ns = row->wall,
                       .self_ns = row->self != 0 ? row->self : row->wall,
                       .launch = SYN__PT_NONE};
    if (row->kind >= SYN_PYTORCH_OP_KERNEL) {
        syn__pt_event *e = &h->events[r->device.n_events];
        *e = (syn__pt_event){.text = text, .text_bytes = (uint32_t)strlen(text)};
        if (syn_intern_put(&r->device.names, row->name, strlen(row->name), &e->name, NULL)) abort();
        op->event = (uint32_t)r->device.n_events++;
        if (row->parent != 0) op->host = h->ops[row->parent - 1].host;
        if (row->launched == 0) return;
        h->events[r->device.n_events] = (syn__pt_event){
            .ts_ns = row->launched, .dur_ns = row->launch_wall, .flags = SYN__PT_EVENT_TS};
        op->launch = (uint32_t)r->device.n_events++;
        return;
    }
    syn__pt_host_node *n = &h->nodes[r->host.n_nodes];
    const char *in = strstr(text, "\"inputs\": "), *out = strstr(text, "\"outputs\": ");
    *n = (syn__pt_host_node){.text = text, .text_bytes = (uint32_t)strlen(text)};
    if (in != NULL && out != NULL) { /* these must be the last two members, in this order */
        n->inputs = (uint32_t)(in + 10 - text);
        n->inputs_bytes = (uint32_t)(out - in - 12);
        n->outputs = (uint32_t)(out + 11 - text);
        n->outputs_bytes = (uint32_t)(strlen(out) - 12);
    }
    if (syn_intern_put(&r->host.names, row->name, strlen(row->name), &n->name, NULL)) abort();
    op->host = (uint32_t)r->host.n_nodes++;
}

void hand_make(hand *h, const hand_op *rows, size_t n) {
    memset(h, 0, sizeof *h);
    syn__pt_rank *r = &h->rank;
    r->rank = 0;
    r->world_size = 2;
    r->ops = h->ops;
    r->tracks = h->tracks;
    r->host.nodes = h->nodes;
    r->device.events = h->events;
    r->deps = h->deps;
    r->first_dep = h->first_dep;
    r->order = h->order;
    r->n_ops = n;
    r->n_tracks = 8;
    for (uint32_t i = 0; i < 8; i++)
        h->tracks[i] = (syn__pt_track){.device = i >= 2, .stream = 5 + (int64_t)i};
    for (size_t i = 0; i < n; i++) {
        hand_deps(h, i, rows[i].deps);
        hand_one(h, &rows[i], i);
        h->order[i] = (uint32_t)i;
    }
    h->first_dep[n] = (uint32_t)r->n_deps;
}

void hand_free(hand *h) {
    syn_intern_free(&h->rank.host.names);
    syn_intern_free(&h->rank.device.names);
}
