/* Probabilities of random choices of experts (expert_choice.h). */
#include "syntorch/base/expert_choice.h"

#include <math.h>

/* Logarithm of the number of choices of k of n. */
static double log_choices(double n, double k) {
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/* The probability that k of n experts are none of `own` ones. */
static double none_of(double own, double n, double k) {
    return n - own < k ? 0 : exp(log_choices(n - own, k) - log_choices(n, k));
}

double syn_expert_reach(const syn_expert_choice *choice, int64_t parts) {
    const double groups = (double)choice->groups, top = (double)choice->top_groups,
                 each = (double)choice->experts / groups, k = (double)choice->k,
                 own = groups / (double)parts; /* groups per part */
    if (own < 1)                               /* a part has experts of one group */
        return top / groups * (1 - none_of(own * each, top * each, k));
    double reached = 0;
    for (double chosen = 1; chosen <= own && chosen <= top; chosen++) { /* of the part's groups */
        if (top - chosen > groups - own) continue;
        const double chance =
            exp(log_choices(own, chosen) + log_choices(groups - own, top - chosen) -
                log_choices(groups, top));
        reached += chance * (1 - none_of(chosen * each, top * each, k));
    }
    return reached;
}

int64_t syn_experts_used(int64_t experts, int64_t rows) {
    const double n = (double)experts;
    return experts < 1 ? 0 : (int64_t)round(n * (1 - pow(1 - 1 / n, (double)rows)));
}
