/* Converts the inputs of a CPU event, which Kineto writes as args, to the form of a host trace. */
#include "export/pytorch/rank/pt_event_inputs.h"

#include <stdio.h>

#include "export/text/loose_json.h"

#define MAX_BYTES ((size_t)UINT32_MAX / 2) /* larger inputs are omitted */

/* The args of a CPU event that Kineto wrote. The strings are JSON text as in the file; bytes 0:
   absent. */
typedef struct op_args {
    syn__str parts[3]; /* Concrete Inputs, Input Dims, Input type */
    int64_t sequence;  /* -1: none */
} op_args;

static op_args read_args(const syn__pt_event *e) {
    static const char *const keys[] = {"Concrete Inputs", "Input Dims", "Input type"};
    const syn__str object = {e->text, e->text_bytes}, args = syn__loose_find(object, "args");
    op_args t = {.sequence = -1};
    syn__loose l;
    syn__str key, value;
    if (args.bytes == 0) return t;
    syn__loose_init(&l, args.text, args.bytes);
    if (syn__loose_value(&l, &value) != SYN__LOOSE_OBJECT) return t;
    while (syn__loose_member(&l, &key)) {
        if (syn__loose_skip(&l, &value) == SYN__LOOSE_NONE) break;
        for (int i = 0; i < 3; i++)
            if (syn__str_is(key, keys[i])) t.parts[i] = value;
        if (syn__str_is(key, "Sequence number")) (void)syn__loose_i64(value, &t.sequence);
    }
    return t;
}

/* Whether a string is a number or a list of numbers. Kineto writes all values as strings. */
static bool is_value(syn__str text) {
    double v;
    bool integer;
    if (syn__loose_double(text, &v, &integer)) return true;
    if (text.bytes < 2 || text.text[0] != '[' || text.text[text.bytes - 1] != ']') return false;
    for (size_t i = 1; i + 1 < text.bytes; i++)
        if (!strchr("0123456789+-.e, ", text.text[i])) return false;
    return true;
}

/* Copies a list of strings. Numbers lose their quotes. */
static char *put_values(char *at, syn__str list) {
    syn__loose l;
    syn__str text;
    bool first = true;
    if (!syn__loose_open_array(&l, list)) return at;
    *at++ = '[';
    while (syn__loose_element(&l)) {
        if (syn__loose_skip(&l, &text) != SYN__LOOSE_STRING) continue;
        const syn__str inside = {text.text + 1, text.bytes - 2};
        const syn__str put = is_value(inside) ? inside : text;
        if (!first) *at++ = ',';
        first = false;
        memcpy(at, put.text, put.bytes);
        at += put.bytes;
    }
    *at++ = ']';
    return at;
}

syn_status syn__pt_event_inputs(syn__arena *arena, const syn__pt_event *event, syn__str *inputs,
                                int64_t *sequence, syn_error *err) {
    static const char *const keys[] = {"values", "shapes", "types"};
    const op_args args = read_args(event), *t = &args;
    const size_t bytes = t->parts[0].bytes + t->parts[1].bytes + t->parts[2].bytes;
    *sequence = t->sequence;
    *inputs = (syn__str){"", 0};
    if (bytes == 0 || bytes > MAX_BYTES) return SYN_OK;
    char *text = syn__arena_get(arena, bytes + 64), *at = text;
    if (!text) return SYN_FAIL_NOMEM(err, bytes, "the inputs of an op");
    *at++ = '{';
    for (int i = 0; i < 3; i++) {
        if (t->parts[i].bytes == 0) continue;
        at += snprintf(at, 16, "%s\"%s\": ", at[-1] == '{' ? "" : ", ", keys[i]);
        if (i == 0) {
            at = put_values(at, t->parts[0]);
            continue;
        }
        memcpy(at, t->parts[i].text, t->parts[i].bytes);
        at += t->parts[i].bytes;
    }
    *at++ = '}';
    *at = 0;
    *inputs = (syn__str){text, (size_t)(at - text)};
    return SYN_OK;
}
