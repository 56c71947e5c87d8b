/* --sweep of `syntorch serve`: simulates the same requests for all combinations of options, and
   finds the Pareto front and the cheapest combination that meets the limits. */
#include "tools/serve/serve_sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/folders.h"
#include "tools/progress.h"
#include "tools/requests/request_generate.h"

static serve_sweep swept;

/* ---- Options ---- */

bool serve_sweep_varies(const char *option) {
    for (int i = 0; i < swept.all.n_axes; i++)
        if (strcmp(swept.all.axes[i].option->name, option) == 0) return true;
    return false;
}

static int fail(const char *text) {
    return cli_fail(&serve_cli, CLI_USAGE, "%s", text);
}

/* Sets all options to the combination `at`. */
static int set_options(const int at[SWEEP_AXES]) {
    int code = CLI_RUN;
    for (int i = 0; i < swept.all.n_axes && code == CLI_RUN; i++) {
        const sweep_axis *axis = &swept.all.axes[i];
        code = cli_set(&serve_cli, axis->option, axis->values[at[i]]);
    }
    return code;
}

/* Whether the requests can arrive at a given rate: a file with arrival times cannot. */
static bool takes_rate(request_options how) {
    syn_error ignored = {0};
    request_source *source = NULL;
    how.rate = 1;
    if (!how.requests || request_is_workload(how.requests)) return true;
    const bool takes = requests_open(&source, &how, &ignored) == SYN_OK;
    requests_close(source);
    return takes;
}

static int check_find_rate(int argc, char **argv) {
    const serve_args *a = &serve_given;
    if (!a->slo) return fail("--find-rate needs --slo, the limits that must hold");

    const cli_rule rules[] = {
        {true,
         {"rate", "time_scale", "allow_overload"},
         "has no effect with --find-rate, which tries many rates; omit it"},
        {a->sweep.n == 0,
         {"out", "timeline_steps", "trace", "fold", "trace_limit"},
         "has no effect with --find-rate, which writes no files; omit it"},
        {a->requests.num_requests == 0,
         {"duration"},
         "is not possible with --find-rate, which serves the same requests at "
         "many rates; give --num-requests instead"}};
    return cli_check_rules(&serve_cli, argc, argv, rules, sizeof rules / sizeof *rules);
}

/* Checks the values of prefill= and decode=, which cli_check does not know. */
static int check_layouts(void) {
    int code = CLI_RUN;
    for (int i = 0; i < swept.all.n_axes; i++) {
        const sweep_axis *axis = &swept.all.axes[i];
        serve_layout layout;
        if (strcmp(axis->option->name, "prefill") != 0 && strcmp(axis->option->name, "decode") != 0)
            continue;
        for (int k = 0; k < axis->n && code == CLI_RUN; k++)
            code = serve_read_layout(axis->option->name, axis->values[k], &layout);
    }
    return code;
}

static int check_axes(int argc, char **argv) {
    static const char *const layout[] = {"tp", "dp", "ep"};
    if (serve_given.find_rate && serve_sweep_varies("rate"))
        return fail("--find-rate tries many rates; omit rate= from --sweep");
    const bool divided = serve_sweep_varies("prefill") || serve_sweep_varies("decode");
    for (int i = 0; i < 3 && divided; i++)
        if (serve_sweep_varies(layout[i]) || cli_was_given(&serve_cli, argc, argv, layout[i]))
            return cli_fail(&serve_cli, CLI_USAGE,
                            "--%s has no effect with prefill= and decode=, which have their own "
                            "layouts; omit it",
                            layout[i]);
    return check_layouts();
}

int serve_sweep_check(int argc, char **argv) {
    static const char *const keys[] = {"tp",
                                       "dp",
                                       "ep",
                                       "prefill",
                                       "decode",
                                       "hw",
                                       "dtype",
                                       "policy",
                                       "scheduling_policy",
                                       "max_num_seqs",
                                       "max_num_batched_tokens",
                                       "long_prefill_token_threshold",
                                       "no_chunked_prefill",
                                       "no_async_scheduling",
                                       "router",
                                       "block_size",
                                       "gpu_memory_utilization",
                                       "num_gpu_blocks",
                                       "no_prefix_caching",
                                       "num_speculative_tokens",
                                       "acceptance_rate",
                                       "draft_model",
                                       "rate",
                                       NULL};
    static const char *const useless[] = {"timeline_steps", "trace", "fold", "trace_limit", NULL};
    serve_args *a = &serve_given;
    const int first[SWEEP_AXES] = {0};
    const sweep_options how = {.program = &serve_cli,
                               .words = &a->sweep,
                               .keys = keys,
                               .useless = useless,
                               .hw = a->hw,
                               .stack = "vllm"};
    serve_sweep_free();
    const bool many = a->sweep.n > 0 || a->find_rate;
    if (many && a->requests.requests && strcmp(a->requests.requests, "-") == 0)
        return cli_fail(&serve_cli, CLI_USAGE,
                        "--%s reads the requests several times, which standard input does not "
                        "allow; give a file",
                        a->find_rate ? "find-rate" : "sweep");
    const cli_rule rules[] = {
        {!many, {"slo_percentile"}, "has no effect without --sweep or --find-rate; omit it"}};
    int code = cli_check_rules(&serve_cli, argc, argv, rules, 1);
    if (code == CLI_RUN && a->find_rate) code = check_find_rate(argc, argv);
    /* The search sets the rate, or the time scale of a file with arrival times. */
    if (a->find_rate) a->requests.rate = takes_rate(a->requests) ? 1 : 0;
    if (code != CLI_RUN || a->sweep.n == 0) return code;
    code = sweep_open(&swept.all, &how, argc, argv);
    if (code == CLI_RUN) code = check_axes(argc, argv);
    return code == CLI_RUN ? set_options(first) : code;
}

void serve_sweep_free(void) {
    for (size_t i = 0; i < swept.all.n; i++) {
        syn_free(swept.rows[i].hardware);
        syn_free(swept.rows[i].stack);
    }
    syn_free(swept.rows);
    sweep_free(&swept.all);
    swept = (serve_sweep){.rows = NULL};
}

/* ---- One combination ---- */

static syn_status copy(char **out, const char *text, syn_error *err) {
    *out = syn_strdup(text);
    return *out ? SYN_OK : SYN_FAIL_NOMEM(err, strlen(text) + 1, "a row of --sweep");
}

/* Names the model, also if no combination is possible. */
static void name_model(const serve_run *run) {
    const serve_args *a = &serve_given;
    const char *name = run->config.name[0] ? run->config.name
                       : a->model          ? a->model
                                           : a->model_config;
    if (swept.all.title[0] == '\0')
        snprintf(swept.all.title, sizeof swept.all.title, "%s", name ? name : "unknown model");
}

/* Describes what all combinations have in common. */
static void name_requests(const serve_figures *f) {
    const request_options *how = &serve_given.requests;
    if (swept.all.subtitle[0] != '\0') return;
    const size_t used =
        (size_t)snprintf(swept.all.subtitle, sizeof swept.all.subtitle, "%lld requests of %s",
                         (long long)f->requests, cli_base_name(how->requests));
    if (used < sizeof swept.all.subtitle && how->rate > 0 && !isinf(how->rate) &&
        !serve_given.find_rate && !serve_sweep_varies("rate"))
        snprintf(swept.all.subtitle + used, sizeof swept.all.subtitle - used, ", %g requests/s",
                 how->rate);
}

/* Simulates the combination of a row. */
static syn_status try_row(serve_run *run, serve_row *row, syn_error *why) {
    if (set_options(row->of->at) != CLI_RUN || serve_read_layouts(run) != CLI_RUN) return why->code;
    SYN_TRY(serve_open(run, why));
    SYN_TRY(copy(&row->hardware, run->hw.name, why));
    SYN_TRY(copy(&row->stack, run->hw.stack.name, why));
    if (serve_given.find_rate) {
        SYN_TRY(serve_find_figures(run, &row->highest, &row->f, why));
    } else {
        SYN_TRY(serve_simulate(&run->sim, run->source, &run->result, why));
        row->f = serve_figures_of(run, swept.percentile);
    }
    const bool growing = !serve_given.find_rate && row->f.rates.growing;
    row->excess = growing ? INFINITY : serve_excess(&row->f, &swept.slo);
    name_requests(&row->f);
    return SYN_OK;
}

/* Simulates a row, or sets the reason why its combination is not possible. */
static syn_status fill_row(const serve_run *run, serve_row *row, syn_error *err) {
    const serve_args given = serve_given;
    syn_error why = {0};
    serve_run one = {
        .slo = run->slo,
        .given_dtype = run->given_dtype || serve_sweep_varies("dtype"),
        .given_seqs = run->given_seqs || serve_sweep_varies("max_num_seqs"),
        .given_tokens = run->given_tokens || serve_sweep_varies("max_num_batched_tokens"),
        .given_layout = run->given_layout || serve_sweep_varies("tp") || serve_sweep_varies("dp") ||
                        serve_sweep_varies("ep") || serve_sweep_varies("prefill")};
    cli_keep_messages(&why);
    const bool refused = try_row(&one, row, &why) != SYN_OK;
    cli_keep_messages(NULL);
    name_model(&one);
    serve_close(&one);
    serve_given = given;
    return refused ? copy(&row->of->refused, why.text, err) : SYN_OK;
}

/* ---- Order ---- */

static int by_throughput(const void *a, const void *b) {
    const serve_row *x = *(serve_row *const *)a, *y = *(serve_row *const *)b;
    const double of_x = serve_tokens_per_gpu(&x->f), of_y = serve_tokens_per_gpu(&y->f);
    if (of_x != of_y) return of_x > of_y ? -1 : 1;
    if (x->f.mean.tpot_ns != y->f.mean.tpot_ns)
        return x->f.mean.tpot_ns < y->f.mean.tpot_ns ? -1 : 1;
    return x->of < y->of ? -1 : x->of > y->of;
}

serve_row **serve_sweep_in_order(const serve_sweep *s, size_t *n) {
    serve_row **rows = syn_calloc(s->all.n + 1, sizeof *rows);
    *n = 0;
    for (size_t i = 0; rows && i < s->all.n; i++)
        if (!s->rows[i].of->refused) rows[(*n)++] = &s->rows[i];
    if (rows) qsort(rows, *n, sizeof *rows, by_throughput);
    return rows;
}

bool serve_sweep_overloads(const serve_row *row) {
    return !row->of->refused && isinf(row->excess);
}

/* Whether a row is in the front, given the previous one of the front in serve_sweep_in_order; NULL:
   none. Rows with equal times and throughput are all in it. Requests of one token have no TPOT, so
   that rows with only such requests are not. */
static bool is_in_front(const serve_row *row, const serve_row *last) {
    const double tpot = row->f.mean.tpot_ns;
    if (!(tpot > 0) || serve_sweep_overloads(row)) return false;
    return !last || tpot < last->f.mean.tpot_ns ||
           (tpot == last->f.mean.tpot_ns &&
            serve_tokens_per_gpu(&row->f) == serve_tokens_per_gpu(&last->f));
}

static syn_status mark_front(serve_sweep *s, syn_error *err) {
    size_t n;
    int front = 0;
    const serve_row *last = NULL;
    serve_row **rows = serve_sweep_in_order(s, &n);
    if (!rows) return SYN_FAIL_NOMEM(err, s->all.n * sizeof *rows, "the rows of --sweep");
    for (size_t i = 0; i < n; i++) {
        if (!is_in_front(rows[i], last)) continue;
        last = rows[i];
        rows[i]->of->front = ++front;
    }
    syn_free(rows);
    return SYN_OK;
}

const serve_row *serve_sweep_cheapest(const serve_sweep *s, int machine) {
    const serve_row *best = NULL;
    for (size_t i = 0; i < s->all.n; i++) {
        const serve_row *row = &s->rows[i];
        if (row->of->refused || row->excess > 1) continue;
        if (machine >= 0 && row->of->machine != machine) continue;
        const double cost = serve_cost(&row->f), least = best ? serve_cost(&best->f) : INFINITY;
        if (cost < least || (cost == least && row->f.mean.tpot_ns < best->f.mean.tpot_ns))
            best = row;
    }
    return best;
}

const serve_row *serve_sweep_closest(const serve_sweep *s) {
    const serve_row *best = NULL;
    for (size_t i = 0; i < s->all.n; i++) {
        const serve_row *row = &s->rows[i];
        if (!row->of->refused && (!best || row->excess < best->excess)) best = row;
    }
    return best;
}

/* ---- All combinations ---- */

static syn_status add_rows(serve_sweep *s, syn_error *err) {
    int at[SWEEP_AXES] = {0};
    size_t n = 1;
    sweep *all = &s->all;
    for (int i = 0; i < all->n_axes; i++) n *= (size_t)all->axes[i].n;
    all->rows = syn_calloc(n, sizeof *all->rows);
    s->rows = syn_calloc(n, sizeof *s->rows);
    if (!all->rows || !s->rows)
        return SYN_FAIL_NOMEM(err, n * sizeof *all->rows, "the rows of --sweep");
    for (; all->n < n; all->n++) {
        sweep_row *row = s->rows[all->n].of = &all->rows[all->n];
        memcpy(row->at, at, sizeof at);
        row->machine = all->machine_axis >= 0 ? at[all->machine_axis] : 0;
        for (int i = all->n_axes; i-- > 0;) {
            if (++at[i] < all->axes[i].n) break;
            at[i] = 0;
        }
    }
    return SYN_OK;
}

static syn_status run_all(const serve_run *run, syn_error *err) {
    progress bar = {
        .what = "simulating", .unit = "runs", .quiet = serve_given.quiet, .terminal_only = true};
    SYN_TRY(add_rows(&swept, err));
    for (size_t i = 0; i < swept.all.n; i++) {
        progress_step(&bar, (int64_t)i, (int64_t)swept.all.n);
        SYN_TRY(fill_row(run, &swept.rows[i], err));
    }
    progress_step(&bar, (int64_t)swept.all.n, (int64_t)swept.all.n);
    return mark_front(&swept, err);
}

/* ---- Files and results ---- */

enum { PATH = 4300 };

static const char *path_of(const char *end, char buf[PATH]) {
    snprintf(buf, PATH, "%s.sweep.%s", serve_given.out, end);
    return buf;
}

/* Fails before the simulations if the files cannot be written. */
static syn_status open_files(syn_error *err) {
    char path[PATH];
    if (!serve_given.out) return SYN_OK;
    if (!folder_is_prefix(serve_given.out))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--out %.200s must be the beginning of file names, such as run/serve",
                        serve_given.out);
    SYN_TRY(syn_make_prefix_folder(serve_given.out, err));
    SYN_TRY(folder_check_output(path_of("csv", path), err));
    snprintf(path, sizeof path, "%s.sweep", serve_given.out);
    return output_lock_take(&swept.all.lock, path, serve_cli.name, "name another --out", err);
}

static syn_status write_files(syn_error *err) {
    char path[PATH];
    syn_sink *csv;
    if (!serve_given.out) return SYN_OK;
    SYN_TRY(syn_sink_open_file(&csv, path_of("csv", path), err));
    serve_sweep_csv(&swept, csv);
    SYN_TRY(syn_sink_close(csv, true, err));
    return serve_sweep_draw(&swept, path_of("svg", path), err);
}

static syn_status print_json(syn_error *err) {
    static const char *const ends[] = {"csv", "svg"};
    char path[PATH];
    bool first = true;
    syn_error why = {0};
    syn_sink *json;
    SYN_TRY(cli_json_open_as(&json, "serve-sweep", err));
    serve_sweep_json(&swept, json);
    serve_sweep_notes(&swept, cli_notes_begin(json, NULL));
    cli_json_begin_written(json);
    for (int i = 0; i < 2 && serve_given.out; i++)
        cli_json_add_written(json, path_of(ends[i], path), &first);
    syn_sink_char(json, ']');
    if (sweep_check_possible(&swept.all, &why) != SYN_OK)
        cli_json_error(json, CLI_FAILED, why.text);
    return cli_json_close(json, SYN_OK, err);
}

static syn_status report(syn_error *err) {
    char shown[CLI_SHOWN_BYTES];
    SYN_TRY(write_files(err));
    if (serve_given.json) return print_json(err);
    if (serve_given.quiet) return SYN_OK;
    SYN_TRY(serve_sweep_print(&swept, stdout, err));
    if (!serve_given.out) return SYN_OK;
    cli_shown(serve_given.out, shown, sizeof shown);
    printf("\nwritten: %s.sweep.csv, %s.sweep.svg\n", shown, shown);
    return SYN_OK;
}

syn_status serve_sweep_run(serve_run *run, syn_error *err) {
    swept.slo = run->slo;
    swept.percentile = serve_given.slo_percentile;
    SYN_TRY(open_files(err));
    SYN_TRY(run_all(run, err));
    SYN_TRY(report(err));
    return sweep_check_possible(&swept.all, err);
}
