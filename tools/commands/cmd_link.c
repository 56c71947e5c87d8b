/* syntorch link: combines a host trace and a device trace of PyTorch in one JSON file. */
#include <string.h>

#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/pytorch/pytorch_job.h"

static struct arguments {
    const char *host, *device, *output;
    uint64_t max_unpacked_bytes;
    bool compat, quiet, json;
} args;

static const cli_option options[] = {
    {"host", CLI_TEXT, &args.host, "FILE", "host trace of ExecutionTraceObserver", 0, 0},
    {"device", CLI_TEXT, &args.device, "FILE", "device trace of torch.profiler (Kineto)", 0, 0},
    {"output", CLI_TEXT, &args.output, "FILE", "linked trace to write (JSON)", 0, 0},
    {"compat", CLI_FLAG, &args.compat, NULL, "write exactly what chakra_trace_link writes", 0, 0},
    {"quiet", CLI_FLAG, &args.quiet, NULL, "print only warnings", 0, 0},
    CLI_JSON(&args.json),
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {
    "syntorch link --host host.0.json --device device.0.json --output linked.0.json", NULL};

static const cli_program program = {
    "syntorch link",
    "Writes the times and device work of a device trace into a host trace, for other tools. "
    "`convert pytorch` links traces itself.",
    options, examples, false};

int command_link(int argc, char **argv) {
    pytorch_job job = {0};
    pytorch_outcome outcome = {0};
    syn_error err = {0};
    int code = cli_parse(&program, argc, argv);
    if (code != CLI_RUN) return code;
    if (!args.host || !args.device || !args.output)
        return cli_fail(&program, CLI_USAGE, "--host, --device and --output are needed");
    code = cli_json_check_output(&program, "output", args.output);
    if (code != CLI_RUN) return code;
    job.program = &program;
    job.output = args.output;
    job.options.compat = args.compat;
    job.quiet = args.quiet;
    job.options.max_unpacked_bytes = args.max_unpacked_bytes;
    syn_status s = pytorch_add_files(&job, args.host, args.device, &err);
    if (s == SYN_OK && job.options.is_set)
        s = SYN_FAIL(&err, SYN_E_INVALID, "link reads one pair of traces at a time");
    if (s == SYN_OK) s = pytorch_link(&job, &outcome, &err);
    if (s == SYN_OK && args.json) s = pytorch_print_json(&job, &outcome, &err);
    else if (s != SYN_OK || args.quiet) pytorch_print_notes(&outcome.report, stderr);
    else pytorch_print(&job, &outcome, strcmp(args.output, "-") == 0 ? stderr : stdout);
    pytorch_outcome_free(&outcome);
    pytorch_job_free(&job);
    return cli_done(&program, s, &err);
}
