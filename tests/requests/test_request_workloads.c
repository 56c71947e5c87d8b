/* Tests generated requests: means, spreads and percentiles against closed formulas, with a fixed
   seed, and that they are the same on all platforms. Also tests that memory does not grow with the
   number of requests. */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "syntorch/base/memory.h"
#include "tools/requests/request_generate.h"
#include "tools/requests/requests_options.h"

#define N 40000

static request drawn[N];

/* Generates n requests to `drawn`. */
static syn_status generate(request_options how, int n, syn_error *err) {
    request_source *source;
    bool end = false;
    how.num_requests = n;
    SYN_TRY(requests_open(&source, &how, err));
    syn_status s = SYN_OK;
    for (int i = 0; s == SYN_OK && i < n && !end; i++)
        s = requests_next(source, &drawn[i], &end, err);
    requests_close(source);
    return s == SYN_OK && end ? SYN_FAIL(err, SYN_E_INVALID, "it ended early") : s;
}

typedef struct moments {
    double mean, sd;
} moments;

static moments of_numbers(const double *x, int n) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    const double mean = sum / n;
    for (int i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    return (moments){mean, sqrt(squares / n)};
}

static double numbers[N];

static moments prompts(void) {
    for (int i = 0; i < N; i++) numbers[i] = drawn[i].prompt;
    return of_numbers(numbers, N);
}

static moments outputs(void) {
    for (int i = 0; i < N; i++) numbers[i] = drawn[i].output;
    return of_numbers(numbers, N);
}

/* Within four standard errors of the mean. */
#define CHECK_MEAN(got, mean_, sd_) CHECK_NEAR((got).mean, mean_, 4 * (sd_) / sqrt((double)N))

static void lengths(void) {
    syn_error err = {0};
    CHECK_OK(generate((request_options){.requests = "fixed:128:16"}, N, &err), err);
    for (int i = 0; i < N; i++) CHECK(drawn[i].prompt == 128 && drawn[i].output == 16);
    CHECK_OK(generate((request_options){.requests = "uniform:100-299:1-1"}, N, &err), err);
    const double uniform_sd = sqrt((200.0 * 200 - 1) / 12);
    CHECK_MEAN(prompts(), 199.5, uniform_sd);
    CHECK_NEAR(prompts().sd, uniform_sd, 1);
    for (int i = 0; i < N; i++)
        CHECK(drawn[i].prompt >= 100 && drawn[i].prompt <= 299 && drawn[i].output == 1);
    CHECK_OK(generate((request_options){.requests = "lognormal:500:250:200:20"}, N, &err), err);
    CHECK_MEAN(prompts(), 500, 250);
    CHECK_MEAN(outputs(), 200, 20);
    CHECK_NEAR(prompts().sd, 250, 8); /* four standard errors, with the fourth moment */
    CHECK_NEAR(outputs().sd, 20, 0.4);
    CHECK_OK(generate((request_options){.requests = "sharegpt-like"}, N, &err), err);
    CHECK_MEAN(prompts(), 217, 260);
    CHECK_MEAN(outputs(), 202, 200);
}

/* The share of the numbers that are at most `limit`. */
static double share(int32_t limit) {
    int n = 0;
    for (int i = 0; i < N; i++) n += numbers[i] <= limit;
    return (double)n / N;
}

/* The figures of docs/requests.md. */
static void percentiles(void) {
    static const struct {
        const char *name;
        double prompt, output; /* means */
        int32_t p50, p90;      /* of prompts */
    } of[] = {{"azure-code", 2080.7, 29.3, 1469, 5194},
              {"azure-chat", 1153.1, 213.4, 1020, 2735},
              {"summarize", 2583.0, 297.0, 2730, 3702}};
    for (size_t i = 0; i < COUNT(of); i++) {
        syn_error err = {0};
        CHECK_OK(generate((request_options){.requests = of[i].name, .seed = 5}, N, &err), err);
        CHECK_MEAN(outputs(), of[i].output, outputs().sd);
        CHECK_MEAN(prompts(), of[i].prompt, prompts().sd);
        CHECK_NEAR(share(of[i].p50), 0.5, 4 * 0.5 / sqrt(N));
        CHECK_NEAR(share(of[i].p90), 0.9, 4 * 0.3 / sqrt(N));
    }
}

static moments gaps(double rate, const char *arrivals) {
    syn_error err = {0};
    const request_options how = {
        .requests = "fixed:1:1", .rate = rate, .arrivals = arrivals, .seed = 3};
    NEED_OK(generate(how, N, &err), err);
    NEED(drawn[0].arrival_ns == 0, "the first arrival");
    for (int i = 1; i < N; i++) numbers[i - 1] = drawn[i].arrival_ns - drawn[i - 1].arrival_ns;
    return of_numbers(numbers, N - 1);
}

static void arrivals(void) {
    /* Mean 1 / rate. The standard error of the coefficient of variation c of a gamma distribution
       is below c (1 + 2 c^2) / sqrt(N). */
    static const struct {
        const char *name;
        double c;
    } of[] = {{NULL, 1}, {"poisson", 1}, {"gamma:0.5", 0.5}, {"gamma:1", 1}, {"gamma:3", 3}};
    for (size_t i = 0; i < COUNT(of); i++) {
        const moments m = gaps(20, of[i].name);
        const double c = of[i].c;
        CHECK_MEAN(m, 5e7, 5e7 * c);
        CHECK_NEAR(m.sd / m.mean, c, 4 * c * (1 + 2 * c * c) / sqrt(N));
    }
    int n = 0; /* exponential: P(gap > mean) = 1 / e */
    gaps(20, "poisson");
    for (int i = 0; i < N - 1; i++) n += numbers[i] > 5e7;
    CHECK_NEAR((double)n / N, exp(-1), 4 * 0.4823 / sqrt(N));
    gaps(20, "uniform");
    CHECK(drawn[7].arrival_ns == 7 * 5e7);
    gaps(20, "bursts:4");
    CHECK(drawn[3].arrival_ns == 0 && drawn[4].arrival_ns == 2e8 && drawn[7].arrival_ns == 2e8);
    gaps(INFINITY, NULL);
    CHECK(drawn[N - 1].arrival_ns == 0);
}

static void duration(void) {
    syn_error err = {0};
    request_source *source;
    request r;
    bool end = false;
    int n = 0;
    const request_options how = {
        .requests = "fixed:1:1", .rate = 50, .arrivals = "uniform", .duration_s = 2};
    CHECK_OK(requests_open(&source, &how, &err), err);
    for (; !end; n += !end) CHECK_OK(requests_next(source, &r, &end, &err), err);
    CHECK_INT(n, 100);
    requests_close(source);
}

static void counts_cut(void) {
    syn_error err = {0};
    request_source *source;
    request r;
    bool end = false;
    int64_t over = 0;
    request_options how = {.requests = "uniform:1-100:1-20", .num_requests = 500};
    CHECK_OK(generate(how, 500, &err), err);
    for (int i = 0; i < 500; i++) over += drawn[i].prompt + drawn[i].output > 90;
    CHECK(over > 50 && over < 450);
    how.max_tokens = 90;
    CHECK_OK(requests_open(&source, &how, &err), err);
    for (;;) {
        CHECK_OK(requests_next(source, &r, &end, &err), err);
        if (end) break;
        CHECK(r.prompt + r.output <= 90 && r.output >= 1);
    }
    CHECK_INT(requests_cut(source), over);
    requests_close(source);
}

static void prefixes_and_priorities(void) {
    syn_error err = {0};
    const request_options how = {.requests = "uniform:100-100:5-5",
                                 .prefixes = "8:64",
                                 .priorities = "0:3,-2:1",
                                 .max_tokens = 150,
                                 .seed = 2};
    int of_group[9] = {0}, urgent = 0;
    CHECK_OK(generate(how, N, &err), err);
    for (int i = 0; i < N; i++) {
        CHECK(drawn[i].prefix >= 1 && drawn[i].prefix <= 8 && drawn[i].prefix_tokens == 64);
        CHECK(drawn[i].prompt == 149 && drawn[i].output == 1); /* cut to 150 tokens */
        of_group[drawn[i].prefix]++;
        urgent += drawn[i].priority == -2;
        CHECK(drawn[i].priority == -2 || drawn[i].priority == 0);
    }
    for (int g = 1; g <= 8; g++) CHECK_NEAR(of_group[g], N / 8.0, 4 * sqrt(N * 0.125 * 0.875));
    CHECK_NEAR(urgent, N / 4.0, 4 * sqrt(N * 0.25 * 0.75));
}

/* The numbers of two workloads, and that other arrivals leave the lengths as they are. */
static void same_everywhere(void) {
    syn_error err = {0};
    request_options how = {
        .requests = "sharegpt-like", .rate = 10, .arrivals = "gamma:2", .seed = 1};
    CHECK_OK(generate(how, 3, &err), err);
    CHECK_MSG(drawn[2].prompt == 229 && drawn[2].output == 116 &&
                  drawn[2].arrival_ns == 0x1.a9c1a6a2b0d4bp+22,
              "%d %d %a", drawn[2].prompt, drawn[2].output, drawn[2].arrival_ns);
    const request before = drawn[2];
    how.arrivals = NULL;
    CHECK_OK(generate(how, 3, &err), err);
    CHECK(drawn[2].prompt == before.prompt && drawn[2].output == before.output &&
          drawn[2].arrival_ns != before.arrival_ns);
    how.seed = 2;
    CHECK_OK(generate(how, 3, &err), err);
    CHECK(drawn[2].prompt != before.prompt);
}

static void functions(void) {
    for (double x = 1e-300; x < 1e300; x *= 1.7e3)
        CHECK_NEAR(request_log(x), log(x), 1e-15 * (1 + fabs(log(x))));
    for (double x = -600; x < 600; x += 0.37) CHECK_NEAR(request_exp(x) / exp(x), 1, 1e-14);
    CHECK(request_exp(-800) == 0 && isinf(request_exp(800)));
}

/* Lengths of a file that has no arrival times. */
static void rate_of_file(void) {
    syn_error err = {0};
    const request_options how = {.requests =
                                     put_text("f", "input_tokens,output_tokens\n3,4\n5,6\n7,8\n"),
                                 .rate = 4,
                                 .arrivals = "uniform"};
    CHECK_OK(generate(how, 3, &err), err);
    CHECK(drawn[2].arrival_ns == 0.5e9 && drawn[2].prompt == 7 && drawn[2].line == 4);
}

static void refused(void) {
    static const struct {
        request_options how;
        const char *words;
    } bad[] = {
        {{.requests = "fixed:1"}, "'fixed:1' must be fixed:IN:OUT, in tokens"},
        {{.requests = "fixed:0:1"}, "must be fixed:IN:OUT"},
        {{.requests = "fixed:1.5:1"}, "must be fixed:IN:OUT"},
        {{.requests = "fixed:100:51", .max_tokens = 150},
         "--requests fixed:100:51: 100 prompt and 51 output tokens exceed the 150 positions"},
        {{.requests = "fixed:100:5", .prefixes = "2:64", .max_tokens = 150},
         "64 prefix, 100 prompt and 5 output tokens exceed the 150 positions of the model"},
        {{.requests = "uniform:9-8:1-1"}, "must be uniform:LO-HI:LO-HI"},
        {{.requests = "lognormal:9:8:7"}, "must be lognormal:MEAN:SD:MEAN:SD"},
        {{.requests = "lognormal:nan:8:7:1"}, "must be lognormal"},
        {{.requests = "azure-code:2"}, "azure-code has no parameters"},
        {{.requests = "sharegpt-lik"}, "is no file and no workload; did you mean sharegpt-like?"},
        {{.requests = "summarize", .where = "a=b"}, "--where is for requests of a file"},
        {{.requests = "summarize", .time_scale = 2}, "omit it and change --rate"},
        {{.requests = "summarize", .arrivals = "poisson"}, "--arrivals poisson has no effect"},
        {{.requests = "summarize", .rate = 1, .arrivals = "gama"}, "--arrivals 'gama' must be"},
        {{.requests = "summarize", .rate = 1, .arrivals = "bursts:0"}, "bursts:N"},
        {{.requests = "summarize", .rate = 1, .arrivals = "gamma:0"}, "gamma:CV"},
        {{.requests = "summarize", .duration_s = 1}, "--duration has no end without --rate"},
        {{.requests = "summarize", .prefixes = "4"}, "--prefixes '4' must be GROUPS:TOKENS"},
        {{.requests = "summarize", .prefixes = "0:1"}, "GROUPS:TOKENS"},
        {{.requests = "summarize", .priorities = "1:0.5,"}, "--priorities '1:0.5,' must be"},
        {{.requests = "summarize", .priorities = "0.5:1"}, "pairs P:SHARE"},
        {{.requests = "summarize", .priorities = "1:0.5,2:1,1:2"},
         "--priorities '1:0.5,2:1,1:2' has two shares of priority 1; give one"},
        {{.requests = "-", .prefixes = "4:4"}, "--prefixes is for generated requests"},
        {{.requests = "-", .rate = 1, .time_scale = 2}, "both determine the arrivals"},
        {{.requests = "-", .rate = INFINITY, .arrivals = "poisson"}, "give --rate"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        syn_error err = {0};
        request_source *source;
        CHECK_MSG(requests_open(&source, &bad[i].how, &err) != SYN_OK, "%s", bad[i].words);
        CHECK_HAS(err.text, bad[i].words);
        CHECK(source == NULL);
    }
    syn_error err = {0};
    request_source *source;
    request_options how = {
        .requests = put_text("f", "arrival_s,input_tokens,output_tokens\n3,4,1\n"), .rate = 1};
    CHECK(requests_open(&source, &how, &err) == SYN_E_FORMAT);
    CHECK_HAS(err.text, "f:1: the file has arrival times, so --rate would have no effect");
    err = (syn_error){0};
    how.rate = 0;
    how.arrivals = "uniform";
    CHECK(requests_open(&source, &how, &err) == SYN_E_FORMAT);
    CHECK_HAS(err.text, "f:1: the file has arrival times, so --arrivals uniform would have no");
    err = (syn_error){0};
    how.requests = put_text("f", "input_tokens,output_tokens\n4,1\n");
    CHECK(requests_open(&source, &how, &err) == SYN_E_FORMAT);
    CHECK_HAS(err.text, "name it arrival_s, or give --rate");
}

static request_options given;
static const cli_option table[] = {REQUESTS_OPTION(given), REQUEST_OPTIONS(given, "1000"), CLI_END};
static const cli_program program = {.name = "x", .summary = "", .options = table};

static void command_line(void) {
    char *words[] = {"x",          "--requests", "azure-chat", "--rate", "inf", "--num-requests",
                     "1000000000", "--arrivals", "poisson",    NULL},
         *alone[] = {"x", "--prefixes", "4:8", NULL};
    CHECK_INT(cli_parse(&program, 9, words), CLI_RUN);
    CHECK_STR(given.requests, "azure-chat");
    CHECK_STR(given.arrivals, "poisson");
    CHECK(isinf(given.rate) && given.num_requests == 1000000000 && given.duration_s == 0);
    syn_error err = {0};
    cli_keep_messages(&err);
    CHECK_INT(cli_parse(&program, 3, alone), CLI_RUN);
    const cli_rule rules[] = {REQUEST_OPTIONS_RULE(given)};
    CHECK_INT(cli_check_rules(&program, 3, alone, rules, 1), CLI_USAGE);
    cli_keep_messages(NULL);
    CHECK_HAS(err.text, "--prefixes has no effect without --requests");
}

static long peak_kib(void) {
    struct rusage usage;
    NEED(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
    return usage.ru_maxrss;
}

/* Writes generated requests to the pipe, and returns whether all could be written. */
static bool write_rows(int fd, int n) {
    FILE *f = fdopen(fd, "w");
    request_source *source;
    request r;
    bool end;
    const request_options how = {
        .requests = "uniform:1-4000:1-900", .rate = 1000, .num_requests = n};
    if (f == NULL || requests_open(&source, &how, NULL) != SYN_OK) return false;
    fputs("arrival_s,input_tokens,output_tokens\n", f);
    for (int i = 0; i < n; i++) {
        if (requests_next(source, &r, &end, NULL) != SYN_OK || end) return false;
        fprintf(f, "%.9f,%d,%d\n", r.arrival_ns / 1e9, r.prompt, r.output);
    }
    requests_close(source);
    return fclose(f) == 0;
}

/* Reads requests that another process generates, from standard input. */
static void streamed(void) {
    const int n = TEST_ROUNDS(1000000);
    int ends[2], status;
    const int kept = dup(STDIN_FILENO);
    CHECK(kept >= 0 && pipe(ends) == 0);
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[0]);
        _exit(write_rows(ends[1], n) ? 0 : 1);
    }
    close(ends[1]);
    CHECK(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    close(ends[0]);
    syn_error err = {0};
    request_source *source;
    request r;
    bool end = false;
    int64_t rows = 0;
    const request_options how = {.requests = "-"};
    CHECK_OK(requests_open(&source, &how, &err), err);
    const uint64_t calls = syn_memory_calls();
    const long before = peak_kib();
    for (; !end; rows += !end) CHECK_OK(requests_next(source, &r, &end, &err), err);
    CHECK_INT(rows, n);
    CHECK_INT(r.line, n + 1);
    CHECK_INT(syn_memory_calls() - calls, 0); /* as many allocations as for one row */
    CHECK_MSG(peak_kib() - before < 4096, "%ld KiB, then %ld", before, peak_kib());
    requests_close(source);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(dup2(kept, STDIN_FILENO) == STDIN_FILENO);
    close(kept);
}

static syn_status generate_some(void *unused, syn_error *err) {
    (void)unused;
    return generate((request_options){.requests = "sharegpt-like", .rate = 3}, 10, err);
}

static void without_memory(void) {
    CHECK(test_without_memory(generate_some, NULL) >= 1);
}

static const test_case cases[] = {
    {"lengths", lengths},
    {"percentiles", percentiles},
    {"arrivals", arrivals},
    {"duration", duration},
    {"counts_cut", counts_cut},
    {"prefixes_and_priorities", prefixes_and_priorities},
    {"same_everywhere", same_everywhere},
    {"functions", functions},
    {"rate_of_file", rate_of_file},
    {"refused", refused},
    {"command_line", command_line},
    {"streamed", streamed},
    {"without_memory", without_memory},
};
TEST_MAIN(cases)
