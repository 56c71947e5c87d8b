/* Compares ranks with each other: the collectives of each group, and each send with its receive. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/chakra/check/et_validate.h"
#include "syntorch/base/memory.h"

/* ---- Collectives ---- */

typedef struct calls_of {
    const syn__checked_rank *rank;
    const syn__checked_call *first;
    size_t n;
} calls_of;

/* Index of the first call of `group` or of a later group. */
static size_t lower_bound(const syn__checked_rank *rank, uint32_t group) {
    size_t low = 0, high = rank->n_calls;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (rank->calls[mid].group < group) low = mid + 1;
        else high = mid;
    }
    return low;
}

static calls_of calls_in(const syn__checked_rank *rank, uint32_t group) {
    const size_t begin = lower_bound(rank, group), end = lower_bound(rank, group + 1);
    const calls_of calls = {rank, rank->calls + begin, end - begin};
    return calls;
}

/* Formats the value of an attribute. */
static const char *text_of(int64_t value, char out[24]) {
    if (value == SYN__ABSENT) snprintf(out, 24, "(none)");
    else snprintf(out, 24, "%" PRId64, value);
    return out;
}

/* Formats a size: " of 64 bytes". */
static const char *size_text(const syn__checked_call *call, char out[48]) {
    if (call->size == SYN__ABSENT) snprintf(out, 48, " without comm_size");
    else snprintf(out, 48, " of %" PRId64 " bytes", call->size);
    return out;
}

static void report_mismatch(syn_validator *v, uint32_t group, const calls_of *want,
                            const calls_of *got, size_t at) {
    const char *name = syn__checked_group_name(v, group);
    char size[48], other[48];
    if (at < want->n && at < got->n) {
        const syn__checked_call *a = &got->first[at], *b = &want->first[at];
        syn__report_finding(
            v, SYN_FINDING_SEQUENCE, syn__call_location(got->rank, a),
            "group %.60s, collective %zu: %s%s, but rank %" PRId32 "'s node %" PRIu64 " is %s%s",
            name, at, syn__et_collective_name(a->kind), size_text(a, size), want->rank->rank, b->id,
            syn__et_collective_name(b->kind), size_text(b, other));
        return;
    }
    const calls_of *more = got->n > want->n ? got : want;
    const syn__finding_location whole = {got->rank->rank, false, 0, SYN__ET_NO_OFFSET};
    syn__report_finding(v, SYN_FINDING_SEQUENCE, whole,
                        "group %.60s: %zu collectives, but rank %" PRId32 " has %zu; rank %" PRId32
                        "'s node %" PRIu64 " is the first without a counterpart",
                        name, got->n, want->rank->rank, want->n, more->rank->rank,
                        more->first[at].id);
}

static void compare(syn_validator *v, uint32_t group, const calls_of *want, const calls_of *got) {
    size_t at = 0;
    while (at < want->n && at < got->n && want->first[at].kind == got->first[at].kind &&
           want->first[at].size == got->first[at].size)
        at++;
    if (at < want->n || at < got->n) report_mismatch(v, group, want, got, at);
}

/* In the group of all ranks, compares only the ranks that were read, which may be few. */
static void check_group(syn_validator *v, uint32_t group) {
    calls_of first = {0};
    const bool world = syn__is_world(v, group);
    const size_t n = world ? v->n_ranks : v->groups[group].n_members;
    for (size_t i = 0; i < n; i++) {
        const int32_t member = world ? v->ranks[i].rank : v->groups[group].members[i];
        const syn__checked_rank *rank = syn__checked_rank_of(v, member);
        if (rank == NULL) continue;
        const calls_of calls = calls_in(rank, group);
        if (first.rank == NULL) first = calls;
        else compare(v, group, &first, &calls);
    }
}

/* ---- Messages ---- */

typedef struct message {
    syn__checked_call *call;
    const syn__checked_rank *rank;
} message;

static int compare_i64(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int compare_keys(const syn__checked_call *a, const syn__checked_call *b) {
    int by = compare_i64(a->src, b->src);
    if (by == 0) by = compare_i64(a->dst, b->dst);
    if (by == 0) by = compare_i64(a->tag, b->tag);
    return by == 0 ? compare_i64(a->size, b->size) : by;
}

static int compare_messages(const void *a, const void *b) {
    const message *x = (const message *)a, *y = (const message *)b;
    const int by = compare_keys(x->call, y->call);
    if (by != 0) return by;
    if (x->call->type != y->call->type) return x->call->type < y->call->type ? -1 : 1;
    return x->call->id < y->call->id ? -1 : x->call->id > y->call->id;
}

/* Returns a text about `near` if it would match `a` but for its size; otherwise "". */
static const char *hint(const message *a, const message *near, char out[96]) {
    char size[24];
    out[0] = '\0';
    if (near != NULL && near->call->type != a->call->type && near->call->src == a->call->src &&
        near->call->dst == a->call->dst && near->call->tag == a->call->tag)
        snprintf(out, 96, "; node %" PRIu64 " of rank %" PRId32 " differs in size: %s bytes",
                 near->call->id, near->rank->rank, text_of(near->call->size, size));
    return out;
}

static void check_key(syn_validator *v, const message *m, size_t begin, size_t end, size_t n) {
    char src[24], dst[24], tag[24], size[24], near[96];
    size_t sends = 0;
    while (begin + sends < end && m[begin + sends].call->type == SYN__ET_COMM_SEND_NODE) sends++;
    const size_t recvs = end - begin - sends;
    const bool repeated = sends == recvs;
    if (repeated && sends == 1) return;
    const syn__checked_call *call = m[begin].call;
    const message *other = end < n ? &m[end] : NULL;
    if (hint(&m[begin], other, near)[0] == '\0' && begin > 0) hint(&m[begin], &m[begin - 1], near);
    /* The counterpart may be in a damaged or missing file. */
    if (!repeated && call->src != SYN__ABSENT && call->dst != SYN__ABSENT &&
        (syn__checked_rank_of(v, call->src) == NULL ||
         syn__checked_rank_of(v, call->dst) == NULL) &&
        call->src >= 0 && call->src < v->world && call->dst >= 0 && call->dst < v->world)
        return;
    syn__report_finding(v, repeated ? SYN_FINDING_KEY : SYN_FINDING_MESSAGES,
                        syn__call_location(m[begin].rank, call),
                        "from rank %s to %s, tag %s, %s bytes: %zu sends, %zu receives%s",
                        text_of(call->src, src), text_of(call->dst, dst), text_of(call->tag, tag),
                        text_of(call->size, size), sends, recvs, near);
}

/* Checks all messages, which are sorted by key. Also numbers the keys, for syn__check_deadlock. */
static void check_sorted(syn_validator *v, const message *m, size_t n) {
    uint32_t key = 0;
    for (size_t begin = 0, end; begin < n; begin = end, key++) {
        for (end = begin; end < n && compare_keys(m[begin].call, m[end].call) == 0; end++)
            m[end].call->key = key;
        check_key(v, m, begin, end, n);
    }
}

static syn_status check_messages(syn_validator *v, syn_error *err) {
    const size_t all = (size_t)(v->result.n_sends + v->result.n_recvs);
    size_t n = 0;
    if (all == 0) return SYN_OK;
    message *m = (message *)syn_malloc(all * sizeof *m);
    if (m == NULL) return SYN_FAIL_NOMEM(err, all * sizeof *m, "sends and receives");
    for (size_t r = 0; r < v->n_ranks; r++) {
        const syn__checked_rank *rank = &v->ranks[r];
        for (size_t i = lower_bound(rank, SYN__NO_GROUP); i < rank->n_calls && !rank->damaged; i++)
            m[n++] = (message){&rank->calls[i], rank};
    }
    qsort(m, n, sizeof *m, compare_messages);
    check_sorted(v, m, n);
    syn_free(m);
    return SYN_OK;
}

syn_status syn__check_across_ranks(syn_validator *v, syn_error *err) {
    for (uint32_t group = 0; group < v->names.n_entries; group++) {
        if (v->groups[group].used) check_group(v, group);
    }
    return check_messages(v, err);
}
