/* Internal. The constants of the built-in machines and stacks. docs/hardware.md gives the source of
   every number. */
#ifndef SYNTORCH_HARDWARE_PRESETS_H
#define SYNTORCH_HARDWARE_PRESETS_H

#include "syntorch/hardware/hardware.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__HARDWARE_PRESETS 13
#define SYN__STACK_PRESETS    7
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

/* Convert units of data sheets to those of the structs. */
#define TFLOPS(x)   ((x)*1e3)
#define GIB(x)      ((x)*1073741824.0)
#define GB_PER_S(x) (x)
#define US(x)       ((x)*1e3)

/* The ranges to which constants were fitted, as `syntorch calibrate --output` computes them from
   tests/measured. */
#define COLLECTIVES(kind, least_ranks, most_ranks, most_nodes, least_bytes, most_bytes) \
    {                                                                                   \
        kind, {                                                                         \
            [SYN_HW_EXTENT_RANKS] = {least_ranks, most_ranks},                          \
            [SYN_HW_EXTENT_NODES] = {1, most_nodes}, [SYN_HW_EXTENT_BYTES] = {          \
                least_bytes,                                                            \
                most_bytes                                                              \
            }                                                                           \
        }                                                                               \
    }
#define PRODUCTS(least_rows, most_rows, least_columns, most_columns, least_inner, most_inner)  \
    {                                                                                          \
        "products", {                                                                          \
            [SYN_HW_EXTENT_ROWS] = {least_rows, most_rows},                                    \
            [SYN_HW_EXTENT_COLUMNS] = {least_columns, most_columns}, [SYN_HW_EXTENT_INNER] = { \
                least_inner,                                                                   \
                most_inner                                                                     \
            }                                                                                  \
        }                                                                                      \
    }
#define ATTENTION(most_queries, least_keys, most_keys)                            \
    {                                                                             \
        "attention", {                                                            \
            [SYN_HW_EXTENT_QUERIES] = {1, most_queries}, [SYN_HW_EXTENT_KEYS] = { \
                least_keys,                                                       \
                most_keys                                                         \
            }                                                                     \
        }                                                                         \
    }
#define MIB(x) ((x)*1048576.0)

#ifdef __cplusplus
}
#endif
#endif
