#include "export/pytorch/read/pt_report.h"

static const struct {
    const char *met, *done;
} texts[] = {
#define SYN_X(id, met, done) [SYN__PT_##id] = {met, done},
    SYN__PT_ANOMALY_LIST(SYN_X)
#undef SYN_X
};

/* The ids in lower case, with dashes. */
static const char *const names[] = {
    [SYN__PT_TRUNCATED] = "truncated",
    [SYN__PT_EXTRA_COMMA] = "extra-comma",
    [SYN__PT_MISSING_COMMA] = "missing-comma",
    [SYN__PT_CONTROL] = "control",
    [SYN__PT_QUOTE] = "quote",
    [SYN__PT_BARE_WORD] = "bare-word",
    [SYN__PT_BROKEN] = "broken",
    [SYN__PT_OBJECTS] = "objects",
    [SYN__PT_SCHEMA] = "schema",
    [SYN__PT_NO_ID] = "no-id",
    [SYN__PT_DUPLICATE_ID] = "duplicate-id",
    [SYN__PT_NO_PARENT] = "no-parent",
    [SYN__PT_MISSING_PARENT] = "missing-parent",
    [SYN__PT_FOREIGN_PARENT] = "foreign-parent",
    [SYN__PT_PARENT_CYCLE] = "parent-cycle",
    [SYN__PT_NO_ROOT] = "no-root",
    [SYN__PT_NO_ATTRIBUTE] = "no-attribute",
    [SYN__PT_DUPLICATE_RF_ID] = "duplicate-rf-id",
    [SYN__PT_NO_TIME] = "no-time",
    [SYN__PT_NO_ARGS] = "no-args",
    [SYN__PT_NO_NAME] = "no-name",
    [SYN__PT_DUPLICATE_CORRELATION] = "duplicate-correlation",
    [SYN__PT_ORPHAN] = "orphan",
    [SYN__PT_TIME_ONLY] = "time-only",
    [SYN__PT_NEGATIVE_TIME] = "negative-time",
    [SYN__PT_CYCLE] = "cycle",
    [SYN__PT_UNKNOWN_COLLECTIVE] = "unknown-collective",
    [SYN__PT_SIZE_UNKNOWN] = "size-unknown",
    [SYN__PT_PEER_UNKNOWN] = "peer-unknown",
    [SYN__PT_GROUP_CONFLICT] = "group-conflict",
    [SYN__PT_GROUP_UNKNOWN] = "group-unknown",
    [SYN__PT_COMM_UNMATCHED] = "comm-unmatched",
    [SYN__PT_COMM_DIFFERS] = "comm-differs",
    [SYN__PT_SIZE_DIFFERS] = "size-differs",
    [SYN__PT_MESSAGE_UNMATCHED] = "message-unmatched",
    [SYN__PT_OTHER_RUN] = "other-run",
    [SYN__PT_BAD_TIME] = "bad-time",
    [SYN__PT_RANKS_MISSING] = "ranks-missing",
    [SYN__PT_RANK_DIFFERS] = "rank-differs",
    [SYN__PT_COMM_DEADLOCK] = "comm-deadlock",
};

void syn__pt_note_at(syn__pt_report *report, syn__pt_anomaly kind, const char *file, uint64_t at,
                     uint64_t node) {
    if (report == NULL) return;
    syn__pt_note *note = &report->notes[kind];
    if (note->count == 0) *note = (syn__pt_note){.file = file, .at = at, .node = node};
    note->count++;
}

void syn__pt_note_many(syn__pt_report *report, syn__pt_anomaly kind, uint64_t count,
                       const char *file, uint64_t at) {
    if (report == NULL || count == 0) return;
    syn__pt_note_at(report, kind, file, at, SYN__PT_NO_PLACE);
    report->notes[kind].count += count - 1;
}

const char *syn__pt_anomaly_name(syn__pt_anomaly kind) {
    const bool known = (size_t)kind < sizeof names / sizeof names[0] && names[kind] != NULL;
    return known ? names[kind] : "unknown";
}

const char *syn__pt_anomaly_met(syn__pt_anomaly kind) {
    return texts[kind].met;
}

const char *syn__pt_anomaly_done(syn__pt_anomaly kind) {
    return texts[kind].done;
}
