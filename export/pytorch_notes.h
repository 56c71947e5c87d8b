/* Findings of a conversion of PyTorch traces: anomalies in the files, and hints on missing profiler
   options. docs/pytorch.md explains each of them under its name. */
#ifndef EXPORT_PYTORCH_NOTES_H
#define EXPORT_PYTORCH_NOTES_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

/* Anomalies: X(id, name, what was found (plural), how it was handled). */
#define SYN_PYTORCH_ANOMALY_LIST(X)                                                                \
    X(TRUNCATED, "truncated", "files that end in the middle of a value",                           \
      "what is complete before it is kept")                                                        \
    X(EXTRA_COMMA, "extra-comma", "commas too many", "read over")                                  \
    X(MISSING_COMMA, "missing-comma", "commas missing", "read as if they were there")              \
    X(CONTROL, "control", "raw control characters in strings", "read as they are")                 \
    X(QUOTE, "quote", "quotes not escaped within strings", "taken as part of the string")          \
    X(ENCODING, "encoding", "strings with bytes that are not UTF-8", "such bytes read as \"?\"")   \
    X(BARE_WORD, "bare-word", "bare words that JSON lacks (NaN, N/A, ...), or missing values",     \
      "read as numbers or null")                                                                   \
    X(BROKEN, "broken", "elements that cannot be read", "left out, reading went on behind them")   \
    X(OBJECTS, "objects", "JSON objects in one file",                                              \
      "read as --object says, else the last complete one")                                         \
    X(SCHEMA, "schema", "schema that this program does not know",                                  \
      "read by the keys that are there")                                                           \
    X(NO_ID, "no-id", "nodes without id", "left out")                                              \
    X(DUPLICATE_ID, "duplicate-id", "nodes whose id was met before",                               \
      "kept under a fresh id (--dup_ids chooses)")                                                 \
    X(NO_PARENT, "no-parent", "nodes without ctrl_deps",                                           \
      "attached to the op that ran around them, else to their thread's root")                      \
    X(MISSING_PARENT, "missing-parent", "nodes whose parent is not in the file",                   \
      "attached to the op that ran around them, else to their thread's root")                      \
    X(FOREIGN_PARENT, "foreign-parent", "nodes whose parent is in another thread",                 \
      "attached to their thread's root")                                                           \
    X(PARENT_CYCLE, "parent-cycle", "nodes whose parent comes after them (or a cycle of parents)", \
      "attached to their thread's root")                                                           \
    X(NO_ROOT, "no-root", "no process root (node 1)", "one was made up")                           \
    X(NO_ATTRIBUTE, "no-attribute", "nodes that lack one of the seven attributes",                 \
      "written without it")                                                                        \
    X(DUPLICATE_RF_ID, "duplicate-rf-id", "record function ids met twice",                         \
      "the one that fits by time is taken")                                                        \
    X(NO_TIME, "no-time", "events without a time", "kept without one")                             \
    X(NO_DURATION, "no-duration", "events without a duration", "kept, they take no time")          \
    X(UNPAIRED, "unpaired", "events that begin without an end, or end without a begin",            \
      "the begun ones are kept without a duration")                                                \
    X(ODD_PHASE, "odd-phase", "ops and device work of a phase other than X, B and E",              \
      "left out: instants and asynchronous events are no ops")                                     \
    X(STREAM_OVERLAP, "stream-overlap",                                                            \
      "kernels or copies that last beyond the start of later work of their stream",                \
      "kept with their times, though a stream is serial")                                          \
    X(NO_ARGS, "no-args", "device events without args", "kept, linked by time")                    \
    X(NO_NAME, "no-name", "nodes or events without a name", "kept without one")                    \
    X(DUPLICATE_CORRELATION, "duplicate-correlation", "correlation ids met twice",                 \
      "matched by External id, else by time")                                                      \
    X(ORPHAN, "orphan", "device events that no launch and no op fits",                             \
      "kept without a launching op")                                                               \
    X(TIME_ONLY, "time-only", "device events linked by time alone",                                \
      "linked to the op that began before")                                                        \
    X(NEGATIVE_TIME, "negative-time", "ops that overlap another in part",                          \
      "common time counts for the one begun last")                                                 \
    X(CYCLE, "cycle", "dependencies that close a cycle",                                           \
      "those that go back in time were dropped")                                                   \
    X(UNKNOWN_COLLECTIVE, "unknown-collective", "collectives of a kind the format lacks",          \
      "kept as generic nodes")                                                                     \
    X(UNFINISHED, "unfinished",                                                                    \
      "communications that had been launched, but had not ended when the profiler stopped",        \
      "written with the time of the call that launched them")                                      \
    X(KERNEL_NAME, "kernel-name",                                                                  \
      "kernels of communication that PyTorch does not record (DeepEP, NVSHMEM, ...)",              \
      "their kind is taken from their names; sizes, groups and peers are unknown")                 \
    X(SIZE_UNKNOWN, "size-unknown", "communications whose size is not told or 0",                  \
      "size 1 was written")                                                                        \
    X(PEER_UNKNOWN, "peer-unknown", "sends or receives whose peer is not told",                    \
      "written without a peer")                                                                    \
    X(GROUP_CONFLICT, "group-conflict", "process groups that the sources describe differently",    \
      "the host's is used")                                                                        \
    X(GROUP_UNKNOWN, "group-unknown", "communications whose group is not told",                    \
      "taken for all ranks")                                                                       \
    X(COMM_UNMATCHED, "comm-unmatched", "collectives that other ranks of their group lack",        \
      "written as computation")                                                                    \
    X(COMM_DIFFERS, "comm-differs", "collectives whose kind differs between ranks",                \
      "written as computation")                                                                    \
    X(SIZE_DIFFERS, "size-differs", "communications whose size differs between ranks",             \
      "the largest is written")                                                                    \
    X(MESSAGE_UNMATCHED, "message-unmatched",                                                      \
      "sends without a receive, or receives without a send", "written as computation")             \
    X(OTHER_RUN, "other-run", "record function ids that name other ops in the device trace",       \
      "not believed: host nodes were matched by name and order")                                   \
    X(BAD_TIME, "bad-time", "events with a negative or impossible time",                           \
      "that time is taken as unknown")                                                             \
    X(RANKS_MISSING, "ranks-missing", "ranks of the job that are not in the set",                  \
      "converted without them")                                                                    \
    X(RANK_DIFFERS, "rank-differs", "ranks told by a file's name that its device trace denies",    \
      "the file's name counts")                                                                    \
    X(STEPS_DIFFER, "steps-differ", "ranks whose profiler recorded other steps than the first's",  \
      "what has no sequence number is matched by its order")                                       \
    X(CLOCKS_DIFFER, "clocks-differ",                                                              \
      "ranks whose clock differs: a trace 1 s or more apart, or one without a base time",          \
      "their times are taken as they are")                                                         \
    X(COMM_DEADLOCK, "comm-deadlock",                                                              \
      "communications in which ranks would wait for each other for ever",                          \
      "written as computation")

typedef enum syn_pytorch_anomaly {
#define SYN_X(id, name, met, done) SYN_PYTORCH_ANOMALY_##id,
    SYN_PYTORCH_ANOMALY_LIST(SYN_X)
#undef SYN_X
        SYN_PYTORCH_ANOMALIES
} syn_pytorch_anomaly;

const char *syn_pytorch_anomaly_name(syn_pytorch_anomaly kind);
const char *syn_pytorch_anomaly_met(syn_pytorch_anomaly kind);
const char *syn_pytorch_anomaly_done(syn_pytorch_anomaly kind);

#define SYN_PYTORCH_NO_PLACE UINT64_MAX

/* How often an anomaly was found, and where it was found first. */
typedef struct syn_pytorch_note {
    uint64_t count;
    const char *file;  /* NULL: none */
    uint64_t at, node; /* byte offset; id of the node; SYN_PYTORCH_NO_PLACE: none */
} syn_pytorch_note;

/* Hints. Each names information that a pair of traces lacks and the profiler option that would
   record it: X(id, name, sentence without full stop). */
#define SYN_PYTORCH_HINT_LIST(X)                                                                   \
    X(NO_DEVICE_TRACE, "no-device-trace",                                                          \
      "no device trace was given: the result has no times and no device work (--device: what "     \
      "torch.profiler's export_chrome_trace wrote in the same run)")                               \
    X(NO_HOST_TRACE, "no-host-trace",                                                              \
      "no host trace was given: host ops are the CPU ops of the device trace, without tensor ids " \
      "and outputs (--host: what torch.profiler's ExecutionTraceObserver wrote in the same run)")  \
    X(NO_DEVICE_WORK, "no-device-work",                                                            \
      "no kernels, copies or memory sets were recorded (profile with "                             \
      "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], on a machine with a GPU; events " \
      "of other accelerators are not read)")                                                       \
    X(NO_CPU_OPS, "no-cpu-ops",                                                                    \
      "the device trace holds no CPU ops, so host nodes have no times (profile with "              \
      "ProfilerActivity.CPU too)")                                                                 \
    X(NO_RF_IDS, "no-rf-ids",                                                                      \
      "the device trace has no \"Record function id\", so host nodes were matched by External id " \
      "or by name and order (PyTorch 2.3 or newer writes it)")                                     \
    X(NO_CORRELATION, "no-correlation",                                                            \
      "device work has no correlation id, so its launches were found by External id or by time "   \
      "(newer PyTorch for ROCm writes it)")                                                        \
    X(NO_SYNC_EVENTS, "no-sync-events",                                                            \
      "synchronisation between streams was inferred from runtime calls (profile with "             \
      "experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True) "  \
      "to have it recorded)")                                                                      \
    X(FEW_MATCHES, "few-matches",                                                                  \
      "less than half of the host nodes were found in the device trace: are both from the same "   \
      "run and rank, and was the observer active during the profiled steps?")                      \
    X(OTHER_STEPS, "other-steps",                                                                  \
      "the device trace holds steps that the host trace lacks (record both files over the same "   \
      "steps; --trim leaves out the device work of the others)")                                   \
    X(UNTIMED_OPS, "untimed-ops",                                                                  \
      "the host trace holds many ops that the device trace lacks, of other steps, threads or "     \
      "forked processes: they have no times, and simulators take none for them (record both "      \
      "files over the same steps)")                                                                \
    X(UNRECORDED_OPS, "unrecorded-ops",                                                            \
      "the host trace lacks ops of the device trace that communicate or take 1 ms or more: they "  \
      "were kept, without tensor ids and outputs (an op is missing if the observer was stopped "   \
      "before it ended)")                                                                          \
    X(REPEATED_STEPS, "repeated-steps",                                                            \
      "the host trace fits several steps of the device trace equally well: it was matched to the " \
      "first")                                                                                     \
    X(RENUMBERED_STEPS, "renumbered-steps",                                                        \
      "autograd's sequence numbers differ between the files, which hold other steps or runs: "     \
      "host nodes have the times of the same calls there")                                         \
    X(NO_SHAPES, "no-shapes",                                                                      \
      "the device trace tells no shapes, so flops and bytes of computation are unknown: 1 "        \
      "(profile with record_shapes=True, or give the host trace)")                                 \
    X(MANY_ORPHANS, "many-orphans",                                                                \
      "most host nodes have a parent that is not in the file: the ExecutionTraceObserver was "     \
      "started or stopped within a step, or failed to write an op")

typedef enum syn_pytorch_hint {
#define SYN_X(id, name, sentence) SYN_PYTORCH_HINT_##id,
    SYN_PYTORCH_HINT_LIST(SYN_X)
#undef SYN_X
        SYN_PYTORCH_HINTS
} syn_pytorch_hint;

const char *syn_pytorch_hint_name(syn_pytorch_hint hint);
const char *syn_pytorch_hint_sentence(syn_pytorch_hint hint);

SYN_API_END
#endif
