/* The time view in the making, in steps of a file each: windows (which parts of the run are drawn,
   which are like others), scale, rows (what stands beside what), bars. Times are ns of the
   timeline. */
#ifndef EXPORT_PICTURE_TIME_H
#define EXPORT_PICTURE_TIME_H

#include "export/picture/picture_draw.h"
#include "export/walk/timeline_lanes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PIC_FRAMES  3  /* levels of layers or modules above the ops */
#define SYN__PIC_NESTED  5  /* levels of ops that call each other */
#define SYN__PIC_RANKS   8  /* drawn at most */
#define SYN__PIC_WINDOWS 6  /* drawn at most */
#define SYN__PIC_ROWS    28 /* of a rank */
#define SYN__PIC_SHELVES 4
#define SYN__PIC_CUTS    6 /* at most */
#define SYN__PIC_CUT_PT  44.0

/* A step of the run. */
typedef struct syn__pic_window {
    uint64_t key;
    int64_t begin, end;
    uint64_t ops; /* sum of hashes of its ops, whatever their order */
    uint32_t n_ops;
    uint32_t like; /* index of the first that has the same ops: its own if it is drawn */
    char name[40]; /* "step 4", "prefill" */
} syn__pic_window;

/* What is known of a slice besides its times. */
typedef struct syn__pic_slice {
    const char *frames[SYN__PIC_FRAMES]; /* from outside to inside; NULL: no more */
    int16_t depth; /* in how many ops of its thread it lies; -1: it is a step */
    uint8_t look;
    bool is_comm, is_range; /* a range that the program named, no op */
} syn__pic_slice;

typedef struct syn__pic_row {
    uint32_t thread; /* of the rank's lanes */
    int16_t frame;   /* level of layers or modules; -1: ops */
    int16_t depth;   /* of ops */
    bool first;      /* of its thread */
} syn__pic_row;

/* ns in the windows that are drawn; host and device are never added. */
typedef struct syn__pic_busy {
    int64_t host, device, comm, hidden; /* hidden: comm beside what computes */
    int64_t wait;                       /* of communications for other ranks, not in comm */
} syn__pic_busy;

typedef struct syn__pic_block {
    uint32_t rank_index;
    syn__pic_row rows[SYN__PIC_ROWS];
    int64_t row_busy[SYN__PIC_ROWS]; /* of the row's thread, without waiting */
    uint32_t n_rows, n_left_out;
    syn__pic_busy busy;
} syn__pic_block;

/* A stretch of a window on one shelf of the page. */
typedef struct syn__pic_stretch {
    uint32_t window, shelf;
    int64_t begin, end;
    double x; /* of begin */
} syn__pic_stretch;

/* A long stretch in which nothing begins or ends: it is SYN__PIC_CUT_PT wide. */
typedef struct syn__pic_cut {
    int64_t begin, end;
} syn__pic_cut;

/* A communication that is wide enough for lines to other ranks. */
typedef struct syn__pic_joint {
    uint32_t box, rank_index, node, group, number, shelf;
    double x, top, bottom; /* x: where it ends */
} syn__pic_joint;

typedef struct syn__pic_times {
    const syn_graph *graph;
    syn__pic_drawing *drawing;
    syn__timeline timeline;
    syn_copied_ranks copies;
    syn__walk walk;
    /* of the rank at hand */
    syn__lanes lanes;
    syn__pic_slice *slices;
    size_t slices_cap;
    size_t common; /* bytes at the begin of modules that all of them have: "Net_0" */

    syn__pic_window *windows; /* by begin */
    size_t n_windows, windows_cap;
    uint32_t drawn[SYN__PIC_WINDOWS];
    uint32_t n_drawn;
    uint32_t n_unlike; /* kinds of steps that had no room */
    bool device;       /* something ran on a device, or ranks are our own */
    syn__pic_block blocks[SYN__PIC_RANKS];
    uint32_t n_blocks;
    syn__pic_stretch *stretches; /* by shelf and x */
    size_t n_stretches, stretches_cap;
    bool idle[SYN__PIC_SHELVES][SYN__PIC_RANKS];       /* nothing of this block is there */
    double tops[SYN__PIC_SHELVES][SYN__PIC_RANKS + 1]; /* of the blocks, and below the last */
    double width, height;                              /* of the axis; wished of all shelves */
    double ns_pt;                                      /* points a ns, but for cuts */
    syn__pic_cut cuts[SYN__PIC_CUTS];                  /* by begin */
    uint32_t n_cuts;
    syn__pic_joint *joints;
    size_t n_joints, joints_cap;
} syn__pic_times;

/* Makes the rank's lanes and what is known of each slice (picture_time_rows.c). */
syn_status syn__pic_times_load(syn__pic_times *t, uint32_t rank_index, syn_error *err) SYN_MUST_USE;
/* Finds windows and chooses those that are drawn (picture_time_windows.c). fold: of like ones
   the first. */
syn_status syn__pic_times_windows(syn__pic_times *t, bool fold, syn_error *err) SYN_MUST_USE;
/* Finds the cuts of the windows that are drawn, and sets ns_pt so that these are so wide
   (picture_time_scale.c). */
syn_status syn__pic_times_cuts(syn__pic_times *t, syn_error *err) SYN_MUST_USE;
void syn__pic_times_scale(syn__pic_times *t, double points);
/* How wide [begin, end) of a window is drawn; up to when, at most to `end`, it is not wider than
   `points`. */
double syn__pic_points(const syn__pic_times *t, int64_t begin, int64_t end);
int64_t syn__pic_time_after(const syn__pic_times *t, int64_t begin, int64_t end, double points);
/* The rows of the loaded rank. */
syn_status syn__pic_times_rows(syn__pic_times *t, syn__pic_block *block,
                               syn_error *err) SYN_MUST_USE;
/* Draws row `r` of the loaded rank within a stretch, its top at y (picture_time_bars.c). */
syn_status syn__pic_times_bars(syn__pic_times *t, const syn__pic_block *block, uint32_t r,
                               const syn__pic_stretch *stretch, double y,
                               syn_error *err) SYN_MUST_USE;
/* Lines between the ranks' bars of one collective, and from sends to receives. */
syn_status syn__pic_times_join(syn__pic_times *t, syn_error *err) SYN_MUST_USE;

/* Frees what is in it, not the drawing. */
void syn__pic_times_free(syn__pic_times *t);
/* "void at::native::gemm<4, float>(int)" is "gemm", "## forward ##" is "forward",
   "Optimizer.step#SGD.step" is "SGD.step". */
void syn__pic_short_name(const char *name, char *out, size_t bytes);

#define SYN__PIC_ROW_H     11.0 /* of a bar */
#define SYN__PIC_TIME_TEXT 7.0  /* points of the smallest text, in bars */

#ifdef __cplusplus
}
#endif
#endif
