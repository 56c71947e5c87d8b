/* Writes the group file of a trace set, which lists the ranks of each group. */
#include "export/pytorch/write/pt_write.h"

/* The group with this id. The search starts at the rank where the last group was found. *rank: the
   rank that has the group. */
static const syn__pt_group *find_id(const syn__pt_rank *ranks, size_t n_ranks, uint32_t id,
                                    size_t *rank) {
    for (size_t i = 0; i < n_ranks; i++) {
        const size_t at = (*rank + i) % n_ranks;
        for (size_t g = 0; g < ranks[at].n_groups; g++) {
            if (ranks[at].groups[g].id != id) continue;
            *rank = at;
            return &ranks[at].groups[g];
        }
    }
    return NULL;
}

void syn__pt_write_groups(const syn__pt_rank *ranks, size_t n_ranks, syn_sink *sink) {
    uint32_t n_ids = 0, written = 0;
    size_t rank = 0;
    for (size_t i = 0; i < n_ranks; i++) {
        for (size_t g = 0; g < ranks[i].n_groups; g++) {
            if (ranks[i].groups[g].id > n_ids) n_ids = ranks[i].groups[g].id;
        }
    }
    syn_sink_char(sink, '{');
    for (uint32_t id = 1; id <= n_ids; id++) {
        const syn__pt_group *group = find_id(ranks, n_ranks, id, &rank);
        if (group == NULL || group->n_ranks < 2) continue;
        syn_sink_text(sink, written++ == 0 ? "\n  \"" : ",\n  \"");
        syn_sink_u64(sink, id);
        syn_sink_text(sink, "\": [");
        for (uint32_t i = 0; i < group->n_ranks; i++) {
            if (i > 0) syn_sink_text(sink, ", ");
            syn_sink_i64(sink, group->ranks[i]);
        }
        syn_sink_char(sink, ']');
    }
    syn_sink_text(sink, written != 0 ? "\n}\n" : "}\n");
}
