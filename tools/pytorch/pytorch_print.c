/* Prints the report of a conversion of PyTorch traces, as tables or as a JSON document. */
#include <inttypes.h>

#include "tools/cli_json.h"
#include "tools/pytorch/pytorch_job.h"

static const char *const kind_names[SYN_PYTORCH_OP_KINDS] = {[SYN_PYTORCH_OP_HOST] = "host ops",
                                                             [SYN_PYTORCH_OP_METADATA] = "metadata",
                                                             [SYN_PYTORCH_OP_KERNEL] = "kernels",
                                                             [SYN_PYTORCH_OP_MEMCPY] = "copies",
                                                             [SYN_PYTORCH_OP_MEMSET] =
                                                                 "memory sets"};

void pytorch_print_notes(const syn_pytorch_report *report, FILE *out) {
    for (int k = 0; k < SYN_PYTORCH_ANOMALIES; k++) {
        const syn_pytorch_note *n = &report->notes[k];
        if (n->count == 0) continue;
        fprintf(out, "  warning: %s: %" PRIu64 " %s",
                syn_pytorch_anomaly_name((syn_pytorch_anomaly)k), n->count,
                syn_pytorch_anomaly_met((syn_pytorch_anomaly)k));
        char name[CLI_SHOWN_BYTES];
        if (n->file) fprintf(out, " (first: %s", cli_shown(n->file, name, sizeof name));
        if (n->file && n->at != SYN_PYTORCH_NO_PLACE) fprintf(out, ", byte %" PRIu64, n->at);
        if (n->file && n->node != SYN_PYTORCH_NO_PLACE) fprintf(out, ", node %" PRIu64, n->node);
        fprintf(out, "%s: %s\n", n->file ? ")" : "",
                syn_pytorch_anomaly_done((syn_pytorch_anomaly)k));
    }
}

/* Prints how host nodes and device events were matched. */
static void print_matches(const syn_pytorch_matches *m, bool has_host, FILE *out) {
    const uint64_t found = m->host_rf_id + m->host_external + m->host_time;
    if (!has_host) fprintf(out, "  matched: host ops come from the device trace\n");
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
    if (m->cpu_events_kept > 0)
        fprintf(out, "           %" PRIu64 " CPU event%s only in the device trace\n",
                m->cpu_events_kept, cli_plural(m->cpu_events_kept));
}

/* Prints collectives, then messages, then communication of unknown kind. */
static void print_comms(const syn_pytorch_rank_report *r, FILE *out) {
    char bytes[32];
    uint64_t n = 0;
    for (int k = 0; k < SYN_COMM_KIND_COUNT; k++) n += r->n_comms[k];
    if (n == 0) return;
    fprintf(out, "  communication: %s in",
            cli_bytes_text((double)r->comm_bytes, bytes, sizeof bytes));
    for (int k = SYN_COMM_NONE + 1; k < SYN_COMM_KIND_COUNT; k++)
        if (r->n_comms[k] > 0)
            fprintf(out, " %" PRIu64 " %s", r->n_comms[k], syn_comm_kind_name((syn_comm_kind)k));
    if (r->n_comms[SYN_COMM_NONE] > 0)
        fprintf(out, " %" PRIu64 " of unknown kind", r->n_comms[SYN_COMM_NONE]);
    if (r->n_comms_unsized > 0) fprintf(out, ", %" PRIu64 " of unknown size", r->n_comms_unsized);
    fprintf(out, "; %zu groups\n", r->n_groups);
}

#define LISTED 20 /* maximum number of dropped edges that are printed */

static void print_dropped(const syn_pytorch_rank_report *r, FILE *out) {
    for (size_t i = 0; i < r->n_dropped && i < LISTED; i++)
        fprintf(out, "    dropped: %s edge %u -> %u\n",
                syn_pytorch_edge_name(r->dropped[i].edge_class), r->dropped[i].from,
                r->dropped[i].to);
    if (r->n_dropped > LISTED)
        fprintf(out, "    and %zu more (--json lists all)\n", r->n_dropped - LISTED);
}

static void print_simulated(const syn_pytorch_simulated *w, FILE *out) {
    char time[32];
    fprintf(out,
            "  written for astra-sim: %" PRIu64 " nodes: %" PRIu64 " kernels and copies, %" PRIu64
            " host delays (%s), %" PRIu64 " communication%s as computation",
            w->nodes, w->compute, w->delays,
            cli_time_text(1e3 * (double)w->delay_us, time, sizeof time), w->stand_ins,
            cli_plural(w->stand_ins));
    if (w->absorbed > 0) fprintf(out, " and %" PRIu64 " as host delay", w->absorbed);
    for (size_t i = 0; i < SYN_PYTORCH_REASONS && w->reasons[i].why; i++)
        fprintf(out, "%s%" PRIu64 ": %s", i == 0 ? " (" : "; ", w->reasons[i].count,
                w->reasons[i].why);
    fprintf(out,
            "%s, %" PRIu64 " collectives, %" PRIu64 " messages; %" PRIu64
            " barriers became dependencies\n",
            w->stand_ins + w->absorbed > 0 ? ")" : "", w->collectives, w->messages,
            w->dropped_barriers);
}

static void print_edges(const syn_pytorch_rank_report *r, FILE *out) {
    fprintf(out, "  dependencies:");
    for (int k = 0; k < SYN_PYTORCH_EDGE_CLASSES; k++)
        if (r->n_edges[k])
            fprintf(out, " %" PRIu64 " %s", r->n_edges[k],
                    syn_pytorch_edge_name((syn_pytorch_edge_class)k));
    fprintf(out, "\n");
}

static void print_rank(const syn_pytorch_rank_report *r, bool simulated, FILE *out) {
    char name[CLI_SHOWN_BYTES];
    fprintf(out, "rank %d: %s", (int)r->rank,
            cli_shown(r->host ? r->host : r->device, name, sizeof name));
    if (r->host && r->device) fprintf(out, " and %s", cli_shown(r->device, name, sizeof name));
    fprintf(out, "\n  in -> out:");
    const char *between = " ";
    for (int k = 0; k < SYN_PYTORCH_OP_KINDS; k++) {
        if (!r->in[k] && !r->out[k]) continue;
        fprintf(out, "%s%" PRIu64 " -> %" PRIu64 " %s", between, r->in[k], r->out[k],
                kind_names[k]);
        between = ", ";
    }
    if (r->n_further)
        fprintf(out, "; %" PRIu64 " more nodes for kernels of several calls", r->n_further);
    fprintf(out, "\n");
    print_matches(&r->matches, r->host != NULL, out);
    if (simulated) print_simulated(&r->simulated, out);
    else print_edges(r, out);
    print_comms(r, out);
    print_dropped(r, out);
    for (int h = 0; h < SYN_PYTORCH_HINTS; h++)
        if (r->hints >> h & 1u)
            fprintf(out, "  note: %s: %s\n", syn_pytorch_hint_name((syn_pytorch_hint)h),
                    syn_pytorch_hint_sentence((syn_pytorch_hint)h));
}

static void print_row(const syn_pytorch_replay_row *t, FILE *out) {
    char a[32], b[32], c[32];
    if (t->n_ops == 0) return;
    fprintf(out, "    %-24s %8" PRIu64 " ops  busy %10s  measured %10s  replayed %10s", t->name,
            t->n_ops, cli_time_text((double)t->busy_ns, a, sizeof a),
            cli_time_text((double)t->measured_ns, b, sizeof b),
            cli_time_text((double)t->replayed_ns, c, sizeof c));
    if (t->idle_ns > 0)
        fprintf(out, "  in no op %s", cli_time_text((double)t->idle_ns, a, sizeof a));
    fprintf(out, "\n");
}

static void print_replay(const syn_pytorch_rank_report *r, FILE *out) {
    const syn_pytorch_replay *p = &r->replay;
    char a[32], b[32];
    fprintf(out, "  replay, rank %d: measured %s, replayed %s", (int)r->rank,
            cli_time_text((double)p->measured_ns, a, sizeof a),
            cli_time_text((double)p->replayed_ns, b, sizeof b));
    if (p->measured_ns > 0)
        fprintf(out, " (%+.2f %%)",
                100.0 * ((double)p->replayed_ns / (double)p->measured_ns - 1.0));
    fprintf(out, "\n");
    for (size_t i = 0; i < p->n_rows; i++) print_row(&p->rows[i], out);
}

/* Returns the number of ranks that the report has data for: none with --compat. */
static size_t ranks_known(const pytorch_job *job, const syn_pytorch_report *report) {
    return job->options.compat ? 0 : report->n_ranks;
}

void pytorch_print(const pytorch_job *job, const pytorch_outcome *o, FILE *out) {
    const syn_pytorch_report *report = &o->report;
    const size_t n = ranks_known(job, report);
    char a[32], b[32], name[CLI_SHOWN_BYTES];
    for (size_t i = 0; i < n; i++)
        print_rank(&report->ranks[i], job->options.profile == SYN_PYTORCH_ASTRA_SIM, out);
    pytorch_print_notes(report, out);
    for (size_t i = 0; job->options.replay && i < n; i++) print_replay(&report->ranks[i], out);
    if (report->groups_replaced)
        fprintf(out, "  note: the .comm_group.json next to it had other groups, which were "
                     "replaced: ranks converted one by one\n  number their groups independently. "
                     "Convert the ranks of a job together, as a set\n");
    fprintf(out, "%s of JSON to %s%s, %s, in %.3f s\n",
            cli_bytes_text((double)report->in_bytes, a, sizeof a),
            cli_shown(job->output, name, sizeof name), job->options.is_set ? ".<rank>.et" : "",
            cli_bytes_text((double)report->out_bytes, b, sizeof b), o->seconds);
}

/* ---- JSON ---- */

static void json_u64(syn_sink *s, const char *key, uint64_t v, bool last) {
    syn_sink_printf(s, "\"%s\": %" PRIu64 "%s", key, v, last ? "" : ", ");
}

static void json_matches(syn_sink *s, const syn_pytorch_matches *m) {
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
    json_u64(s, "cpu_events_unused", m->cpu_events_unused, false);
    json_u64(s, "cpu_events_kept", m->cpu_events_kept, true);
    syn_sink_text(s, "}");
}

/* Always writes the counts of sends and receives; writes the counts of other kinds only if they
   occur. */
static void json_comms(syn_sink *s, const syn_pytorch_rank_report *r) {
    syn_sink_text(s, ", \"communication\": {");
    for (int k = SYN_COMM_NONE + 1; k < SYN_COMM_KIND_COUNT; k++)
        if (r->n_comms[k] > 0 || k == SYN_COMM_SEND || k == SYN_COMM_RECV)
            json_u64(s, syn_comm_kind_name((syn_comm_kind)k), r->n_comms[k], false);
    json_u64(s, "unknown", r->n_comms[SYN_COMM_NONE], false);
    json_u64(s, "unknown_size", r->n_comms_unsized, false);
    json_u64(s, "bytes", r->comm_bytes, true);
    syn_sink_text(s, "}");
}

static void json_edges(syn_sink *s, const syn_pytorch_rank_report *r) {
    syn_sink_text(s, ", \"dependencies\": {");
    for (int k = 0; k < SYN_PYTORCH_EDGE_CLASSES; k++)
        json_u64(s, syn_pytorch_edge_name((syn_pytorch_edge_class)k), r->n_edges[k],
                 k + 1 == SYN_PYTORCH_EDGE_CLASSES);
    syn_sink_text(s, "}");
}

static void json_rank(syn_sink *s, const syn_pytorch_rank_report *r) {
    bool first = true;
    syn_sink_printf(s, "{\"rank\": %d, \"host\": ", (int)r->rank);
    if (r->host) syn_sink_json_string(s, r->host);
    else syn_sink_text(s, "null");
    syn_sink_text(s, ", \"nodes\": {");
    for (int k = 0; k < SYN_PYTORCH_OP_KINDS; k++)
        syn_sink_printf(s, "%s\"%s\": {\"in\": %" PRIu64 ", \"out\": %" PRIu64 "}", k ? ", " : "",
                        kind_names[k], r->in[k], r->out[k]);
    syn_sink_text(s, "}, ");
    json_u64(s, "further_calls", r->n_further, false);
    json_matches(s, &r->matches);
    json_edges(s, r);
    json_comms(s, r);
    syn_sink_text(s, ", \"dropped\": [");
    for (size_t i = 0; i < r->n_dropped; i++)
        syn_sink_printf(s, "%s{\"from\": %u, \"to\": %u, \"class\": \"%s\"}", i ? ", " : "",
                        r->dropped[i].from, r->dropped[i].to,
                        syn_pytorch_edge_name(r->dropped[i].edge_class));
    syn_sink_text(s, "], \"notes\": [");
    for (int h = 0; h < SYN_PYTORCH_HINTS; h++) {
        if (!(r->hints >> h & 1u)) continue;
        syn_sink_printf(s, "%s\"%s\"", first ? "" : ", ",
                        syn_pytorch_hint_name((syn_pytorch_hint)h));
        first = false;
    }
    syn_sink_text(s, "]");
}

static void json_simulated(syn_sink *s, const syn_pytorch_simulated *w) {
    syn_sink_text(s, ", \"written\": {");
    json_u64(s, "nodes", w->nodes, false);
    json_u64(s, "compute", w->compute, false);
    json_u64(s, "delays", w->delays, false);
    json_u64(s, "stand_ins", w->stand_ins, false);
    json_u64(s, "absorbed", w->absorbed, false);
    syn_sink_text(s, "\"not_simulated\": {");
    for (size_t i = 0; i < SYN_PYTORCH_REASONS && w->reasons[i].why; i++) {
        if (i > 0) syn_sink_text(s, ", ");
        json_u64(s, w->reasons[i].why, w->reasons[i].count, true);
    }
    syn_sink_text(s, "}, ");
    json_u64(s, "collectives", w->collectives, false);
    json_u64(s, "messages", w->messages, false);
    json_u64(s, "dropped_barriers", w->dropped_barriers, false);
    syn_sink_printf(s, "\"delay_us\": %" PRId64 "}", w->delay_us);
}

static void json_notes(syn_sink *s, const syn_pytorch_report *report) {
    bool first = true;
    syn_sink_text(s, "\"anomalies\": [");
    for (int k = 0; k < SYN_PYTORCH_ANOMALIES; k++) {
        const syn_pytorch_note *n = &report->notes[k];
        if (n->count == 0) continue;
        syn_sink_printf(s, "%s{\"kind\": \"%s\", \"count\": %" PRIu64, first ? "" : ", ",
                        syn_pytorch_anomaly_name((syn_pytorch_anomaly)k), n->count);
        if (n->file) {
            syn_sink_text(s, ", \"file\": ");
            syn_sink_json_string(s, n->file);
        }
        if (n->at != SYN_PYTORCH_NO_PLACE) syn_sink_printf(s, ", \"byte\": %" PRIu64, n->at);
        if (n->node != SYN_PYTORCH_NO_PLACE) syn_sink_printf(s, ", \"node\": %" PRIu64, n->node);
        syn_sink_text(s, "}");
        first = false;
    }
    syn_sink_text(s, "]");
}

/* Lists the execution traces, or the linked trace, and their group file. */
static syn_status json_written(syn_sink *s, const pytorch_job *job,
                               const syn_pytorch_report *report, syn_error *err) {
    bool first = true;
    if (job->options.is_set) return cli_json_written_set(s, job->output, err);
    cli_json_begin_written(s);
    cli_json_add_written(s, job->output, &first);
    if (report->groups_written) cli_json_add_written_groups(s, job->output, &first);
    syn_sink_char(s, ']');
    return SYN_OK;
}

syn_status pytorch_print_json(const pytorch_job *job, const pytorch_outcome *o, syn_error *err) {
    const syn_pytorch_report *report = &o->report;
    syn_sink *s = NULL;
    SYN_TRY(cli_json_open(&s, job->program, err));
    syn_sink_text(s, ", \"ranks\": [");
    for (size_t i = 0; i < ranks_known(job, report); i++) {
        const syn_pytorch_rank_report *r = &report->ranks[i];
        if (i > 0) syn_sink_text(s, ", ");
        json_rank(s, r);
        if (job->options.profile == SYN_PYTORCH_ASTRA_SIM) json_simulated(s, &r->simulated);
        if (job->options.replay)
            syn_sink_printf(
                s, ", \"replay\": {\"measured_ns\": %" PRId64 ", \"replayed_ns\": %" PRId64 "}",
                r->replay.measured_ns, r->replay.replayed_ns);
        syn_sink_text(s, "}");
    }
    syn_sink_text(s, "], ");
    json_notes(s, report);
    syn_sink_text(s, ", ");
    json_u64(s, "in_bytes", report->in_bytes, false);
    json_u64(s, "out_bytes", report->out_bytes, false);
    syn_sink_printf(s, "\"seconds\": %.6f", o->seconds);
    return cli_json_close(s, json_written(s, job, report, err), err);
}
