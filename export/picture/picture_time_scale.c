/* Converts ns to points. The scale is the same everywhere except in cuts: long intervals in which
   nothing begins or ends on any drawn rank get a fixed width, so that there is space for everything
   else. */
#include "export/picture/picture_time.h"

#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define MIN_SLICES 40 /* with fewer slices, all are visible without cuts */
/* An interval is cut if it is longer than a fraction of the time that is not cut yet. The fraction
   is 1 / LONG_PART if something runs in the interval, and 1 / IDLE_PART if nothing runs. The limit
   is lower for idle time, because long ops are more informative. */
#define LONG_PART 4
#define IDLE_PART 12

typedef struct moment {
    int64_t at;
    int32_t begins; /* change in the number of running slices at this moment */
} moment;

typedef struct moments {
    moment *at;
    size_t n, cap;
} moments;

static int compare_moments(const void *a, const void *b) {
    const moment *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int compare_cuts(const void *a, const void *b) {
    const syn__pic_cut *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Adds the moments at which something begins or ends on the loaded rank. A user range itself does
   not count as running; only the slices within it do. */
static syn_status add_moments(const syn__pic_times *t, moments *m, syn_error *err) {
    SYN_TRY(syn_grow(&m->at, &m->cap, m->n + 3 * t->lanes.n_slices, sizeof *m->at, err));
    for (size_t i = 0; i < t->lanes.n_slices; i++) {
        const syn__slice *s = &t->lanes.slices[i];
        if (t->slices[i].depth < 0) continue;
        const int32_t runs = t->slices[i].is_range ? 0 : 1;
        m->at[m->n++] = (moment){s->start, runs};
        m->at[m->n++] = (moment){s->start + s->wait, 0};
        m->at[m->n++] = (moment){s->end, -runs};
    }
    return SYN_OK;
}

/* Whether the interval is within a drawn window and not cut yet. */
static bool can_be_cut(const syn__pic_times *t, int64_t begin, int64_t end) {
    bool drawn = false;
    for (uint32_t k = 0; k < t->n_drawn; k++) {
        const syn__pic_window *w = &t->windows[t->drawn[k]];
        drawn = drawn || (w->begin <= begin && end <= w->end);
    }
    for (uint32_t k = 0; k < t->n_cuts; k++) drawn = drawn && t->cuts[k].begin != begin;
    return drawn;
}

/* Finds the longest interval between two consecutive moments that must be cut. rest: ns of the
   drawn windows that are not cut yet. */
static bool find_cut(const syn__pic_times *t, const moments *m, int64_t rest, syn__pic_cut *out) {
    int64_t longest = 0, running = 0;
    for (size_t i = 1; i < m->n; i++) {
        const int64_t begin = m->at[i - 1].at, end = m->at[i].at;
        running += m->at[i - 1].begins;
        const int64_t least = rest / (running > 0 ? LONG_PART : IDLE_PART);
        if (end - begin <= least || end - begin <= longest || !can_be_cut(t, begin, end)) continue;
        *out = (syn__pic_cut){begin, end};
        longest = end - begin;
    }
    return longest > 0;
}

static int64_t drawn_ns(const syn__pic_times *t) {
    int64_t ns = 0;
    for (uint32_t k = 0; k < t->n_drawn; k++)
        ns += t->windows[t->drawn[k]].end - t->windows[t->drawn[k]].begin;
    return ns;
}

syn_status syn__pic_times_cuts(syn__pic_times *t, syn_error *err) {
    moments m = {0};
    size_t n_slices = 0;
    syn_status s = SYN_OK;
    for (uint32_t b = 0; b < t->n_blocks && s == SYN_OK; b++) {
        s = syn__pic_times_load(t, t->blocks[b].rank_index, err);
        if (s == SYN_OK) s = add_moments(t, &m, err);
        n_slices += t->lanes.n_slices;
    }
    if (s == SYN_OK && n_slices >= MIN_SLICES) {
        int64_t rest = drawn_ns(t);
        qsort(m.at, m.n, sizeof *m.at, compare_moments);
        for (; t->n_cuts < SYN__PIC_CUTS && find_cut(t, &m, rest, &t->cuts[t->n_cuts]); t->n_cuts++)
            rest -= t->cuts[t->n_cuts].end - t->cuts[t->n_cuts].begin;
        qsort(t->cuts, t->n_cuts, sizeof *t->cuts, compare_cuts);
    }
    syn_free(m.at);
    return s;
}

void syn__pic_times_scale(syn__pic_times *t, double points) {
    int64_t ns = drawn_ns(t);
    for (uint32_t k = 0; k < t->n_cuts; k++) ns -= t->cuts[k].end - t->cuts[k].begin;
    t->ns_pt = (points - t->n_cuts * SYN__PIC_CUT_PT) / (ns > 0 ? (double)ns : 1);
}

double syn__pic_points(const syn__pic_times *t, int64_t begin, int64_t end) {
    double points = (double)(end - begin) * t->ns_pt;
    for (uint32_t k = 0; k < t->n_cuts; k++) {
        const syn__pic_cut *c = &t->cuts[k];
        const int64_t from = begin > c->begin ? begin : c->begin;
        const int64_t to = end < c->end ? end : c->end;
        if (from >= to) continue;
        const double part = (double)(to - from) / (double)(c->end - c->begin);
        points += part * SYN__PIC_CUT_PT - (double)(to - from) * t->ns_pt;
    }
    return points;
}

int64_t syn__pic_time_after(const syn__pic_times *t, int64_t begin, int64_t end, double points) {
    if (syn__pic_points(t, begin, end) <= points) return end;
    int64_t low = begin, high = end;
    while (high - low > 1) {
        const int64_t mid = low + (high - low) / 2;
        if (syn__pic_points(t, begin, mid) < points) low = mid;
        else high = mid;
    }
    for (uint32_t k = 0; k < t->n_cuts; k++) /* do not split a cut */
        if (t->cuts[k].begin > begin && t->cuts[k].begin < high && high < t->cuts[k].end)
            return t->cuts[k].begin;
    return high;
}
