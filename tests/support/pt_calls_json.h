/* Builds host and device traces of PyTorch as text, call by call, and reads them like files. Op
   `id` begins at 10 × id µs and takes 8 µs. It launches its kernels 2 µs after its begin, and they
   run at 1000 + 10 × id µs. */
#ifndef TESTS_PT_CALLS_JSON_H
#define TESTS_PT_CALLS_JSON_H

#include <stdarg.h>

#include "export/pytorch/comm/pt_calls.h"
#include "export/pytorch/comm/pt_comm.h"
#include "export/pytorch/match/pt_match.h"

#define JSON_ROOM ((size_t)1 << 17)

typedef struct traces {
    char host[JSON_ROOM], device[JSON_ROOM];
    size_t n_host, n_device;
    int correlation;
    bool no_device;
    syn__pt_rank rank;
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES];
    syn_error err;
} traces;

void put(char *text, size_t *n, const char *fmt, ...);

#define ATTR(name, value)    "{\"name\":\"" name "\",\"type\":\"\",\"value\":" value "}"
#define TENSOR(elems, bytes) "[1,2,0," elems "," bytes ",\"cuda:0\"]"
#define OP_ATTRS                                                                         \
    ATTR("rf_id", "%d")                                                                  \
    "," ATTR("fw_parent", "0") "," ATTR("seq_id", "-1") "," ATTR("scope", "0") "," ATTR( \
        "tid", "%d") "," ATTR("fw_tid", "0") "," ATTR("op_schema", "\"\"")

/* Adds a host op. attrs: "" or a list of ATTR. inputs, outputs: the elements of the JSON list
   "values". */
void host_op(traces *t, int id, int parent, int tid, const char *name, const char *inputs,
             const char *outputs, const char *attrs);

/* Begins traces with a process and thread 1, which have ids 1 and 2. */
traces *begin_traces(void);

/* Adds a kernel that op `id` launches. Kernels of the same op run one after the other. args: "" or
   members of the event's "args". */
void kernel(traces *t, int id, const char *name, const char *args);

/* Write a trace to a file in the folder of the test and return its path. */
const char *put_host(const traces *t, const char *name);
const char *put_device(const traces *t, const char *name);

/* Reads the two traces, matches them, and finds communication. top: additional members of the
   device trace, "" or with a comma at the end. */
syn_status find(traces *t, const char *top);

void end_traces(traces *t);

uint64_t host_id(const syn__pt_rank *r, const syn__pt_comm *c);

/* Traces with one call: c10d::X (id 10), record_param_comms (id 11), nccl:X (id 12), and a kernel.
   "" omits a part. */
traces *one_call(const char *api, const char *inputs, const char *attrs, const char *nccl,
                 const char *kernel_name, const char *args);

#define RECORD_INPUTS(tensors, name, rank, start, stride, size) \
    "[" tensors "],35,[\"0\",\"default_pg\"]," rank ",\"" name "\",[],[]," start "," stride "," size

/* Adds c10d::X with its record_param_comms inside op 10. */
void send_recv(traces *t, int id, const char *name, const char *inputs);

#endif
