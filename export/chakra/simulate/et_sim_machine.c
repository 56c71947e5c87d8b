/* Reads ASTRA-sim's description of a machine, and computes how long nodes take on it.

   The formulas are those of ASTRA-sim's analytical network without congestion, from its sources and
   checked with runs. A message takes hops * latency + bytes / bandwidth of the first dimension in
   which its ranks differ. A ring sends chunks from rank to rank; they do not wait for each other,
   so a collective takes as long as its slowest chunk. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/simulate/et_sim.h"
#include "export/chakra/wire/et_schema.h"
#include "export/text/bytes.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

#define MAX_FILE_BYTES ((size_t)1 << 20)
#define GIB_PER_S      1.073741824 /* in bytes per ns */
/* ASTRA-sim adds this to each step of a ring that does not have all ranks. */
#define SUBGROUP_STEP_NS 10.0

/* ---- The network file ---- */

/* It is YAML: lines such as "npus_count: [ 8, 4 ]  # comment", lists that continue on the next
   lines, and lists with a line "- 8" for each entry. */

typedef struct network_file {
    const char *path;
    syn__sim_machine *machine;
    int counts[4]; /* entries of each list */
    int key;       /* of the current list; N_KEYS: another one */
    int depth;     /* of open brackets */
    syn_error *err;
} network_file;

enum { TOPOLOGY, NPUS_COUNT, BANDWIDTH, LATENCY, N_KEYS };

static const char *const network_keys[] = {"topology", "npus_count", "bandwidth", "latency"};

static syn_status add_topology(const network_file *f, syn__sim_dimension *d, syn__str value) {
    static const char *const names[] = {"Ring", "FullyConnected", "Switch"};
    for (int i = 0; i < 3; i++)
        if (syn__str_is(value, names[i])) {
            d->topology = (syn__sim_topology)i;
            return SYN_OK;
        }
    return SYN_FAIL(f->err, SYN_E_UNSUPPORTED,
                    "%.200s: topology '%.*s' is not simulated; use Ring, FullyConnected or Switch",
                    f->path, value.bytes < 40 ? (int)value.bytes : 40, value.text);
}

static syn_status add_number(const network_file *f, syn__sim_dimension *d, int key,
                             syn__str value) {
    char text[32] = "", *end = text;
    if (value.bytes < sizeof text) memcpy(text, value.text, value.bytes);
    const double number = strtod(text, &end);
    const bool whole = key != NPUS_COUNT || number == floor(number);
    if (end == text || *end != '\0' || !isfinite(number) || !whole || number > 1e12 ||
        number < (key == NPUS_COUNT ? 2 : 0) || (key == BANDWIDTH && number <= 0))
        return SYN_FAIL(f->err, SYN_E_FORMAT, "%.200s: %s cannot be '%.*s'", f->path,
                        network_keys[key], value.bytes < 40 ? (int)value.bytes : 40, value.text);
    if (key == NPUS_COUNT) d->ranks = (int64_t)number;
    else if (key == BANDWIDTH) d->bytes_per_ns = number * GIB_PER_S;
    else d->latency_ns = number;
    return SYN_OK;
}

static syn_status add_value(network_file *f, int key, syn__str value) {
    const int at = f->counts[key]++;
    if (at >= SYN__SIM_DIMENSIONS)
        return SYN_FAIL(f->err, SYN_E_UNSUPPORTED, "%.200s: more than %d dimensions", f->path,
                        SYN__SIM_DIMENSIONS);
    syn__sim_dimension *d = &f->machine->dimensions[at];
    return key == TOPOLOGY ? add_topology(f, d, value) : add_number(f, d, key, value);
}

static bool is_separator(char c) {
    return strchr(" \t\r,[]\"'", c) != NULL;
}

/* Adds the values of the current list. */
static syn_status read_values(network_file *f, const char *at, const char *end) {
    while (at < end) {
        const char *begin = at;
        while (at < end && !is_separator(*at)) at++;
        if (at == begin) {
            f->depth += (*at == '[') - (*at == ']');
            at++;
        } else if (f->key < N_KEYS) {
            SYN_TRY(add_value(f, f->key, (syn__str){begin, (size_t)(at - begin)}));
        }
    }
    return SYN_OK;
}

static syn_status read_line(network_file *f, syn__str line) {
    const char *hash = line.bytes > 0 ? memchr(line.text, '#', line.bytes) : NULL;
    const char *end = hash != NULL ? hash : line.text + line.bytes, *at = line.text;
    const char *colon = end > at ? memchr(at, ':', (size_t)(end - at)) : NULL;
    while (at < end && is_separator(*at) && *at != '[' && *at != ']') at++;
    const bool is_entry = end - at > 1 && at[0] == '-' && at[1] == ' ';
    if (f->depth > 0 || is_entry) return read_values(f, at + is_entry, end);
    if (colon == NULL) return SYN_OK;
    const syn__str name = {at, (size_t)(colon - at)};
    f->key = 0;
    while (f->key < N_KEYS && !syn__str_is(name, network_keys[f->key])) f->key++;
    return read_values(f, colon + 1, end);
}

static syn_status read_network(network_file *f, const char *data, size_t bytes) {
    syn__sim_machine *m = f->machine;
    uint64_t ranks = 1;
    for (const char *at = data, *end = data + bytes; at < end;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        if (line == NULL) line = end;
        SYN_TRY(read_line(f, (syn__str){at, (size_t)(line - at)}));
        at = line + 1;
    }
    for (int i = 0; i < N_KEYS; i++)
        if (f->counts[i] == 0)
            return SYN_FAIL(f->err, SYN_E_FORMAT,
                            "%.200s: %s is missing; ASTRA-sim's network files have lines such as "
                            "'npus_count: [ 8 ]'",
                            f->path, network_keys[i]);
    for (int i = 0; i < N_KEYS; i++)
        if (f->counts[i] != f->counts[0])
            return SYN_FAIL(f->err, SYN_E_FORMAT,
                            "%.200s: topology, npus_count, bandwidth and latency must have one "
                            "entry per dimension, but have %d, %d, %d and %d",
                            f->path, f->counts[0], f->counts[1], f->counts[2], f->counts[3]);
    m->n_dimensions = f->counts[0];
    for (int i = 0; i < m->n_dimensions && ranks <= INT32_MAX; i++)
        ranks *= (uint64_t)m->dimensions[i].ranks;
    if (ranks > INT32_MAX)
        return SYN_FAIL(f->err, SYN_E_FORMAT, "%.200s: npus_count gives more than 2^31 ranks",
                        f->path);
    m->n_ranks = (uint32_t)ranks;
    return SYN_OK;
}

/* ---- The system file ---- */

static syn_status read_positive(syn_json *json, const char *key, double *out) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_NUMBER, key));
    if (!(json->number > 0) || json->number > 1e15)
        return syn_json_fail(json, "%s must be positive", key);
    *out = json->number;
    return SYN_OK;
}

/* Reads the algorithms of a collective, one per dimension. */
static syn_status read_algorithms(syn_json *json, const char *key) {
    if (syn_json_next(json) != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(json, "%s must be a list", key);
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return SYN_E_FORMAT;
        if (json->type != SYN_JSON_STRING || strcmp(json->text, "ring") != 0)
            return syn_json_fail(json, "%s: only 'ring' is simulated", key);
    }
    return SYN_OK;
}

static syn_status read_member(syn_json *json, syn__sim_machine *m, double *endpoint_ns) {
    char key[64];
    double number = 0;
    snprintf(key, sizeof key, "%s", json->text);
    const size_t bytes = strlen(key);
    static const char suffix[] = "-implementation";
    const size_t tail = sizeof suffix - 1;
    if (bytes > tail && strcmp(key + bytes - tail, suffix) == 0) return read_algorithms(json, key);
    if (strcmp(key, "local-mem-bw") == 0) return read_positive(json, key, &m->memory_bytes_per_ns);
    if (strcmp(key, "peak-perf") == 0) {
        SYN_TRY(read_positive(json, key, &number));
        m->flops_per_ns = number * 1e3;
        return SYN_OK;
    }
    if (strcmp(key, "endpoint-delay") == 0) {
        SYN_TRY(syn_json_expect(json, SYN_JSON_NUMBER, key));
        *endpoint_ns = json->number;
        return SYN_OK;
    }
    if (strcmp(key, "preferred-dataset-splits") == 0)
        return syn_json_expect_i64(json, key, 1, 1 << 20, &m->splits);
    if (strcmp(key, "active-chunks-per-dimension") == 0)
        return syn_json_expect_i64(json, key, 1, 1 << 20, &m->active);
    if (strcmp(key, "roofline-enabled") == 0) {
        int64_t on = 0;
        SYN_TRY(syn_json_expect_i64(json, key, 0, 1, &on));
        m->roofline = on != 0;
        return SYN_OK;
    }
    if (strcmp(key, "collective-optimization") == 0) {
        SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, key));
        m->local_first = strcmp(json->text, "localBWAware") == 0;
        return SYN_OK;
    }
    return syn_json_skip(json) ? SYN_OK : SYN_E_FORMAT;
}

static syn_status read_system(syn_json *json, syn__sim_machine *m) {
    m->endpoint_ns = 10;
    m->splits = m->active = 1;
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the file's content"));
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(read_member(json, m, &m->endpoint_ns));
    if (json->type == SYN_JSON_ERROR) return SYN_E_FORMAT;
    if (!(m->memory_bytes_per_ns > 0)) return syn_json_fail(json, "local-mem-bw is missing");
    if (m->roofline && !(m->flops_per_ns > 0))
        return syn_json_fail(json, "roofline-enabled needs peak-perf");
    return SYN_OK;
}

syn_status syn__sim_machine_read(syn__sim_machine *out, const char *network, const char *system,
                                 syn_error *err) {
    network_file f = {.path = network, .machine = out, .err = err};
    char *data;
    size_t bytes;
    syn_json json;
    syn_error problem = {0}; /* its code is exact, unlike the status of read_system */
    *out = (syn__sim_machine){.n_dimensions = 0};
    SYN_TRY(syn_read_file(network, MAX_FILE_BYTES, &data, &bytes, err));
    syn_status s = read_network(&f, data, bytes);
    syn_free(data);
    SYN_TRY(s);
    SYN_TRY(syn_read_file(system, MAX_FILE_BYTES, &data, &bytes, err));
    syn_json_init(&json, system, data, bytes, &problem);
    s = read_system(&json, out);
    syn_json_free(&json);
    syn_free(data);
    return s == SYN_OK ? SYN_OK : SYN_FAIL(err, problem.code, "%s", problem.text);
}

/* ---- Times ---- */

static uint64_t whole(double ns) {
    return ns < 9e18 ? (uint64_t)ns : (uint64_t)9e18;
}

uint64_t syn__sim_compute_ns(const syn__sim_machine *m, uint64_t ops, uint64_t bytes,
                             uint64_t micros) {
    if (!m->roofline) return micros > 0 && micros < UINT64_MAX / 1000 ? micros * 1000 : 1;
    return whole(fmax((double)bytes / m->memory_bytes_per_ns, (double)ops / m->flops_per_ns));
}

/* The first dimension in which the ranks differ. *hops: number of hops there. */
static const syn__sim_dimension *between(const syn__sim_machine *m, int64_t from, int64_t to,
                                         int64_t *hops) {
    const syn__sim_dimension *d = m->dimensions;
    *hops = 0;
    for (int i = 0; i < m->n_dimensions; i++, d++) {
        const int64_t a = from % d->ranks, b = to % d->ranks, apart = a < b ? b - a : a - b;
        if (apart != 0) {
            *hops = d->topology == SYN__SIM_SWITCH            ? 2
                    : d->topology == SYN__SIM_FULLY_CONNECTED ? 1
                    : apart < d->ranks - apart                ? apart
                                                              : d->ranks - apart;
            return d;
        }
        from /= d->ranks;
        to /= d->ranks;
    }
    return m->dimensions;
}

double syn__sim_hop_ns(const syn__sim_machine *m, int64_t from, int64_t to, double bytes) {
    int64_t hops;
    const syn__sim_dimension *d = between(m, from, to, &hops);
    return floor((double)hops * d->latency_ns + bytes / d->bytes_per_ns);
}

uint64_t syn__sim_message_ns(const syn__sim_machine *m, int32_t from, int32_t to, uint64_t bytes) {
    return whole(syn__sim_hop_ns(m, from, to, (double)bytes));
}

/* What the steps of a ring do: each rank sends `steps` chunks to the next rank, and reduces the
   first `reduced` chunks that it receives. */
typedef struct ring {
    double chunk_bytes, reduce_ns, endpoint_ns;
    int64_t steps, reduced;
} ring;

/* bytes: the data of one of n ranks. */
static ring ring_of(const syn__sim_machine *m, int64_t n, int comm_type, double bytes,
                    double endpoint_ns) {
    ring r = {.chunk_bytes = floor(bytes / (double)n), .endpoint_ns = endpoint_ns, .steps = n - 1};
    switch (comm_type) {
    case SYN__ET_ALL_REDUCE:
        r.steps = 2 * (n - 1);
        r.reduced = n - 1;
        break;
    case SYN__ET_REDUCE_SCATTER:
        r.reduced = n - 1;
        break;
    case SYN__ET_ALL_TO_ALL:
        r.steps = n * (n - 1) / 2;
        break;
    default:
        r.chunk_bytes = bytes;
    }
    r.reduce_ns = 3 * floor(r.chunk_bytes / m->memory_bytes_per_ns);
    return r;
}

/* The time of a ring whose hops all take hop_ns. */
static double ring_ns(const ring *r, double hop_ns) {
    return (double)r->steps * hop_ns + (double)r->reduced * r->reduce_ns +
           (double)(r->steps + 1) * r->endpoint_ns;
}

/* The parts into which ASTRA-sim divides a collective. */
typedef struct parts {
    double bytes;
    double rounds; /* parts that run one after the other */
} parts;

static parts parts_of(const syn__sim_machine *m, int comm_type, uint64_t bytes) {
    double part = floor((double)bytes / (double)m->splits), all = (double)bytes;
    if (comm_type != SYN__ET_ALL_GATHER && part < m->n_ranks) {
        part = m->n_ranks;
        all = part * (double)m->splits;
    }
    if (part < 1) part = 1;
    return (parts){part, ceil(ceil(all / part) / (double)m->active)};
}

/* Moves the times of n ranks from the start to the end of a ring. A rank ends when the last chunk
   has reached it. The chunk passed all ranks, and each of them handled it only after it had
   started; so the end is the largest sum of a rank's start and of what the chunk needs from
   there: k hops, and the reductions there and at the ranks after it. */
static void run_ring(const ring *r, const double *hops, int64_t n, syn__sim_time *times,
                     syn__sim_time *ends) {
    double around = 0;
    for (int64_t i = 0; i < n; i++) around += hops[i];
    for (int64_t to = 0; to < n; to++) {
        double back = 0; /* from the rank `apart` before `to` */
        ends[to] = times[to];
        for (int64_t apart = 0; apart < n && apart <= r->steps; apart++) {
            const int64_t from = to >= apart ? to - apart : to - apart + n;
            if (apart > 0) back += hops[from];
            const int64_t rounds = (r->steps - apart) / n, k = apart + rounds * n;
            const int64_t reduced = r->reduced - (k < r->steps ? r->steps - k - 1 : 0);
            const double ns = back + (double)rounds * around + (double)k * r->endpoint_ns +
                              (reduced > 0 ? (double)reduced * r->reduce_ns : 0);
            if (times[from].ns + ns > ends[to].ns)
                ends[to] = (syn__sim_time){times[from].ns + ns, times[from].by};
        }
        ends[to].ns += r->endpoint_ns;
    }
    memcpy(times, ends, (size_t)n * sizeof *times);
}

/* A collective that is being computed. */
typedef struct course {
    const syn__sim_machine *machine;
    syn__sim_time *times; /* per rank */
    double *hops;         /* scratch, one entry per rank; the same for the next two */
    syn__sim_time *ends, *line;
    double longest_ns; /* of the phases */
} course;

/* Runs a ring of all ranks that differ only in this dimension, for each such line of ranks. */
static void run_dimension(course *c, int dimension, int comm_type, double *bytes) {
    const syn__sim_machine *m = c->machine;
    const int64_t n = m->dimensions[dimension].ranks;
    const ring r = ring_of(m, n, comm_type, *bytes, m->endpoint_ns);
    int64_t stride = 1;
    for (int i = 0; i < dimension; i++) stride *= m->dimensions[i].ranks;
    for (int64_t i = 0; i < n; i++)
        c->hops[i] = syn__sim_hop_ns(m, i * stride, (i + 1) % n * stride, r.chunk_bytes);
    for (int64_t first = 0; first < m->n_ranks; first++) {
        if (first / stride % n != 0) continue;
        for (int64_t i = 0; i < n; i++) c->line[i] = c->times[first + i * stride];
        run_ring(&r, c->hops, n, c->line, c->ends);
        for (int64_t i = 0; i < n; i++) c->times[first + i * stride] = c->line[i];
    }
    c->longest_ns = fmax(c->longest_ns, ring_ns(&r, c->hops[0]));
    if (comm_type == SYN__ET_ALL_GATHER) *bytes *= (double)n;
    else if (comm_type == SYN__ET_REDUCE_SCATTER) *bytes = floor(*bytes / (double)n);
}

/* A collective of all ranks runs in one dimension after the other. Its parts overlap: the next part
   can be in the first dimension while this one is in the second. */
static void run_all_ranks(course *c, int comm_type, const parts *of) {
    const int n = c->machine->n_dimensions;
    double bytes = of->bytes;
    if (comm_type == SYN__ET_ALL_GATHER)
        for (int i = n - 1; i >= 0; i--) run_dimension(c, i, comm_type, &bytes);
    else if (comm_type != SYN__ET_ALL_REDUCE || !c->machine->local_first)
        for (int i = 0; i < n; i++) run_dimension(c, i, comm_type, &bytes);
    else {
        for (int i = 0; i < n - 1; i++) run_dimension(c, i, SYN__ET_REDUCE_SCATTER, &bytes);
        run_dimension(c, n - 1, SYN__ET_ALL_REDUCE, &bytes);
        for (int i = n - 2; i >= 0; i--) run_dimension(c, i, SYN__ET_ALL_GATHER, &bytes);
    }
    for (uint32_t i = 0; i < c->machine->n_ranks; i++)
        c->times[i].ns += (of->rounds - 1) * c->longest_ns;
}

/* A group of some ranks is one ring in the order of the group. */
static void run_group(course *c, const int32_t *ranks, uint32_t n, int comm_type, const parts *of) {
    const ring r = ring_of(c->machine, n, comm_type, of->bytes, SUBGROUP_STEP_NS);
    for (uint32_t i = 0; i < n; i++)
        c->hops[i] = syn__sim_hop_ns(c->machine, ranks[i], ranks[(i + 1) % n], r.chunk_bytes);
    for (double i = 0; i < of->rounds; i++) run_ring(&r, c->hops, n, c->times, c->ends);
}

syn_status syn__sim_collective_ends(const syn__sim_machine *m, const int32_t *ranks,
                                    uint32_t n_ranks, int comm_type, uint64_t bytes,
                                    syn__sim_time *times, syn_error *err) {
    const parts of = parts_of(m, comm_type, bytes);
    const char *name = syn__et_collective_name(comm_type);
    if (comm_type != SYN__ET_ALL_REDUCE && comm_type != SYN__ET_ALL_GATHER &&
        comm_type != SYN__ET_REDUCE_SCATTER && comm_type != SYN__ET_ALL_TO_ALL)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "ASTRA-sim does not run %s collectives",
                        name != NULL ? name : "unknown");
    if (n_ranks < 2) return SYN_OK;
    double *hops = syn_malloc(n_ranks * sizeof *hops);
    syn__sim_time *scratch = syn_malloc(3 * (size_t)n_ranks * sizeof *scratch);
    if (hops == NULL || scratch == NULL) {
        syn_free(hops);
        syn_free(scratch);
        return SYN_FAIL_NOMEM(err, 3 * n_ranks * sizeof *scratch, "a collective");
    }
    course c = {m, times, hops, scratch, scratch + n_ranks, 0};
    if (n_ranks < m->n_ranks) {
        run_group(&c, ranks, n_ranks, comm_type, &of);
    } else { /* the order of the ranks does not matter */
        c.times = scratch + 2 * n_ranks;
        for (uint32_t i = 0; i < n_ranks; i++) c.times[ranks[i]] = times[i];
        run_all_ranks(&c, comm_type, &of);
        for (uint32_t i = 0; i < n_ranks; i++) times[i] = c.times[ranks[i]];
    }
    syn_free(hops);
    syn_free(scratch);
    return SYN_OK;
}

syn_status syn__sim_collective_ns(const syn__sim_machine *m, const int32_t *ranks, uint32_t n_ranks,
                                  int comm_type, uint64_t bytes, uint64_t *out, syn_error *err) {
    if (comm_type < SYN__SIM_COMM_TYPES && syn__sim_has_algorithm(m, comm_type, n_ranks)) {
        const parts of = parts_of(m, comm_type, bytes);
        const double endpoint_ns = n_ranks < m->n_ranks ? SUBGROUP_STEP_NS : m->endpoint_ns;
        *out = whole(of.rounds *
                     syn__sim_algorithm_ns(m, ranks, n_ranks, comm_type, of.bytes, endpoint_ns));
        return SYN_OK;
    }
    syn__sim_time *times = syn_calloc(n_ranks + 1u, sizeof *times);
    double last_ns = 0;
    if (times == NULL) return SYN_FAIL_NOMEM(err, n_ranks * sizeof *times, "a collective");
    const syn_status s = syn__sim_collective_ends(m, ranks, n_ranks, comm_type, bytes, times, err);
    for (uint32_t i = 0; i < n_ranks; i++) last_ns = fmax(last_ns, times[i].ns);
    *out = whole(last_ns);
    syn_free(times);
    return s;
}

bool syn__sim_ring_is_even(const syn__sim_machine *m, const int32_t *ranks, uint32_t n_ranks) {
    int64_t first = 0;
    const syn__sim_dimension *of = NULL;
    for (uint32_t i = 0; i < n_ranks && n_ranks < m->n_ranks; i++) {
        int64_t hops;
        const syn__sim_dimension *d = between(m, ranks[i], ranks[(i + 1) % n_ranks], &hops);
        if (of != NULL && (d != of || hops != first)) return false;
        of = d;
        first = hops;
    }
    return true;
}

/* Adds the dimension and the hops between two ranks to a key. */
static uint64_t mix(const syn__sim_machine *m, uint64_t key, int64_t from, int64_t to) {
    int64_t hops;
    const syn__sim_dimension *d = between(m, from, to, &hops);
    key = (key ^ (uint64_t)(d - m->dimensions) << 32 ^ (uint64_t)hops) * 0x9E3779B97F4A7C15u;
    return key ^ key >> 31;
}

uint64_t syn__sim_group_key(const syn__sim_machine *m, const int32_t *ranks, uint32_t n_ranks) {
    uint64_t key = n_ranks;
    bool rings = true;
    if (n_ranks == m->n_ranks) return key;
    for (uint32_t i = 0; i < n_ranks; i++) key = mix(m, key, ranks[i], ranks[(i + 1) % n_ranks]);
    for (int i = 0; i < SYN__SIM_COMM_TYPES; i++)
        rings = rings && m->algorithms[i] == SYN_ALGORITHM_RING;
    for (uint32_t i = 0; i < n_ranks && !rings; i++)
        for (uint32_t k = 0; k < i; k++) key = mix(m, key, ranks[i], ranks[k]);
    return key;
}
