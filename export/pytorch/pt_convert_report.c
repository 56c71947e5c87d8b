/* Fills the report of a conversion: counts ops, communications and dependencies of each rank. */
#include "export/pytorch/match/pt_hints.h"
#include "export/pytorch/pt_convert.h"
#include "export/pytorch/sim/pt_replay.h"
#include "syntorch/base/memory.h"

const char *syn_pytorch_edge_name(syn_pytorch_edge_class edge_class) {
    static const char *const names[] = {
#define SYN_X(id, name) name,
        SYN_PYTORCH_EDGE_LIST(SYN_X)
#undef SYN_X
    };
    return names[edge_class];
}

static void count_ops(const syn__pt_rank *r, syn_pytorch_rank_report *out) {
    for (size_t i = 0; i < r->n_ops; i++) {
        const syn__pt_op *op = &r->ops[i];
        if (op->event == SYN__PT_NONE && op->host == SYN__PT_NONE) continue;
        /* A kernel that runs several calls has several ops, but counts once. */
        if (!syn__pt_is_device(op) || r->event_op[op->event] == i) out->out[op->kind]++;
        else out->n_further++;
    }
    out->in[SYN_PYTORCH_OP_METADATA] = out->out[SYN_PYTORCH_OP_METADATA];
    out->in[SYN_PYTORCH_OP_HOST] = r->host.n_nodes - out->in[SYN_PYTORCH_OP_METADATA];
    out->in[SYN_PYTORCH_OP_KERNEL] = r->device.n_class[SYN__PT_KERNEL];
    out->in[SYN_PYTORCH_OP_MEMCPY] = r->device.n_class[SYN__PT_MEMCPY];
    out->in[SYN_PYTORCH_OP_MEMSET] = r->device.n_class[SYN__PT_MEMSET];
}

static void count_comms(const syn__pt_rank *r, syn_pytorch_rank_report *out) {
    for (size_t i = 0; i < r->n_comms; i++) {
        const syn__pt_comm *m = &r->comms[i];
        const bool unsized = syn__pt_size_is_unknown(m);
        out->comm_bytes += unsized ? 0 : (uint64_t)m->bytes;
        out->n_comms_unsized += unsized;
        out->n_comms[syn__pt_comm_kind(m)]++;
    }
    out->n_groups = r->n_groups;
}

static syn_status list_dropped(const syn__pt_rank *r, syn_pytorch_rank_report *out,
                               syn_error *err) {
    out->dropped = syn_malloc(r->n_dropped * sizeof *out->dropped);
    if (!out->dropped)
        return SYN_FAIL_NOMEM(err, r->n_dropped * sizeof *out->dropped, "dropped dependencies");
    for (size_t i = 0; i < r->n_dropped; i++)
        out->dropped[i] = (syn_pytorch_edge){r->ids[r->dropped[i].from], r->ids[r->dropped[i].to],
                                             (syn_pytorch_edge_class)r->dropped[i].class_};
    out->n_dropped = r->n_dropped;
    return SYN_OK;
}

syn_status syn__pt_report_rank(const syn__pt_conversion *c, size_t rank, syn_error *err) {
    const syn__pt_rank *r = &c->ranks[rank];
    syn_pytorch_rank_report *out = &c->report->ranks[rank];
    out->rank = r->rank;
    out->matches = r->matches;
    memcpy(out->n_edges, r->n_edge_class, sizeof out->n_edges);
    count_ops(r, out);
    count_comms(r, out);
    out->hints = syn__pt_hints_of(r, c->report->notes);
    SYN_TRY(list_dropped(r, out, err));
    if (!c->options->replay) return SYN_OK;
    return c->options->profile == SYN_PYTORCH_FULL ? syn__pt_replay(r, &out->replay, err)
                                                   : syn__pt_replay_sim(r, &out->replay, err);
}

void syn_pytorch_report_free(syn_pytorch_report *report) {
    for (size_t i = 0; i < report->n_ranks; i++) {
        syn_pytorch_rank_report *r = &report->ranks[i];
        syn_free(r->host);
        syn_free(r->device);
        syn_free(r->dropped);
        syn_free(r->replay.rows);
    }
    syn_free(report->ranks);
    *report = (syn_pytorch_report){0};
}
