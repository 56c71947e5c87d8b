/* Writes an HTML report that shows one trace in a browser, or compares two traces. The report
   contains the data as packed columns (html_columns.h) in base64, a viewer in JavaScript that reads
   the columns (view_*.js), and tables for readers without JavaScript. The report loads nothing from
   elsewhere: its content security policy forbids all requests. Names are written only as escaped
   XML text or within base64, so a browser never interprets them as markup or code. */
#include <stdio.h>
#include <string.h>

#include "export/html/html_page.h"
#include "export/html/html_trace.h"
#include "export/text/file_text_deflate.h"

static void put_base64(syn_sink *sink, const uint8_t *data, size_t bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t n = bytes - i < 3 ? bytes - i : 3;
        const uint32_t all = (uint32_t)data[i] << 16 | (uint32_t)(n > 1 ? data[i + 1] : 0) << 8 |
                             (n > 2 ? data[i + 2] : 0);
        const char four[4] = {digits[all >> 18], digits[all >> 12 & 63],
                              (char)(n > 1 ? digits[all >> 6 & 63] : '='),
                              (char)(n > 2 ? digits[all & 63] : '=')};
        syn_sink_write(sink, four, sizeof four);
    }
}

static syn_status put_data(const syn__html_trace *trace, const char *title, const char *source,
                           int number, syn_sink *sink, syn_error *err) {
    syn__buf plain = {0}, small = {0};
    bool packed = false;
    syn_status status = syn__html_trace_write(trace, title, source, &plain, err);
    if (status == SYN_OK) status = syn__deflate(&small, &packed, plain.data, plain.bytes, err);
    const syn__buf *all = packed ? &small : &plain;
    if (status == SYN_OK) {
        syn_sink_printf(sink, "<script type=\"text/plain\" id=\"trace%d\" data-packed=\"%s\">",
                        number, packed ? "deflate" : "no");
        put_base64(sink, (const uint8_t *)all->data, all->bytes);
        syn_sink_text(sink, "</script>\n");
    }
    syn__buf_free(&plain);
    syn__buf_free(&small);
    return status;
}

/* Writes a title such as "gpt3-175b, tp 8, 2 ranks". */
static void make_title(const syn_graph *graph, const syn_export_options *options, char *out,
                       size_t bytes) {
    static const char *const names[] = {"model", "tp", "cp", "dp", "dtype", "device"};
    char value[128];
    size_t n = 0;
    if (options != NULL && options->title != NULL) {
        snprintf(out, bytes, "%s", options->title);
        return;
    }
    out[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0] && n < bytes; i++) {
        const syn_attribute *a = syn_graph_meta(graph, names[i]);
        if (a == NULL) continue;
        const bool degree = names[i][1] == 'p';
        n += (size_t)snprintf(out + n, bytes - n, "%s%s%s%s", n > 0 ? ", " : "",
                              degree ? names[i] : "", degree ? " " : "",
                              syn_attribute_text(a, value, sizeof value));
    }
    if (n == 0)
        n = (size_t)snprintf(out, bytes, "%s",
                             syn__walk_is_foreign(graph) ? "PyTorch trace" : "trace");
    if (n < bytes)
        snprintf(out + n, bytes - n, ", %u rank%s", (unsigned)graph->n_ranks,
                 graph->n_ranks == 1 ? "" : "s");
}

static void put_head(syn_sink *sink, const char *title, const char *version) {
    syn_sink_text(sink,
                  "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width\">\n");
    if (version != NULL) {
        syn_sink_text(sink, "<meta name=\"generator\" content=\"");
        syn_sink_xml_text(sink, version);
        syn_sink_text(sink, "\">\n");
    }
    syn_sink_text(sink, "<title>");
    syn_sink_xml_text(sink, title);
    syn_sink_text(sink, "</title>\n<style>\n");
    syn_sink_text(sink, syn__html_style);
    syn_sink_text(sink, "</style>\n</head>\n<body>\n");
    syn_sink_text(sink, syn__html_body);
}

/* which: "A: " or "B: " if the report has two traces, "" if it has one. */
static syn_status put_trace(const syn_graph *graph, const syn_export_options *options,
                            const char *which, syn_sink *sink, syn_error *err) {
    syn__html_trace trace;
    char title[512];
    const int number = which[0] == 'B';
    const char *source = options != NULL ? options->source : NULL;
    make_title(graph, options, title, sizeof title);
    syn_status status = syn__html_trace_read(&trace, graph, options, err);
    if (status == SYN_OK) {
        if (number == 0) put_head(sink, title, options != NULL ? options->version : NULL);
        syn_sink_printf(sink, "<section class=\"table\">\n<h2>%s", which);
        syn_sink_xml_text(sink, title);
        if (which[0] != '\0' && source != NULL) {
            syn_sink_text(sink, " (");
            syn_sink_xml_text(sink, source);
            syn_sink_char(sink, ')');
        }
        syn_sink_text(sink, "</h2>\n");
        status = syn__html_put_tables(&trace, sink, err);
        syn_sink_text(sink, "</section>\n");
    }
    if (status == SYN_OK) status = put_data(&trace, title, source, number, sink, err);
    syn__html_trace_free(&trace);
    return status;
}

static syn_status write_html(const syn_graph *graph, const syn_export_options *options,
                             syn_sink *sink, syn_error *err) {
    const bool two = options != NULL && options->compare != NULL;
    SYN_TRY(put_trace(graph, options, two ? "A: " : "", sink, err));
    if (two) {
        const syn_export_options other = {.source = options->compare_source};
        SYN_TRY(put_trace(options->compare, &other, "B: ", sink, err));
    }
    syn_sink_text(sink, "<script>\n\"use strict\";\n");
    syn_sink_text(sink, syn__html_script);
    syn_sink_text(sink, "</script>\n</body>\n</html>\n");
    return SYN_OK;
}

const syn_exporter syn_export_html = {"html", "html", write_html};
