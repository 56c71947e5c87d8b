/* Internal. The constants of the built-in machines and stacks. docs/hardware.md gives the source of
   every number. */
#ifndef SYNTORCH_HARDWARE_PRESETS_H
#define SYNTORCH_HARDWARE_PRESETS_H

#include "syntorch/hardware/hardware.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__HARDWARE_PRESETS 11
#define SYN__STACK_PRESETS    6
extern const char *const syn__hardware_preset_names[SYN__HARDWARE_PRESETS + 1]; /* NULL ends it */
extern const char *const syn__stack_preset_names[SYN__STACK_PRESETS + 1];
/* A machine without its own stack is combined with one of syn__stack_presets. */
extern const syn_hardware syn__hardware_presets[SYN__HARDWARE_PRESETS];
extern const syn_stack syn__stack_presets[SYN__STACK_PRESETS];
/* The stacks whose constants differ on some machines, and the machine; an empty name ends it. */
typedef struct syn__stack_variant {
    const char *machine;
    syn_stack stack;
} syn__stack_variant;
extern const syn__stack_variant syn__stack_variants[];

#ifdef __cplusplus
}
#endif
#endif
