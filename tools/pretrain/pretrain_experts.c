/* Checks the options of experts, and reads --routing. */
#include "tools/pretrain/pretrain.h"

double pretrain_aux_coefficient(const pretrain *run) {
    const syn_experts_config *experts = &run->config.experts;
    if (run->args->aux_coefficient >= 0) return run->args->aux_coefficient;
    return experts->aux ? experts->aux_coefficient : 0;
}

/* Fails if the dispatcher or --overlap-a2a does not work on the device or with the plan. */
static syn_status check_dispatch(const pretrain *run, syn_error *err) {
    const pretrain_args *a = run->args;
    const syn_plan *plan = &run->launch.parallel;
    const bool meta = run->launch.device == SYN_DEVICE_META,
               parts = plan->ep > 1 && plan->etp > 1; /* of experts */
    if (a->dispatcher != SYN_DISPATCH_ALLTOALL && (a->routing || a->capacity > 0))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%s needs --moe-dispatcher alltoall; omit one of the options",
                        a->routing ? "--routing" : "--capacity");
    if (parts && (a->dispatcher == SYN_DISPATCH_DEEPEP || a->routing))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%s cannot be used with --etp %d and --ep %d; omit it, or use --etp 1",
                        a->routing ? "--routing" : "--moe-dispatcher deepep", plan->etp, plan->ep);
    if (a->overlap_a2a && !meta)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "--overlap-a2a is for --device meta: it changes the order of ops in traces "
                        "and predictions, but training runs one pass after the other; omit it");
    if (a->overlap_a2a && plan->pp > 1 && plan->schedule != SYN_SCHEDULE_INTERLEAVED &&
        plan->schedule != SYN_SCHEDULE_DUALPIPE)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "--overlap-a2a with --pp %d needs --vp or --schedule dualpipe: a merged "
                        "pass takes longer, and other schedules have not started enough "
                        "microbatches to fill this time",
                        plan->pp);
    if (a->dispatcher == SYN_DISPATCH_DEEPEP && !meta)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "--moe-dispatcher deepep is for --device meta: it predicts DeepEP's "
                        "kernels; train with alltoall, which has the same results");
    return SYN_OK;
}

syn_status pretrain_check_routers(pretrain *run, syn_error *err) {
    const pretrain_args *a = run->args;
    const char *given = a->aux_coefficient > 0 ? "--moe-aux-loss-coeff"
                        : a->z_coefficient > 0 ? "--moe-z-loss-coeff"
                        : a->bias_rate > 0     ? "--moe-router-bias-update-rate"
                        : a->capacity > 0      ? "--capacity"
                        : a->dispatcher > 0    ? "--moe-dispatcher"
                                               : NULL;
    if (given && !syn_model_has_experts(&run->config))
        return SYN_FAIL(err, SYN_E_INVALID, "%s needs a router, but %s has no experts; omit it",
                        given, run->config.name);
    if (a->bias_rate > 0 && !run->config.experts.biased)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--moe-router-bias-update-rate needs routers with a bias, such as those of "
                        "DeepSeek-V3, but %s has none; use --moe-aux-loss-coeff",
                        run->config.name);
    SYN_TRY(check_dispatch(run, err));
    run->launch.parallel.counts =
        syn_model_has_experts(&run->config) &&
        (pretrain_aux_coefficient(run) > 0 || a->z_coefficient > 0 || a->bias_rate > 0);
    return SYN_OK;
}

syn_status pretrain_read_routing(pretrain *run, syn_error *err) {
    const char *text = run->args->routing;
    if (!text) return SYN_OK;
    if (!syn_model_has_experts(&run->config))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--routing needs a router, but %s has no experts; "
                        "omit it",
                        run->config.name);
    syn_expert_load_free(&run->load); /* of an earlier combination of a sweep */
    SYN_TRY(syn_expert_load_read(&run->load, text, &run->config, pretrain_mtp(run), err));
    run->launch.parallel.skewed = run->load.weights != NULL && !(run->args->capacity > 0);
    return SYN_OK;
}
