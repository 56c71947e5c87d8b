/* Finds the nodes that groups span, for hierarchical collectives. Separate because it reads the
   metadata of a set. */
#include <stdlib.h>
#include <string.h>

#include "export/chakra/et_attr.h"
#include "export/chakra/et_ring.h"
#include "export/chakra/simulate/et_expand.h"
#include "export/chakra/wire/et_frames.h"
#include "export/chakra/wire/et_node.h"
#include "syntorch/base/memory.h"

static bool same_node(int32_t a, int32_t b, int32_t node_ranks) {
    return a / node_ranks == b / node_ranks;
}

uint32_t syn__expand_node_width(const int32_t *ranks, uint32_t n, int32_t node_ranks) {
    uint32_t width = 1;
    while (width < n && same_node(ranks[0], ranks[width], node_ranks)) width++;
    if (width == 1 || width >= n || n % width != 0) return 0;
    for (uint32_t i = 1; i < n; i++)
        if (ranks[i] < ranks[i - 1] ||
            same_node(ranks[i], ranks[i - 1], node_ranks) != (i % width != 0))
            return 0;
    return width;
}

/* ---- Ranks per node ---- */

static int32_t node_ranks_of(const syn__et_meta *meta) {
    int32_t found = 0;
    for (size_t i = 0; i < meta->n_attrs; i++) {
        const syn__et_attr *a = &meta->attrs[i];
        char text[128];
        uint64_t own;
        if (a->field != SYN__ET_STRING || a->data.bytes >= sizeof text) continue;
        memcpy(text, a->data.text, a->data.bytes);
        text[a->data.bytes] = '\0';
        if (syn__str_is(a->name, "hardware")) found = syn__et_hardware_node_ranks(text);
        /* Sets have this attribute if the machine is not built in. */
        if (syn__str_is(a->name, "node_ranks") && syn__et_parse_u64(text, &own) && own > 0 &&
            own <= INT32_MAX)
            return (int32_t)own;
    }
    return found;
}

static syn_status read_node_ranks(int32_t *out, const syn__sim_set *set, syn_error *err) {
    const char *path = set->ranks[0].path;
    syn__file_text text;
    syn__et_decoder decoder = {.why = NULL};
    syn__et_frame frame;
    syn__et_meta meta;
    bool more = true;
    SYN_TRY(syn__file_text_open(&text, path, set->max_unpacked_bytes, err));
    syn__et_frames frames = syn__et_frames_of(path, text.data, text.bytes);
    syn_status s = syn__et_frames_next(&frames, &frame, &more, err);
    if (s == SYN_OK && more) {
        s = syn__et_decode_meta(&decoder, frame.message, &meta);
        if (s == SYN_OK) *out = node_ranks_of(&meta);
        else s = SYN_FAIL(err, s, "%.300s: the metadata is damaged", path);
    }
    syn__et_decoder_free(&decoder);
    syn__file_text_close(&text);
    return s;
}

/* ---- Groups ---- */

static int ascending(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts the group if its nodes have equal numbers of ranks. */
static syn_status sort_group(syn__expand_plan *plan, syn__sim_group *group, syn_error *err) {
    const uint32_t n = group->n_ranks;
    uint32_t pairs = 0;
    int32_t *sorted = syn_malloc(n * sizeof *sorted);
    if (sorted == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *sorted, "a group");
    memcpy(sorted, group->ranks, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    for (uint32_t i = 1; i < n; i++) pairs += same_node(sorted[i], sorted[i - 1], plan->node_ranks);
    if (syn__expand_node_width(sorted, n, plan->node_ranks) > 0)
        memcpy(group->ranks, sorted, n * sizeof *sorted);
    else if (pairs > 0 && pairs < n - 1) plan->n_uneven++;
    syn_free(sorted);
    return SYN_OK;
}

syn_status syn__expand_levels(syn__expand_plan *plan, syn__sim_set *set,
                              const syn_expand_options *options, syn_error *err) {
    *plan = (syn__expand_plan){.algorithm = options->algorithm, .node_ranks = options->node_ranks};
    if (plan->algorithm != SYN_EXPAND_HIERARCHICAL) return SYN_OK;
    if (plan->node_ranks == 0) SYN_TRY(read_node_ranks(&plan->node_ranks, set, err));
    if (plan->node_ranks == 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%.300s names no machine; give the number of ranks per node (--node-ranks)",
                        set->ranks[0].path);
    for (size_t i = 0; i < set->names.n_entries; i++)
        if (set->groups[i].used && set->groups[i].n_ranks > 1)
            SYN_TRY(sort_group(plan, &set->groups[i], err));
    return SYN_OK;
}
