/* Validates Chakra execution traces, one file or the trace set of all ranks: whether the files are
   intact, and whether a simulator would run them to the end. It reads the files themselves and
   builds no graph, so it can also describe damaged files and files of other programs.
   docs/formats.md lists what simulators require. */
#ifndef EXPORT_VALIDATE_H
#define EXPORT_VALIDATE_H

#include "syntorch/base/sink.h"

SYN_API_BEGIN

/* Kinds of findings, causes before their consequences: X(id, name, is a problem, consequence). A
   finding that is not a problem is a warning. */
#define SYN_FINDING_LIST(X)                                                                        \
    X(RECORDING, "recording", true, "simulators do not run the host's part of a real run")         \
    X(MISSING, "missing-file", true, "simulators exit immediately when a rank has no file")        \
    X(OTHER_RANK, "other-rank", false, "the file may be a copy of another rank's file")            \
    X(FRAME, "framing", true, "readers lose the rest of the file or misread it")                   \
    X(META, "metadata", true, "simulators take the first message for metadata, so a node is lost") \
    X(MESSAGE, "damaged-message", true, "simulators continue with half a node, or stop")           \
    X(TEXT, "utf8", true, "protobuf readers reject strings that are not UTF-8")                    \
    X(EMPTY, "empty-message", false, "some readers treat an empty message as the end of the file") \
    X(NO_NODES, "no-nodes", true, "simulators abort on a rank without nodes")                      \
    X(ID, "duplicate-id", true, "the later node silently replaces the earlier one")                \
    X(DANGLING, "dangling-dependency", true, "simulators abort while they load the file")          \
    X(SELF, "self-dependency", true, "the node and all that depend on it never run")               \
    X(CYCLE, "cycle", true, "its nodes and all that depend on them never run")                     \
    X(NO_VALUE, "attribute-without-value", true,                                                   \
      "simulators exit with an error; 0 must be written, too")                                     \
    X(MEMBER, "attribute-type", true, "simulators exit with an error, or read 0")                  \
    X(TWICE, "attribute-twice", false, "readers differ in which value they use")                   \
    X(RANGE, "out-of-range", true,                                                                 \
      "times above 64 bits (in ns) and ranks and tags above 32 bits wrap around")                  \
    X(NODE_TYPE, "node-type", true,                                                                \
      "simulators run compute, collectives, sends and receives only")                              \
    X(NEW_TYPE, "unknown-node-type", false, "the schema 1.0.0 ends with type 7")                   \
    X(CPU_NODE, "cpu-node", true, "simulators fail when they compute statistics of CPU nodes")     \
    X(COST, "cost", true, "a compute node without ops or bytes stalls its rank")                   \
    X(SMALL_ROOT, "small-root", false, "a first node shorter than a nanosecond aborts simulators") \
    X(COMM_TYPE, "comm-type", true, "the rank stalls at a collective without a known type")        \
    X(COMM_KIND, "not-simulated", true, "the rank stalls at this kind of collective")              \
    X(COMM_SIZE, "comm-size", true, "an operation without bytes hangs or aborts")                  \
    X(PEER, "peer", true,                                                                          \
      "a message needs two ranks, one of them its own, and a tag of at least 0")                   \
    X(GROUPS, "group-file", true, "the group file cannot be used")                                 \
    X(GROUP_ID, "group-id", false, "message tags of groups from 500 on wrap around")               \
    X(GROUP, "group", true, "the rank exits or hangs at a collective of a group it is not in")     \
    X(SEQUENCE, "collective-mismatch", true, "the ranks of the group deadlock")                    \
    X(ORDER, "collective-order", true, "each rank runs first the collective that is ready first")  \
    X(ORDER_OPEN, "order-not-checked", false, "too many groups and nodes")                         \
    X(MESSAGES, "send-receive-mismatch", true, "the receiver never finishes")                      \
    X(KEY, "repeated-key", false,                                                                  \
      "messages with equal ranks, tag and size are matched in order of arrival")                   \
    X(DEADLOCK, "deadlock", true, "simulators stop before the end but report success")             \
    X(FRONTIER, "wide-frontier", false,                                                            \
      "simulation time grows with the square of the number of ready nodes")

typedef enum syn_finding_kind {
#define SYN_X(id, name, problem, why) SYN_FINDING_##id,
    SYN_FINDING_LIST(SYN_X)
#undef SYN_X
        SYN_FINDING_KINDS
} syn_finding_kind;

const char *syn_finding_name(syn_finding_kind kind);
bool syn_finding_is_problem(syn_finding_kind kind);
const char *syn_finding_why(syn_finding_kind kind);

#define SYN_MAX_FINDINGS 100 /* stored findings of each kind; others are only counted */

typedef struct syn_finding {
    syn_finding_kind kind;
    int32_t rank; /* -1: the finding concerns the whole set */
    bool has_node, has_offset;
    uint64_t node, offset; /* id of the node; byte offset in the file at which the node's message or
                              the damage begins */
    char *text;            /* a sentence without full stop; UTF-8 */
} syn_finding;

typedef struct syn_validation {
    uint32_t n_files;
    uint64_t n_nodes, n_deps, n_collectives, n_sends, n_recvs;
    uint64_t n_problems, n_warnings;
    uint64_t counts[SYN_FINDING_KINDS];
    syn_finding *findings; /* ordered by kind, then in order of detection */
    size_t n_findings;
    bool across;   /* ranks were compared with each other */
    bool executed; /* the set was simulated and ran to its end; false: it deadlocked or was not
                      simulated */
    /* Numbers of compute nodes: all, those on the CPU, and those with more than 0 ops and bytes. */
    uint64_t n_compute, n_on_cpu, n_costed;
} syn_validation;

typedef struct syn_validate_options {
    bool any_node;      /* for traces of real runs: CPU, memory and metadata nodes are allowed */
    bool single;        /* one file only: no comparison across ranks; implies any_node */
    const char *groups; /* path of the group file; NULL: <prefix>.comm_group.json if it exists */
    uint64_t max_unpacked_bytes; /* limit of decompressed gzip input; 0: 200 times the compressed
                                    size, at most 16 GiB */
} syn_validate_options;

/* Whether the trace contains all nodes of a real run, as converters write by default, rather than
   only the nodes that simulators run. */
static inline bool syn_validation_is_recording(const syn_validation *v) {
    return v->n_on_cpu > 0 && (v->n_costed == 0 || v->n_on_cpu >= v->n_compute - v->n_on_cpu);
}

/* Validates the given files, or the trace set with the prefix paths[0] if n is 1 and no file has
   that name. If a file is a trace of a real run, and neither any_node nor single is set, this is
   reported as one problem, and the files are then checked as if any_node (for one file: single)
   were set. Returns SYN_OK even if there are findings; another code means that the validation
   itself could not be done. The caller frees *out in all cases. */
syn_status syn_validate(syn_validation *out, const char *const *paths, size_t n,
                        const syn_validate_options *options, syn_error *err) SYN_MUST_USE;
void syn_validation_free(syn_validation *v);
/* Writes the whole result as one JSON object. */
void syn_validation_json(const syn_validation *v, syn_sink *sink);
/* Writes the members of this object, for a caller that adds others. */
void syn_validation_json_members(const syn_validation *v, syn_sink *sink);

/* ---- From memory: pass the groups first (if any), then the ranks in ascending order ---- */

typedef struct syn_validator syn_validator;

/* world: number of ranks of the set; 0: unknown. */
syn_status syn_validator_open(syn_validator **out, const syn_validate_options *options,
                              uint32_t world, syn_error *err) SYN_MUST_USE;
syn_status syn_validator_groups(syn_validator *v, const char *name, const char *data, size_t bytes,
                                syn_error *err) SYN_MUST_USE;
/* rank -1: unknown. `data` may be freed after the call. */
syn_status syn_validator_add(syn_validator *v, int32_t rank, const char *data, size_t bytes,
                             syn_error *err) SYN_MUST_USE;
/* Compares the ranks, stores the result in *out (NULL: discards it) and frees v. */
syn_status syn_validator_close(syn_validator *v, syn_validation *out, syn_error *err);

SYN_API_END
#endif
