/* Findings of a conversion of PyTorch traces: anomalies in the files, and hints on missing profiler
   options. docs/pytorch.md explains each of them under its name. */
#ifndef EXPORT_PYTORCH_NOTES_H
#define EXPORT_PYTORCH_NOTES_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

/* Anomalies: X(id, name, what was found (plural), how it was handled). */
#define SYN_PYTORCH_ANOMALY_LIST(X)                                                                \
    X(TRUNCATED, "truncated", "files that end in the middle of a value",                           \
      "the complete values before it are kept")                                                    \
    X(EXTRA_COMMA, "extra-comma", "extra commas", "ignored")                                       \
    X(MISSING_COMMA, "missing-comma", "missing commas", "added")                                   \
    X(CONTROL, "control", "raw control characters in strings", "read as they are")                 \
    X(QUOTE, "quote", "unescaped quotes inside strings", "treated as part of the string")          \
    X(ENCODING, "encoding", "strings with bytes that are not UTF-8",                               \
      "invalid bytes read as \"?\"")                                                               \
    X(BARE_WORD, "bare-word", "words that are not JSON (NaN, N/A, ...), or missing values",        \
      "read as numbers or null")                                                                   \
    X(BROKEN, "broken", "unreadable elements", "omitted; the rest was read")                       \
    X(OBJECTS, "objects", "JSON objects in one file",                                              \
      "the last complete one was read (--object chooses)")                                         \
    X(SCHEMA, "schema", "unknown schema", "read by its keys")                                      \
    X(NO_ID, "no-id", "nodes without an id", "omitted")                                            \
    X(DUPLICATE_ID, "duplicate-id", "nodes with the id of an earlier node",                        \
      "kept with a new id (--dup_ids chooses)")                                                    \
    X(NO_PARENT, "no-parent", "nodes without ctrl_deps",                                           \
      "attached to the op that ran around them, else to their thread's root")                      \
    X(MISSING_PARENT, "missing-parent", "nodes whose parent is not in the file",                   \
      "attached to the op that ran around them, else to their thread's root")                      \
    X(FOREIGN_PARENT, "foreign-parent", "nodes whose parent is in another thread",                 \
      "attached to their thread's root")                                                           \
    X(PARENT_CYCLE, "parent-cycle", "nodes whose parent comes after them (or a cycle of parents)", \
      "attached to their thread's root")                                                           \
    X(NO_ROOT, "no-root", "no process root (node 1)", "one was created")                           \
    X(NO_ATTRIBUTE, "no-attribute", "nodes that lack one of the seven attributes",                 \
      "written without it")                                                                        \
    X(DUPLICATE_RF_ID, "duplicate-rf-id", "record function ids that appear twice",                 \
      "the one that fits by time is used")                                                         \
    X(NO_TIME, "no-time", "events without a time", "kept without one")                             \
    X(NO_DURATION, "no-duration", "events without a duration", "kept with duration 0")             \
    X(UNPAIRED, "unpaired", "begin events without an end event, or the reverse",                   \
      "begin events are kept without a duration")                                                  \
    X(ODD_PHASE, "odd-phase", "ops and device work of a phase other than X, B and E",              \
      "omitted: instant and asynchronous events are not ops")                                      \
    X(STREAM_OVERLAP, "stream-overlap",                                                            \
      "kernels or copies that overlap later work of their stream",                                 \
      "kept with their times, although a stream is serial")                                        \
    X(NO_ARGS, "no-args", "device events without args", "kept, linked by time")                    \
    X(NO_NAME, "no-name", "nodes or events without a name", "kept without one")                    \
    X(DUPLICATE_CORRELATION, "duplicate-correlation", "correlation ids that appear twice",         \
      "matched by External id, else by time")                                                      \
    X(ORPHAN, "orphan", "device events without a matching launch or op",                           \
      "kept without a launching op")                                                               \
    X(TIME_ONLY, "time-only", "device events linked only by time",                                 \
      "linked to the op that started before them")                                                 \
    X(NEGATIVE_TIME, "negative-time", "ops that partly overlap another",                           \
      "shared time counts for the one that started last")                                          \
    X(CYCLE, "cycle", "dependencies that close a cycle",                                           \
      "dependencies that go back in time were dropped")                                            \
    X(UNKNOWN_COLLECTIVE, "unknown-collective",                                                    \
      "collectives of a kind that the format does not have", "kept as generic nodes")              \
    X(UNFINISHED, "unfinished",                                                                    \
      "communications that were launched but unfinished when the profiler stopped",                \
      "written with the time of the call that launched them")                                      \
    X(KERNEL_NAME, "kernel-name",                                                                  \
      "communication kernels that PyTorch does not record (DeepEP, NVSHMEM, ...)",                 \
      "their kind comes from their names; sizes, groups and peers are unknown")                    \
    X(SIZE_UNKNOWN, "size-unknown", "communications with an unknown size or size 0",               \
      "size 1 was written")                                                                        \
    X(PEER_UNKNOWN, "peer-unknown", "sends or receives with an unknown peer",                      \
      "written without a peer")                                                                    \
    X(GROUP_CONFLICT, "group-conflict",                                                            \
      "process groups that the host and device traces describe differently", "the host's is used") \
    X(GROUP_UNKNOWN, "group-unknown", "communications with an unknown group",                      \
      "treated as a group of all ranks")                                                           \
    X(COMM_UNMATCHED, "comm-unmatched", "collectives missing on other ranks of their group",       \
      "written as computation")                                                                    \
    X(COMM_DIFFERS, "comm-differs", "collectives whose kind differs between ranks",                \
      "written as computation")                                                                    \
    X(SIZE_DIFFERS, "size-differs", "communications whose size differs between ranks",             \
      "the largest is written")                                                                    \
    X(MESSAGE_UNMATCHED, "message-unmatched",                                                      \
      "sends without a receive, or receives without a send", "written as computation")             \
    X(OTHER_RUN, "other-run", "record function ids that belong to other ops in the device trace",  \
      "ignored: host nodes were matched by name and order")                                        \
    X(BAD_TIME, "bad-time", "events with a negative or invalid time",                              \
      "the time is treated as unknown")                                                            \
    X(RANKS_MISSING, "ranks-missing", "ranks of the job that are not in the set",                  \
      "converted without them")                                                                    \
    X(RANK_DIFFERS, "rank-differs", "ranks in a file's name that differ from its device trace",    \
      "the rank in the name is used")                                                              \
    X(STEPS_DIFFER, "steps-differ",                                                                \
      "ranks whose profiler recorded different steps than the first rank's",                       \
      "communications without a sequence number are matched by order")                             \
    X(CLOCKS_DIFFER, "clocks-differ",                                                              \
      "ranks whose clocks differ by 1 s or more, or without a base time",                          \
      "their times are not corrected")                                                             \
    X(COMM_DEADLOCK, "comm-deadlock", "communications that would deadlock",                        \
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
      "no device trace was given: the result has no times and no device work (give --device, "     \
      "which torch.profiler's export_chrome_trace writes in the same run)")                        \
    X(NO_HOST_TRACE, "no-host-trace",                                                              \
      "no host trace was given: host ops are the CPU ops of the device trace, without tensor ids " \
      "and outputs (give --host, which torch.profiler's ExecutionTraceObserver writes in the "     \
      "same run)")                                                                                 \
    X(NO_DEVICE_WORK, "no-device-work",                                                            \
      "no kernels, copies or memory sets were recorded (profile with "                             \
      "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], on a machine with a GPU; events " \
      "of other accelerators are not read)")                                                       \
    X(NO_CPU_OPS, "no-cpu-ops",                                                                    \
      "the device trace has no CPU ops, so host nodes have no times (profile with "                \
      "ProfilerActivity.CPU too)")                                                                 \
    X(NO_RF_IDS, "no-rf-ids",                                                                      \
      "the device trace has no \"Record function id\", so host nodes were matched by External id " \
      "or by name and order (PyTorch 2.3 or newer writes it)")                                     \
    X(NO_CORRELATION, "no-correlation",                                                            \
      "device work has no correlation id, so its launches were found by External id or by time "   \
      "(newer PyTorch for ROCm writes it)")                                                        \
    X(NO_SYNC_EVENTS, "no-sync-events",                                                            \
      "synchronization between streams was inferred from runtime calls (profile with "             \
      "experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True) "  \
      "to have it recorded)")                                                                      \
    X(FEW_MATCHES, "few-matches",                                                                  \
      "less than half of the host nodes were found in the device trace: are both from the same "   \
      "run and rank, and was the observer active during the profiled steps?")                      \
    X(OTHER_STEPS, "other-steps",                                                                  \
      "the device trace has steps that the host trace lacks (record both files over the same "     \
      "steps; --trim omits the device work of the other steps)")                                   \
    X(UNTIMED_OPS, "untimed-ops",                                                                  \
      "the host trace has many ops of other steps, threads or forked processes that the device "   \
      "trace lacks: they have no times, so simulators run them in no time (record both "           \
      "files over the same steps)")                                                                \
    X(UNRECORDED_OPS, "unrecorded-ops",                                                            \
      "the host trace lacks ops of the device trace that communicate or take 1 ms or more: they "  \
      "were kept, without tensor ids and outputs (an op is missing if the observer was stopped "   \
      "before it ended)")                                                                          \
    X(REPEATED_STEPS, "repeated-steps",                                                            \
      "the host trace fits several steps of the device trace equally well: it was matched to the " \
      "first")                                                                                     \
    X(RENUMBERED_STEPS, "renumbered-steps",                                                        \
      "autograd's sequence numbers differ between the files, which come from different steps or "  \
      "runs: "                                                                                     \
      "host nodes have the times of the same calls in the device trace")                           \
    X(NO_SHAPES, "no-shapes",                                                                      \
      "the device trace has no shapes, so flops and bytes of computation are unknown: 1 "          \
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
