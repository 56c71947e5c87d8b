/* Lists of ranks (rank_list.h). */
#include "tools/rank_list.h"

#include <stdlib.h>

#include "syntorch/base/memory.h"

/* Parses "7" or "0-7" at *at and moves *at behind it. */
static bool parse_range(const char **at, long *first, long *last) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    *first = *last = strtol(*at, &end, 10);
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9') return false;
        *last = strtol(end + 1, &end, 10);
    }
    *at = end;
    return *first <= *last;
}

syn_status rank_list(int32_t **ranks, size_t *n, const char *text, int32_t n_ranks,
                     syn_error *err) {
    size_t cap = 0;
    syn_status s = SYN_OK;
    *ranks = NULL;
    *n = 0;
    for (const char *at = text; s == SYN_OK; at++) {
        long first = 0, last = 0;
        if (!parse_range(&at, &first, &last) || (*at != ',' && *at != '\0'))
            s = SYN_FAIL(err, SYN_E_INVALID,
                         "--ranks '%.60s' is not a list of ranks such as 0-7,16", text);
        else if (last >= n_ranks)
            s = SYN_FAIL(err, SYN_E_INVALID, "--ranks has rank %ld, but there are %d ranks", last,
                         (int)n_ranks);
        else s = syn_grow(ranks, &cap, *n + (size_t)(last - first) + 1, sizeof **ranks, err);
        for (long r = first; s == SYN_OK && r <= last; r++) (*ranks)[(*n)++] = (int32_t)r;
        if (s == SYN_OK && *at == '\0') return SYN_OK;
    }
    syn_free(*ranks);
    *ranks = NULL;
    return s;
}
