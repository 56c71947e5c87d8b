/* Replays workloads that vLLM 0.19.0 has scheduled, and compares every step: the tokens of each
   request, the tokens that admitted requests find in the cache, the preempted requests and the
   number of free blocks. The file describes its lines. */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <stdarg.h>

#include "syntorch/base/memory.h"
#include "tools/serving/serving.h"

enum { MOST = 256, LINE = 8192 };

/* A request of the file. Block i of the prompt is shared if it has only tokens of the prefix. */
typedef struct arrival {
    serving_request q; /* first, because the key function gets its address */
    int64_t call;      /* of `call` in replay() */
    int prefix, prefix_tokens;
} arrival;

typedef struct flight {
    serving_step step;
    serving_row rows[16];
    int64_t number;
} flight;

static arrival all[MOST];
static int n_all, n_added, n_finished;
static char got[LINE];
static FILE *file;
static long line_number;
static char want[LINE];

static bool next_line(void) {
    do {
        line_number++;
        if (!fgets(want, sizeof want, file)) {
            want[0] = 0;
            return false;
        }
    } while (want[0] == '#');
    want[strcspn(want, "\n")] = 0;
    return true;
}

static void put(const char *format, ...) SYN_PRINTF(1, 2);
static void put(const char *format, ...) {
    const size_t n = strlen(got);
    va_list args;
    va_start(args, format);
    vsnprintf(got + n, sizeof got - n, format, args);
    va_end(args);
}

static uint64_t key(const serving_request *q, int64_t i, int64_t block_tokens) {
    const arrival *a = (const arrival *)q;
    if ((i + 1) * block_tokens > a->prefix_tokens) return 0;
    return (uint64_t)a->prefix * 1000000 + (uint64_t)i;
}

/* The number of drafts that a step accepts, as in the program that drove vLLM. */
static int32_t accepted(int64_t step, int64_t id, int32_t drafts) {
    const uint32_t x = (uint32_t)(step + 1) * 2654435761u + (uint32_t)id * 40503u;
    return (int32_t)((x >> 8) % ((uint32_t)drafts + 1));
}

static bool is_line(void) {
    if (strcmp(got, want) == 0) {
        next_line();
        return true;
    }
    fprintf(stderr, "line %ld: got  %s\nline %ld: want %s\n", line_number, got, line_number, want);
    return false;
}

static int64_t left(const serving_replica *r) {
    return kv_blocks_left(r->cache);
}

/* "step ID:TOKENS[@CACHED] ... -PREEMPTED ... =FREE" */
static bool schedule(serving_replica *r, flight *f, int64_t number, syn_error *err) {
    int32_t preemptions[MOST];
    bool ran[MOST];
    for (int i = 0; i < n_added; i++) {
        preemptions[i] = all[i].q.preemptions;
        ran[i] = all[i].q.state == SERVING_RUNNING;
    }
    f->number = number;
    f->step.rows = f->rows;
    NEED_OK(serving_schedule(r, &f->step, err), *err);
    snprintf(got, sizeof got, "step");
    for (int64_t i = 0; i < f->step.n; i++) {
        const serving_row *row = &f->rows[i];
        const int64_t id = row->request->id;
        put(" %d:%d", (int)id, row->queries);
        if (!ran[id] || row->request->preemptions > preemptions[id])
            put("@%d", row->keys - row->queries);
    }
    for (int i = 0; i < n_added; i++)
        if (all[i].q.preemptions > preemptions[i]) put(" -%d", i);
    put(" =%d", (int)left(r));
    return is_line();
}

/* "done FINISHED ... =FREE" */
static bool finish(serving_replica *r, flight *f, syn_error *err) {
    bool before[MOST];
    for (int i = 0; i < n_added; i++) before[i] = all[i].q.state == SERVING_FINISHED;
    for (int64_t i = 0; i < f->step.n; i++) {
        serving_row *row = &f->rows[i];
        row->accepted = accepted(f->number, row->request->id, row->drafts);
    }
    NEED_OK(serving_finish(r, &f->step, err), *err);
    snprintf(got, sizeof got, "done");
    for (int i = 0; i < n_added; i++) {
        if (before[i] || all[i].q.state != SERVING_FINISHED) continue;
        put(" %d", i);
        n_finished++;
    }
    put(" =%d", (int)left(r));
    return is_line();
}

/* The loop of vLLM's EngineCore.step and step_with_batch_queue: asynchronous scheduling prepares a
   step while the previous one runs. */
static bool replay(serving_replica *r, syn_error *err) {
    flight flights[2];
    int queued = 0;
    int64_t number = 0;
    n_added = n_finished = 0;
    for (int64_t call = 0; n_finished < n_all || queued > 0; call++) {
        for (; n_added < n_all && all[n_added].call <= call; n_added++)
            NEED_OK(serving_add(r, &all[n_added].q, err), *err);
        if (n_finished < n_added) {
            if (!schedule(r, &flights[queued++], number++, err)) return false;
            if (r->limits.async && flights[queued - 1].step.n > 0 && queued < 2) continue;
        } else if (queued == 0) {
            continue;
        }
        if (!finish(r, &flights[0], err)) return false;
        flights[0] = flights[1];
        flights[0].step.rows = flights[0].rows;
        queued--;
    }
    return left(r) == kv_blocks_usable(r->cache);
}

static bool read_limits(serving_limits *l) {
    long long n[7];
    int flags[5];
    if (sscanf(want, "limits %lld %lld %lld %lld %lld %lld %d %d %d %d %d %lld", &n[0], &n[1],
               &n[2], &n[3], &n[4], &n[5], &flags[0], &flags[1], &flags[2], &flags[3], &flags[4],
               &n[6]) != 12)
        return false;
    *l = (serving_limits){.max_seqs = n[0],
                          .max_tokens = n[1],
                          .max_model_tokens = n[2],
                          .blocks = n[3],
                          .block_tokens = n[4],
                          .long_prefill = n[5],
                          .chunked = flags[0],
                          .caching = flags[1],
                          .by_priority = flags[2],
                          .async = flags[3],
                          .reserve = flags[4],
                          .drafts = (int32_t)n[6],
                          .key = key};
    return next_line();
}

static bool read_requests(void) {
    for (n_all = 0; strncmp(want, "request", 7) == 0; n_all++) {
        arrival *a = &all[n_all];
        int call;
        *a = (arrival){.q.id = n_all};
        if (n_all >= MOST ||
            sscanf(want, "request %d %d %d %d %d %d", &call, &a->q.prompt, &a->q.output,
                   &a->q.priority, &a->prefix, &a->prefix_tokens) != 6)
            return false;
        a->call = call;
        a->q.arrival_ns = call;
        if (!next_line()) return false;
    }
    return n_all > 0;
}

static bool one_run(void) {
    serving_limits limits;
    serving_replica *r;
    syn_error err = {0};
    char name[LINE];
    memcpy(name, want, sizeof name);
    if (!next_line() || !read_limits(&limits) || !read_requests()) {
        fprintf(stderr, "line %ld: cannot read %s\n", line_number, want);
        return false;
    }
    NEED_OK(serving_replica_new(&r, &limits, &serving_vllm, &err), err);
    const bool same = replay(r, &err);
    if (!same) fprintf(stderr, "%s differs\n", name);
    for (int i = 0; i < n_all; i++) serving_request_free(&all[i].q);
    serving_replica_free(r);
    return same;
}

static int replay_file(const char *path) {
    int runs = 0, wrong = 0;
    file = fopen(path, "r");
    NEED(file != NULL, path);
    line_number = 0;
    for (bool more = next_line(); more;) {
        runs++;
        wrong += !one_run();
        more = strncmp(want, "run", 3) == 0;
        while (!more && next_line()) more = strncmp(want, "run", 3) == 0;
    }
    fclose(file);
    fprintf(stderr, "%d of %d runs differ\n", wrong, runs);
    return wrong;
}

static void reference(void) {
    CHECK_INT(replay_file(reference_path("vllm_steps.txt")), 0);
}

static const test_case cases[] = {{"reference", reference}};

/* --file FILE: replays another file. */
int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--file") == 0) return replay_file(argv[2]) > 0;
    return test_run(cases, COUNT(cases), argc, argv);
}
