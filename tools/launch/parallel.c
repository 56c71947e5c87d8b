/* Converts the options for parallelism to a plan. */
#include "tools/launch/parallel.h"

syn_status parallel_plan(syn_plan *plan, const parallel_options *o, int64_t ranks, int64_t tp,
                         syn_error *err) {
    *plan = (syn_plan){.ranks = (int32_t)ranks,
                       .tp = (int32_t)tp,
                       .pp = (int32_t)o->pp,
                       .vp = (int32_t)o->vp,
                       .microbatch_group = (int32_t)o->microbatch_group,
                       .cp = (int32_t)o->cp,
                       .ep = (int32_t)o->ep,
                       .etp = (int32_t)o->etp,
                       .zero = (int32_t)o->zero,
                       .sp = o->sp,
                       .schedule = (syn_schedule)o->schedule};
    return syn_plan_complete(plan, err);
}
