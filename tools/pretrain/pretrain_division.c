/* Divides the layers of the pretraining program's model into pipeline stages. */
#include <string.h>

#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "tools/pretrain/pretrain.h"

syn_schedule_shape pretrain_schedule(const pretrain *run, int64_t microbatches) {
    const syn_plan *plan = &run->launch.parallel;
    return (syn_schedule_shape){.schedule = plan->schedule,
                                .stages = plan->pp,
                                .chunks = syn_plan_chunks(plan),
                                .microbatches = (int32_t)microbatches,
                                .group = plan->microbatch_group};
}

/* Sets run->uneven if the n virtual stages have different numbers of layers. */
static syn_status describe(pretrain *run, size_t n, syn_error *err) {
    enum { NUMBER_BYTES = 21 };
    size_t used = 0, same = 0;
    while (same < n && run->parts[same].n_layers == run->parts[0].n_layers) same++;
    if (same == n) return SYN_OK;
    run->uneven = syn_malloc(n * NUMBER_BYTES);
    if (!run->uneven) return SYN_FAIL_NOMEM(err, n * NUMBER_BYTES, "the layers of stages");
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(run->uneven + used, n * NUMBER_BYTES - used, "%s%lld",
                                 i > 0 ? "," : "", (long long)run->parts[i].n_layers);
    return SYN_OK;
}

/* What is not supported with DualPipe, whose ranks have two stages each. */
static syn_status check_dual(const pretrain *run, syn_error *err) {
    const pretrain_args *a = run->args;
    const syn_plan *plan = &run->launch.parallel;
    if (plan->schedule != SYN_SCHEDULE_DUALPIPE) return SYN_OK;
    if (a->save_steps > 0 || a->resume)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "--schedule dualpipe saves the model, but no training state: omit %s",
                        a->resume ? "--resume" : "--save-steps");
    if (a->bias_rate > 0 && plan->tp > 1)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "--moe-router-bias-update-rate with --schedule dualpipe needs --tp 1, "
                        "not %d",
                        plan->tp);
    return SYN_OK;
}

syn_status pretrain_divide(pretrain *run, syn_error *err) {
    const syn_schedule_shape shape = pretrain_schedule(run, run->args->accumulation);
    const size_t n = (size_t)syn_schedule_virtual_stages(&shape);
    SYN_TRY(syn_schedule_check(&shape, err));
    run->parts = syn_calloc(n, sizeof *run->parts);
    if (!run->parts) return SYN_FAIL_NOMEM(err, n * sizeof *run->parts, "the stages of a pipeline");
    SYN_TRY(syn_pipeline_parts(run->parts, &run->config, &shape, &run->args->division, err));
    SYN_TRY(check_dual(run, err));
    return describe(run, n, err);
}

uint64_t pretrain_division(const pretrain *run) {
    const int64_t mtp = pretrain_mtp(run);
    const uint64_t h = run->uneven ? syn_hash(run->uneven, strlen(run->uneven), 0) : 0;
    return mtp > 0 ? syn_hash(&mtp, sizeof mtp, h) : h;
}

int64_t pretrain_mtp(const pretrain *run) {
    const syn_schedule_shape shape = pretrain_schedule(run, 1);
    return run->parts ? run->parts[syn_schedule_virtual_stages(&shape) - 1].mtp : 0;
}

const char *pretrain_tied(const pretrain *run, char *buf, size_t buf_bytes) {
    if (pretrain_mtp(run) > 0) return syn_model_token_table(&run->config, buf, buf_bytes);
    return syn_model_tied_parameter(&run->config, buf, buf_bytes);
}
