/* What a conversion met and did: anomalies by kind, with the place of the first, and counts. */
#ifndef EXPORT_PT_REPORT_H
#define EXPORT_PT_REPORT_H

#include "syntorch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* id, what was met (plural; "%s" nowhere), what was done with it. */
#define SYN__PT_ANOMALY_LIST(X)                                                                   \
    X(TRUNCATED, "files that end in the middle of a value", "what is complete before it is kept") \
    X(EXTRA_COMMA, "commas too many", "read over")                                                \
    X(MISSING_COMMA, "commas missing", "read as if they were there")                              \
    X(CONTROL, "raw control characters in strings", "read as they are")                           \
    X(QUOTE, "quotes not escaped within strings", "taken as part of the string")                  \
    X(BARE_WORD, "bare words that JSON lacks (NaN, Infinity, ...)", "read as numbers or null")    \
    X(BROKEN, "elements that cannot be read", "left out, reading went on behind them")            \
    X(OBJECTS, "JSON objects in one file", "read as --object says, else the last complete one")   \
    X(SCHEMA, "schema that this program does not know", "read by the keys that are there")        \
    X(NO_ID, "nodes without id", "left out")                                                      \
    X(DUPLICATE_ID, "nodes whose id was met before", "kept under a fresh id (--dup_ids chooses)") \
    X(NO_PARENT, "nodes without ctrl_deps", "attached to their thread's root")                    \
    X(MISSING_PARENT, "nodes whose parent is not in the file", "attached to their thread's root") \
    X(FOREIGN_PARENT, "nodes whose parent is in another thread",                                  \
      "attached to their thread's root")                                                          \
    X(PARENT_CYCLE, "nodes whose parent comes after them (or a cycle of parents)",                \
      "attached to their thread's root")                                                          \
    X(NO_ROOT, "no process root (node 1)", "one was made up")                                     \
    X(NO_ATTRIBUTE, "nodes that lack one of the seven attributes", "written without it")          \
    X(DUPLICATE_RF_ID, "record function ids met twice", "the one that fits by time is taken")     \
    X(NO_TIME, "events without a time", "kept without one")                                       \
    X(NO_ARGS, "device events without args", "kept, linked by time")                              \
    X(NO_NAME, "nodes or events without a name", "kept without one")                              \
    X(DUPLICATE_CORRELATION, "correlation ids met twice", "matched by External id, else by time") \
    X(ORPHAN, "device events that no launch and no op fits", "kept without a launching op")       \
    X(TIME_ONLY, "device events linked by time alone", "linked to the op that began before")      \
    X(NEGATIVE_TIME, "ops that overlap another in part",                                          \
      "common time counts for the one begun last")                                                \
    X(CYCLE, "dependencies that close a cycle", "those that go back in time were dropped")        \
    X(UNKNOWN_COLLECTIVE, "collectives of a kind the format lacks", "kept as generic nodes")      \
    X(SIZE_UNKNOWN, "communications whose size is not told or 0", "size 1 was written")           \
    X(PEER_UNKNOWN, "sends or receives whose peer is not told", "written without a peer")         \
    X(GROUP_CONFLICT, "process groups that the sources describe differently",                     \
      "the host's is used")                                                                       \
    X(GROUP_UNKNOWN, "communications whose group is not told", "taken for all ranks")             \
    X(COMM_UNMATCHED, "collectives that other ranks of their group lack",                         \
      "written as computation")                                                                   \
    X(COMM_DIFFERS, "collectives whose kind differs between ranks", "written as computation")     \
    X(SIZE_DIFFERS, "communications whose size differs between ranks", "the largest is written")  \
    X(MESSAGE_UNMATCHED, "sends without a receive, or receives without a send",                   \
      "written as computation")                                                                   \
    X(OTHER_RUN, "record function ids that name other ops in the device trace",                   \
      "not believed: host nodes were matched by name and order")                                  \
    X(BAD_TIME, "events with a negative or impossible time", "that time is taken as unknown")     \
    X(RANKS_MISSING, "ranks of the job that are not in the set", "converted without them")        \
    X(RANK_DIFFERS, "ranks told by a file's name that its device trace denies",                   \
      "the file's name counts")                                                                   \
    X(COMM_DEADLOCK, "communications in which ranks would wait for each other for ever",          \
      "written as computation")

typedef enum syn__pt_anomaly {
#define SYN_X(id, met, done) SYN__PT_##id,
    SYN__PT_ANOMALY_LIST(SYN_X)
#undef SYN_X
        SYN__PT_ANOMALIES
} syn__pt_anomaly;

#define SYN__PT_NO_PLACE UINT64_MAX

typedef struct syn__pt_note {
    uint64_t count;
    const char *file;  /* of the first one; NULL none */
    uint64_t at, node; /* its byte offset, its node's id; SYN__PT_NO_PLACE: none */
} syn__pt_note;

typedef struct syn__pt_report {
    syn__pt_note notes[SYN__PT_ANOMALIES];
} syn__pt_report;

/* Counts one anomaly; its place is kept if it is the first of its kind. `file` must live as long as
   the report. A NULL report is allowed. */
void syn__pt_note_at(syn__pt_report *report, syn__pt_anomaly kind, const char *file, uint64_t at,
                     uint64_t node);
/* Counts `count` of them at once. */
void syn__pt_note_many(syn__pt_report *report, syn__pt_anomaly kind, uint64_t count,
                       const char *file, uint64_t at);
/* "truncated", "missing-parent": the name in machine-readable reports and in the documentation. */
const char *syn__pt_anomaly_name(syn__pt_anomaly kind);
/* What was met, and what was done. */
const char *syn__pt_anomaly_met(syn__pt_anomaly kind);
const char *syn__pt_anomaly_done(syn__pt_anomaly kind);

#ifdef __cplusplus
}
#endif
#endif
