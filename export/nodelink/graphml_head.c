/* Writes the start of a GraphML file: its keys and the metadata of the run. */
#include "export/nodelink/graphml.h"

#include <math.h>

typedef struct key {
    const char *id, *owner, *name, *type;
} key;

/* The code of the writer uses the ids; programs that read the file show the names. */
static const key keys[] = {
    {"label", "node", "label", "string"},
    {"x", "node", "x", "double"},
    {"y", "node", "y", "double"},
    {"size", "node", "size", "double"},
    {"r", "node", "r", "int"},
    {"g", "node", "g", "int"},
    {"b", "node", "b", "int"},
    {"type", "node", "type", "string"},
    {"rank", "node", "rank", "int"},
    {"name", "node", "name", "string"},
    {"op", "node", "op", "string"},
    {"scope", "node", "scope", "string"},
    {"layer", "node", "layer", "int"},
    {"phase", "node", "phase", "string"},
    {"step", "node", "step", "long"},
    {"kind", "node", "kind", "string"},
    {"category", "node", "category", "string"},
    {"stream", "node", "stream", "int"},
    {"role", "node", "role", "string"},
    {"dtype", "node", "dtype", "string"},
    {"shape", "node", "shape", "string"},
    {"bytes", "node", "bytes", "long"},
    {"flops", "node", "flops", "long"},
    {"bytes_read", "node", "bytes_read", "long"},
    {"bytes_written", "node", "bytes_written", "long"},
    {"virtual", "node", "virtual", "boolean"},
    {"fused", "node", "fused", "boolean"},
    {"view", "node", "view", "boolean"},
    {"term", "node", "term", "boolean"},
    {"part", "node", "part", "string"},
    {"comm", "node", "comm", "string"},
    {"reduce", "node", "reduce", "string"},
    {"group", "node", "group", "long"},
    {"group_name", "node", "group_name", "string"},
    {"comm_bytes", "node", "comm_bytes", "long"},
    {"comm_index", "node", "comm_index", "long"},
    {"peer", "node", "peer", "int"},
    {"tag", "node", "tag", "int"},
    {"root", "node", "root", "int"},
    {"n_ranks", "node", "n_ranks", "int"},
    {"start_ns", "node", "start_ns", "double"},
    {"wall_ns", "node", "wall_ns", "double"},
    {"cpu_ns", "node", "cpu_ns", "double"},
    {"wait_ns", "node", "wait_ns", "double"},
    {"transfer_ns", "node", "transfer_ns", "double"},
    {"predicted_ns", "node", "predicted_ns", "double"},
    {"attributes", "node", "attributes", "string"},
    {"ekind", "edge", "kind", "string"},
    {"elabel", "edge", "label", "string"},
    {"epos", "edge", "positions", "string"},
    {"ew", "edge", "weight", "double"},
    {"ens", "edge", "duration_ns", "double"},
    {"eder", "edge", "derived", "boolean"},
    {"er", "edge", "r", "int"},
    {"eg", "edge", "g", "int"},
    {"eb", "edge", "b", "int"},
};

static const char *value_type(syn_value_type type) {
    switch (type) {
    case SYN_VALUE_I64:
        return "long";
    case SYN_VALUE_F64:
        return "double";
    case SYN_VALUE_BOOL:
        return "boolean";
    case SYN_VALUE_TEXT:
        break;
    }
    return "string";
}

void syn__graphml_put_value(syn_sink *sink, const syn_attribute *a) {
    switch (a->type) {
    case SYN_VALUE_I64:
        syn_sink_i64(sink, a->i64);
        break;
    case SYN_VALUE_F64:
        if (isfinite(a->f64)) syn_sink_double(sink, a->f64);
        else syn_sink_text(sink, isnan(a->f64) ? "NaN" : a->f64 > 0 ? "INF" : "-INF");
        break;
    case SYN_VALUE_BOOL:
        syn_sink_text(sink, a->i64 != 0 ? "true" : "false");
        break;
    case SYN_VALUE_TEXT:
        syn_sink_xml_text(sink, a->text != NULL ? a->text : "");
        break;
    }
}

static void put_keys(syn_sink *sink, const syn_graph *graph) {
    syn_sink_text(sink, "<key id=\"ynode\" for=\"node\" yfiles.type=\"nodegraphics\"/>\n"
                        "<key id=\"yedge\" for=\"edge\" yfiles.type=\"edgegraphics\"/>\n");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *const parts[] = {"<key id=\"",      keys[i].id,        "\" for=\"",
                                     keys[i].owner,     "\" attr.name=\"", keys[i].name,
                                     "\" attr.type=\"", keys[i].type,      "\"/>\n"};
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) syn_sink_text(sink, parts[k]);
    }
    for (uint32_t i = 0; i < graph->n_metadata; i++) {
        syn_sink_text(sink, "<key id=\"meta");
        syn_sink_u64(sink, i);
        syn_sink_text(sink, "\" for=\"graph\" attr.name=\"");
        syn_sink_xml_text(sink, graph->metadata[i].name);
        syn_sink_text(sink, "\" attr.type=\"");
        syn_sink_text(sink, value_type(graph->metadata[i].type));
        syn_sink_text(sink, "\"/>\n");
    }
}

void syn__graphml_put_header(syn_sink *sink, const syn_graph *graph) {
    syn_sink_text(sink, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                        "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\""
                        " xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\""
                        " xmlns:y=\"http://www.yworks.com/xml/graphml\""
                        " xsi:schemaLocation=\"http://graphml.graphdrawing.org/xmlns"
                        " http://www.yworks.com/xml/schema/graphml/1.1/ygraphml.xsd\">\n");
    put_keys(sink, graph);
    syn_sink_text(sink, "<graph id=\"G\" edgedefault=\"directed\">\n");
    for (uint32_t i = 0; i < graph->n_metadata; i++) {
        const syn_attribute *a = &graph->metadata[i];
        if (a->type == SYN_VALUE_TEXT && (a->text == NULL || a->text[0] == '\0')) continue;
        syn_sink_text(sink, "<data key=\"meta");
        syn_sink_u64(sink, i);
        syn_sink_text(sink, "\">");
        syn__graphml_put_value(sink, a);
        syn_sink_text(sink, "</data>\n");
    }
}
