/* syntorch what-if: simulates a set of execution traces with changes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/simulate.h"
#include "syntorch/base/memory.h"
#include "syntorch/hardware/hardware.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"

static struct arguments {
    const char *input, *groups, *network, *system, *scale, *drop, *fuse, *hw, *from, *collective;
    uint64_t max_unpacked_bytes;
    int dtype; /* index into dtypes */
    bool json;
} args;

static const syn_dtype dtypes[] = {SYN_DTYPE_COUNT, SYN_BF16, SYN_F16, SYN_F32};

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX",
     "set PREFIX.<rank>.et; --input may be omitted, then also several files", 0, 0},
    {"scale", CLI_TEXT, &args.scale, "NODES=FACTOR,...",
     "these nodes take FACTOR times as long. NODES is a pattern of names such as *attn*, the name "
     "of a collective such as ALL_REDUCE, or COMPUTE, COLLECTIVES or MESSAGES",
     0, 0},
    {"drop", CLI_TEXT, &args.drop, "NODES,...", "these nodes take no time", 0, 0},
    {"fuse", CLI_TEXT, &args.fuse, "NODES,...",
     "consecutive kernels that match NODES, each of which depends on the one before it, run as one "
     "kernel, which takes the time of the slowest. NODES is a pattern of names, several patterns "
     "joined by +, or COMPUTE",
     0, 0},
    {"collective", CLI_TEXT, &args.collective, "KIND=ALGORITHM,...",
     "with --network: algorithms of ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER or ALL_TO_ALL: ring, "
     "direct, halvingDoubling, doubling or tree",
     0, 0},
    {"hw", CLI_TEXT, &args.hw, "MACHINE[+STACK]",
     "all nodes take the time that they have on another machine; STACK: default: that of the set",
     0, 0},
    {"from", CLI_TEXT, &args.from, "MACHINE[+STACK]",
     "machine of the times in the set, for --hw; default: from the set's metadata", 0, 0},
    {"dtype", CLI_CHOICE, &args.dtype, "auto|bf16|f16|f32",
     "dtype of matrix products, for --hw; auto: from the set's metadata, otherwise bf16", 0, 0},
    {"groups", CLI_TEXT, &args.groups, "FILE",
     "file with the ranks of each group; default: PREFIX.comm_group.json if it exists", 0, 0},
    {"network", CLI_TEXT, &args.network, "FILE",
     "ASTRA-sim's network file; default: the times in the traces", 0, 0},
    {"system", CLI_TEXT, &args.system, "FILE", "ASTRA-sim's system file, needed with --network", 0,
     0},
    CLI_JSON(&args.json),
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {
    "syntorch what-if outputs/trace --scale '*attn*=0.5'",
    "syntorch what-if outputs/trace --scale COLLECTIVES=0.5,MESSAGES=0.5 --drop '*dropout*'",
    "syntorch what-if outputs/trace --fuse '*/fc+*/gelu,*/bias+*/dropout+*/residual'",
    "syntorch what-if outputs/trace --hw h100",
    "syntorch what-if outputs/trace --network astra-sim/network.yml --system astra-sim/system.json "
    "--collective ALL_REDUCE=halvingDoubling",
    NULL};

static const cli_program program = {"syntorch what-if",
                                    "Simulates a set of Chakra execution traces twice, unchanged "
                                    "and with changed times, and prints "
                                    "what the changes save. Dependencies stay as they are.",
                                    options, examples, false};

/* ---- Changes ---- */

typedef struct changes {
    char *text; /* patterns, separated by NUL */
    syn_scaled_nodes *list;
    size_t n, cap;
    char *fuse_text, *pattern_text; /* elements of --fuse, and their patterns, ended by NUL */
    const char **patterns;
    const char *fused_names[SYN_MAX_FUSED];
    syn_fused_nodes fused[SYN_MAX_FUSED];
    size_t n_fused;
    char *algorithm_text;
    syn_collective_algorithm algorithms[4];
    size_t n_algorithms;
} changes;

static syn_status add(changes *c, const char *pattern, double factor, syn_error *err) {
    if (c->n == SYN_MAX_SCALED)
        return SYN_FAIL(err, SYN_E_INVALID, "--scale and --drop have more than %d patterns",
                        SYN_MAX_SCALED);
    SYN_TRY(syn_grow(&c->list, &c->cap, c->n + 1, sizeof *c->list, err));
    c->list[c->n++] = (syn_scaled_nodes){pattern, factor};
    return SYN_OK;
}

/* Reads "a=0.5,b=2", or with has_factors false "a,b". */
static syn_status read_list(changes *c, char *text, bool has_factors, syn_error *err) {
    for (char *at = text, *next; at != NULL; at = next) {
        char *end = strchr(at, ','), *equals = strrchr(at, '=');
        double factor = 0;
        next = end != NULL ? end + 1 : NULL;
        if (end != NULL) {
            *end = '\0';
            equals = strrchr(at, '=');
        }
        if (has_factors) {
            char *rest = NULL;
            if (equals != NULL) factor = strtod(equals + 1, &rest);
            if (equals == NULL || equals == at || rest == equals + 1 || *rest != '\0' ||
                !(factor >= 0) || factor > 1e6)
                return SYN_FAIL(err, SYN_E_INVALID,
                                "--scale '%.60s' is not of the form NODES=FACTOR, with a factor "
                                "from 0 to 1000000",
                                at);
            *equals = '\0';
        }
        if (*at == '\0')
            return SYN_FAIL(err, SYN_E_INVALID, "--%s has an empty name",
                            has_factors ? "scale" : "drop");
        SYN_TRY(add(c, at, factor, err));
    }
    return SYN_OK;
}

static syn_status read_changes(changes *c, syn_error *err) {
    const size_t n_scale = args.scale != NULL ? strlen(args.scale) + 1 : 0;
    const size_t n_drop = args.drop != NULL ? strlen(args.drop) + 1 : 0;
    c->text = syn_malloc(n_scale + n_drop + 1);
    if (c->text == NULL) return SYN_FAIL_NOMEM(err, n_scale + n_drop, "--scale and --drop");
    if (n_scale > 0) {
        memcpy(c->text, args.scale, n_scale);
        SYN_TRY(read_list(c, c->text, true, err));
    }
    if (n_drop == 0) return SYN_OK;
    memcpy(c->text + n_scale, args.drop, n_drop);
    return read_list(c, c->text + n_scale, false, err);
}

/* Replaces each `separator` by NUL. Returns the number of parts. */
static size_t split(char *text, char separator) {
    size_t n = 1;
    for (char *at = text; (at = strchr(at, separator)) != NULL; n++) *at++ = '\0';
    return n;
}

/* Reads "a+b,c". */
static syn_status read_fused(changes *c, syn_error *err) {
    if (args.fuse == NULL) return SYN_OK;
    c->fuse_text = syn_strdup(args.fuse);
    c->pattern_text = syn_strdup(args.fuse);
    c->patterns = syn_malloc((strlen(args.fuse) + 1) * sizeof *c->patterns);
    if (c->fuse_text == NULL || c->pattern_text == NULL || c->patterns == NULL)
        return SYN_FAIL_NOMEM(err, strlen(args.fuse) * sizeof *c->patterns, "--fuse");
    c->n_fused = split(c->fuse_text, ',');
    if (c->n_fused > SYN_MAX_FUSED)
        return SYN_FAIL(err, SYN_E_INVALID, "--fuse has more than %d elements", SYN_MAX_FUSED);
    split(c->pattern_text, ',');
    const char **next = c->patterns, *name = c->fuse_text;
    char *pattern = c->pattern_text;
    for (size_t i = 0; i < c->n_fused; i++, name += strlen(name) + 1) {
        const size_t n = split(pattern, '+');
        c->fused_names[i] = name;
        c->fused[i] = (syn_fused_nodes){next, n};
        for (size_t k = 0; k < n; k++, pattern += strlen(pattern) + 1) {
            if (*pattern == '\0') return SYN_FAIL(err, SYN_E_INVALID, "--fuse has an empty name");
            *next++ = pattern;
        }
    }
    return SYN_OK;
}

/* ---- Algorithms ---- */

static syn_status read_algorithms(changes *c, syn_error *err) {
    if (args.collective == NULL) return SYN_OK;
    c->algorithm_text = syn_strdup(args.collective);
    if (c->algorithm_text == NULL)
        return SYN_FAIL_NOMEM(err, strlen(args.collective), "--collective");
    for (char *at = c->algorithm_text, *next; at != NULL; at = next) {
        char *end = strchr(at, ','), *equals = strchr(at, '=');
        syn_collective_algorithm *one = &c->algorithms[c->n_algorithms];
        next = end != NULL ? end + 1 : NULL;
        if (end != NULL) *end = '\0';
        if (equals == NULL || (end != NULL && equals > end) ||
            c->n_algorithms == sizeof c->algorithms / sizeof *one ||
            !syn_algorithm_named(equals + 1, &one->algorithm))
            return SYN_FAIL(err, SYN_E_INVALID,
                            "--collective '%.60s' is not a list such as "
                            "ALL_REDUCE=halvingDoubling,ALL_GATHER=direct, with ring, direct, "
                            "halvingDoubling, doubling or tree for up to four kinds",
                            args.collective);
        *equals = '\0';
        one->kind = at;
        c->n_algorithms++;
    }
    return SYN_OK;
}

/* ---- Another machine ---- */

typedef struct machines {
    syn_hardware from, to;
} machines;

/* Loads the machine of the set's times: the one in the metadata, or --from. */
static syn_status load_from(syn_hardware *from, const syn_set_hardware *set, syn_error *err) {
    const char *stack = set->stack[0] != '\0' ? set->stack : NULL;
    if (args.from == NULL && set->machine[0] == '\0')
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the set does not name the machine of its times: give it with --from");
    if (args.from == NULL && set->own_constants)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "this set was timed with the hardware file of '%.63s+%.63s', not with a "
                        "preset: give the file with --from",
                        set->machine, set->stack);
    SYN_TRY(syn_hardware_load(from, args.from != NULL ? args.from : set->machine, stack, err));
    if (set->machine[0] == '\0' || (strcmp(set->machine, from->name) == 0 &&
                                    (stack == NULL || strcmp(stack, from->stack.name) == 0)))
        return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "the times in this set are those of %.63s+%.63s, not of %.63s+%.63s: %s",
                    set->machine, set->stack, from->name, from->stack.name,
                    set->own_constants ? "give that hardware file with --from" : "omit --from");
}

/* The stack of the new machine: that of the old one, if other machines can have it. NULL: the
   default. */
static const char *stack_for(const char *name) {
    for (const char *const *p = syn_stack_presets(); *p != NULL; p++)
        if (strcmp(*p, name) == 0) return name;
    return NULL;
}

static syn_status load_machines(machines *m, const syn_simulation *before, syn_error *err) {
    SYN_TRY(load_from(&m->from, &before->hardware, err));
    SYN_TRY(syn_hardware_load(&m->to, args.hw, stack_for(m->from.stack.name), err));
    SYN_TRY(syn_hardware_check_nodes(&m->to, (int32_t)before->n_ranks, err));
    if (args.dtype != 0 && before->hardware.has_dtype)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the set names the dtype of its products: omit --dtype");
    if (before->hardware.fp8) {
        SYN_TRY(syn_hardware_use_fp8(&m->from, err));
        SYN_TRY(syn_hardware_use_fp8(&m->to, err));
    }
    syn_hardware_set_sharing(&m->from, (int32_t)before->n_ranks);
    syn_hardware_set_sharing(&m->to, (int32_t)before->n_ranks);
    if ((m->from.stack.blocking != 0) != (m->to.stack.blocking != 0))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "communication blocks computation on only one of %.63s+%.63s and "
                        "%.63s+%.63s (\"blocking\"), so the set has other dependencies on --hw",
                        m->from.name, m->from.stack.name, m->to.name, m->to.stack.name);
    if (before->end_ns == 0)
        return SYN_FAIL(err, SYN_E_INVALID, "the set has no times that --hw could change");
    return SYN_OK;
}

/* ---- Output ---- */

/* Sums over ranks, divided by their number. */
typedef struct sums {
    double end_ns, compute_ns, exposed_ns, wait_ns;
} sums;

static sums sums_of(const syn_simulation *sim) {
    sums s = {.end_ns = (double)sim->end_ns};
    for (size_t i = 0; i < sim->n_ranks; i++) {
        s.compute_ns += (double)sim->ranks[i].compute_ns / (double)sim->n_ranks;
        s.exposed_ns += (double)sim->ranks[i].exposed_ns / (double)sim->n_ranks;
        s.wait_ns += (double)sim->ranks[i].wait_ns / (double)sim->n_ranks;
    }
    return s;
}

static void print_row(const char *what, double before, double after) {
    char a[32], b[32];
    printf("%-24s %10s %10s", what, cli_time_text(before, a, sizeof a),
           cli_time_text(after, b, sizeof b));
    if (before > 0) printf(" %+8.1f %%", 100 * (after / before - 1));
    printf("\n");
}

/* Names the changes that change nothing. */
static void put_notes(const changes *c, const syn_simulation *after, syn_sink *json) {
    cli_notes notes = cli_notes_begin(json, stderr);
    for (size_t i = 0; i < c->n; i++)
        if ((after->matched >> i & 1) == 0)
            cli_note(&notes, "note", "no node matches '%s'", c->list[i].pattern);
    for (size_t i = 0; i < c->n_fused; i++)
        if ((after->fused >> i & 1) == 0)
            cli_note(&notes, "note", "'%s' fuses no kernels", c->fused_names[i]);
    for (size_t i = 0; i < c->n_algorithms; i++)
        if ((after->chosen >> i & 1) == 0)
            cli_note(&notes, "note", "the set has no %s", c->algorithms[i].kind);
    cli_notes_end(&notes);
}

static syn_status print_json(const syn_simulation *before, const syn_simulation *after,
                             const changes *c, syn_error *err) {
    const sums sides[2] = {sums_of(before), sums_of(after)};
    static const char *const names[2] = {"before", "after"};
    syn_sink *out;
    SYN_TRY(cli_json_open(&out, &program, err));
    cli_json_count(out, "changed_nodes", after->n_scaled);
    if (args.fuse != NULL)
        syn_sink_printf(out, ", \"fused_nodes\": %" PRIu64 ", \"fused_kernels\": %" PRIu64,
                        after->n_fused, after->n_fused_kernels);
    if (args.hw != NULL)
        syn_sink_printf(out,
                        ", \"compute_nodes\": %" PRIu64 ", \"predicted_compute_nodes\": %" PRIu64,
                        after->n_compute, after->n_predicted);
    for (int i = 0; i < 2; i++)
        syn_sink_printf(out,
                        ", \"%s\": {\"end_ns\": %.0f, \"compute_ns\": %.0f, \"exposed_ns\": %.0f, "
                        "\"waiting_ns\": %.0f}",
                        names[i], sides[i].end_ns, sides[i].compute_ns, sides[i].exposed_ns,
                        sides[i].wait_ns);
    put_notes(c, after, out);
    return cli_json_close(out, SYN_OK, err);
}

static void print_machines(const syn_simulation *after, const machines *m) {
    char from[160], to[160];
    printf("times of %s instead of %s: communication is predicted, and so are %" PRIu64
           " of %" PRIu64 " compute nodes\n",
           syn_hardware_title(&m->to, to, sizeof to),
           syn_hardware_title(&m->from, from, sizeof from), after->n_predicted, after->n_compute);
    if (after->n_predicted < after->n_compute)
        printf("note: the times of the other %" PRIu64
               " compute nodes are scaled by the ratio of predictions from their flops and bytes, "
               "or kept if they have none\n",
               after->n_compute - after->n_predicted);
}

static void print_text(const syn_simulation *before, const syn_simulation *after,
                       const machines *m) {
    const sums a = sums_of(before), b = sums_of(after);
    if (args.hw != NULL) print_machines(after, m);
    if (args.scale != NULL || args.drop != NULL)
        printf("%" PRIu64 " of %" PRIu64 " nodes are changed\n", after->n_scaled, after->n_nodes);
    if (args.fuse != NULL)
        printf("%" PRIu64 " kernels run as %" PRIu64 "\n", after->n_fused, after->n_fused_kernels);
    printf("\n");
    printf("%-24s %10s %10s\n", "", "before", "after");
    print_row("end", a.end_ns, b.end_ns);
    print_row("compute, mean of ranks", a.compute_ns, b.compute_ns);
    print_row("exposed communication", a.exposed_ns, b.exposed_ns);
    print_row("waiting", a.wait_ns, b.wait_ns);
}

/* ---- The command ---- */

static syn_status check(const syn_simulation *sim, syn_error *err) {
    if (sim->deadlock == NULL) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "the set deadlocks: %s", sim->deadlock);
}

static syn_status compare(const char *const *paths, size_t n, const changes *c, machines *m,
                          syn_error *err) {
    syn_simulation before = {.n_nodes = 0}, after = {.n_nodes = 0};
    syn_simulate_options how = {.groups = args.groups,
                                .network = args.network,
                                .system = args.system,
                                .threads = cli_cores(),
                                .max_unpacked_bytes = args.max_unpacked_bytes};
    syn_status s = syn_simulate(&before, paths, n, &how, err);
    if (s == SYN_OK) s = check(&before, err);
    how.scaled = c->list;
    how.n_scaled = c->n;
    how.fused = c->fused;
    how.n_fused = c->n_fused;
    how.algorithms = c->algorithms;
    how.n_algorithms = c->n_algorithms;
    if (s == SYN_OK && args.hw != NULL) {
        s = load_machines(m, &before, err);
        how.from = &m->from;
        how.to = &m->to;
        how.dtype = dtypes[args.dtype];
    }
    if (s == SYN_OK) s = syn_simulate(&after, paths, n, &how, err);
    if (s == SYN_OK) s = check(&after, err);
    if (s == SYN_OK && c->n > 0 && after.n_scaled == 0)
        s = SYN_FAIL(err, SYN_E_INVALID, "no node matches the patterns of --scale and --drop");
    if (s == SYN_OK && c->n_fused > 0 && after.fused == 0)
        s = SYN_FAIL(err, SYN_E_INVALID,
                     "no consecutive kernels that depend on each other match --fuse");
    if (s == SYN_OK && c->n_algorithms > 0 && after.chosen == 0)
        s = SYN_FAIL(err, SYN_E_INVALID, "the set has no collective of the kinds of --collective");
    if (s == SYN_OK && args.json) {
        s = print_json(&before, &after, c, err);
    } else if (s == SYN_OK) {
        put_notes(c, &after, NULL);
        print_text(&before, &after, m);
    }
    syn_simulation_free(&before);
    syn_simulation_free(&after);
    return s;
}

int command_what_if(int argc, char **argv) {
    syn_error err = {0};
    changes c = {.text = NULL};
    const char *const *paths;
    size_t n;
    const int code = cli_parse_set(&program, argc, argv, &args.input, &paths, &n);
    if (code != CLI_RUN) return code;
    if (args.scale == NULL && args.drop == NULL && args.fuse == NULL && args.hw == NULL &&
        args.collective == NULL)
        return cli_fail(&program, CLI_USAGE,
                        "--scale, --drop, --fuse, --collective or --hw says what to change");
    if (args.collective != NULL && args.network == NULL)
        return cli_fail(&program, CLI_USAGE,
                        "--collective needs --network and --system, which have the times of "
                        "messages");
    if ((args.from != NULL || args.dtype != 0) && args.hw == NULL)
        return cli_fail(&program, CLI_USAGE, "--%s needs --hw, the machine after the change",
                        args.from != NULL ? "from" : "dtype");
    if (args.hw != NULL && args.network != NULL)
        return cli_fail(&program, CLI_USAGE,
                        "--hw and --network both determine the times of communication; give one");
    if ((args.network == NULL) != (args.system == NULL))
        return cli_fail(&program, CLI_USAGE,
                        "--network and --system describe one machine; give both or none");
    machines *m = syn_malloc(sizeof *m); /* too large for the stack */
    syn_status s =
        m != NULL ? read_changes(&c, &err) : SYN_FAIL_NOMEM(&err, sizeof *m, "the machines");
    if (s == SYN_OK) s = read_fused(&c, &err);
    if (s == SYN_OK) s = read_algorithms(&c, &err);
    if (s == SYN_OK) s = cli_take_standard_input(paths, n, &err);
    if (s == SYN_OK) s = compare(paths, n, &c, m, &err);
    syn_free(m);
    syn_free(c.fuse_text);
    syn_free(c.pattern_text);
    syn_free(c.patterns);
    syn_free(c.algorithm_text);
    syn_free(c.text);
    syn_free(c.list);
    return cli_done(&program, s, &err);
}
