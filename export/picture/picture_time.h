/* The time view: the timeline of several ranks. Each step has its own file, picture_time_STEP.c:
   windows (chooses the parts of the run to draw, and finds equal ones), scale, rows (arranges
   tracks), bars. Times are ns of the timeline. */
#ifndef EXPORT_PICTURE_TIME_H
#define EXPORT_PICTURE_TIME_H

#include "export/picture/picture_draw.h"
#include "export/walk/timeline_tracks.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PIC_FRAMES  3  /* levels of layers or modules above the ops */
#define SYN__PIC_NESTED  5  /* levels of nested ops */
#define SYN__PIC_RANKS   8  /* maximum number of ranks that are drawn */
#define SYN__PIC_WINDOWS 6  /* maximum number of windows that are drawn */
#define SYN__PIC_ROWS    28 /* maximum number of rows of a rank */
#define SYN__PIC_SHELVES 4
#define SYN__PIC_CUTS    6 /* maximum number of cuts of a picture */
#define SYN__PIC_CUT_PT  44.0

/* A step of the run, or the whole run if it has no steps. */
typedef struct syn__pic_window {
    uint64_t key;
    int64_t begin, end;
    uint64_t ops; /* sum of the hashes of its ops, independent of their order */
    uint32_t n_ops;
    uint32_t like; /* index of the first window with the same ops; its own index if it is drawn */
    char name[40]; /* "step 4", "prefill" */
} syn__pic_window;

/* Properties of a slice apart from its times. */
typedef struct syn__pic_slice {
    const char *frames[SYN__PIC_FRAMES]; /* layers or modules around the slice, outermost first;
                                            NULL: end of the list */
    int16_t depth; /* number of slices of its thread that enclose it; -1: it is a step marker */
    uint8_t look;
    bool is_comm, is_range; /* is_range: a user range, not an op */
} syn__pic_slice;

typedef struct syn__pic_row {
    uint32_t thread; /* index into lanes.threads of the rank */
    int16_t frame;   /* level of the layers or modules that the row shows; -1: the row shows ops */
    int16_t depth;   /* rows of ops: their nesting level */
    bool first;      /* the row is the first of its thread */
} syn__pic_row;

/* Sums in ns over the windows that are drawn. Host and device times are never added up. */
typedef struct syn__pic_busy {
    int64_t host, device, comm, hidden; /* hidden: the part of comm that overlaps computation */
    int64_t wait; /* time for which communications wait for other ranks, not included in comm */
} syn__pic_busy;

typedef struct syn__pic_block {
    uint32_t rank_index;
    syn__pic_row rows[SYN__PIC_ROWS];
    int64_t row_busy[SYN__PIC_ROWS]; /* busy time of the row's thread, without waiting for other
                                        ranks */
    uint32_t n_rows, n_left_out;
    syn__pic_busy busy;
} syn__pic_block;

/* A piece of a window that lies on one shelf, which is a line of the page. */
typedef struct syn__pic_stretch {
    uint32_t window, shelf;
    int64_t begin, end;
    double x; /* x at which `begin` is drawn */
} syn__pic_stretch;

/* A cut: a long interval in which nothing begins or ends. It is drawn SYN__PIC_CUT_PT wide,
   whatever its length. */
typedef struct syn__pic_cut {
    int64_t begin, end;
} syn__pic_cut;

/* A communication whose bar is wide enough for lines to the bars of other ranks. */
typedef struct syn__pic_joint {
    uint32_t box, rank_index, node, group, number, shelf;
    double x, top, bottom; /* x: the end of the bar */
} syn__pic_joint;

typedef struct syn__pic_times {
    const syn_graph *graph;
    syn__pic_drawing *drawing;
    syn__timeline timeline;
    syn_copied_ranks copies;
    syn__walk walk;
    /* The next members describe the loaded rank: */
    syn__tracks lanes;
    syn__pic_slice *slices;
    size_t slices_cap;
    size_t common; /* length of the path prefix that all modules share: "Net_0" */

    syn__pic_window *windows; /* sorted by begin */
    size_t n_windows, windows_cap;
    uint32_t drawn[SYN__PIC_WINDOWS];
    uint32_t n_drawn;
    uint32_t n_different; /* number of different steps that are not drawn for lack of space */
    bool device;          /* whether the trace has device work or was recorded by Syntorch */
    syn__pic_block blocks[SYN__PIC_RANKS];
    uint32_t n_blocks;
    syn__pic_stretch *stretches; /* sorted by shelf and x */
    size_t n_stretches, stretches_cap;
    bool idle[SYN__PIC_SHELVES][SYN__PIC_RANKS];       /* whether the block is empty on the shelf */
    double tops[SYN__PIC_SHELVES][SYN__PIC_RANKS + 1]; /* y of each block, and of the end of the
                                                          last block */
    double width, height;             /* width of the time axis; desired height of all shelves
                                         together */
    double ns_pt;                     /* points per ns outside of cuts */
    syn__pic_cut cuts[SYN__PIC_CUTS]; /* sorted by begin */
    uint32_t n_cuts;
    syn__pic_joint *joints;
    size_t n_joints, joints_cap;
} syn__pic_times;

/* Loads a rank: its tracks, and the properties of each slice (picture_time_rows.c). */
syn_status syn__pic_times_load(syn__pic_times *t, uint32_t rank_index, syn_error *err) SYN_MUST_USE;
/* Finds the windows and chooses the ones to draw (picture_time_windows.c). fold: draw only the
   first of equal windows. */
syn_status syn__pic_times_windows(syn__pic_times *t, bool fold, syn_error *err) SYN_MUST_USE;
/* syn__pic_times_cuts finds the cuts in the drawn windows; syn__pic_times_scale sets ns_pt so that
   these windows together are `points` wide (picture_time_scale.c). */
syn_status syn__pic_times_cuts(syn__pic_times *t, syn_error *err) SYN_MUST_USE;
void syn__pic_times_scale(syn__pic_times *t, double points);
/* syn__pic_points returns the width of [begin, end) in points. syn__pic_time_after returns the
   latest time, at most `end`, for which [begin, time) is not wider than `points`. */
double syn__pic_points(const syn__pic_times *t, int64_t begin, int64_t end);
int64_t syn__pic_time_after(const syn__pic_times *t, int64_t begin, int64_t end, double points);
/* Computes the rows and busy times of the loaded rank. */
syn_status syn__pic_times_rows(syn__pic_times *t, syn__pic_block *block,
                               syn_error *err) SYN_MUST_USE;
/* Draws row `r` of the loaded rank within a stretch, with its top at y (picture_time_bars.c). */
syn_status syn__pic_times_bars(syn__pic_times *t, const syn__pic_block *block, uint32_t r,
                               const syn__pic_stretch *stretch, double y,
                               syn_error *err) SYN_MUST_USE;
/* Draws lines between the bars that a collective has on several ranks, and from sends to
   receives. */
syn_status syn__pic_times_join(syn__pic_times *t, syn_error *err) SYN_MUST_USE;

/* Frees the members, but not the drawing. */
void syn__pic_times_free(syn__pic_times *t);
/* Shortens a name: "void at::native::gemm<4, float>(int)" becomes "gemm", "## forward ##" becomes
   "forward", and "Optimizer.step#SGD.step" becomes "SGD.step". */
void syn__pic_short_name(const char *name, char *out, size_t bytes);

#define SYN__PIC_ROW_H     11.0 /* height of a bar */
#define SYN__PIC_TIME_TEXT 7.0  /* smallest text in bars, in points */

#ifdef __cplusplus
}
#endif
#endif
