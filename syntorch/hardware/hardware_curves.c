/* Reads and writes the curves of measured kernels in hardware files. */
#include <stdio.h>
#include <string.h>

#include "syntorch/hardware/hardware_private.h"

static const char *const op_names[] = {
#define SYN_OP(id, name, ...) name,
#include "ops/ops.def"
};

/* The name of the op that the last key names; NULL if there is no such op. */
static const char *known_op(const syn__settings *s) {
    for (size_t i = 0; i < sizeof op_names / sizeof op_names[0]; i++)
        if (syn__settings_text_is(s, op_names[i])) return op_names[i];
    return NULL;
}

syn_status syn__hardware_enter_op(syn__settings *s, const syn__hardware_op_list *list,
                                  size_t *outer) {
    char shown[64], *entry = list->at;
    const char *op = known_op(s);
    if (op == NULL)
        return syn__settings_fail(s, "\"%s\" names the op \"%s\", which does not exist", s->path,
                                  syn__settings_shown(s, shown));
    *outer = syn__settings_enter(s, op);
    for (int32_t i = 0; i < list->n; i++, entry += list->entry_bytes)
        if (strcmp(entry, op) == 0) return syn__settings_fail(s, "\"%s\" appears twice", s->path);
    if (list->n == list->max || strlen(op) >= SYN__HW_OP_BYTES)
        return syn__settings_fail(s, "\"%s\" may list at most %d ops", s->path, list->max);
    snprintf(entry, SYN__HW_OP_BYTES, "%s", op);
    return SYN_OK;
}

/* ---- Reading ---- */

/* Reads a point, [size, rate]. Its size must be larger than the previous point's. */
static syn_status read_point(syn__settings *s, syn_hw_curve *curve) {
    const double before = curve->n > 0 ? curve->points[curve->n - 1].at : 0;
    struct syn_hw_point *point = &curve->points[curve->n];
    if (curve->n == SYN_HW_POINTS)
        return syn__settings_fail(s, "\"%s\" may have at most %d points", s->path, SYN_HW_POINTS);
    SYN_TRY(syn__settings_number(s, 1e-9, 1e18, &point->at));
    SYN_TRY(syn__settings_number(s, 1e-6, 1e9, &point->rate));
    if (point->at <= before)
        return syn__settings_fail(s, "the sizes of \"%s\" must ascend", s->path);
    curve->n++;
    return syn_json_next(&s->json) == SYN_JSON_ARRAY_END
               ? SYN_OK
               : syn__settings_fail(s, "a point of \"%s\" must be [size, rate]", s->path);
}

syn_status syn__hardware_read_curve(syn__settings *s, void *member) {
    syn_hw_curve *curve = member;
    syn_json_type type = syn_json_next(&s->json);
    const bool list = type == SYN_JSON_ARRAY_BEGIN;
    while (list && (type = syn_json_next(&s->json)) == SYN_JSON_ARRAY_BEGIN)
        SYN_TRY(read_point(s, curve));
    if (type == SYN_JSON_ERROR) return s->error.code;
    return list && type == SYN_JSON_ARRAY_END && curve->n > 0
               ? SYN_OK
               : syn__settings_fail(s, "\"%s\" must be [[size, rate], ...]", s->path);
}

static syn_status read_rate(syn__settings *s, syn_hw_rates *rates) {
    struct syn_hw_rate *entry = &rates->at[rates->n];
    const syn__hardware_op_list list = {rates->at, sizeof *rates->at, rates->n, SYN_HW_CURVES};
    size_t outer;
    SYN_TRY(syn__hardware_enter_op(s, &list, &outer));
    SYN_TRY(syn__hardware_read_curve(s, &entry->curve));
    rates->n++;
    syn__settings_leave(s, outer);
    return SYN_OK;
}

syn_status syn__hardware_read_rates(syn__settings *s, void *member) {
    syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type != SYN_JSON_OBJECT_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be an object of op names and curves", s->path);
    while ((type = syn_json_next(&s->json)) == SYN_JSON_KEY) SYN_TRY(read_rate(s, member));
    return type == SYN_JSON_OBJECT_END ? SYN_OK : s->error.code;
}

/* ---- Writing ---- */

void syn__hardware_write_curve(syn_sink *out, const void *member) {
    const syn_hw_curve *curve = member;
    for (int32_t i = 0; i < curve->n; i++) {
        syn_sink_text(out, i > 0 ? ", [" : "[[");
        syn_sink_double(out, curve->points[i].at);
        syn_sink_text(out, ", ");
        syn_sink_double(out, curve->points[i].rate);
        syn_sink_char(out, ']');
    }
    syn_sink_char(out, ']');
}

void syn__hardware_write_rates(syn_sink *out, const void *member) {
    const syn_hw_rates *rates = member;
    for (int32_t i = 0; i < rates->n; i++) {
        syn_sink_printf(out, "%s\n        \"%s\": ", i > 0 ? "," : "{", rates->at[i].op);
        syn__hardware_write_curve(out, &rates->at[i].curve);
    }
    syn_sink_char(out, '}');
}
