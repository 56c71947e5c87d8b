/* Lists of ranks (rank_list.h). */
#include "tools/rank_list.h"

#include <stdlib.h>

#include "syntorch/base/memory.h"

static bool read_rank(const char **at, int32_t *rank) {
    char *end;
    if (**at < '0' || **at > '9') return false;
    const long value = strtol(*at, &end, 10);
    *at = end;
    *rank = value < INT32_MAX ? (int32_t)value : INT32_MAX;
    return true;
}

bool rank_range(const char **at, int32_t *first, int32_t *last) {
    if (!read_rank(at, first)) return false;
    *last = *first;
    if (**at != '-') return true;
    ++*at;
    return read_rank(at, last) && *first <= *last;
}

syn_status rank_list(int32_t **ranks, size_t *n, const char *text, int32_t n_ranks,
                     syn_error *err) {
    size_t cap = 0;
    syn_status s = SYN_OK;
    *ranks = NULL;
    *n = 0;
    for (const char *at = text; s == SYN_OK; at++) {
        int32_t first = 0, last = 0;
        if (!rank_range(&at, &first, &last) || (*at != ',' && *at != '\0'))
            s = SYN_FAIL(err, SYN_E_INVALID,
                         "--ranks '%.60s' is not a list of ranks such as 0-7,16", text);
        else if (last >= n_ranks)
            s = SYN_FAIL(err, SYN_E_INVALID,
                         "--ranks '%.60s' has a rank above the highest rank, which is %d", text,
                         (int)n_ranks - 1);
        else s = syn_grow(ranks, &cap, *n + (size_t)(last - first) + 1, sizeof **ranks, err);
        for (int32_t r = first; s == SYN_OK && r <= last; r++) (*ranks)[(*n)++] = r;
        if (s == SYN_OK && *at == '\0') return SYN_OK;
    }
    syn_free(*ranks);
    *ranks = NULL;
    return s;
}
