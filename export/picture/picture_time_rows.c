/* Determines the properties of each slice of a rank, and the rows of its threads and streams. */
#include "export/picture/picture_time.h"

#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"

/* ---- slices ---- */

static const syn_attribute *attribute(const syn_node *node, const char *name, syn_value_type type) {
    for (uint32_t i = 0; i < node->n_attributes; i++)
        if (node->attributes[i].type == type && strcmp(node->attributes[i].name, name) == 0)
            return &node->attributes[i];
    return NULL;
}

/* Whether a user range was made by a library. Such ranges, for example "nccl:all_reduce", describe
   the op around them, not the program. */
static bool is_library(const syn_node *node) {
    return strncmp(node->op, "nccl:", 5) == 0 || strncmp(node->op, "gloo:", 5) == 0;
}

static uint8_t look_of(const syn_node *node, bool is_comm, bool range) {
    if (range) return SYN__PIC_TIME_RANGE;
    if (is_comm) return SYN__PIC_TIME + SYN_CATEGORY_COMMUNICATION;
    if (node->kind == SYN_NODE_MEMORY) return SYN__PIC_TIME + SYN_CATEGORY_DATA_MOVEMENT;
    return (uint8_t)(SYN__PIC_TIME + node->category);
}

/* Splits a path such as "h.0.attn" or "Net_0/Block_1/Linear_0" into frames and appends them to the
   slice. A name that the previous slice has at the same level is not copied again; both slices
   point to it. */
static syn_status cut_frames(syn__pic_times *t, const char *path, char between,
                             const syn__pic_slice *before, syn__pic_slice *out, syn_error *err) {
    const size_t layer = between == '.' ? syn__walk_layer_prefix(path) : 0;
    const char *part = path;
    int k = 0;
    while (k < SYN__PIC_FRAMES && out->frames[k] != NULL) k++;
    for (; k < SYN__PIC_FRAMES && *part != '\0'; k++) {
        const char *end = part == path && layer > 0 ? path + layer : strchr(part, between);
        const size_t n = end != NULL ? (size_t)(end - part) : strlen(part);
        const char *known = before != NULL ? before->frames[k] : NULL;
        if (known != NULL && strlen(known) == n && memcmp(known, part, n) == 0)
            out->frames[k] = known;
        else out->frames[k] = syn__arena_text(&t->drawing->arena, (syn__str){part, n});
        if (out->frames[k] == NULL) return SYN_FAIL_NOMEM(err, n, "a picture");
        part += n;
        if (*part == between) part++;
    }
    return SYN_OK;
}

static syn_status describe(syn__pic_times *t, size_t i, syn_error *err) {
    const syn__slice *s = &t->lanes.slices[i];
    syn__pic_slice *out = &t->slices[i];
    const syn_node *node;
    SYN_TRY(syn__walk_node(&t->walk, s->node, &node, err));
    *out = (syn__pic_slice){.is_comm = syn__walk_is_comm(node)};
    const bool range = s->host && !out->is_comm && syn__walk_is_range(node);
    out->is_range = range && !is_library(node);
    out->look = look_of(node, out->is_comm, range);
    const uint32_t outer = s->host ? t->lanes.outer[i] : UINT32_MAX;
    if (out->is_range && strncmp(node->op, "ProfilerStep#", 13) == 0) out->depth = -1;
    else if (outer != UINT32_MAX && t->slices[outer].depth < INT16_MAX)
        out->depth = (int16_t)(t->slices[outer].depth + 1);
    const syn__pic_slice *before = i > 0 ? out - 1 : NULL;
    const syn_attribute *module = attribute(node, "module", SYN_VALUE_TEXT);
    if (t->lanes.foreign && module != NULL && module->text != NULL && s->host) {
        const char *path = module->text + t->common;
        return cut_frames(t, *path == '/' ? path + 1 : path, '/', before, out, err);
    }
    if (t->lanes.foreign || s->lane != 0) return SYN_OK;
    if (node->phase != SYN_PHASE_PREFILL && node->phase != SYN_PHASE_DECODE)
        out->frames[0] = syn_phase_name(node->phase);
    return cut_frames(t, node->scope, '.', before, out, err);
}

static bool at_end(char c) {
    return c == '\0' || c == '/';
}

/* Shortens *common, the length of the prefix that all modules so far share ("Net_0"), to what this
   module shares. */
static void share(const char *path, const char *first, size_t *common) {
    size_t whole = 0;
    for (size_t n = 0; n <= *common && (n == 0 || path[n - 1] == first[n - 1]); n++)
        if (at_end(path[n]) && at_end(first[n])) whole = n;
    *common = whole;
}

static syn_status find_common(syn__pic_times *t, syn_error *err) {
    const char *first = NULL;
    t->common = 0;
    for (size_t i = 0; i < t->lanes.n_slices && t->lanes.foreign; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(&t->walk, t->lanes.slices[i].node, &node, err));
        const syn_attribute *a = attribute(node, "module", SYN_VALUE_TEXT);
        if (a == NULL || a->text == NULL) continue;
        if (first == NULL) {
            first = syn__arena_copy(&t->drawing->arena, a->text);
            if (first == NULL) return SYN_FAIL_NOMEM(err, 1, "a picture");
            t->common = strlen(first);
        }
        share(a->text, first, &t->common);
    }
    return SYN_OK;
}

syn_status syn__pic_times_load(syn__pic_times *t, uint32_t rank_index, syn_error *err) {
    syn__walk_select(&t->walk, rank_index);
    SYN_TRY(syn__tracks_fill(&t->lanes, &t->timeline, &t->walk, rank_index, err));
    SYN_TRY(syn_grow(&t->slices, &t->slices_cap, t->lanes.n_slices + 1, sizeof *t->slices, err));
    SYN_TRY(find_common(t, err));
    for (size_t i = 0; i < t->lanes.n_slices; i++) SYN_TRY(describe(t, i, err));
    return SYN_OK;
}

/* ---- busy times ---- */

typedef struct span {
    int64_t begin, end;
} span;

typedef struct spans {
    span *at;
    size_t n, cap;
} spans;

static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Merges overlapping spans. Returns the sum of their lengths. */
static int64_t merge(spans *s) {
    int64_t sum = 0;
    size_t n = 0;
    if (s->n == 0) return 0;
    qsort(s->at, s->n, sizeof *s->at, compare_spans);
    for (size_t i = 0; i < s->n; i++) {
        if (n == 0 || s->at[i].begin > s->at[n - 1].end) s->at[n++] = s->at[i];
        else if (s->at[i].end > s->at[n - 1].end) s->at[n - 1].end = s->at[i].end;
    }
    s->n = n;
    for (size_t i = 0; i < n; i++) sum += s->at[i].end - s->at[i].begin;
    return sum;
}

static int64_t common(const spans *a, const spans *b) {
    int64_t sum = 0;
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        const int64_t begin = a->at[i].begin > b->at[k].begin ? a->at[i].begin : b->at[k].begin;
        const int64_t end = a->at[i].end < b->at[k].end ? a->at[i].end : b->at[k].end;
        if (begin < end) sum += end - begin;
        if (a->at[i].end < b->at[k].end) i++;
        else k++;
    }
    return sum;
}

/* Appends the parts of [begin, end) that are in drawn windows. */
static syn_status take(syn__pic_times *t, spans *s, int64_t begin, int64_t end, syn_error *err) {
    for (uint32_t k = 0; k < t->n_drawn; k++) {
        const syn__pic_window *w = &t->windows[t->drawn[k]];
        const int64_t from = begin > w->begin ? begin : w->begin;
        const int64_t to = end < w->end ? end : w->end;
        if (from >= to) continue;
        SYN_TRY(syn_grow(&s->at, &s->cap, s->n + 1, sizeof *s->at, err));
        s->at[s->n++] = (span){from, to};
    }
    return SYN_OK;
}

/* Appends to `out` the parts of `from` outside all spans of `without`; both must be merged. */
static syn_status subtract(spans *out, const spans *from, const spans *without, syn_error *err) {
    SYN_TRY(syn_grow(&out->at, &out->cap, out->n + from->n + without->n, sizeof *out->at, err));
    for (size_t i = 0, k = 0; i < from->n; i++) {
        int64_t begin = from->at[i].begin;
        const int64_t end = from->at[i].end;
        while (k < without->n && without->at[k].end <= begin) k++;
        for (size_t j = k; j < without->n && without->at[j].begin < end; j++) {
            if (without->at[j].begin > begin)
                out->at[out->n++] = (span){begin, without->at[j].begin};
            if (without->at[j].end > begin) begin = without->at[j].end;
        }
        if (begin < end) out->at[out->n++] = (span){begin, end};
    }
    return SYN_OK;
}

/* Busy times of a rank. computing: the time that threads spend in ops, except while they
   communicate. */
typedef struct use {
    spans host, device, comm, wait, thread, calls, computing;
} use;

/* Adds the computing time of the current thread, whose slices have all been added. */
static syn_status close_thread(use *u, syn_error *err) {
    (void)merge(&u->thread);
    (void)merge(&u->calls);
    SYN_TRY(subtract(&u->computing, &u->thread, &u->calls, err));
    u->thread.n = u->calls.n = 0;
    return SYN_OK;
}

static syn_status add_up(syn__pic_times *t, syn__pic_block *block, use *u, syn_error *err) {
    for (size_t i = 0; i < t->lanes.n_slices; i++) {
        const syn__slice *s = &t->lanes.slices[i];
        const syn__pic_slice *p = &t->slices[i];
        if (i > 0 && s->lane != s[-1].lane) SYN_TRY(close_thread(u, err));
        if (p->is_range || p->depth < 0) continue;
        const int64_t begin = s->start + (p->is_comm ? s->wait : 0);
        if (p->is_comm) SYN_TRY(take(t, &u->wait, s->start, begin, err));
        SYN_TRY(take(t,
                     p->is_comm ? &u->comm
                     : s->host  ? &u->host
                                : &u->device,
                     begin, s->end, err));
        if (s->host) SYN_TRY(take(t, p->is_comm ? &u->calls : &u->thread, s->start, s->end, err));
    }
    SYN_TRY(close_thread(u, err));
    (void)merge(&u->computing);
    block->busy.host = merge(&u->host);
    block->busy.device = merge(&u->device);
    block->busy.comm = merge(&u->comm);
    block->busy.wait = merge(&u->wait);
    block->busy.hidden = common(&u->comm, u->device.n > 0 ? &u->device : &u->computing);
    if (block->busy.device > 0) t->device = true;
    return SYN_OK;
}

/* ---- rows ---- */

static void add_row(syn__pic_block *block, const syn__pic_row *row, int64_t busy) {
    if (block->n_rows == SYN__PIC_ROWS) {
        block->n_left_out++;
        return;
    }
    block->row_busy[block->n_rows] = busy;
    block->rows[block->n_rows++] = *row;
}

/* Adds the rows of one thread. first: index of the first slice of its lane. */
static syn_status add_thread(syn__pic_times *t, syn__pic_block *block, uint32_t index, size_t first,
                             use *u, syn_error *err) {
    const syn__track_thread *thread = &t->lanes.threads[index];
    int16_t frames = 0, depths = 0;
    u->thread.n = 0;
    for (size_t i = first; i < t->lanes.n_slices && t->lanes.slices[i].lane == thread->lane; i++) {
        const syn__slice *s = &t->lanes.slices[i];
        const syn__pic_slice *p = &t->slices[i];
        const size_t n = u->thread.n;
        if (s->tid != thread->tid || p->depth < 0) continue;
        SYN_TRY(take(t, &u->thread, s->start, s->end, err));
        if (u->thread.n == n) continue; /* the slice is in no window that is drawn */
        u->thread.n = n;
        if (!p->is_range)
            SYN_TRY(take(t, &u->thread, s->start + (p->is_comm ? s->wait : 0), s->end, err));
        if (p->depth >= depths) depths = (int16_t)(p->depth + 1);
        while (frames < SYN__PIC_FRAMES && p->frames[frames] != NULL) frames++;
    }
    if (depths > SYN__PIC_NESTED) depths = SYN__PIC_NESTED;
    const int64_t busy = merge(&u->thread);
    bool is_first = true;
    for (int16_t k = 0; k < frames; k++, is_first = false)
        add_row(block, &(syn__pic_row){index, k, 0, is_first}, busy);
    for (int16_t k = 0; k < depths; k++, is_first = false)
        add_row(block, &(syn__pic_row){index, -1, k, is_first}, busy);
    return SYN_OK;
}

static syn_status add_threads(syn__pic_times *t, syn__pic_block *block, bool host, use *u,
                              syn_error *err) {
    size_t first = 0;
    for (uint32_t i = 0; i < t->lanes.n_threads; i++) {
        while (t->lanes.slices[first].lane < t->lanes.threads[i].lane) first++;
        if (t->lanes.threads[i].host == host) SYN_TRY(add_thread(t, block, i, first, u, err));
    }
    return SYN_OK;
}

syn_status syn__pic_times_rows(syn__pic_times *t, syn__pic_block *block, syn_error *err) {
    use u = {0};
    syn_status s = add_up(t, block, &u, err);
    if (s == SYN_OK) s = add_threads(t, block, true, &u, err);
    if (s == SYN_OK) s = add_threads(t, block, false, &u, err);
    syn_free(u.host.at);
    syn_free(u.device.at);
    syn_free(u.comm.at);
    syn_free(u.wait.at);
    syn_free(u.thread.at);
    syn_free(u.calls.at);
    syn_free(u.computing.at);
    return s;
}
