/* ASTRA-sim's text workload (of its version 1, and of MLCommons Chakra's `chakra_converter Text`):

     MICRO | DATA | MODEL | HYBRID_DATA_MODEL | HYBRID_MODEL_DATA | HYBRID_DLRM[_ENHANCED] <layer>
     <number of layers>
     <name> <dep> <fwd time> <fwd collective> <fwd bytes> <input-gradient time> <collective> <bytes>
            <weight-gradient time> <collective> <bytes> <update time>       one line a layer

   becomes a set of execution traces, <prefix>.<npu>.et. Times are taken as microseconds, as
   Chakra's converter does; dep and update time are not used. Collectives are NONE, ALLREDUCE,
   ALLTOALL, ALLGATHER and REDUCESCATTER over all NPUs. Of HYBRID_DLRM the layers behind <layer>,
   counted from 0, are the top MLP, and layer 0 holds the embeddings. */
#ifndef EXPORT_TEXT_WORKLOAD_H
#define EXPORT_TEXT_WORKLOAD_H

#include "export/chakra/wire/et_wire.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn_text_parallelism {
    SYN_TEXT_MICRO, /* only the weight gradients' collectives */
    SYN_TEXT_DATA,
    SYN_TEXT_MODEL,
    SYN_TEXT_DATA_MODEL,
    SYN_TEXT_MODEL_DATA,
    SYN_TEXT_DLRM
} syn_text_parallelism;

enum { SYN__TEXT_FWD, SYN__TEXT_IG, SYN__TEXT_WG, SYN__TEXT_PARTS };

typedef struct syn__text_part {
    int64_t time_us;
    syn__str comm;     /* as written */
    int32_t comm_type; /* Chakra's; SYN__TEXT_NONE, SYN__TEXT_UNKNOWN (compat) */
    int64_t bytes;
} syn__text_part;

#define SYN__TEXT_NONE    (-1)
#define SYN__TEXT_UNKNOWN (-2)

typedef struct syn__text_layer {
    syn__str name;
    size_t line;
    syn__text_part parts[SYN__TEXT_PARTS];
} syn__text_layer;

typedef struct syn_text_workload {
    const char *name; /* of the file; must outlive the workload */
    char *text;       /* with \n at line ends */
    size_t text_bytes;
    syn_text_parallelism parallelism;
    int64_t last_bottom;   /* DLRM */
    int64_t stated_layers; /* by line 2 */
    syn__text_layer *layers;
    size_t n_layers, layers_cap;
    bool compat;
    uint64_t n_unused;  /* collectives of the text that its parallelism has no place for */
    size_t unused_line; /* of the first of them */
    uint64_t n_nodes;   /* of a rank, once written */
    uint64_t n_collectives;
} syn_text_workload;

/* Reads a text. SYN_E_FORMAT names the line. compat: as little is asked of the text as Chakra's
   converter asks: collectives may have any name, layers more columns and any number. The caller
   frees, in any case. */
syn_status syn_text_workload_read(syn_text_workload *w, const char *name, const char *data,
                                  size_t bytes, bool compat, syn_error *err) SYN_MUST_USE;
void syn_text_workload_free(syn_text_workload *w);

typedef struct syn_text_options {
    uint32_t n_npus, n_passes; /* passes: training steps; both at least 1 */
    const char *version;       /* of the program, recorded in files; NULL allowed */
} syn_text_options;

/* Writes <prefix>.<npu>.et for all NPUs and, last, <prefix>.comm_group.json (no groups: collectives
   are of all NPUs). Ids count from 1 in each file, collectives without bytes or with one NPU are
   left out and what waits for them waits for what they wait for, and each collective waits for the
   one before it. With compat the files are those of Chakra's converter, byte for byte: ids run on
   from file to file, NONE is an all-reduce, and there is no group file. SYN_E_INVALID if there is
   nothing to write. */
syn_status syn_text_workload_write(syn_text_workload *w, const syn_text_options *options,
                                   const char *prefix, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
