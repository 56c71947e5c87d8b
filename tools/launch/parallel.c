/* Converts the options for parallelism to a plan. */
#include "tools/launch/parallel.h"

#include <stdlib.h>
#include <string.h>

bool parallel_sweeps(const cli_texts *words, const char *key) {
    const size_t n = strlen(key);
    for (int i = 0; i < words->n; i++)
        if (strncmp(words->at[i], key, n) == 0 && words->at[i][n] == '=') return true;
    return false;
}

/* Reads the order's axes, separated by "-" or ",", and finds the entry of `orders` with the same
   axes. cp and ep are parts of the axis of dp. They may be omitted, but if there is more than one
   cp rank, cp must come before dp, with at most ep between them. */
static syn_status find_order(const syn_axis **out, const char *text, int64_t cp, syn_error *err) {
    static const char *const names[] = {"tp", "dp", "pp", "cp", "ep"};
    enum { DP = SYN_AXIS_DP, CP = SYN_AXES, EP, NAMES };
    syn_axis axes[SYN_AXES] = {SYN_AXIS_TP};
    bool seen[NAMES] = {false};
    int n = 0;
    size_t last = NAMES, before_dp = NAMES; /* the last axis but ep, and that before dp */
    for (const char *at = text;; at++) {
        const size_t bytes = strcspn(at, "-,");
        size_t i = 0;
        while (i < NAMES && (bytes != 2 || strncmp(at, names[i], 2) != 0)) i++;
        if (i == NAMES)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "rank order '%.100s': '%.*s' is none of tp, dp, pp, cp and ep", text,
                            (int)(bytes < 100 ? bytes : 100), at);
        if (seen[i])
            return SYN_FAIL(err, SYN_E_INVALID, "rank order '%.100s' has %s twice", text, names[i]);
        seen[i] = true;
        if (i == DP) before_dp = last;
        if (i != EP) last = i;
        if (i < SYN_AXES) axes[n++] = (syn_axis)i;
        at += bytes;
        if (*at == '\0') break;
    }
    for (int i = 0; i < SYN_AXES; i++)
        if (!seen[i])
            return SYN_FAIL(err, SYN_E_INVALID,
                            "rank order '%.100s' lacks %s: it must have tp, dp and pp", text,
                            names[i]);
    if (cp > 1 && seen[CP] && before_dp != CP)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "rank order '%.100s': cp must come directly before dp with --cp %lld", text,
                        (long long)cp);
    *out = syn_plan_order(syn_plan_order_text(&(syn_plan){.order = axes}));
    return SYN_OK;
}

/* For CUDA devices, which read these variables when they are first used. A message between stages
   is a kernel that may wait for the other stage. Meanwhile, the first launch of a kernel must not
   wait for the device because the kernel is loaded only then, and work of other streams must not
   wait in the same hardware queue. */
static void prepare_messages(void) {
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

syn_status parallel_plan(syn_plan *plan, const parallel_options *o, int64_t ranks, int64_t tp,
                         syn_error *err) {
    const syn_schedule usual = o->vp > 1 ? SYN_SCHEDULE_INTERLEAVED : SYN_SCHEDULE_1F1B;
    *plan = (syn_plan){.ranks = (int32_t)ranks,
                       .tp = (int32_t)tp,
                       .pp = (int32_t)o->pp,
                       .vp = (int32_t)o->vp,
                       .microbatch_group = (int32_t)o->microbatch_group,
                       .cp = (int32_t)o->cp,
                       .cp_comm = (syn_cp_comm)(o->cp > 1 ? o->cp_comm : 0),
                       .cp_a2a = (int32_t)(o->cp > 1 ? o->cp_a2a : 0),
                       .ep = (int32_t)o->ep,
                       .etp = (int32_t)o->etp,
                       .zero = (int32_t)o->zero,
                       .hsdp = (int32_t)o->hsdp,
                       .sp = o->sp,
                       .schedule = o->schedule < 0 ? usual : (syn_schedule)o->schedule};
    if (o->pp > 1 || o->cp > 1) prepare_messages();
    if (o->rank_order) SYN_TRY(find_order(&plan->order, o->rank_order, o->cp, err));
    return syn_plan_complete(plan, err);
}
