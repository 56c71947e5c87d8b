/* The built-in machines, as data. Internal. Sources of every number: docs/hardware.md. */
#ifndef SYNTORCH_HARDWARE_PRESETS_H
#define SYNTORCH_HARDWARE_PRESETS_H

#include "syntorch/hardware.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__HARDWARE_PRESETS 5
extern const char *const syn__hardware_preset_names[SYN__HARDWARE_PRESETS + 1]; /* NULL-ended */
extern const syn_hardware syn__hardware_presets[SYN__HARDWARE_PRESETS];

#ifdef __cplusplus
}
#endif
#endif
