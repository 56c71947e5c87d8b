/* Divides a run into windows, and finds windows with the same ops. Windows are steps that a
   profiler marked, prefill and decode steps, or training steps. */
#include "export/picture/picture_time.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define STEP "ProfilerStep#"

static syn__pic_window *find_window(syn__pic_times *t, uint64_t key) {
    for (size_t i = t->n_windows; i-- > 0;)
        if (t->windows[i].key == key) return &t->windows[i];
    return NULL;
}

/* Extends the window with this key to include [begin, end). */
static syn_status cover(syn__pic_times *t, uint64_t key, const char *name, int64_t begin,
                        int64_t end, syn_error *err) {
    syn__pic_window *w = find_window(t, key);
    if (w == NULL) {
        SYN_TRY(syn_grow(&t->windows, &t->windows_cap, t->n_windows + 1, sizeof *t->windows, err));
        w = &t->windows[t->n_windows++];
        *w = (syn__pic_window){.key = key, .begin = begin, .end = end};
        snprintf(w->name, sizeof w->name, "%s", name);
    }
    if (begin < w->begin) w->begin = begin;
    if (end > w->end) w->end = end;
    return SYN_OK;
}

static syn_status cover_slices(syn__pic_times *t, syn_error *err) {
    char name[40];
    for (size_t i = 0; i < t->lanes.n_slices; i++) {
        const syn__slice *s = &t->lanes.slices[i];
        const syn_node *node;
        if (t->lanes.foreign && t->slices[i].depth >= 0) continue;
        SYN_TRY(syn__walk_node(&t->walk, s->node, &node, err));
        if (t->lanes.foreign) {
            const char *number = node->op + strlen(STEP);
            snprintf(name, sizeof name, "step %.20s", number);
            SYN_TRY(cover(t, strtoull(number, NULL, 10), name, s->start, s->end, err));
            continue;
        }
        if (node->phase == SYN_PHASE_PREFILL || (node->phase == SYN_PHASE_DECODE && !node->step))
            snprintf(name, sizeof name, "%s", syn_phase_name(node->phase));
        else
            snprintf(name, sizeof name, "%s %u",
                     node->phase == SYN_PHASE_DECODE ? "decode" : "step", node->step);
        SYN_TRY(cover(t, node->step, name, s->start, s->end, err));
    }
    return SYN_OK;
}

static int compare_windows(const void *a, const void *b) {
    const syn__pic_window *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

/* Numbers steps as the traced program does. */
static void name_steps(syn__pic_times *t) {
    uint64_t last = 0;
    for (size_t i = 0; i < t->n_windows; i++)
        if (t->windows[i].key > last) last = t->windows[i].key;
    for (size_t i = 0; i < t->n_windows; i++) {
        syn__pic_window *w = &t->windows[i];
        if (strncmp(w->name, "step ", 5) == 0)
            snprintf(w->name, sizeof w->name, "step %" PRId64,
                     syn__walk_step_number(t->graph, (uint32_t)w->key, (uint32_t)last));
    }
}

/* Sorts the windows, and ends each where the next begins; the last one ends when the device
   finishes. If there are no steps, the whole run is one window. */
static syn_status close_windows(syn__pic_times *t, int64_t first, int64_t last, syn_error *err) {
    if (t->n_windows == 0) SYN_TRY(cover(t, 0, "", first, last, err));
    qsort(t->windows, t->n_windows, sizeof *t->windows, compare_windows);
    for (size_t i = 0; i < t->n_windows; i++)
        t->windows[i].end = i + 1 < t->n_windows ? t->windows[i + 1].begin : last;
    if (!t->lanes.foreign) name_steps(t);
    return SYN_OK;
}

static uint64_t hash_text(const char *text, uint64_t hash) {
    for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

static syn__pic_window *window_at(syn__pic_times *t, int64_t at) {
    size_t low = 0, high = t->n_windows;
    while (high - low > 1) {
        const size_t mid = (low + high) / 2;
        if (t->windows[mid].begin <= at) low = mid;
        else high = mid;
    }
    return t->windows[low].begin <= at ? &t->windows[low] : NULL;
}

/* Adds up the hashes of the ops of each window. In PyTorch traces only host ops count, because the
   device lags behind by a varying time. */
static syn_status count_ops(syn__pic_times *t, syn_error *err) {
    for (size_t i = 0; i < t->lanes.n_slices; i++) {
        const syn__slice *s = &t->lanes.slices[i];
        const syn_node *node;
        syn__pic_window *w = window_at(t, s->start);
        if (w == NULL || t->slices[i].depth < 0) continue;
        if (t->lanes.foreign && (!s->host || t->slices[i].is_comm)) continue;
        SYN_TRY(syn__walk_node(&t->walk, s->node, &node, err));
        w->ops += hash_text(node->op, 0xcbf29ce484222325u + s->lane);
        w->n_ops++;
    }
    return SYN_OK;
}

static void choose(syn__pic_times *t, bool fold) {
    for (uint32_t i = 0; i < t->n_windows; i++) {
        syn__pic_window *w = &t->windows[i];
        w->like = i;
        for (uint32_t k = 0; k < t->n_drawn && fold; k++) {
            const syn__pic_window *first = &t->windows[t->drawn[k]];
            if (first->ops == w->ops && first->n_ops == w->n_ops) w->like = t->drawn[k];
        }
        if (w->like != i) continue;
        if (t->n_drawn < SYN__PIC_WINDOWS) t->drawn[t->n_drawn++] = i;
        else t->n_different++;
    }
}

syn_status syn__pic_times_windows(syn__pic_times *t, bool fold, syn_error *err) {
    int64_t first = INT64_MAX, last = 0;
    for (uint32_t b = 0; b < t->n_blocks; b++) {
        SYN_TRY(syn__pic_times_load(t, t->blocks[b].rank_index, err));
        SYN_TRY(cover_slices(t, err));
        for (size_t i = 0; i < t->lanes.n_slices; i++) {
            if (t->lanes.slices[i].start < first) first = t->lanes.slices[i].start;
            if (t->lanes.slices[i].end > last) last = t->lanes.slices[i].end;
        }
    }
    SYN_TRY(close_windows(t, first < last ? first : 0, last, err));
    for (uint32_t b = 0; b < t->n_blocks; b++) {
        SYN_TRY(syn__pic_times_load(t, t->blocks[b].rank_index, err));
        SYN_TRY(count_ops(t, err));
    }
    choose(t, fold);
    return SYN_OK;
}
