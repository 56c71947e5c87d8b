/* Writes further ranks of a trace set that has only some of its ranks' files (syn_stamp_more). The
   plan is read from the metadata and the groups of one of the files. */
#include <stdlib.h>
#include <string.h>

#include "export/chakra/et_ring.h"
#include "export/chakra/et_stamp.h"
#include "export/chakra/wire/et_files.h"
#include "export/chakra/wire/et_wire.h"
#include "export/text/file_text.h"
#include "syntorch/base/memory.h"

/* A file of the set. */
typedef struct recorded {
    syn__file_text text;
    syn__str nodes;  /* their messages */
    syn_graph *head; /* rank, metadata and groups; no nodes */
} recorded;

static void close_file(recorded *file) {
    syn_graph_free(file->head);
    syn__file_text_close(&file->text);
}

static syn_status open_file(recorded *file, const char *path, syn_error *err) {
    syn__str meta;
    *file = (recorded){.head = NULL};
    SYN_TRY(syn__file_text_open(&file->text, path, 0, err));
    const syn__file_text *t = &file->text;
    syn__et_reader reader = {t->data, t->data + t->bytes, NULL};
    const size_t begin =
        syn__et_read_message(&reader, &meta) ? (size_t)(reader.cur - t->data) : t->bytes;
    file->nodes = (syn__str){t->data + begin, t->bytes - begin};
    const syn_status s = t->cut
                             ? SYN_FAIL(err, SYN_E_FORMAT,
                                        "%.200s: the compressed data is damaged or truncated", path)
                             : syn_import_et_memory(&file->head, path, t->data, begin, err);
    if (s != SYN_OK) close_file(file);
    return s;
}

/* An integer of the metadata, which is text in execution traces; `otherwise` if it is missing. */
static int32_t number_of(const syn_graph *graph, const char *name, int32_t otherwise) {
    const syn_attribute *a = syn_graph_meta(graph, name);
    if (a == NULL) return otherwise;
    const long long value = a->type == SYN_VALUE_TEXT ? strtoll(a->text, NULL, 10) : a->i64;
    return value > 0 && value < SYN_MAX_WORLD ? (int32_t)value : 0;
}

/* The number of ranks of this rank's group whose name begins with `kind`; 0: there is none. */
static int32_t group_size(const syn_graph *graph, const char *kind) {
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        const syn_graph_group *g = &graph->groups[i];
        if (strncmp(g->name, kind, strlen(kind)) == 0) return (int32_t)g->n_ranks;
    }
    return 0;
}

/* The set's cp_comm, which is missing without context parallelism. */
static syn_cp_comm comm_of(const syn_graph *graph) {
    const syn_attribute *a = syn_graph_meta(graph, "cp_comm");
    syn_cp_comm comm = SYN_CP_A2A_P2P;
    if (a == NULL || a->type != SYN_VALUE_TEXT) return SYN_CP_P2P;
    while (comm > 0 && strcmp(a->text, syn_cp_comm_name(comm)) != 0) comm--;
    return comm;
}

/* Only DualPipe has other groups than the other schedules. */
static syn_schedule schedule_of(const syn_graph *graph) {
    const syn_attribute *a = syn_graph_meta(graph, "schedule");
    const char *dual = syn_schedule_name(SYN_SCHEDULE_DUALPIPE);
    const bool is_dual = a != NULL && a->type == SYN_VALUE_TEXT && strcmp(a->text, dual) == 0;
    return is_dual ? SYN_SCHEDULE_DUALPIPE : SYN_SCHEDULE_1F1B;
}

/* Whether ranks with different experts have different programs: each expert has its own load. */
static bool is_skewed(const syn_graph *graph) {
    return syn_graph_meta(graph, "routing") != NULL && syn_graph_meta(graph, "capacity") == NULL;
}

static syn_status plan_of(syn_plan *plan, const syn_graph *graph, const char *prefix,
                          syn_error *err) {
    const syn_attribute *order = syn_graph_meta(graph, "rank_order");
    const int32_t gathers = group_size(graph, "gather");
    *plan = (syn_plan){.ranks = graph->world_size,
                       .tp = number_of(graph, "tp", 0),
                       .dp = number_of(graph, "dp", 1),
                       .pp = number_of(graph, "pp", 1),
                       .cp = number_of(graph, "cp", 1),
                       .cp_comm = comm_of(graph),
                       .cp_a2a = group_size(graph, "cp_a2a"),
                       .ep = number_of(graph, "ep", 1),
                       .etp = number_of(graph, "etp", 0),
                       .kv = group_size(graph, "kv"),
                       .schedule = schedule_of(graph),
                       .inference = syn_graph_meta(graph, "prompt_tokens") != NULL,
                       .skewed = is_skewed(graph),
                       .counts = true}; /* these groups are the last; a set may use none */
    if (order != NULL && order->type == SYN_VALUE_TEXT) plan->order = syn_plan_order(order->text);
    if (plan->tp == 0 || plan->dp == 0 || plan->pp == 0 || plan->cp == 0 || plan->ep == 0 ||
        (order != NULL && plan->order == NULL))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the set '%.200s' does not say how its ranks are divided (tp, dp, pp): was "
                        "it written by synth?",
                        prefix);
    if (gathers > 0) {
        plan->zero = 3;
        plan->hsdp = gathers < plan->dp * plan->cp ? gathers : 0;
    } else if (group_size(graph, "world") > 0) {
        plan->zero = 1; /* 1 and 2 have the same groups */
    }
    return syn_plan_complete(plan, err);
}

static int32_t stage_of(const syn_plan *plan, int32_t rank) {
    int32_t stride[SYN_AXES];
    syn_plan_strides(plan, stride);
    return rank / stride[SYN_AXIS_PP] % plan->pp;
}

static syn_status stamp_file(syn_stamper *stamper, const syn_plan *plan, const recorded *file,
                             int32_t rank, syn_error *err) {
    if (syn_stamp_next(stamper, stage_of(plan, rank)) < 0) return SYN_OK;
    return syn__stamp_file(stamper, file->head, file->text.name, file->nodes, err);
}

/* Writes the wanted ranks from the files of their stages. first: file number `known`. */
static syn_status stamp_files(syn_stamper *stamper, const syn_plan *plan,
                              const syn__et_files *files, size_t known, const recorded *first,
                              syn_error *err) {
    SYN_TRY(stamp_file(stamper, plan, first, files->list[known].rank, err));
    for (size_t i = 0; i < files->n; i++) {
        const int32_t rank = files->list[i].rank;
        recorded other;
        if (i == known || syn_stamp_next(stamper, stage_of(plan, rank)) < 0) continue;
        SYN_TRY(open_file(&other, files->list[i].path, err));
        const syn_status s = stamp_file(stamper, plan, &other, rank, err);
        close_file(&other);
        SYN_TRY(s);
    }
    for (int32_t stage = 0; stage < plan->pp; stage++) {
        const int32_t left = syn_stamp_next(stamper, stage);
        if (left >= 0)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "no file of the set has the program of rank %d; write one with synth "
                            "--ranks one-per-program",
                            (int)left);
    }
    return SYN_OK;
}

/* Marks the ranks to write: those that are asked for, except for files that exist. */
static syn_status choose(bool *wanted, const syn_plan *plan, const syn__et_files *files,
                         const int32_t *ranks, size_t n, syn_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= plan->ranks)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "rank %d does not exist: the set's highest rank is %d", (int)ranks[i],
                            (int)plan->ranks - 1);
        wanted[ranks[i]] = true;
    }
    for (size_t i = 0; i < files->n; i++)
        if (files->list[i].rank < plan->ranks) wanted[files->list[i].rank] = false;
    return SYN_OK;
}

/* The last file whose rank is not above `rank`, or else the first. In most plans it is in the stage
   of this rank. */
static size_t file_below(const syn__et_files *files, int32_t rank) {
    size_t i = files->n - 1;
    while (i > 0 && files->list[i].rank > rank) i--;
    return i;
}

/* first: file number `known`. */
static syn_status stamp_set(const syn__et_files *files, size_t known, const recorded *first,
                            const char *prefix, const int32_t *ranks, size_t n,
                            syn_stamp_counts *written, syn_error *err) {
    syn_stamp_options options = {
        .add = true, .gzip = first->text.packed, .node_ranks = syn__et_node_ranks(first->head)};
    syn_plan plan;
    syn_stamper *stamper = NULL;
    SYN_TRY(plan_of(&plan, first->head, prefix, err));
    bool *wanted = syn_calloc((size_t)plan.ranks, sizeof *wanted);
    syn_status s = wanted ? choose(wanted, &plan, files, ranks, n, err)
                          : SYN_FAIL_NOMEM(err, (size_t)plan.ranks, "ranks");
    options.wanted = wanted;
    if (s == SYN_OK) s = syn_stamp_open(&stamper, &plan, prefix, &options, err);
    if (s == SYN_OK) s = stamp_files(stamper, &plan, files, known, first, err);
    if (s == SYN_OK && written != NULL) *written = syn_stamp_count(stamper);
    const syn_status closed = syn_stamp_close(stamper, s == SYN_OK, err);
    syn_free(wanted);
    return s == SYN_OK ? closed : s;
}

syn_status syn_stamp_more(const char *prefix, const int32_t *ranks, size_t n,
                          syn_stamp_counts *written, syn_error *err) {
    syn__et_files files;
    recorded first;
    if (n == 0) return SYN_FAIL(err, SYN_E_INVALID, "no rank was given");
    SYN_TRY(syn__et_files_of_prefix(&files, prefix, strlen(prefix), err));
    if (files.groups == NULL) {
        syn__et_files_close(&files);
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the set '%.200s' is incomplete: it has no comm_group.json", prefix);
    }
    const size_t known = file_below(&files, ranks[0]);
    syn_status s = open_file(&first, files.list[known].path, err);
    if (s == SYN_OK) {
        s = stamp_set(&files, known, &first, prefix, ranks, n, written, err);
        close_file(&first);
    }
    syn__et_files_close(&files);
    return s;
}
