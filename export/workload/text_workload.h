/* ASTRA-sim's text workload (of its version 1, and of MLCommons Chakra's `chakra_converter Text`):

     MICRO | DATA | MODEL | HYBRID_DATA_MODEL | HYBRID_MODEL_DATA | HYBRID_DLRM[_ENHANCED] <layer>
     <number of layers>
     <name> <dep> <fwd time> <fwd collective> <fwd bytes> <input-gradient time> <collective> <bytes>
         <weight-gradient time> <collective> <bytes> <update time>       one line per layer

   A text workload is converted to a set of execution traces, <prefix>.<npu>.et. Times are
   microseconds, as in Chakra's converter; dep and update time are ignored. Collectives are NONE,
   ALLREDUCE, ALLTOALL, ALLGATHER and REDUCESCATTER over all NPUs. In HYBRID_DLRM, the layers after
   <layer>, counted from 0, are the top MLP, and layer 0 is the embeddings. */
#ifndef EXPORT_TEXT_WORKLOAD_H
#define EXPORT_TEXT_WORKLOAD_H

#include "export/chakra/wire/et_wire.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn_text_parallelism {
    SYN_TEXT_MICRO, /* only the collectives of weight gradients */
    SYN_TEXT_DATA,
    SYN_TEXT_MODEL,
    SYN_TEXT_DATA_MODEL,
    SYN_TEXT_MODEL_DATA,
    SYN_TEXT_DLRM
} syn_text_parallelism;

enum { SYN__TEXT_FWD, SYN__TEXT_IG, SYN__TEXT_WG, SYN__TEXT_PARTS };

typedef struct syn__text_part {
    int64_t time_us;
    syn__str comm;     /* name of the collective, as in the file */
    int32_t comm_type; /* Chakra's number of the collective, SYN__TEXT_NONE, or SYN__TEXT_UNKNOWN
                          (only with compat) */
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
    const char *name; /* file name; must outlive the workload */
    char *text;       /* the file's text, with \n as line ends */
    size_t text_bytes;
    syn_text_parallelism parallelism;
    int64_t last_bottom;   /* DLRM: <layer> */
    int64_t stated_layers; /* number of layers in line 2 */
    syn__text_layer *layers;
    size_t n_layers, layers_cap;
    bool compat;
    uint64_t n_unused;  /* number of collectives in the file that its parallelism does not use */
    size_t unused_line; /* line of the first of them */
    uint64_t n_nodes;   /* nodes per rank; set by syn_text_workload_write */
    uint64_t n_collectives;
} syn_text_workload;

/* Parses a text workload. SYN_E_FORMAT names the line. compat: accepts what Chakra's converter
   accepts: any collective names, additional columns, and any number of layers. The caller frees *w
   in all cases. */
syn_status syn_text_workload_read(syn_text_workload *w, const char *name, const char *data,
                                  size_t bytes, bool compat, syn_error *err) SYN_MUST_USE;
void syn_text_workload_free(syn_text_workload *w);

typedef struct syn_text_options {
    uint32_t n_npus, n_passes; /* n_passes: training steps; both are at least 1 */
    const char *version;       /* program version to record in files; NULL: none is recorded */
} syn_text_options;

/* Writes <prefix>.<npu>.et for all NPUs and then <prefix>.comm_group.json, which is empty because
   collectives include all NPUs. Ids start at 1 in each file. Collectives without bytes, or with one
   NPU, are omitted; nodes after them depend on the nodes before them instead. Each collective
   depends on the previous one. With compat, the output is byte for byte that of Chakra's converter:
   ids continue from file to file, NONE is an all-reduce, and there is no group file. SYN_E_INVALID
   if there is nothing to write. */
syn_status syn_text_workload_write(syn_text_workload *w, const syn_text_options *options,
                                   const char *prefix, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
