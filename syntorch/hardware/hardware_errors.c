/* Prediction errors of presets, and the group "errors" of hardware files. */
#include <math.h>
#include <string.h>

#include "syntorch/hardware/hardware_private.h"

/* ---- Presets ---- */

static const struct known_row {
    const char *stack;
    syn_hw_row row;
} known_rows[] = {
#define X(stack, training, layers, hidden, tp, dp, pp, batch, tokens, new_tokens, error) \
    {stack, {training, layers, hidden, tp, dp, pp, batch, tokens, new_tokens, error}},
#define Y(stack, training, model, tp, batch, length)
#include "syntorch/hardware/hardware_errors.def"
#include "syntorch/hardware/hardware_errors_fsdp.def"
#include "syntorch/hardware/hardware_errors_megatron_core.def"
#undef X
#undef Y
};

static const struct known_holdout {
    const char *stack;
    int training;
    struct syn_hw_holdout_error holdout;
} known_holdouts[] = {
#define X(stack, training, layers, hidden, tp, dp, pp, batch, tokens, new_tokens, error)
#define Y(stack, training, model, tp, batch, length) \
    {stack, training, {{model, tp, batch, length}}},
#include "syntorch/hardware/hardware_errors.def"
#undef X
#undef Y
};

/* The machine of the measured runs whose stack is named without a machine. */
#define MEASURED_ON "a100-80g"

void syn__hardware_known_errors(syn_hardware *hw) {
    syn_hw_errors *e = &hw->errors;
    const bool usual = strcmp(hw->name, MEASURED_ON) == 0;
    char title[160];
    syn_hardware_title(hw, title, sizeof title);
    for (size_t i = 0; i < sizeof known_rows / sizeof known_rows[0]; i++) {
        const char *of = known_rows[i].stack;
        const bool here = strcmp(of, title) == 0 || (usual && strcmp(of, hw->stack.name) == 0);
        if (here && e->n < SYN_HW_ROWS) e->rows[e->n++] = known_rows[i].row;
    }
    if (!usual) return;
    for (size_t i = 0; i < sizeof known_holdouts / sizeof known_holdouts[0]; i++)
        if (strcmp(known_holdouts[i].stack, hw->stack.name) == 0)
            e->holdout[known_holdouts[i].training] = known_holdouts[i].holdout;
}

/* ---- Files ---- */

enum { ROW_NUMBERS = 10 };

/* Reads a row, [training, layers, hidden, tp, dp, pp, batch, tokens, new tokens, error]. */
static syn_status read_row(syn__settings *s, syn_hw_errors *e) {
    double number[ROW_NUMBERS];
    if (e->n == SYN_HW_ROWS)
        return syn__settings_fail(s, "\"%s\" may have at most %d rows", s->path, SYN_HW_ROWS);
    for (int i = 0; i < ROW_NUMBERS; i++) {
        const bool last = i == ROW_NUMBERS - 1;
        SYN_TRY(syn__settings_number(s, last ? -1 : 0, last || i > 0 ? 1e6 : 1, &number[i]));
        if (!last && number[i] != floor(number[i]))
            return syn__settings_fail(s, "a row of \"%s\" must be integers and an error", s->path);
    }
    e->rows[e->n++] =
        (syn_hw_row){number[0] != 0,     (int32_t)number[1], (int32_t)number[2], (int32_t)number[3],
                     (int32_t)number[4], (int32_t)number[5], (int32_t)number[6], (int32_t)number[7],
                     (int32_t)number[8], number[9]};
    return syn_json_next(&s->json) == SYN_JSON_ARRAY_END
               ? SYN_OK
               : syn__settings_fail(s, "a row of \"%s\" must have %d numbers", s->path,
                                    ROW_NUMBERS);
}

syn_status syn__hardware_read_rows(syn__settings *s, void *member) {
    syn_json_type type = syn_json_next(&s->json);
    const bool list = type == SYN_JSON_ARRAY_BEGIN;
    while (list && (type = syn_json_next(&s->json)) == SYN_JSON_ARRAY_BEGIN)
        SYN_TRY(read_row(s, member));
    if (type == SYN_JSON_ERROR) return s->error.code;
    return list && type == SYN_JSON_ARRAY_END
               ? SYN_OK
               : syn__settings_fail(s, "\"%s\" must be a list of rows", s->path);
}

int32_t syn__hardware_rows(const void *member) {
    return ((const syn_hw_errors *)member)->n;
}

static void write_rows(syn_sink *out, const void *member) {
    const syn_hw_errors *e = member;
    for (int32_t i = 0; i < e->n; i++) {
        const syn_hw_row *r = &e->rows[i];
        syn_sink_printf(out, "%s\n      [%d, %d, %d, %d, %d, %d, %d, %d, %d, ", i > 0 ? "," : "[",
                        (int)r->training, (int)r->layers, (int)r->hidden, (int)r->tp, (int)r->dp,
                        (int)r->pp, (int)r->batch, (int)r->tokens, (int)r->new_tokens);
        syn_sink_double(out, r->error);
        syn_sink_char(out, ']');
    }
    syn_sink_char(out, ']');
}

#define APART(key_, split)                                                                     \
    {                                                                                          \
        .key = (key_), .type = SYN__SETTING_F64, .offset = sizeof(double) * (split), .min = 0, \
        .max = 1e6, .scale = 1                                                                 \
    }

static const syn__setting holdout_rows[] = {APART("model", SYN_HW_MODEL), APART("tp", SYN_HW_TP),
                                            APART("batch", SYN_HW_BATCH),
                                            APART("length", SYN_HW_LENGTH)};
static const syn__setting_table holdout_table = {holdout_rows, SYN_HW_SPLITS, false, NULL};

#define ERRORS(member) offsetof(syn_hw_errors, member)

static const syn__setting error_rows[] = {
    {.key = "constants",
     .type = SYN__SETTING_NAME,
     .flags = SYN__SETTING_REQUIRED,
     .offset = ERRORS(constants)},
    {.key = "rows",
     .type = SYN__SETTING_CUSTOM,
     .read = syn__hardware_read_rows,
     .write = write_rows},
    {.key = "inference",
     .type = SYN__SETTING_GROUP,
     .offset = ERRORS(holdout),
     .group = &holdout_table},
    {.key = "training",
     .type = SYN__SETTING_GROUP,
     .offset = ERRORS(holdout) + sizeof(struct syn_hw_holdout_error),
     .group = &holdout_table},
};
const syn__setting_table syn__hardware_errors_table = {
    error_rows, sizeof error_rows / sizeof error_rows[0], false, NULL};

syn_status syn__hardware_check_errors(syn_hardware *hw, syn_error *err) {
    char constants[64];
    if (hw->errors.n == 0) return SYN_OK;
    SYN_TRY(syn__hardware_constants(hw, constants, err));
    const bool changed = strcmp(constants, hw->errors.constants) != 0;
    if (changed) memset(&hw->errors, 0, sizeof hw->errors);
    hw->errors.changed = changed;
    return SYN_OK;
}
