/* Loads a trace set: groups, and the programs of its ranks. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/simulate/et_sim_read.h"
#include "export/chakra/wire/et_files.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"
#include "syntorch/base/workers.h"

#define MAX_THREADS 16

/* ---- Groups ---- */

static syn_status group_of(syn__sim_set *set, const char *name, size_t bytes, uint32_t *out,
                           syn_error *err) {
    const size_t n = set->names.n_entries;
    SYN_TRY(syn_intern_put(&set->names, name, bytes, out, err));
    if (set->names.n_entries == n) return SYN_OK;
    SYN_TRY(syn_grow(&set->groups, &set->groups_cap, n + 1, sizeof *set->groups, err));
    set->groups[n] = (syn__sim_group){.known = false};
    return SYN_OK;
}

static syn_status read_ranks(syn_json *json, syn__sim_group *g, syn_error *err) {
    size_t cap = 0, n = 0;
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "a group's ranks"));
    syn_free(g->ranks);
    g->ranks = NULL;
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return SYN_E_FORMAT;
        if (json->type != SYN_JSON_NUMBER || !json->is_integer || json->integer < 0 ||
            json->integer > INT32_MAX)
            return syn_json_fail(json, "a group's ranks must be integers of at least 0");
        SYN_TRY(syn_grow(&g->ranks, &cap, n + 1, sizeof *g->ranks, err));
        g->ranks[n++] = (int32_t)json->integer;
    }
    g->n_ranks = (uint32_t)n;
    g->known = true;
    return SYN_OK;
}

static syn_status read_groups(syn__sim_set *set, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the file's content"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        uint32_t group;
        SYN_TRY(group_of(set, json->text, json->text_bytes, &group, err));
        SYN_TRY(read_ranks(json, &set->groups[group], err));
    }
    return json->type == SYN_JSON_ERROR || syn_json_next(json) == SYN_JSON_ERROR ? SYN_E_FORMAT
                                                                                 : SYN_OK;
}

static syn_status read_group_file(syn__sim_set *set, const char *path, syn_error *err) {
    char *data;
    size_t bytes;
    syn_json json;
    syn_error problem = {0}; /* its code is exact, unlike the status of read_groups */
    set->has_group_file = path != NULL;
    if (path == NULL) return SYN_OK;
    SYN_TRY(syn_read_file(path, SYN__ET_MAX_FILE_BYTES, &data, &bytes, err));
    syn_json_init(&json, path, data, bytes, &problem);
    const syn_status s = read_groups(set, &json, &problem);
    syn_json_free(&json);
    syn_free(data);
    return s == SYN_OK ? SYN_OK : SYN_FAIL(err, problem.code, "%s", problem.text);
}

/* Adds the group of all ranks, "0". If the group file gives this name to other ranks, collectives
   without a name are those of "all ranks". */
static syn_status add_world(syn__sim_set *set, uint32_t n, syn_error *err) {
    uint32_t group;
    set->world = "0";
    SYN_TRY(group_of(set, set->world, strlen(set->world), &group, err));
    if (set->groups[group].known) {
        set->world = "all ranks";
        SYN_TRY(group_of(set, set->world, strlen(set->world), &group, err));
    }
    syn__sim_group *g = &set->groups[group];
    syn_free(g->ranks);
    g->ranks = syn_malloc((n + 1u) * sizeof *g->ranks);
    if (g->ranks == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *g->ranks, "the ranks of a set");
    for (uint32_t i = 0; i < n; i++) g->ranks[i] = (int32_t)i;
    g->n_ranks = n;
    g->known = true;
    return SYN_OK;
}

/* ---- Ranks ---- */

/* Adds the program unless an equal one is known, in which case it is freed. */
static syn_status add_program(syn__sim_set *set, syn__sim_program *p, uint32_t *out,
                              syn_error *err) {
    for (size_t i = 0; i < set->n_programs; i++) {
        if (memcmp(set->programs[i].hash, p->hash, sizeof p->hash) != 0) continue;
        syn__sim_program_free(p);
        *out = (uint32_t)i;
        return SYN_OK;
    }
    SYN_TRY(syn_grow(&set->programs, &set->programs_cap, set->n_programs + 1, sizeof *p, err));
    *out = (uint32_t)set->n_programs;
    set->programs[set->n_programs++] = *p;
    *p = (syn__sim_program){0};
    return SYN_OK;
}

/* Copies the names of groups and the channels that the reader found. */
static syn_status add_slots(syn__sim_set *set, syn__sim_rank *rank, const syn__sim_file *file,
                            syn_error *err) {
    const size_t n_groups = file->groups.n_entries, n_channels = file->channels.n_entries;
    rank->groups = syn_malloc((n_groups + 1) * sizeof *rank->groups);
    rank->channels = syn_malloc((n_channels + 1) * sizeof *rank->channels);
    rank->roots = syn_malloc((file->roots.n_entries + 1) * sizeof *rank->roots);
    if (rank->groups == NULL || rank->channels == NULL || rank->roots == NULL)
        return SYN_FAIL_NOMEM(err, n_channels * sizeof *rank->channels, "the channels of a rank");
    for (uint32_t i = 0; i < n_groups; i++) {
        const char *name = syn_intern_get(&file->groups, i);
        SYN_TRY(
            group_of(set, name, syn_intern_entry_bytes(&file->groups, i), &rank->groups[i], err));
        syn__sim_group *g = &set->groups[rank->groups[i]];
        if (!g->known)
            return SYN_FAIL(err, SYN_E_FORMAT, "%.200s: group %.60s %s", syn_input_name(rank->path),
                            name,
                            set->has_group_file ? "is not in the group file"
                                                : "is used, but the set has no group file "
                                                  "PREFIX.comm_group.json; --groups FILE names "
                                                  "another");
        g->used = true;
    }
    for (uint32_t i = 0; i < n_channels; i++)
        memcpy(&rank->channels[i], syn_intern_get(&file->channels, i), sizeof *rank->channels);
    for (uint32_t i = 0; i < file->roots.n_entries; i++)
        memcpy(&rank->roots[i], syn_intern_get(&file->roots, i), sizeof *rank->roots);
    rank->n_groups = (uint32_t)n_groups;
    rank->n_channels = (uint32_t)n_channels;
    return SYN_OK;
}

typedef struct finding {
    syn__sim_set *set;
    pthread_mutex_t *lock;
} finding;

/* Finds a group while other threads may add groups. The lists of ranks never move. */
static syn_status find_group(void *user, syn__str name, syn_graph_group *out, syn_error *err) {
    const finding *f = user;
    uint32_t group;
    pthread_mutex_lock(f->lock);
    const syn_status s = group_of(f->set, name.text, name.bytes, &group, err);
    *out = (syn_graph_group){.id = 1};
    if (s == SYN_OK) {
        out->ranks = f->set->groups[group].ranks;
        out->n_ranks = f->set->groups[group].n_ranks;
    }
    pthread_mutex_unlock(f->lock);
    return s;
}

/* Reads a file, and then adds its rank to the set, which other threads may do at the same time. */
static syn_status add_rank(syn__sim_set *set, syn__sim_rank *rank, const syn__et_file *file,
                           const syn_simulate_options *options, pthread_mutex_t *lock,
                           syn_error *err) {
    syn__sim_file read;
    finding f = {set, lock};
    const syn__sim_reading with = {set->machine, options, set->world, find_group, &f};
    *rank = (syn__sim_rank){.rank = file->rank, .slow = 1, .path = syn_strdup(file->path)};
    if (rank->path == NULL) return SYN_FAIL_NOMEM(err, strlen(file->path), "a path");
    for (size_t i = 0; i < options->n_slow; i++)
        if (file->rank >= options->slow[i].first && file->rank <= options->slow[i].last)
            rank->slow *= options->slow[i].factor;
    syn_status s = syn__sim_file_read(&read, file->path, file->rank, &with, err);
    pthread_mutex_lock(lock);
    set->n_nodes += read.program.n_nodes;
    set->n_scaled += read.n_scaled;
    set->matched |= read.matched;
    set->n_fused += read.n_fused;
    set->n_fused_kernels += read.n_fused_kernels;
    set->fused |= read.fused;
    set->n_compute += read.n_compute;
    set->n_predicted += read.n_predicted;
    if (rank == set->ranks) set->hardware = read.meta.hardware;
    set->predicted = set->predicted || read.predicted;
    if (s == SYN_OK) s = add_slots(set, rank, &read, err);
    if (s == SYN_OK) s = add_program(set, &read.program, &rank->program, err);
    pthread_mutex_unlock(lock);
    syn__sim_file_close(&read);
    return s;
}

typedef struct loading {
    syn__sim_set *set;
    const syn__et_files *files;
    const syn_simulate_options *options;
    pthread_mutex_t lock; /* of all fields, except during reading */
    size_t failed_at;     /* the first file that failed, and its error; files after it are not read,
                             so that the error does not depend on the threads */
    syn_error failure;
} loading;

static void load_file(void *arg, int64_t at, int worker) {
    loading *l = arg;
    const size_t i = (size_t)at;
    syn_error err = {0};
    (void)worker;
    pthread_mutex_lock(&l->lock);
    const bool skip = i > l->failed_at;
    pthread_mutex_unlock(&l->lock);
    if (skip) return;
    const syn_status s =
        add_rank(l->set, &l->set->ranks[i], &l->files->list[i], l->options, &l->lock, &err);
    pthread_mutex_lock(&l->lock);
    if (s != SYN_OK && i < l->failed_at) {
        l->failed_at = i;
        l->failure = err;
    }
    pthread_mutex_unlock(&l->lock);
}

static syn_status load_files(syn__sim_set *set, const syn__et_files *files,
                             const syn_simulate_options *options, syn_error *err) {
    loading l = {.set = set, .files = files, .options = options, .failed_at = SIZE_MAX};
    syn_workers *workers = NULL;
    int threads = options->threads < MAX_THREADS ? options->threads : MAX_THREADS;
    if ((size_t)threads > files->n) threads = (int)files->n;
    if (threads > 1) SYN_TRY(syn_workers_new(&workers, threads, err));
    pthread_mutex_init(&l.lock, NULL);
    set->n_ranks = files->n;
    syn_workers_run(workers, (int64_t)files->n, load_file, &l);
    syn_workers_free(workers);
    pthread_mutex_destroy(&l.lock);
    return l.failed_at == SIZE_MAX ? SYN_OK : SYN_FAIL(err, l.failure.code, "%s", l.failure.text);
}

static int compare_ranks(const void *key, const void *rank) {
    const int64_t x = *(const int64_t *)key, y = ((const syn__sim_rank *)rank)->rank;
    return x < y ? -1 : x > y;
}

const syn__sim_rank *syn__sim_rank_of(const syn__sim_set *set, int64_t rank) {
    /* Most sets have all ranks. */
    if (rank >= 0 && (uint64_t)rank < set->n_ranks && set->ranks[rank].rank == rank)
        return &set->ranks[rank];
    return bsearch(&rank, set->ranks, set->n_ranks, sizeof *set->ranks, compare_ranks);
}

static syn_status check_world(const syn__sim_set *set, uint32_t world, syn_error *err) {
    if (set->machine == NULL || set->machine->n_ranks == world) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "the network has %" PRIu32 " ranks (npus_count), but the set has %" PRIu32,
                    set->machine->n_ranks, world);
}

#define OFTEN 4 /* collectives of a group in one rank's trace */

/* The number of collectives that a rank calls on one of its groups. */
static uint32_t calls_on(const syn__sim_program *p, uint32_t slot) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_calls; i++)
        n += p->kinds[p->calls[i].node] == SYN__SIM_COLLECTIVE && p->calls[i].slot == slot;
    return n;
}

/* Finds out which groups have rings with different hops. If such a group is used seldom, it is
   simulated as if its ranks ended together, so that they can be folded. */
static void price_groups(syn__sim_set *set) {
    for (size_t i = 0; i < set->names.n_entries; i++) {
        syn__sim_group *g = &set->groups[i];
        if (!g->used) continue;
        g->key = syn__sim_group_key(set->machine, g->ranks, g->n_ranks);
        g->uneven = !syn__sim_ring_is_even(set->machine, g->ranks, g->n_ranks);
    }
    for (size_t r = 0; r < set->n_ranks; r++)
        for (uint32_t i = 0; i < set->ranks[r].n_groups; i++) {
            syn__sim_group *g = &set->groups[set->ranks[r].groups[i]];
            if (g->uneven && calls_on(&set->programs[set->ranks[r].program], i) < OFTEN)
                g->uneven = false;
        }
}

/* Sets the lane of each group slot: groups with the same ranks share links, so their collectives
   run one after the other. `same`: per group, the first one with the same ranks. */
static syn_status find_lanes(syn__sim_set *set, const uint32_t *same, syn_error *err) {
    for (size_t r = 0; r < set->n_ranks; r++) {
        syn__sim_rank *rank = &set->ranks[r];
        rank->lanes = syn_malloc((rank->n_groups + 1u) * sizeof *rank->lanes);
        if (rank->lanes == NULL)
            return SYN_FAIL_NOMEM(err, rank->n_groups * sizeof *rank->lanes, "a rank's groups");
        for (uint32_t i = 0; i < rank->n_groups; i++) {
            uint32_t lane = 0;
            while (set->predicted && same[rank->groups[lane]] != same[rank->groups[i]]) lane++;
            if (!set->predicted) lane = i;
            rank->lanes[i] = lane;
        }
    }
    return SYN_OK;
}

static syn_status compare_groups(syn__sim_set *set, syn_error *err) {
    const size_t n = set->names.n_entries;
    uint32_t *same = syn_calloc(n + 1, sizeof *same);
    syn_intern lists = {.bytes = NULL};
    syn_status s =
        same != NULL ? SYN_OK : SYN_FAIL_NOMEM(err, n * sizeof *same, "the groups of a set");
    for (size_t i = 0; i < n && s == SYN_OK; i++)
        if (set->groups[i].used)
            s = syn_intern_put(&lists, set->groups[i].ranks,
                               set->groups[i].n_ranks * sizeof *set->groups[i].ranks, &same[i],
                               err);
    if (s == SYN_OK) s = find_lanes(set, same, err);
    syn_intern_free(&lists);
    syn_free(same);
    return s;
}

static syn_status load(syn__sim_set *set, const syn__et_files *files,
                       const syn_simulate_options *options, syn_error *err) {
    const uint32_t world = (uint32_t)files->list[files->n - 1].rank + 1;
    set->max_unpacked_bytes = options->max_unpacked_bytes;
    set->ranks = syn_calloc(files->n + 1, sizeof *set->ranks);
    if (set->ranks == NULL)
        return SYN_FAIL_NOMEM(err, files->n * sizeof *set->ranks, "the ranks of a set");
    SYN_TRY(check_world(set, world, err));
    SYN_TRY(read_group_file(set, options->groups != NULL ? options->groups : files->groups, err));
    SYN_TRY(add_world(set, world, err));
    SYN_TRY(load_files(set, files, options, err));
    if (set->machine != NULL) price_groups(set);
    return compare_groups(set, err);
}

syn_status syn__sim_load(syn__sim_set *set, const char *const *paths, size_t n,
                         const syn_simulate_options *options, syn_error *err) {
    syn__et_files files;
    SYN_TRY(syn__et_files_open(&files, paths, n, err));
    if (files.n == 1 && files.list[0].rank < 0) files.list[0].rank = 0;
    const syn_status s = load(set, &files, options, err);
    syn__et_files_close(&files);
    return s;
}

void syn__sim_set_close(syn__sim_set *set) {
    for (size_t i = 0; i < set->names.n_entries && set->groups != NULL; i++)
        syn_free(set->groups[i].ranks);
    for (size_t i = 0; i < set->n_programs; i++) syn__sim_program_free(&set->programs[i]);
    for (size_t i = 0; i < set->n_ranks; i++) {
        syn_free(set->ranks[i].groups);
        syn_free(set->ranks[i].lanes);
        syn_free(set->ranks[i].channels);
        syn_free(set->ranks[i].roots);
        syn_free(set->ranks[i].path);
    }
    syn_free(set->groups);
    syn_free(set->programs);
    syn_free(set->ranks);
    syn_intern_free(&set->names);
    *set = (syn__sim_set){0};
}
