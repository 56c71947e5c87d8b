/* Writes a trace set from a few recorded ranks (stamp.h): which ranks are alike, their groups, and
   the files. et_program.c encodes a recorded rank and fills in the slots of the other ranks. */
#include "export/chakra/et_stamp.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "export/chakra/et_program.h"
#include "export/chakra/et_ring.h"
#include "export/chakra/wire/et_files.h"
#include "export/text/file_text_deflate.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"

enum { STAMP_THREADS = 16 }; /* more do not write faster */

/* The kinds of groups that ranks use. */
struct used {
    bool known; /* a rank of the stage was recorded */
    bool kind[SYN_MESH_KINDS];
};

struct syn_stamper {
    syn_plan plan;
    syn__et_names names;
    syn_stamp_options options;
    bool announced;
    syn_error failure; /* the first one, after which nothing is written */
    bool *done;        /* by rank: written or not wanted */
    struct used *used; /* by stage; the last one: by any stage */
    syn_stamp_counts counts;
    syn_workers *workers; /* NULL: one thread */
    char *prefix;
    pthread_mutex_t lock; /* held while files are written and while `done` and `used` are used */
};

/* ---- Groups ---- */

/* Computes the rank's groups of the kinds that are used. */
static void used_groups(const syn_stamper *s, const bool used[SYN_MESH_KINDS], int32_t rank,
                        syn_mesh_group groups[SYN_MESH_KINDS]) {
    syn_mesh_groups(&s->plan, rank, groups);
    for (int k = 0; k < SYN_MESH_KINDS; k++)
        if (!used[k]) groups[k].id = 0;
}

/* Sets graph->groups to n groups, which free_groups frees. */
static syn_status make_groups(syn_graph *graph, const syn_mesh_group *groups, size_t n,
                              syn_error *err) {
    size_t ranks = 0;
    for (size_t i = 0; i < n; i++) ranks += groups[i].id != 0 ? (size_t)groups[i].n : 0;
    graph->n_groups = 0;
    graph->groups = syn_malloc((n + 1) * sizeof *graph->groups);
    int32_t *list = syn_malloc((ranks + 1) * sizeof *list);
    if (!graph->groups || !list) {
        syn_free(graph->groups);
        syn_free(list);
        graph->groups = NULL;
        return SYN_FAIL_NOMEM(err, ranks * sizeof *list, "groups");
    }
    /* The first group's list is the start of the memory. */
    for (size_t i = 0; i < n; i++) {
        if (groups[i].id == 0) continue;
        for (int32_t k = 0; k < groups[i].n; k++) list[k] = syn_mesh_group_rank(&groups[i], k);
        graph->groups[graph->n_groups++] =
            (syn_graph_group){groups[i].id, groups[i].name, list, (uint32_t)groups[i].n};
        list += groups[i].n;
    }
    if (graph->n_groups == 0) syn_free(list);
    return SYN_OK;
}

static void free_groups(syn_graph *graph) {
    if (graph->n_groups > 0) syn_free((void *)(uintptr_t)graph->groups[0].ranks);
    syn_free(graph->groups);
}

static int32_t stage_of(const syn_stamper *s, int32_t rank) {
    int32_t stride[SYN_AXES];
    syn_plan_strides(&s->plan, stride);
    return rank / stride[SYN_AXIS_PP] % s->plan.pp;
}

static void note_used(syn_stamper *s, int32_t rank, const bool used[SYN_MESH_KINDS]) {
    struct used *places[] = {&s->used[stage_of(s, rank)], &s->used[s->plan.pp]};
    for (int i = 0; i < 2; i++) {
        places[i]->known = true;
        for (int k = 0; k < SYN_MESH_KINDS; k++) places[i]->kind[k] = places[i]->kind[k] || used[k];
    }
}

/* Whether a rank's group of a kind is used. All ranks of a group are in one stage, or it has ranks
   of several stages, of which each may use it. */
static bool is_used(const syn_stamper *s, syn_mesh_kind kind, int32_t rank) {
    const bool across = kind == SYN_MESH_PP || kind == SYN_MESH_EMBEDDING ||
                        kind == SYN_MESH_MODEL || kind == SYN_MESH_WORLD;
    const struct used *own = &s->used[stage_of(s, rank)], *any = &s->used[s->plan.pp];
    return across || !own->known ? any->kind[kind] : own->kind[kind];
}

/* Writes comm_group.json. Each group is listed by its first rank. */
static syn_status write_groups(syn_stamper *s, syn_error *err) {
    syn_graph graph = {.world_size = s->plan.ranks};
    syn_mesh_group *all = NULL, of_rank[SYN_MESH_KINDS];
    size_t n = 0, cap = 0;
    syn_status status = SYN_OK;
    syn_sink *sink = NULL;
    for (int32_t r = 0; r < s->plan.ranks && status == SYN_OK; r++) {
        bool used[SYN_MESH_KINDS];
        for (int k = 0; k < SYN_MESH_KINDS; k++) used[k] = is_used(s, (syn_mesh_kind)k, r);
        used_groups(s, used, r, of_rank);
        status = syn_grow(&all, &cap, n + SYN_MESH_KINDS, sizeof *all, err);
        for (int k = 0; k < SYN_MESH_KINDS && status == SYN_OK; k++)
            if (of_rank[k].id != 0 && syn_mesh_group_rank(&of_rank[k], 0) == r)
                all[n++] = of_rank[k];
    }
    if (status == SYN_OK) status = make_groups(&graph, all, n, err);
    if (status == SYN_OK) status = syn_sink_open_file(&sink, syn__et_group_path(&s->names), err);
    if (status == SYN_OK) {
        status = syn_export_comm_group(&graph, s->options.node_ranks, sink, err);
        const syn_status closed = syn_sink_close(sink, status == SYN_OK, err);
        if (status == SYN_OK) status = closed;
    }
    free_groups(&graph);
    syn_free(all);
    return status;
}

/* ---- Ranks with the same times ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * 1099511628211u; /* FNV-1a */
}

static int32_t node_of(const syn_stamper *s, int32_t rank) {
    return rank / s->options.node_ranks;
}

/* The nodes of a group, and the largest number of its ranks on one of them. */
struct nodes {
    int32_t nodes, most;
};

/* A group with one stride has the same pattern of ranks on every `stride` nodes, so a long group
   need not be counted to its end. */
static struct nodes nodes_of(const syn_mesh_group *g, int32_t node_ranks) {
    const bool plain = g->inner == g->n, apart = plain && g->stride >= node_ranks;
    const int32_t enough = 2 * node_ranks + 2;
    const int32_t counted = plain && g->n > enough ? enough : g->n;
    struct nodes n = {0, 0};
    if (apart) return (struct nodes){g->n, 1};
    for (int32_t i = 0, last = -1, here = 0; i < counted; i++) {
        const int32_t node = syn_mesh_group_rank(g, i) / node_ranks;
        here = node == last ? here + 1 : 1;
        n.nodes += node != last;
        n.most = here > n.most ? here : n.most;
        last = node;
    }
    if (plain) n.nodes = syn_mesh_group_rank(g, g->n - 1) / node_ranks - g->first / node_ranks + 1;
    return n;
}

/* A hash of everything that the predicted times of a rank's communication depend on: on how many
   nodes each group is, how many of its ranks share a node, and which ranks of the pipeline and of
   the cp group are on this rank's node. The group of all ranks is the same for all. */
static uint64_t placement(const syn_stamper *s, const bool used[SYN_MESH_KINDS], int32_t rank) {
    syn_mesh_group groups[SYN_MESH_KINDS];
    uint64_t hash = 14695981039346656037u;
    if (s->options.node_ranks <= 0) return 0;
    syn_mesh_groups(&s->plan, rank, groups);
    for (int k = 0; k < SYN_MESH_KINDS; k++) {
        const syn_mesh_group *g = &groups[k];
        const bool ring = k == SYN_MESH_CP; /* its messages do not use the group */
        if ((!used[k] && !ring) || g->id == 0 || k == SYN_MESH_WORLD) continue;
        const struct nodes n = nodes_of(g, s->options.node_ranks);
        hash = mix(mix(hash, (uint64_t)n.nodes), (uint64_t)n.most);
        for (int32_t i = 0; (k == SYN_MESH_PP || ring) && i < g->n; i++)
            hash = mix(hash, node_of(s, syn_mesh_group_rank(g, i)) == node_of(s, rank));
    }
    return hash;
}

static int32_t next_of(const syn_stamper *s, int32_t stage) {
    for (int32_t r = 0; r < s->plan.ranks; r++)
        if (!s->done[r] && stage_of(s, r) == stage) return r;
    return -1;
}

int32_t syn_stamp_next(syn_stamper *s, int32_t stage) {
    pthread_mutex_lock(&s->lock);
    const int32_t next = next_of(s, stage);
    pthread_mutex_unlock(&s->lock);
    return next;
}

/* ---- Sets ---- */

static bool replaces_set(const syn_stamp_options *options) {
    return !options->dry && !options->add;
}

static void free_stamper(syn_stamper *s) {
    syn__et_names_close(&s->names);
    syn_workers_free(s->workers);
    syn_free(s->prefix);
    syn_free(s->done);
    syn_free(s->used);
    pthread_mutex_destroy(&s->lock);
    syn_free(s);
}

syn_status syn_stamp_open(syn_stamper **out, const syn_plan *plan, const char *prefix,
                          const syn_stamp_options *options, syn_error *err) {
    const size_t ranks = (size_t)plan->ranks;
    const int threads = options->threads < STAMP_THREADS ? options->threads : STAMP_THREADS;
    SYN_TRY(syn__et_supported(err));
    syn_stamper *s = syn_calloc(1, sizeof *s);
    if (!s) return SYN_FAIL_NOMEM(err, sizeof *s, "a trace set");
    pthread_mutex_init(&s->lock, NULL);
    s->plan = *plan;
    s->options = *options;
    s->done = syn_calloc(ranks, sizeof *s->done);
    s->used = syn_calloc((size_t)plan->pp + 1, sizeof *s->used);
    for (size_t r = 0; s->done && options->wanted && r < ranks; r++)
        s->done[r] = !options->wanted[r];
    syn_status status =
        s->done && s->used ? SYN_OK : SYN_FAIL_NOMEM(err, ranks * sizeof *s->done, "ranks");
    if (status == SYN_OK && replaces_set(options)) status = syn_make_prefix_folder(prefix, err);
    if (status == SYN_OK && (s->prefix = syn_strdup(prefix)) == NULL)
        status = SYN_FAIL_NOMEM(err, strlen(prefix) + 1, "a prefix");
    if (status == SYN_OK && threads > 1) status = syn_workers_new(&s->workers, threads, err);
    if (status == SYN_OK) status = syn__et_names_open(&s->names, prefix, err);
    if (status == SYN_OK) *out = s;
    else free_stamper(s);
    return status;
}

/* Writes the metadata of a rank, which has its own groups. */
static syn_status write_meta(const syn_stamper *s, const syn_graph *graph, int32_t rank,
                             const syn_mesh_group *groups, syn_sink *sink, syn_error *err) {
    syn_graph own = *graph;
    syn_graph_rank renamed = graph->ranks[0];
    syn__buf message = {0}, out = {0};
    syn__et_meta meta;
    renamed.rank = rank;
    own.ranks = &renamed;
    SYN_TRY(make_groups(&own, groups, SYN_MESH_KINDS, err));
    syn__et_walk walk = {
        .graph = &own, .version = s->options.version, .verbatim = syn__et_is_verbatim(graph)};
    syn_status status = syn__et_walk_meta(&walk, &meta, err);
    if (status == SYN_OK) {
        syn__et_put_meta(&message, &meta);
        syn__et_put_message(&out, &message);
        if (message.failed || out.failed) status = SYN_FAIL_NOMEM(err, message.cap, "metadata");
        else syn_sink_write(sink, out.data, out.bytes);
    }
    syn__et_walk_close(&walk);
    syn__buf_free(&message);
    syn__buf_free(&out);
    free_groups(&own);
    return status;
}

enum { SIMULATED_GROUPS = 500 }; /* see syn_stamp_counts.clash */

/* Looks for two groups of a rank that a simulator may confuse. */
static void find_clash(syn_stamper *s, const syn_mesh_group *groups, int32_t rank) {
    for (int a = 0; a < SYN_MESH_KINDS; a++)
        for (int b = a + 1; b < SYN_MESH_KINDS && s->counts.clash[0] == 0; b++) {
            const syn_mesh_group *x = &groups[a], *y = &groups[b];
            if (x->id == 0 || y->id == 0 || (y->id - x->id) % SIMULATED_GROUPS != 0) continue;
            for (int32_t i = 0; i < x->n; i++) {
                const int32_t other = syn_mesh_group_rank(x, i);
                if (other == rank || syn__et_index_in(y, other) < 0) continue;
                s->counts.clash[0] = x->id;
                s->counts.clash[1] = y->id;
            }
        }
}

/* Files that one thread writes. */
typedef struct writer {
    syn__et_names names;
    syn__et_filled filled;
    syn__buf packed; /* with options.gzip */
    syn_stamp_counts counts;
    syn_status status;
    syn_error err;
} writer;

/* The files of all ranks like a recorded one. */
typedef struct writing {
    const syn_stamper *s;
    const syn_graph *graph;
    const syn__et_program *program;
    int32_t *ranks; /* whose files are written */
    size_t n;
    writer writers[STAMP_THREADS];
} writing;

/* Writes a memory sink, compressed, to a rank's file. */
static syn_status write_packed(writer *self, const syn_sink *from, int32_t rank) {
    size_t bytes;
    syn_sink *sink;
    const char *data = syn_sink_data(from, &bytes);
    if (!data) return SYN_FAIL_NOMEM(&self->err, bytes, "a rank's trace");
    self->packed.bytes = 0;
    SYN_TRY(syn__gzip(&self->packed, data, bytes, &self->err));
    SYN_TRY(syn_sink_open_file(&sink, syn__et_rank_path(&self->names, (uint32_t)rank), &self->err));
    syn_sink_write(sink, self->packed.data, self->packed.bytes);
    self->counts.bytes += syn_sink_bytes(sink);
    return syn_sink_close(sink, true, &self->err);
}

static syn_status write_rank(const writing *w, writer *self, int32_t rank) {
    const syn_stamper *s = w->s;
    const syn__et_program *p = w->program;
    const bool dry = s->options.dry, packs = s->options.gzip && !dry;
    syn_error *err = &self->err;
    syn_mesh_group groups[SYN_MESH_KINDS];
    syn_sink *sink;
    used_groups(s, p->used, rank, groups);
    SYN_TRY(syn__et_program_fill(&self->filled, p, groups, rank, err));
    if (dry || packs) SYN_TRY(syn_sink_open_memory(&sink, err));
    else SYN_TRY(syn_sink_open_file(&sink, syn__et_rank_path(&self->names, (uint32_t)rank), err));
    syn_status status = write_meta(s, w->graph, rank, groups, sink, err);
    if (dry) self->counts.bytes += syn__et_program_bytes(p, &self->filled);
    else if (status == SYN_OK) syn__et_program_write(p, &self->filled, sink);
    if (packs && status == SYN_OK) status = write_packed(self, sink, rank);
    else self->counts.bytes += syn_sink_bytes(sink);
    self->counts.nodes += p->nodes;
    self->counts.files++;
    const syn_status closed = syn_sink_close(sink, status == SYN_OK, err);
    return status == SYN_OK ? closed : status;
}

/* A syn_worker_task. After a failure, the thread writes no more files. */
static void write_one(void *arg, int64_t i, int thread) {
    writing *w = arg;
    writer *self = &w->writers[thread];
    if (self->status == SYN_OK) self->status = write_rank(w, self, w->ranks[i]);
}

/* Removes what is left of an older set of this name, beginning with its group file. */
static syn_status remove_old(syn_stamper *s, syn_error *err) {
    const bool some = s->options.wanted || s->options.one_each;
    if (!replaces_set(&s->options)) return SYN_OK;
    return syn__et_remove_old_set(&s->names, some ? 0 : (uint32_t)s->plan.ranks, err);
}

/* The number of files of the set, if each stage has one kind of ranks. */
static uint64_t expected_files(const syn_stamper *s) {
    uint64_t n = 0;
    if (s->options.one_each) return (uint64_t)s->plan.pp * (uint64_t)syn_plan_programs(&s->plan);
    for (int32_t r = 0; r < s->plan.ranks; r++) n += !s->done[r];
    return n;
}

/* The bytes of the older files that the set's files replace. */
static uint64_t replaced_bytes(syn_stamper *s) {
    uint64_t bytes = 0;
    struct stat file;
    for (int32_t r = 0; r < s->plan.ranks && replaces_set(&s->options); r++)
        if (!s->done[r] && stat(syn__et_rank_path(&s->names, (uint32_t)r), &file) == 0)
            bytes += (uint64_t)file.st_size;
    return bytes;
}

/* Before the first file: announces the set, and fails if the disk has too little space for it. Then
   removes an older set of this name. */
static syn_status announce(syn_stamper *s, const syn__et_program *p, syn_error *err) {
    const uint64_t files = expected_files(s);
    const syn_stamp_counts set = {
        .files = files, .nodes = files * p->nodes, .bytes = files * (uint64_t)p->bytes.bytes};
    struct statvfs disk;
    char *path = s->names.path; /* names.path is the prefix with a suffix */
    uint64_t free_bytes = UINT64_MAX;
    if (s->announced) return SYN_OK;
    s->announced = true;
    (void)syn__et_group_path(&s->names);
    char *slash = strrchr(path, '/');
    const char behind = slash ? slash[1] : '\0';
    if (slash) slash[1] = '\0';
    if (statvfs(slash ? path : ".", &disk) == 0)
        free_bytes = (uint64_t)disk.f_bavail * (uint64_t)disk.f_frsize;
    if (slash) slash[1] = behind;
    if (s->options.announce) s->options.announce(s->options.user, &set, free_bytes);
    if (s->options.dry || s->options.gzip || set.bytes <= free_bytes ||
        set.bytes - free_bytes <= replaced_bytes(s))
        return remove_old(s, err);
    const bool small = set.bytes < (uint64_t)1 << 30;
    const double unit = small ? 0x1p20 : 0x1p30;
    return SYN_FAIL(err, SYN_E_IO, "the set needs about %.1f %s, but %.1f %s are free on the disk",
                    (double)set.bytes / unit, small ? "MiB" : "GiB", (double)free_bytes / unit,
                    small ? "MiB" : "GiB");
}

/* Lists the ranks like the recorded one, and marks them as done. */
static void list_ranks(syn_stamper *s, writing *w) {
    const int32_t recorded = w->graph->ranks[0].rank, stage = stage_of(s, recorded);
    const int32_t index = syn_plan_program(&s->plan, recorded);
    const bool *used = w->program->used;
    const uint64_t times = placement(s, used, recorded);
    for (int32_t r = 0; r < s->plan.ranks; r++) {
        if (s->done[r] || stage_of(s, r) != stage || syn_plan_program(&s->plan, r) != index ||
            placement(s, used, r) != times)
            continue;
        s->done[r] = true;
        s->counts.all_nodes += w->program->nodes;
        if (r != recorded && s->options.one_each) continue;
        syn_mesh_group groups[SYN_MESH_KINDS];
        used_groups(s, used, r, groups);
        find_clash(s, groups, r);
        w->ranks[w->n++] = r;
    }
}

static syn_status open_writer(const syn_stamper *s, writer *self, size_t slots, syn_error *err) {
    self->filled.ends = syn_malloc((slots + 1) * sizeof *self->filled.ends);
    if (!self->filled.ends)
        return SYN_FAIL_NOMEM(err, slots * sizeof *self->filled.ends, "a rank's groups");
    return syn__et_names_open(&self->names, s->prefix, err);
}

/* Adds the counts of a writer, and frees it. Returns its failure. */
static syn_status close_writer(syn_stamper *s, writer *self, syn_error *err) {
    s->counts.files += self->counts.files;
    s->counts.nodes += self->counts.nodes;
    s->counts.bytes += self->counts.bytes;
    syn__et_names_close(&self->names);
    syn__buf_free(&self->filled.bytes);
    syn__buf_free(&self->packed);
    syn_free(self->filled.ends);
    if (self->status != SYN_OK) *err = self->err;
    return self->status;
}

/* Writes the files of all ranks like the recorded one. */
static syn_status write_ranks(syn_stamper *s, const syn_graph *graph, const syn__et_program *p,
                              syn_error *err) {
    const int threads = syn_workers_count(s->workers);
    const size_t ranks = (size_t)s->plan.ranks;
    writing *w = syn_calloc(1, sizeof *w);
    if (!w) return SYN_FAIL_NOMEM(err, sizeof *w, "writing files");
    *w = (writing){.s = s, .graph = graph, .program = p};
    w->ranks = syn_malloc(ranks * sizeof *w->ranks);
    syn_status status =
        w->ranks ? SYN_OK : SYN_FAIL_NOMEM(err, ranks * sizeof *w->ranks, "a list of ranks");
    for (int i = 0; i < threads && status == SYN_OK; i++)
        status = open_writer(s, &w->writers[i], p->n_slots, err);
    if (status == SYN_OK) {
        list_ranks(s, w);
        syn_workers_run(s->workers, (int64_t)w->n, write_one, w);
    }
    for (int i = 0; i < threads; i++) {
        const syn_status closed = close_writer(s, &w->writers[i], err);
        if (status == SYN_OK) status = closed;
    }
    syn_free(w->ranks);
    syn_free(w);
    return status;
}

static void list_groups(const syn_stamper *s, const syn_graph *graph, syn__et_program *p,
                        syn_mesh_group groups[SYN_MESH_KINDS]) {
    syn_mesh_groups(&s->plan, graph->ranks[0].rank, groups);
    for (int k = 0; k < SYN_MESH_KINDS; k++)
        p->used[k] = groups[k].id != 0 && syn_graph_group_by_id(graph, groups[k].id) != NULL;
}

/* Writes the files of an encoded program, and frees it. `status`: of the encoding. After a failure,
   another thread must not write the rest of the set. */
static syn_status write_program(syn_stamper *s, const syn_graph *graph, syn__et_program *p,
                                syn_status status, syn_error *err) {
    pthread_mutex_lock(&s->lock);
    note_used(s, graph->ranks[0].rank, p->used);
    if (status == SYN_OK && s->failure.code != SYN_OK) *err = s->failure, status = err->code;
    if (status == SYN_OK) status = announce(s, p, err);
    if (status == SYN_OK) status = write_ranks(s, graph, p, err);
    if (status != SYN_OK) s->failure = *err;
    pthread_mutex_unlock(&s->lock);
    syn__et_program_free(p);
    return status;
}

syn_status syn_stamp_rank(syn_stamper *s, const syn_graph *graph, syn_error *err) {
    syn_mesh_group groups[SYN_MESH_KINDS];
    syn__et_walk walk;
    syn__et_meta unused;
    syn__et_program p = {0};
    if (graph->n_ranks != 1)
        return SYN_FAIL(err, SYN_E_INVALID, "the graph has %u ranks instead of one recorded rank",
                        (unsigned)graph->n_ranks);
    SYN_TRY(syn__et_check_rank(graph, 0, err));
    list_groups(s, graph, &p, groups);
    SYN_TRY(syn__et_walk_open(&walk, graph, 0, s->options.version, err));
    syn_status status = syn__et_walk_meta(&walk, &unused, err);
    if (status == SYN_OK) status = syn__et_program_encode(&p, &walk, groups, err);
    syn__et_walk_close(&walk);
    return write_program(s, graph, &p, status, err);
}

syn_status syn__stamp_file(syn_stamper *s, const syn_graph *head, const char *name, syn__str nodes,
                           syn_error *err) {
    syn_mesh_group groups[SYN_MESH_KINDS];
    syn__et_program p = {0};
    list_groups(s, head, &p, groups);
    const syn_status status = syn__et_program_encode_again(&p, name, nodes, groups, err);
    return write_program(s, head, &p, status, err);
}

syn_stamp_counts syn_stamp_count(const syn_stamper *s) {
    return s->counts;
}

syn_status syn_stamp_close(syn_stamper *s, bool keep, syn_error *err) {
    syn_status status = SYN_OK;
    if (!s) return SYN_OK;
    for (int32_t stage = 0; stage < s->plan.pp; stage++) keep = keep && next_of(s, stage) < 0;
    if (keep && !s->options.dry && !s->options.add) status = write_groups(s, err);
    free_stamper(s);
    return status;
}
