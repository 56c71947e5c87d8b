/* Converts one rank in compat mode, that is, exactly as the reference tools do. */
#include "export/pytorch/compat/pt_compat.h"
#include "export/pytorch/pt_convert.h"

/* A host trace and its device trace. A linked trace needs no device trace. */
typedef struct pair {
    syn__file_text host_input, device_input;
    syn__pt_host host;
    syn__pt_device device;
    syn__pt_merged_list merged;
} pair;

static void close_pair(pair *p) {
    syn__pt_merged_free(&p->merged);
    syn__pt_host_free(&p->host);
    syn__pt_device_free(&p->device);
    syn__file_text_close(&p->host_input);
    syn__file_text_close(&p->device_input);
}

static syn_status fail_damaged(const char *file, uint64_t at, const char *what, syn_error *err) {
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "%.200s, byte %llu: the reference tools stop here (JSONDecodeError: %s); "
                    "without --compat it is converted",
                    file, (unsigned long long)at, what);
}

static syn_status check_values(const syn__file_text *input, const syn__loose_count *no_value,
                               syn_error *err) {
    if (no_value->count == 0) return SYN_OK;
    return fail_damaged(input->name, no_value->first, "words that are no values", err);
}

/* Fails if a file is damaged in a way on which the reference tools fail. Python's json module
   accepts NaN and Infinity, but no other damage. */
static syn_status check_undamaged(const syn_pytorch_note *notes, syn_error *err) {
    static const syn_pytorch_anomaly kinds[] = {
        SYN_PYTORCH_ANOMALY_TRUNCATED,     SYN_PYTORCH_ANOMALY_EXTRA_COMMA,
        SYN_PYTORCH_ANOMALY_MISSING_COMMA, SYN_PYTORCH_ANOMALY_CONTROL,
        SYN_PYTORCH_ANOMALY_QUOTE,         SYN_PYTORCH_ANOMALY_ENCODING,
        SYN_PYTORCH_ANOMALY_BROKEN,        SYN_PYTORCH_ANOMALY_OBJECTS};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const syn_pytorch_note *n = &notes[kinds[i]];
        if (n->count > 0)
            return fail_damaged(n->file, n->at, syn_pytorch_anomaly_met(kinds[i]), err);
    }
    return SYN_OK;
}

static syn_status open_pair(const syn__pt_conversion *c, pair *p, syn_error *err) {
    syn_pytorch_report *report = c->report;
    const syn_pytorch_rank_report *names = report->ranks;
    const uint64_t most = c->options->max_unpacked_bytes;
    SYN_TRY(syn__file_text_open(&p->host_input, names->host, most, err));
    SYN_TRY(
        syn__pt_host_read(&p->host, &p->host_input, (syn_pytorch_object){0}, report->notes, err));
    report->in_bytes = p->host_input.bytes;
    SYN_TRY(check_values(&p->host_input, &p->host.no_value, err));
    if (!names->device) return check_undamaged(report->notes, err);
    SYN_TRY(syn__file_text_open(&p->device_input, names->device, most, err));
    SYN_TRY(syn__pt_device_read(&p->device, &p->device_input, report->notes, err));
    report->in_bytes += p->device_input.bytes;
    SYN_TRY(check_values(&p->device_input, &p->device.no_value, err));
    SYN_TRY(check_undamaged(report->notes, err));
    return syn__pt_compat_link(&p->host, &p->device, &p->merged, err);
}

static syn_status write_pair(const syn__pt_conversion *c, const pair *p, bool link, syn_sink *sink,
                             syn_error *err) {
    if (link) return syn__pt_write_linked(&p->host, &p->device, &p->merged, sink, err);
    return syn__pt_compat_convert(&p->host, &p->device,
                                  c->report->ranks->device ? &p->merged : NULL, sink, err);
}

syn_status syn__pt_convert_compat(syn__pt_conversion *c, bool link, syn_error *err) {
    pair p = {0};
    syn_sink *sink = NULL;
    syn_status s = open_pair(c, &p, err);
    if (s == SYN_OK) s = syn__input_files_keep(&c->inputs, c->output, err);
    if (s == SYN_OK) s = syn_sink_open_file(&sink, c->output, err);
    if (s == SYN_OK) s = write_pair(c, &p, link, sink, err);
    c->report->out_bytes = sink ? syn_sink_bytes(sink) : 0;
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    c->report->ranks->n_nodes = p.merged.n_nodes ? p.merged.n_nodes : p.host.n_nodes;
    close_pair(&p);
    return s != SYN_OK ? s : closed;
}
