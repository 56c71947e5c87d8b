/* Loads machines and stacks by name (syn_hardware_load). */
#include "syntorch/hardware/hardware.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/nearest.h"
#include "syntorch/base/settings.h"
#include "syntorch/base/sink.h"
#include "syntorch/hardware/hardware_presets.h"
#include "syntorch/hardware/hardware_private.h"

const char *const *syn_hardware_presets(void) {
    return syn__hardware_preset_names;
}

const char *const *syn_stack_presets(void) {
    return syn__stack_preset_names;
}

const char *syn_hardware_title(const syn_hardware *hw, char *out, size_t bytes) {
    snprintf(out, bytes, "%s+%s", hw->name, hw->stack.name);
    return out;
}

syn_status syn_hardware_check_nodes(const syn_hardware *hw, int32_t ranks, syn_error *err) {
    if (ranks <= hw->node_ranks || hw->inter.bytes_per_ns > 0) return SYN_OK;
    return SYN_FAIL(
        err, SYN_E_INVALID,
        "%d ranks need %d nodes of %d, but the hardware file of %s describes no network "
        "between nodes: add \"inter\"",
        (int)ranks, (int)((ranks + hw->node_ranks - 1) / hw->node_ranks), (int)hw->node_ranks,
        hw->name);
}

syn_status syn_hardware_use_fp8(syn_hardware *hw, syn_error *err) {
    hw->fp8 = hw->fp8_flops_per_ns > 0;
    if (hw->fp8) return SYN_OK;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED, "the machine %s has no peak rate for FP8", hw->name);
}

/* Joins names to "a, b, c". */
static const char *listed(const char *const *names, char *out, size_t bytes) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; names[i] != NULL && used < bytes; i++) {
        const int n = snprintf(out + used, bytes - used, "%s%s", i > 0 ? ", " : "", names[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return out;
}

static const syn_stack *find_stack(const char *name) {
    for (size_t i = 0; i < SYN__STACK_PRESETS; i++)
        if (strcmp(syn__stack_presets[i].name, name) == 0) return &syn__stack_presets[i];
    return NULL;
}

static const syn_hardware *find_machine(const char *name) {
    for (size_t i = 0; i < SYN__HARDWARE_PRESETS; i++)
        if (strcmp(syn__hardware_presets[i].name, name) == 0) return &syn__hardware_presets[i];
    return NULL;
}

/* Returns "; did you mean h100? The" for h10, and "; the" if no preset has a similar name. */
static const char *hint_for(const char *typed, char *out, size_t bytes) {
    syn__nearest near = {NULL, 0};
    char machine[64];
    snprintf(machine, sizeof machine, "%.*s", (int)strcspn(typed, "+"), typed);
    for (size_t i = 0; i < SYN__HARDWARE_PRESETS; i++)
        syn__nearest_try(&near, machine, syn__hardware_presets[i].name);
    if (near.name == NULL) return "; the";
    snprintf(out, bytes, "; did you mean %s? The", near.name);
    return out;
}

static syn_status load_file(syn_hardware *hw, const char *path, syn_error *err) {
    char *json, machines[128], stacks[128], hint[64];
    size_t bytes;
    syn_error inner = {0};
    const syn_status read = syn_read_file(path, SYN__SETTING_FILE_BYTES, &json, &bytes, &inner);
    if (read == SYN_E_IO)
        return SYN_FAIL(err, read, "%s%s hardware presets are %s, alone or with +STACK: %s",
                        inner.text, hint_for(path, hint, sizeof hint),
                        listed(syn__hardware_preset_names, machines, sizeof machines),
                        listed(syn__stack_preset_names, stacks, sizeof stacks));
    if (read != SYN_OK) return SYN_FAIL(err, read, "%s", inner.text);
    const syn_status status = syn_hardware_parse(hw, path, json, bytes, err);
    syn_free(json);
    return status;
}

/* The constants of a stack on a machine. */
static const syn_stack *variant_for(const char *machine, const syn_stack *stack) {
    for (const syn__stack_variant *v = syn__stack_variants; v->machine != NULL; v++)
        if (strcmp(v->machine, machine) == 0 && strcmp(v->stack.name, stack->name) == 0)
            return &v->stack;
    return stack;
}

/* Combines a machine with a named stack. Fails for machines without multiprocessors, because these
   stacks describe GPUs. */
static syn_status put_stack(syn_hardware *hw, const syn_stack *stack, syn_error *err) {
    if (hw->multiprocessors <= 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the stack %s needs a GPU, but %s has no \"multiprocessors\"", stack->name,
                        hw->name);
    hw->stack = *variant_for(hw->name, stack);
    memset(&hw->errors, 0, sizeof hw->errors); /* the file's prediction errors are for its own
                                                  stack */
    return SYN_OK;
}

/* Splits MACHINE+STACK at the last "+" and returns the stack; NULL if no known stack follows the
   "+". */
static const syn_stack *split_name(const char *name, char machine[1024]) {
    const char *plus = strrchr(name, '+');
    const syn_stack *stack = plus != NULL ? find_stack(plus + 1) : NULL;
    const size_t bytes = stack != NULL ? (size_t)(plus - name) : 0;
    if (bytes >= 1024) return NULL;
    memcpy(machine, name, bytes);
    machine[bytes] = '\0';
    return stack;
}

syn_status syn_hardware_load(syn_hardware *hw, const char *name, const char *stack,
                             syn_error *err) {
    char machine[1024];
    const syn_stack *named = split_name(name, machine);
    const char *path = named != NULL ? machine : name;
    const syn_hardware *preset = find_machine(path);
    syn_hardware found;
    if (preset != NULL) {
        found = *preset;
        if (found.stack.name[0] == '\0' && named == NULL) {
            const syn_stack *usual = find_stack(stack != NULL ? stack : "pytorch-eager");
            if (usual == NULL) return SYN_FAIL(err, SYN_E_INVALID, "unknown stack \"%s\"", stack);
            found.stack = *variant_for(found.name, usual);
        }
    } else {
        SYN_TRY(load_file(&found, path, err));
    }
    if (named != NULL) SYN_TRY(put_stack(&found, named, err));
    if (preset != NULL) syn__hardware_known_errors(&found);
    *hw = found;
    return SYN_OK;
}
