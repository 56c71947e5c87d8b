/* Hardware files: tables of their keys, and functions that read and write them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/hardware/hardware_private.h"

#define AT(member)    offsetof(syn_hardware, member)
#define STACK(member) offsetof(syn_stack, member)
#define ROWS(rows) \
    { (rows), sizeof(rows) / sizeof((rows)[0]), false, NULL }
#define REQUIRED SYN__SETTING_REQUIRED
#define F64(key_, flags_, at, lowest, highest, scale_)                              \
    {                                                                               \
        .key = (key_), .type = SYN__SETTING_F64, .flags = (flags_), .offset = (at), \
        .min = (lowest), .max = (highest), .scale = (scale_)                        \
    }
#define I32(key_, flags_, at, highest)                                                        \
    {                                                                                         \
        .key = (key_), .type = SYN__SETTING_I32, .flags = (flags_), .offset = (at), .min = 1, \
        .max = (highest)                                                                      \
    }
#define NAME(key_, at) \
    { .key = (key_), .type = SYN__SETTING_NAME, .flags = REQUIRED, .offset = (at) }
#define GROUP(key_, flags_, at, table)                                                \
    {                                                                                 \
        .key = (key_), .type = SYN__SETTING_GROUP, .flags = (flags_), .offset = (at), \
        .group = &(table)                                                             \
    }
#define CUSTOM(key_, at, read_, write_)                                              \
    {                                                                                \
        .key = (key_), .type = SYN__SETTING_CUSTOM, .offset = (at), .read = (read_), \
        .write = (write_)                                                            \
    }

#define READS_AND_WRITES(what)                                     \
    static syn_status read_##what(syn__settings *s, void *member); \
    static void write_##what(syn_sink *out, const void *member)
READS_AND_WRITES(kernels);
READS_AND_WRITES(overhead);
READS_AND_WRITES(traffic);

/* ---- Machine ---- */

#define PEAK(dtype) (AT(peak_flops_per_ns) + sizeof(double) * SYN_##dtype)

static const syn__setting peak_rows[] = {
    F64("f32", REQUIRED, PEAK(F32), 1e-6, 1e6, 1e3),
    F64("f16", 0, PEAK(F16), 1e-6, 1e6, 1e3),
    F64("bf16", 0, PEAK(BF16), 1e-6, 1e6, 1e3),
    F64("fp8", 0, AT(fp8_flops_per_ns), 1e-6, 1e6, 1e3),
};
static const syn__setting_table peaks = ROWS(peak_rows);

static const syn__setting_choice topologies[] = {{"switch", SYN_TOPOLOGY_SWITCH},
                                                 {"fully_connected", SYN_TOPOLOGY_FULLY_CONNECTED},
                                                 {"ring", SYN_TOPOLOGY_RING},
                                                 {NULL, 0}};

static const syn__setting link_rows[] = {
    F64("alpha_us", 0, offsetof(syn_link, alpha_ns), 0, 1e6, 1e3),
    F64("gb_per_s", REQUIRED, offsetof(syn_link, bytes_per_ns), 1e-6, 1e6, 1),
    {.key = "topology",
     .type = SYN__SETTING_CHOICE,
     .offset = offsetof(syn_link, topology),
     .choices = topologies},
};
static const syn__setting_table links = ROWS(link_rows);

static const syn__setting hardware_rows[] = {
    GROUP("peak_tflops", REQUIRED, 0, peaks),
    I32("multiprocessors", 0, AT(multiprocessors), 1048576),
    F64("memory_gib", REQUIRED, AT(memory_bytes), 1e-3, 1e9, 1073741824.0),
    F64("memory_gb_per_s", REQUIRED, AT(memory_bytes_per_ns), 1e-3, 1e7, 1),
    I32("node_ranks", REQUIRED, AT(node_ranks), 1048576),
    GROUP("intra", REQUIRED, AT(intra), links),
    GROUP("inter", 0, AT(inter), links),
};
static const syn__setting_table hardware_table = ROWS(hardware_rows);

/* ---- Collective library ---- */

#define PROTOCOL(member) offsetof(syn_protocol, member)

static const syn__setting one_pass_rows[] = {
    F64("base_us", 0, offsetof(struct syn_one_pass, base_ns), 0, 1e6, 1e3),
    F64("step_us", 0, offsetof(struct syn_one_pass, step_ns), 0, 1e6, 1e3),
    F64("link_efficiency", 0, offsetof(struct syn_one_pass, link_efficiency), 1e-3, 1, 1),
    F64("fill_us", 0, offsetof(struct syn_one_pass, fill_ns), 0, 1e6, 1e3),
};
static const syn__setting_table one_pass_table = ROWS(one_pass_rows);

static const syn__setting protocol_rows[] = {
    F64("base_us", REQUIRED, PROTOCOL(base_ns), 0, 1e6, 1e3),
    F64("step_us", 0, PROTOCOL(step_ns), 0, 1e6, 1e3),
    F64("hop_us", 0, PROTOCOL(hop_ns), 0, 1e6, 1e3),
    F64("post_us", 0, PROTOCOL(post_ns), 0, 1e6, 1e3),
    F64("ring_hop_us", 0, PROTOCOL(ring_hop_ns), 0, 1e6, 1e3),
    F64("link_efficiency", REQUIRED, PROTOCOL(link_efficiency), 1e-3, 1, 1),
    F64("gb_per_s", 0, PROTOCOL(bytes_per_ns), 1e-6, 1e6, 1),
    F64("copy_efficiency", 0, PROTOCOL(copy_efficiency), 1e-3, 1, 1),
    F64("fill_us", 0, PROTOCOL(fill_ns), 0, 1e6, 1e3),
    F64("network_efficiency", 0, PROTOCOL(network_efficiency), 1e-3, 1, 1),
    F64("network_fill_us", 0, PROTOCOL(network_fill_ns), 0, 1e6, 1e3),
    GROUP("one_pass", 0, PROTOCOL(one_pass), one_pass_table),
};
static const syn__setting_table protocol_table = ROWS(protocol_rows);

#define PROTOCOL_AT(id) \
    (offsetof(syn_collectives, protocols) + sizeof(syn_protocol) * SYN_PROTOCOL_##id)

/* The protocol for large buffers ("simple") is required, so that every collective can use some
   protocol. */
static const syn__setting collective_rows[] = {
    NAME("name", offsetof(syn_collectives, name)),
    GROUP("ll", 0, PROTOCOL_AT(LL), protocol_table),
    GROUP("ll128", 0, PROTOCOL_AT(LL128), protocol_table),
    GROUP("simple", REQUIRED, PROTOCOL_AT(SIMPLE), protocol_table),
    GROUP("switch", 0, PROTOCOL_AT(SWITCH), protocol_table),
    CUSTOM("fitted", offsetof(syn_collectives, fitted), syn__hardware_read_fitted,
           syn__hardware_write_fitted),
};
static const syn__setting_table collective_table = ROWS(collective_rows);

/* ---- Stack ---- */

static const syn__setting phase_rows[] = {
    F64("launch", 0, offsetof(struct syn_hw_phase, launch), 1e-3, 1e3, 1),
    F64("device", 0, offsetof(struct syn_hw_phase, device), 1e-3, 1e3, 1),
};
static const syn__setting_table phase_table = ROWS(phase_rows);

static const syn__setting phases_rows[] = {
#define SYN_X(id, name) GROUP(name, 0, sizeof(struct syn_hw_phase) * SYN_PHASE_##id, phase_table),
    SYN_PHASE_LIST(SYN_X)
#undef SYN_X
};
static const syn__setting_table phases_table = ROWS(phases_rows);

static const syn__setting stack_rows[] = {
    NAME("name", STACK(name)),
    F64("launch_us", REQUIRED, STACK(launch_ns), 0, 1e6, 1e3),
    F64("kernel_us", 0, STACK(kernel_ns), 0, 1e6, 1e3),
    F64("matmul_efficiency", REQUIRED, STACK(matmul_efficiency), 1e-3, 1, 1),
    F64("matmul_tail", 0, STACK(matmul_tail), 0, 100, 1),
    F64("matmul_half_gflop", 0, STACK(matmul_half_flops), 0, 1e6, 1e9),
    F64("attention_efficiency", 0, STACK(attention_efficiency), 1e-3, 1, 1),
    F64("score_passes", 0, STACK(score_passes), 0, 1e3, 1),
    I32("score_heads", 0, STACK(score_heads), 1024),
    I32("blocking", 0, STACK(blocking), 1),
    I32("joined_gathers", 0, STACK(joined_gathers), 1),
    F64("score_kernels", 0, STACK(score_kernels), 0, 1e3, 1),
    F64("exposed", 0, STACK(exposed), 0, 1, 1),
    F64("tile_us", 0, STACK(tile_ns), 0, 1e6, 1e3),
    F64("empty_tile_us", 0, STACK(empty_tile_ns), 0, 1e6, 1e3),
    F64("step_us", 0, STACK(step_ns), 0, 1e6, 1e3),
    F64("sequence_us", 0, STACK(sequence_ns), 0, 1e6, 1e3),
    F64("memory_efficiency", REQUIRED, STACK(memory_efficiency), 1e-3, 1, 1),
    F64("vector_efficiency", 0, STACK(vector_efficiency), 1e-3, 1, 1),
    F64("collective_us", 0, STACK(collective_ns), 0, 1e6, 1e3),
    F64("collective_rank_us", 0, STACK(collective_rank_ns), 0, 1e6, 1e3),
    F64("collective_kernel_us", 0, STACK(collective_kernel_ns), 0, 1e6, 1e3),
    F64("collective_hop_us", 0, STACK(collective_hop_ns), 0, 1e6, 1e3),
    F64("tp_overlap", 0, STACK(tp_overlap), 0, 1, 1),
    CUSTOM("kernels", STACK(kernels), read_kernels, write_kernels),
    CUSTOM("overhead_us", STACK(overhead), read_overhead, write_overhead),
    CUSTOM("traffic", STACK(traffic), read_traffic, write_traffic),
    GROUP("phases", 0, STACK(phases), phases_table),
    CUSTOM("fitted", STACK(fitted), syn__hardware_read_fitted, syn__hardware_write_fitted),
};
static const syn__setting_table stack_table = ROWS(stack_rows);

/* ---- Measured kernels ---- */

#define WIDTH(member)   offsetof(struct syn_hw_width, member)
#define KERNELS(member) offsetof(syn_hw_kernels, member)

static const syn__setting width_rows[] = {
    F64("read_gb_per_s", REQUIRED, WIDTH(read_bytes_per_ns), 1e-3, 1e7, 1),
    CUSTOM("gflop_per_s", WIDTH(flops_per_ns), syn__hardware_read_rates, syn__hardware_write_rates),
    CUSTOM("gb_per_s", WIDTH(bytes_per_ns), syn__hardware_read_rates, syn__hardware_write_rates),
};
static const syn__setting_table width_table = ROWS(width_rows);

static const syn__setting kernels_rows[] = {
    I32("ranks", REQUIRED, KERNELS(ranks), 1048576),
    F64("launch_us", REQUIRED, KERNELS(launch_ns), 0, 1e6, 1e3),
    CUSTOM("memory", KERNELS(memory), syn__hardware_read_curve, syn__hardware_write_curve),
    GROUP("f32", REQUIRED, KERNELS(widths), width_table),
    GROUP("half", 0, KERNELS(widths) + sizeof(struct syn_hw_width), width_table),
};
static const syn__setting_table kernels_table = ROWS(kernels_rows);

static const syn__setting measured_rows[] = {
    GROUP("alone", REQUIRED, AT(alone), kernels_table),
    GROUP("shared", 0, AT(shared), kernels_table),
};
static const syn__setting_table measured_table = ROWS(measured_rows);

static const syn__setting file_rows[] = {
    NAME("name", AT(name)),
    GROUP("hardware", REQUIRED, 0, hardware_table),
    GROUP("collectives", 0, AT(collectives), collective_table),
    GROUP("stack", REQUIRED, AT(stack), stack_table),
    GROUP("kernels", 0, 0, measured_table),
    GROUP("errors", 0, AT(errors), syn__hardware_errors_table),
};
static const syn__setting_table file_table = ROWS(file_rows);

/* ---- Numbers by op ---- */

static syn_status read_op(syn__settings *s, syn_hw_ops *ops, double max, double scale) {
    struct syn_hw_op *entry = &ops->at[ops->n];
    const syn__hardware_op_list list = {ops->at, sizeof *ops->at, ops->n, SYN_HW_OPS};
    size_t outer;
    SYN_TRY(syn__hardware_enter_op(s, &list, &outer));
    SYN_TRY(syn__settings_number(s, 0, max, &entry->value));
    entry->value *= scale;
    ops->n++;
    syn__settings_leave(s, outer);
    return SYN_OK;
}

static syn_status read_ops(syn__settings *s, syn_hw_ops *ops, double max, double scale) {
    syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type != SYN_JSON_OBJECT_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be an object of op names and numbers", s->path);
    while ((type = syn_json_next(&s->json)) == SYN_JSON_KEY) SYN_TRY(read_op(s, ops, max, scale));
    return type == SYN_JSON_OBJECT_END ? SYN_OK : s->error.code;
}

static syn_status read_kernels(syn__settings *s, void *member) {
    return read_ops(s, member, 1e3, 1);
}

static syn_status read_overhead(syn__settings *s, void *member) {
    return read_ops(s, member, 1e9, 1e3);
}

static syn_status read_traffic(syn__settings *s, void *member) {
    return read_ops(s, member, 1e3, 1);
}

/* Links need alpha_us, unless a collective library defines the latencies. A missing alpha_us is a
   negative number here. */
static void check_alphas(syn__settings *s, syn_hardware *hw) {
    syn_link *const all[] = {&hw->intra, &hw->inter};
    for (int i = 0; i < 2; i++) {
        const bool lacks = all[i]->bytes_per_ns > 0 && all[i]->alpha_ns < 0;
        if (lacks && hw->collectives.name[0] == '\0')
            syn__settings_fail_at(
                s, &file_table, "hardware",
                "\"hardware.%s\" lacks \"alpha_us\", which is required without \"collectives\"",
                i == 0 ? "intra" : "inter");
        if (all[i]->alpha_ns < 0) all[i]->alpha_ns = 0;
    }
}

syn_status syn_hardware_parse(syn_hardware *hw, const char *name, const char *json, size_t bytes,
                              syn_error *err) {
    syn__settings s;
    syn_hardware read;
    memset(&read, 0, sizeof read);
    read.intra.alpha_ns = read.inter.alpha_ns = -1;
    syn__settings_begin(&s, name, json, bytes);
    if (syn__settings_read(&s, &file_table, &read) == SYN_OK) check_alphas(&s, &read);
    SYN_TRY(syn__settings_end(&s, err));
    SYN_TRY(syn__hardware_check_errors(&read, err));
    *hw = read;
    return SYN_OK;
}

/* ---- Writing ---- */

static void write_ops(const syn_hw_ops *ops, double scale, syn_sink *out) {
    for (int32_t i = 0; i < ops->n; i++) {
        syn_sink_printf(out, "%s\"%s\": ", i > 0 ? ", " : "{", ops->at[i].op);
        syn_sink_double(out, ops->at[i].value / scale);
    }
    syn_sink_char(out, '}');
}

static void write_kernels(syn_sink *out, const void *member) {
    write_ops(member, 1, out);
}

static void write_overhead(syn_sink *out, const void *member) {
    write_ops(member, 1e3, out);
}

static void write_traffic(syn_sink *out, const void *member) {
    write_ops(member, 1, out);
}

static int32_t custom_entries(const syn__setting *row, const char *member) {
    const void *at = member;
    return row->read == syn__hardware_read_curve    ? ((const syn_hw_curve *)at)->n
           : row->read == syn__hardware_read_rates  ? ((const syn_hw_rates *)at)->n
           : row->read == syn__hardware_read_rows   ? syn__hardware_rows(at)
           : row->read == syn__hardware_read_fitted ? syn__hardware_fits(at)
                                                    : ((const syn_hw_ops *)at)->n;
}

/* Whether an optional row is not written because it has no value. */
static bool is_left_out(const syn__setting *row, const char *member) {
    double number;
    int32_t integer;
    switch (row->type) {
    case SYN__SETTING_F64:
        memcpy(&number, member, sizeof number);
        return (row->flags & REQUIRED) == 0 && number == 0;
    case SYN__SETTING_I32:
    case SYN__SETTING_CHOICE:
        memcpy(&integer, member, sizeof integer);
        return (row->flags & REQUIRED) == 0 && integer == 0;
    case SYN__SETTING_CUSTOM:
        return custom_entries(row, member) == 0;
    default:
        return false;
    }
}

static void write_table(const syn__setting_table *table, const char *source, int depth,
                        syn_sink *out);

static void write_value(const syn__setting *row, const char *member, int depth, syn_sink *out) {
    double number;
    int32_t integer;
    switch (row->type) {
    case SYN__SETTING_F64:
        memcpy(&number, member, sizeof number);
        syn_sink_double(out, number / row->scale);
        return;
    case SYN__SETTING_I32:
        memcpy(&integer, member, sizeof integer);
        syn_sink_i64(out, integer);
        return;
    case SYN__SETTING_NAME:
        syn_sink_json_string(out, member);
        return;
    case SYN__SETTING_CHOICE:
        memcpy(&integer, member, sizeof integer);
        syn_sink_json_string(out, row->choices[integer].text);
        return;
    case SYN__SETTING_CUSTOM:
        row->write(out, member);
        return;
    default:
        write_table(row->group, member, depth + 1, out);
    }
}

/* Whether an optional group is not written because all its values are missing, such as those of a
   protocol that the library does not have, of a missing library, or of a phase without factors. */
static bool is_empty(const syn__setting_table *table, const char *source) {
    for (size_t i = 0; i < table->n_rows; i++) {
        const syn__setting *row = &table->rows[i];
        const char *member = source + row->offset;
        double number = 0;
        if (row->type == SYN__SETTING_F64) memcpy(&number, member, sizeof number);
        if (number != 0 || (row->type == SYN__SETTING_NAME && member[0] != '\0')) return false;
        if (row->type == SYN__SETTING_GROUP && !is_empty(row->group, member)) return false;
        if (row->type == SYN__SETTING_CUSTOM && custom_entries(row, member) > 0) return false;
    }
    return true;
}

static void write_table(const syn__setting_table *table, const char *source, int depth,
                        syn_sink *out) {
    const char *before = "{";
    for (size_t i = 0; i < table->n_rows; i++) {
        const syn__setting *row = &table->rows[i];
        const char *member = source + row->offset;
        const bool group = row->type == SYN__SETTING_GROUP;
        if (is_left_out(row, member)) continue;
        if (group && (row->flags & REQUIRED) == 0 && is_empty(row->group, member)) continue;
        syn_sink_printf(out, "%s\n%*s\"%s\": ", before, 2 * depth, "", row->key);
        write_value(row, member, depth, out);
        before = ",";
    }
    syn_sink_printf(out, "\n%*s}", 2 * depth - 2, "");
}

static void write(const syn_hardware *hw, syn_sink *sink) {
    write_table(&file_table, (const char *)hw, 1, sink);
    syn_sink_char(sink, '\n');
}

/* Writes the FNV-1a hash of the hardware file without its errors. */
syn_status syn__hardware_constants(const syn_hardware *hw, char out[64], syn_error *err) {
    syn_hardware bare = *hw;
    syn_sink *sink;
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t bytes = 0;
    memset(&bare.errors, 0, sizeof bare.errors);
    SYN_TRY(syn_sink_open_memory(&sink, err));
    write(&bare, sink);
    const char *text = syn_sink_data(sink, &bytes);
    for (size_t i = 0; text != NULL && i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    snprintf(out, 64, "%016" PRIx64, hash);
    return syn_sink_close(sink, true, err);
}

/* Writes the hash of the constants after writing them to a file and reading it again, which may
   change the last bits of numbers. */
static syn_status read_constants(const syn_hardware *hw, char out[64], syn_error *err) {
    syn_hardware read = *hw;
    syn_sink *sink;
    size_t bytes = 0;
    memset(&read.errors, 0, sizeof read.errors);
    SYN_TRY(syn_sink_open_memory(&sink, err));
    write(&read, sink);
    const char *text = syn_sink_data(sink, &bytes);
    syn_status s =
        text != NULL ? syn_hardware_parse(&read, hw->name, text, bytes, err) : SYN_E_NOMEM;
    const syn_status closed = syn_sink_close(sink, true, err);
    if (closed != SYN_OK) s = closed;
    return s == SYN_OK ? syn__hardware_constants(&read, out, err) : s;
}

syn_status syn__hardware_same(const syn_hardware *hw, const syn_hardware *preset, bool *same,
                              syn_error *err) {
    char own[64], others[64];
    SYN_TRY(syn__hardware_constants(hw, own, err));
    SYN_TRY(syn__hardware_constants(preset, others, err));
    *same = strcmp(own, others) == 0;
    if (*same) return SYN_OK;
    SYN_TRY(read_constants(preset, others, err));
    *same = strcmp(own, others) == 0;
    return SYN_OK;
}

/* If memory is out during hashing, the errors are not written. */
void syn_hardware_write(const syn_hardware *hw, syn_sink *sink) {
    syn_hardware sealed = *hw;
    syn_error err = {0};
    if (hw->errors.n > 0 && read_constants(hw, sealed.errors.constants, &err) != SYN_OK)
        memset(&sealed.errors, 0, sizeof sealed.errors);
    write(&sealed, sink);
}
