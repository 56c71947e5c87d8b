/* syntorch convert pytorch: converts host and device traces of PyTorch to Chakra execution
   traces. */
#include <string.h>

#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/pytorch/pytorch_job.h"
#include "tools/pytorch/pytorch_options.h"

static struct arguments {
    const char *host, *device, *linked, *output, *edges, *object;
    double thread_gap_us;
    int64_t rank;
    uint64_t max_unpacked_bytes;
    int profile, dup_ids; /* syn_pytorch_profile, syn_pytorch_same_ids */
    bool compat, strict, quiet, json, replay, trim;
} args = {.edges = "all", .object = "last", .thread_gap_us = 1000, .rank = -1};

static const cli_option options[] = {
    {"host", CLI_TEXT, &args.host, "FILE",
     "host trace of ExecutionTraceObserver; 'h.*.json': one file per rank", 0, 0},
    {"device", CLI_TEXT, &args.device, "FILE",
     "device trace of torch.profiler (Kineto); with a * where --host has one; suffices without "
     "--host",
     0, 0},
    {"linked", CLI_TEXT, &args.linked, "FILE", "linked trace, in place of --host and --device", 0,
     0},
    {"output", CLI_TEXT, &args.output, "FILE",
     "file to write; for several ranks a prefix: PREFIX.<rank>.et and PREFIX.comm_group.json", 0,
     0},
    {"profile", CLI_CHOICE, &args.profile, "full|astra-sim",
     "full: write every node; astra-sim: write only device work and communication, which ASTRA-sim "
     "runs",
     0, 0},
    {"edges", CLI_TEXT, &args.edges, "LIST",
     "dependencies to add to program order: all, none or some of launch,stream,sync,group,thread",
     0, 0},
    {"dup_ids", CLI_CHOICE, &args.dup_ids, "first|last|error",
     "which node keeps an id that several nodes have", 0, 0},
    {"object", CLI_TEXT, &args.object, "last|all|N",
     "which JSON object of the host file to read if there are several; N counts from 0", 0, 0},
    {"thread_gap", CLI_REAL, &args.thread_gap_us, "US",
     "assume that another thread woke a thread that was idle longer than US microseconds", 0, 1e12},
    {"trim", CLI_FLAG, &args.trim, NULL, "omit device work launched before or after the host trace",
     0, 0},
    {"rank", CLI_INT, &args.rank, "R", "rank of the trace; -1 = from the device trace, else 0", -1,
     2147483647.0},
    {"compat", CLI_FLAG, &args.compat, NULL,
     "write exactly what chakra_trace_link and chakra_converter write, with their limits", 0, 0},
    {"replay_check", CLI_FLAG, &args.replay, NULL,
     "replay the result with its own times and compare with the measured times", 0, 0},
    {"strict", CLI_FLAG, &args.strict, NULL, "fail on any warning (exit code 1)", 0, 0},
    {"quiet", CLI_FLAG, &args.quiet, NULL, "print only warnings", 0, 0},
    CLI_JSON(&args.json),
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {
    "syntorch convert pytorch --host host.0.json --device device.0.json --output trace.0.et",
    "syntorch convert pytorch --host 'host.*.json' --device 'device.*.json' --output out/trace "
    "--profile astra-sim",
    "syntorch convert pytorch --linked linked.json --output trace.0.et --compat", NULL};

static const cli_program program = {
    "syntorch convert pytorch",
    "Links PyTorch's host and device traces and converts them to Chakra execution traces. "
    "docs/pytorch.md explains how to record them and what each warning means.",
    options, examples, false};

/* Rejects combinations of options. */
static int check_combination(const syn_pytorch_options *o) {
    if (args.trim && (!args.host || !args.device))
        return cli_fail(&program, CLI_USAGE, "--trim compares --host with --device; give both");
    if (!args.host && !args.linked &&
        (o->same_ids != SYN_PYTORCH_FIRST_KEEPS || o->object.which != SYN_PYTORCH_LAST_OBJECT))
        return cli_fail(&program, CLI_USAGE,
                        "--dup_ids and --object apply to a host trace; give --host");
    if (args.compat && !args.host && !args.linked)
        return cli_fail(&program, CLI_USAGE, "--compat needs --host, as the reference tools do");
    if (args.compat &&
        (args.trim || o->profile != SYN_PYTORCH_FULL || args.replay || args.strict ||
         o->without != 0 || args.rank >= 0 || o->same_ids != SYN_PYTORCH_FIRST_KEEPS ||
         args.thread_gap_us != 1000 || o->object.which != SYN_PYTORCH_LAST_OBJECT))
        return cli_fail(&program, CLI_USAGE,
                        "--compat does what the reference tools do; it accepts only --host, "
                        "--device, --linked, --output, --quiet and --json");
    if (o->profile == SYN_PYTORCH_ASTRA_SIM && o->without != 0)
        return cli_fail(&program, CLI_USAGE,
                        "--edges needs --profile full: simulators need all dependencies");
    return cli_json_check_output(&program, "output", args.output);
}

static int read_arguments(pytorch_job *job) {
    const char *wrong = NULL;
    if (!args.output || !(args.host || args.device || args.linked) ||
        (args.linked && (args.host || args.device)))
        return cli_fail(&program, CLI_USAGE,
                        "give --output, and --host, --device, both, or --linked (--help explains)");
    job->options.profile = (syn_pytorch_profile)args.profile;
    job->options.same_ids = (syn_pytorch_same_ids)args.dup_ids;
    if (!pytorch_read_edges(args.edges, &job->options.without, &wrong))
        return cli_fail(&program, CLI_USAGE,
                        "--edges must be all, none or a list of launch, stream, sync, group and "
                        "thread, not '%s'",
                        wrong);
    if (!pytorch_read_object(args.object, &job->options.object))
        return cli_fail(&program, CLI_USAGE, "--object must be last, all or a number, not '%s'",
                        args.object);
    const int code = check_combination(&job->options);
    if (code != CLI_RUN) return code;
    const int64_t gap_ns = (int64_t)(args.thread_gap_us * 1000);
    job->options.thread_gap_ns = gap_ns > 0 ? gap_ns : -1;
    job->options.trim = args.trim;
    job->options.compat = args.compat;
    job->options.strict = args.strict;
    job->options.replay = args.replay;
    job->options.max_unpacked_bytes = args.max_unpacked_bytes;
    job->options.version = "syntorch " SYN_VERSION;
    job->quiet = args.quiet;
    job->output = args.output;
    job->program = &program;
    return CLI_RUN;
}

static syn_status run(pytorch_job *job, pytorch_outcome *o, syn_error *err) {
    SYN_TRY(pytorch_add_files(job, args.linked ? args.linked : args.host, args.device, err));
    if (args.rank >= 0 && job->options.is_set)
        return SYN_FAIL(err, SYN_E_INVALID, "--rank applies to one trace, not to a set; omit it");
    if (args.compat && job->options.is_set)
        return SYN_FAIL(err, SYN_E_INVALID, "--compat converts one rank at a time");
    if (args.rank >= 0) job->files[0].rank = (int32_t)args.rank;
    return pytorch_convert(job, o, err);
}

int command_convert_pytorch(int argc, char **argv) {
    pytorch_job job = {0};
    pytorch_outcome outcome = {0};
    syn_error err = {0};
    int code = cli_parse(&program, argc, argv);
    if (code == CLI_RUN) code = read_arguments(&job);
    if (code != CLI_RUN) return code;
    syn_status s = run(&job, &outcome, &err);
    if (s != SYN_OK || (job.quiet && !args.json)) pytorch_print_notes(&outcome.report, stderr);
    else if (args.json) s = pytorch_print_json(&job, &outcome, &err);
    else pytorch_print(&job, &outcome, strcmp(args.output, "-") == 0 ? stderr : stdout);
    pytorch_outcome_free(&outcome);
    pytorch_job_free(&job);
    return cli_done(&program, s, &err);
}
