/* What a conversion of PyTorch traces tells: tables for people, one JSON document for programs. */
#include <inttypes.h>
#include <string.h>

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/match/pt_hints.h"
#include "export/pytorch/sim/pt_replay.h"
#include "syntorch/memory.h"
#include "tools/cli.h"
#include "tools/pytorch/pytorch_job.h"

static const char *const kind_names[SYN__PT_OP_KINDS] = {[SYN__PT_OP_HOST] = "host ops",
                                                         [SYN__PT_OP_METADATA] = "metadata",
                                                         [SYN__PT_OP_KERNEL] = "kernels",
                                                         [SYN__PT_OP_MEMCPY] = "copies",
                                                         [SYN__PT_OP_MEMSET] = "memory sets"};
static const char *const edge_names[SYN__PT_EDGE_CLASSES] = {
#define SYN_X(id, name) name,
    SYN__PT_EDGE_LIST(SYN_X)
#undef SYN_X
};
static const char *const collective_names[] = {
    "all_reduce", "reduce",         "all_gather",           "gather", "scatter", "broadcast",
    "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};

void pytorch_print_notes(const syn__pt_report *report, FILE *out) {
    for (int k = 0; k < SYN__PT_ANOMALIES; k++) {
        const syn__pt_note *n = &report->notes[k];
        if (n->count == 0) continue;
        fprintf(out, "  warning: %s: %" PRIu64 " %s", syn__pt_anomaly_name((syn__pt_anomaly)k),
                n->count, syn__pt_anomaly_met((syn__pt_anomaly)k));
        char name[CLI_SHOWN_BYTES];
        if (n->file) fprintf(out, " (first: %s", cli_shown(n->file, name, sizeof name));
        if (n->file && n->at != SYN__PT_NO_PLACE) fprintf(out, ", byte %" PRIu64, n->at);
        if (n->file && n->node != SYN__PT_NO_PLACE) fprintf(out, ", node %" PRIu64, n->node);
        fprintf(out, "%s: %s\n", n->file ? ")" : "", syn__pt_anomaly_done((syn__pt_anomaly)k));
    }
}

/* ---- Counts ---- */

typedef struct counts {
    uint64_t in[SYN__PT_OP_KINDS], out[SYN__PT_OP_KINDS];
    uint64_t collectives[sizeof collective_names / sizeof collective_names[0]];
    uint64_t parts; /* nodes for further calls of one kernel */
    uint64_t generic, sends, recvs, comm_bytes;
} counts;

static counts count(const syn__pt_rank *r) {
    counts c = {0};
    for (size_t i = 0; i < r->n_ops; i++) {
        const syn__pt_op *op = &r->ops[i];
        if (op->event == SYN__PT_NONE && op->host == SYN__PT_NONE) continue;
        /* A kernel that carries several calls counts once. */
        if (!syn__pt_is_device(op) || r->event_op[op->event] == i) c.out[op->kind]++;
    }
    c.in[SYN__PT_OP_METADATA] = c.out[SYN__PT_OP_METADATA];
    c.in[SYN__PT_OP_HOST] = r->host.n_nodes - c.in[SYN__PT_OP_METADATA];
    c.in[SYN__PT_OP_KERNEL] = r->device.n_class[SYN__PT_KERNEL];
    c.in[SYN__PT_OP_MEMCPY] = r->device.n_class[SYN__PT_MEMCPY];
    c.in[SYN__PT_OP_MEMSET] = r->device.n_class[SYN__PT_MEMSET];
    for (size_t i = 0; i < r->n_comms; i++) {
        const syn__pt_comm *m = &r->comms[i];
        c.comm_bytes += (uint64_t)m->bytes;
        if (m->type == SYN__ET_COMM_SEND_NODE) c.sends++;
        else if (m->type == SYN__ET_COMM_RECV_NODE) c.recvs++;
        else if (m->collective >= 0 && m->collective < 10) c.collectives[m->collective]++;
        else c.generic++;
    }
    return c;
}

static void print_matches(const syn__pt_matches *m, bool made, FILE *out) {
    const uint64_t found = m->host_rf_id + m->host_external + m->host_time;
    if (made) fprintf(out, "  matched: host ops are those of the device trace\n");
    else
        fprintf(out,
                "  matched: %" PRIu64 " of %" PRIu64 " host nodes (record function id %" PRIu64
                ", External id %" PRIu64 ", name and order %" PRIu64 ")\n",
                found, m->host_nodes, m->host_rf_id, m->host_external, m->host_time);
    fprintf(out,
            "           %" PRIu64 " of %" PRIu64 " device events (correlation %" PRIu64
            ", External id %" PRIu64 ", time %" PRIu64 ", none %" PRIu64 ")\n",
            m->device_events - m->device_none, m->device_events, m->device_correlation,
            m->device_external, m->device_time, m->device_none);
}

static void print_comms(const syn__pt_rank *r, const counts *c, FILE *out) {
    char bytes[32];
    if (r->n_comms == 0) return;
    fprintf(out, "  communication: %s in",
            cli_bytes_text((double)c->comm_bytes, bytes, sizeof bytes));
    for (size_t k = 0; k < sizeof collective_names / sizeof collective_names[0]; k++)
        if (c->collectives[k] > 0)
            fprintf(out, " %" PRIu64 " %s", c->collectives[k], collective_names[k]);
    if (c->sends) fprintf(out, " %" PRIu64 " send", c->sends);
    if (c->recvs) fprintf(out, " %" PRIu64 " recv", c->recvs);
    if (c->generic) fprintf(out, " %" PRIu64 " of unknown kind", c->generic);
    fprintf(out, "; %zu groups\n", r->n_groups);
}

#define LISTED 20 /* dropped edges shown */

static void print_dropped(const syn__pt_rank *r, FILE *out) {
    for (size_t i = 0; i < r->n_dropped && i < LISTED; i++)
        fprintf(out, "    dropped: %s edge %u -> %u\n", edge_names[r->dropped[i].class_],
                r->ids[r->dropped[i].from], r->ids[r->dropped[i].to]);
    if (r->n_dropped > LISTED)
        fprintf(out, "    and %zu more (--json lists all)\n", r->n_dropped - LISTED);
}

static void print_written(const syn__pt_written *w, FILE *out) {
    char time[32];
    fprintf(out,
            "  written for astra-sim: %" PRIu64 " nodes: %" PRIu64 " kernels and copies, %" PRIu64
            " host delays (%s), %" PRIu64 " communications as computation",
            w->nodes, w->compute, w->delays,
            cli_time_text(1e3 * (double)w->delay_us, time, sizeof time), w->stand_ins);
    if (w->absorbed > 0) fprintf(out, " and %" PRIu64 " as host delay", w->absorbed);
    for (size_t i = 0; i < SYN__PT_STAND_IN_REASONS && w->reasons[i].why; i++)
        fprintf(out, "%s%" PRIu64 ": %s", i == 0 ? " (" : "; ", w->reasons[i].count,
                w->reasons[i].why);
    fprintf(out,
            "%s, %" PRIu64 " collectives, %" PRIu64 " messages; %" PRIu64
            " barriers became dependencies\n",
            w->stand_ins + w->absorbed > 0 ? ")" : "", w->collectives, w->messages,
            w->dropped_barriers);
}

/* written NULL: profile full. */
static void print_rank(const syn__pt_rank *r, const syn__pt_written *written,
                       const syn__pt_report *report, FILE *out) {
    const counts c = count(r);
    char name[CLI_SHOWN_BYTES];
    fprintf(out, "rank %d: %s", (int)r->rank, cli_shown(r->host_input.name, name, sizeof name));
    if (r->has_device && !r->host.from_event)
        fprintf(out, " and %s", cli_shown(r->device_input.name, name, sizeof name));
    fprintf(out, "\n  in -> out:");
    const char *between = " ";
    for (int k = 0; k < SYN__PT_OP_KINDS; k++) {
        if (!c.in[k] && !c.out[k]) continue;
        fprintf(out, "%s%" PRIu64 " -> %" PRIu64 " %s", between, c.in[k], c.out[k], kind_names[k]);
        between = ", ";
    }
    if (c.parts) fprintf(out, "; %" PRIu64 " more nodes for kernels of several calls", c.parts);
    fprintf(out, "\n");
    print_matches(&r->matches, r->host.from_event != NULL, out);
    if (written) print_written(written, out);
    else fprintf(out, "  dependencies:");
    for (int k = 0; k < SYN__PT_EDGE_CLASSES && !written; k++)
        if (r->n_edge_class[k]) fprintf(out, " %" PRIu64 " %s", r->n_edge_class[k], edge_names[k]);
    if (!written) fprintf(out, "\n");
    print_comms(r, &c, out);
    print_dropped(r, out);
    const uint32_t hints = syn__pt_hints_of(r, report);
    for (int h = 0; h < SYN__PT_HINTS; h++)
        if (hints >> h & 1u)
            fprintf(out, "  note: %s: %s\n", syn__pt_hint_name((syn__pt_hint)h),
                    syn__pt_hint_sentence((syn__pt_hint)h));
}

static syn_status replay(const pytorch_job *job, const syn__pt_rank *r, syn__pt_replayed *p,
                         syn_error *err) {
    return job->profile == PYTORCH_FULL ? syn__pt_replay(r, p, err) : syn__pt_replay_sim(r, p, err);
}

static void lane_name(const pytorch_job *job, const syn__pt_rank *r, size_t lane, char *name,
                      size_t cap) {
    const syn__pt_lane *l = &r->lanes[lane];
    if (job->profile != PYTORCH_FULL) snprintf(name, cap, "%s", lane ? "communication" : "compute");
    else if (l->device)
        snprintf(name, cap, "device %d stream %" PRId64, (int)l->device_id, l->stream);
    else snprintf(name, cap, "thread %u", l->tid);
}

static void print_lane(const char *name, const syn__pt_replay_lane *t, FILE *out) {
    char a[32], b[32], c[32];
    if (t->n_ops == 0) return;
    fprintf(out, "    %-24s %8" PRIu64 " ops  busy %10s  measured %10s  replayed %10s", name,
            t->n_ops, cli_time_text((double)t->busy_ns, a, sizeof a),
            cli_time_text((double)t->measured_ns, b, sizeof b),
            cli_time_text((double)t->replayed_ns, c, sizeof c));
    if (t->idle_ns > 0)
        fprintf(out, "  in no op %s", cli_time_text((double)t->idle_ns, a, sizeof a));
    fprintf(out, "\n");
}

static void print_replay(const pytorch_job *job, const syn__pt_rank *r, FILE *out) {
    syn__pt_replayed p = {0};
    syn_error err = {0};
    char a[32], b[32], name[64];
    if (replay(job, r, &p, &err) != SYN_OK) {
        char why[CLI_SHOWN_BYTES];
        fprintf(out, "  replay: %s\n", cli_shown(err.text, why, sizeof why));
        return;
    }
    fprintf(out, "  replay, rank %d: measured %s, replayed %s", (int)r->rank,
            cli_time_text((double)p.measured_ns, a, sizeof a),
            cli_time_text((double)p.replayed_ns, b, sizeof b));
    if (p.measured_ns > 0)
        fprintf(out, " (%+.2f %%)", 100.0 * ((double)p.replayed_ns / (double)p.measured_ns - 1.0));
    fprintf(out, "\n");
    for (size_t i = 0; i < p.n_lanes; i++) {
        lane_name(job, r, i, name, sizeof name);
        print_lane(name, &p.lanes[i], out);
    }
    syn_free(p.lanes);
}

void pytorch_print(const pytorch_job *job, const pytorch_outcome *o, FILE *out) {
    char a[32], b[32], name[CLI_SHOWN_BYTES];
    for (size_t i = 0; i < o->n_ranks; i++)
        print_rank(&o->ranks[i], o->written ? &o->written[i] : NULL, &o->report, out);
    pytorch_print_notes(&o->report, out);
    for (size_t i = 0; job->replay && i < o->n_ranks; i++) print_replay(job, &o->ranks[i], out);
    if (o->groups_replaced)
        fprintf(out,
                "  note: other groups stood in the .comm_group.json beside it and were replaced: "
                "ranks converted one by one\n  number groups each for itself; convert a "
                "job's ranks together, as a set\n");
    fprintf(out, "%s of JSON to %s%s, %s, in %.3f s\n",
            cli_bytes_text((double)o->in_bytes, a, sizeof a),
            cli_shown(job->output, name, sizeof name), job->is_set ? ".<rank>.et" : "",
            cli_bytes_text((double)o->out_bytes, b, sizeof b), o->seconds);
}

/* ---- JSON ---- */

static void json_u64(syn_sink *s, const char *key, uint64_t v, bool last) {
    syn_sink_printf(s, "\"%s\": %" PRIu64 "%s", key, v, last ? "" : ", ");
}

static void json_matches(syn_sink *s, const syn__pt_matches *m) {
    syn_sink_text(s, "\"matches\": {");
    json_u64(s, "host_nodes", m->host_nodes, false);
    json_u64(s, "host_rf_id", m->host_rf_id, false);
    json_u64(s, "host_external_id", m->host_external, false);
    json_u64(s, "host_name_order", m->host_time, false);
    json_u64(s, "device_events", m->device_events, false);
    json_u64(s, "device_correlation", m->device_correlation, false);
    json_u64(s, "device_external_id", m->device_external, false);
    json_u64(s, "device_time", m->device_time, false);
    json_u64(s, "device_none", m->device_none, false);
    json_u64(s, "device_outside", m->device_outside, false);
    json_u64(s, "cpu_events", m->cpu_events, false);
    json_u64(s, "cpu_events_unused", m->cpu_events_unused, true);
    syn_sink_text(s, "}");
}

static void json_comms(syn_sink *s, const counts *c) {
    syn_sink_text(s, ", \"communication\": {");
    for (size_t k = 0; k < sizeof collective_names / sizeof collective_names[0]; k++)
        if (c->collectives[k] > 0) json_u64(s, collective_names[k], c->collectives[k], false);
    json_u64(s, "send", c->sends, false);
    json_u64(s, "recv", c->recvs, false);
    json_u64(s, "unknown", c->generic, false);
    json_u64(s, "bytes", c->comm_bytes, true);
    syn_sink_text(s, "}");
}

static void json_rank(syn_sink *s, const syn__pt_rank *r, const syn__pt_report *report) {
    const counts c = count(r);
    const uint32_t hints = syn__pt_hints_of(r, report);
    bool first = true;
    syn_sink_printf(s, "{\"rank\": %d, \"host\": ", (int)r->rank);
    if (r->host.from_event) syn_sink_text(s, "null");
    else syn_sink_json_string(s, r->host_input.name);
    syn_sink_text(s, ", \"nodes\": {");
    for (int k = 0; k < SYN__PT_OP_KINDS; k++)
        syn_sink_printf(s, "%s\"%s\": {\"in\": %" PRIu64 ", \"out\": %" PRIu64 "}", k ? ", " : "",
                        kind_names[k], c.in[k], c.out[k]);
    syn_sink_text(s, "}, ");
    json_u64(s, "further_calls", c.parts, false);
    json_matches(s, &r->matches);
    syn_sink_text(s, ", \"dependencies\": {");
    for (int k = 0; k < SYN__PT_EDGE_CLASSES; k++)
        json_u64(s, edge_names[k], r->n_edge_class[k], k + 1 == SYN__PT_EDGE_CLASSES);
    syn_sink_text(s, "}");
    json_comms(s, &c);
    syn_sink_text(s, ", \"dropped\": [");
    for (size_t i = 0; i < r->n_dropped; i++)
        syn_sink_printf(s, "%s{\"from\": %u, \"to\": %u, \"class\": \"%s\"}", i ? ", " : "",
                        r->ids[r->dropped[i].from], r->ids[r->dropped[i].to],
                        edge_names[r->dropped[i].class_]);
    syn_sink_text(s, "], \"notes\": [");
    for (int h = 0; h < SYN__PT_HINTS; h++) {
        if (!(hints >> h & 1u)) continue;
        syn_sink_printf(s, "%s\"%s\"", first ? "" : ", ", syn__pt_hint_name((syn__pt_hint)h));
        first = false;
    }
    syn_sink_text(s, "]");
}

static void json_written(syn_sink *s, const syn__pt_written *w) {
    syn_sink_text(s, ", \"written\": {");
    json_u64(s, "nodes", w->nodes, false);
    json_u64(s, "compute", w->compute, false);
    json_u64(s, "delays", w->delays, false);
    json_u64(s, "stand_ins", w->stand_ins, false);
    json_u64(s, "absorbed", w->absorbed, false);
    syn_sink_text(s, "\"not_simulated\": {");
    for (size_t i = 0; i < SYN__PT_STAND_IN_REASONS && w->reasons[i].why; i++) {
        if (i > 0) syn_sink_text(s, ", ");
        json_u64(s, w->reasons[i].why, w->reasons[i].count, true);
    }
    syn_sink_text(s, "}, ");
    json_u64(s, "collectives", w->collectives, false);
    json_u64(s, "messages", w->messages, false);
    json_u64(s, "dropped_barriers", w->dropped_barriers, false);
    syn_sink_printf(s, "\"delay_us\": %" PRId64 "}", w->delay_us);
}

static syn_status json_replay(syn_sink *s, const pytorch_job *job, const syn__pt_rank *r,
                              syn_error *err) {
    syn__pt_replayed p = {0};
    SYN_TRY(replay(job, r, &p, err));
    syn_sink_printf(s, ", \"replay\": {\"measured_ns\": %" PRId64 ", \"replayed_ns\": %" PRId64 "}",
                    p.measured_ns, p.replayed_ns);
    syn_free(p.lanes);
    return SYN_OK;
}

static void json_notes(syn_sink *s, const syn__pt_report *report) {
    bool first = true;
    syn_sink_text(s, "\"anomalies\": [");
    for (int k = 0; k < SYN__PT_ANOMALIES; k++) {
        const syn__pt_note *n = &report->notes[k];
        if (n->count == 0) continue;
        syn_sink_printf(s, "%s{\"kind\": \"%s\", \"count\": %" PRIu64, first ? "" : ", ",
                        syn__pt_anomaly_name((syn__pt_anomaly)k), n->count);
        if (n->file) {
            syn_sink_text(s, ", \"file\": ");
            syn_sink_json_string(s, n->file);
        }
        if (n->at != SYN__PT_NO_PLACE) syn_sink_printf(s, ", \"byte\": %" PRIu64, n->at);
        if (n->node != SYN__PT_NO_PLACE) syn_sink_printf(s, ", \"node\": %" PRIu64, n->node);
        syn_sink_text(s, "}");
        first = false;
    }
    syn_sink_text(s, "]");
}

syn_status pytorch_print_json(const pytorch_job *job, const pytorch_outcome *o, syn_error *err) {
    syn_sink *s = NULL;
    SYN_TRY(syn_sink_open_file(&s, "-", err));
    syn_status status = SYN_OK;
    syn_sink_text(s, "{\"ranks\": [");
    for (size_t i = 0; i < o->n_ranks && status == SYN_OK; i++) {
        if (i > 0) syn_sink_text(s, ", ");
        json_rank(s, &o->ranks[i], &o->report);
        if (o->written) json_written(s, &o->written[i]);
        if (job->replay) status = json_replay(s, job, &o->ranks[i], err);
        syn_sink_text(s, "}");
    }
    syn_sink_text(s, "], ");
    json_notes(s, &o->report);
    syn_sink_text(s, ", ");
    json_u64(s, "in_bytes", o->in_bytes, false);
    json_u64(s, "out_bytes", o->out_bytes, false);
    syn_sink_printf(s, "\"seconds\": %.6f}\n", o->seconds);
    const syn_status closed = syn_sink_close(s, true, err);
    return status != SYN_OK ? status : closed;
}
