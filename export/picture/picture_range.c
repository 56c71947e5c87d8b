/* Computes ranges of shapes and costs, and means of times, for boxes that represent several steps.
   Also finds the op that computed an input, through views. */
#include "export/picture/picture_fold.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DOT         " \xC2\xB7 "
#define TO          "\xE2\x80\xA6"
#define MAX_REPEATS 64u /* maximum number of steps that are read for a range */

/* ---- Repeats of a node over folded steps ---- */

/* The node that corresponds to `node` in the k-th of the steps that its step represents. */
static uint32_t in_repeat(const syn__pic_plan *plan, uint32_t node, uint32_t k) {
    const syn__pic_step *s = &plan->steps[plan->units[syn__pic_unit_of(plan, node)].step_index];
    return plan->steps[(size_t)(s - plan->steps) + k].begin + (node - s->begin);
}

static uint32_t repeat_count(const syn__pic_plan *plan, uint32_t node) {
    return plan->steps[plan->units[syn__pic_unit_of(plan, node)].step_index].count;
}

/* The k-th of the at most MAX_REPEATS steps that are read. The first and the last step are among
   them. */
static uint32_t sample(uint32_t k, uint32_t count) {
    if (count <= MAX_REPEATS) return k;
    return (uint32_t)((uint64_t)k * (count - 1) / (MAX_REPEATS - 1));
}

static uint32_t samples(uint32_t count) {
    return count < MAX_REPEATS ? count : MAX_REPEATS;
}

static void widen(uint64_t v, bool first, uint64_t *lo, uint64_t *hi) {
    if (first || v < *lo) *lo = v;
    if (first || v > *hi) *hi = v;
}

syn_status syn__pic_cost_of(syn__pic_plan *plan, uint32_t first, uint32_t last, syn__pic_cost *c,
                            syn_error *err) {
    const uint32_t count = repeat_count(plan, first), n = samples(count);
    double busy = 0, wait = 0, predicted = 0;
    bool timed = true, foretold = true;
    *c = (syn__pic_cost){0};
    for (uint32_t k = 0; k < n; k++) {
        syn__pic_totals t;
        syn__pic_totals_init(&t);
        for (uint32_t i = first; i <= last; i++) {
            const syn_node *node;
            SYN_TRY(syn__pic_node(plan, in_repeat(plan, i, sample(k, count)), &plan->other, &node,
                                  err));
            syn__pic_totals_add(&t, node);
        }
        widen(t.flops, k == 0, &c->flops_lo, &c->flops_hi);
        widen(t.bytes, k == 0, &c->bytes_lo, &c->bytes_hi);
        widen(t.comm_bytes, k == 0, &c->comm_lo, &c->comm_hi);
        timed = timed && t.busy_ns != SYN_NO_TIME;
        foretold = foretold && t.predicted_ns != SYN_NO_TIME;
        busy += t.busy_ns;
        wait += t.wait_ns;
        predicted += t.predicted_ns;
    }
    c->busy = timed ? busy / n : SYN_NO_TIME;
    c->wait = timed ? wait / n : 0;
    c->predicted = foretold ? predicted / n : SYN_NO_TIME;
    return SYN_OK;
}

void syn__pic_put_range(syn__pic_text *t, syn__pic_human *text, uint64_t lo, uint64_t hi) {
    char a[SYN__PIC_NUMBER], b[SYN__PIC_NUMBER];
    text(lo, a);
    text(hi, b);
    if (strcmp(a, b) == 0) {
        syn__pic_put(t, "%s", a);
        return;
    }
    const char *unit_a = strchr(a, ' '), *unit_b = strchr(b, ' ');
    if (unit_a != NULL && unit_b != NULL && strcmp(unit_a, unit_b) == 0)
        a[unit_a - a] = '\0'; /* the unit is written only once */
    syn__pic_put(t, "%s" TO "%s", a, b);
}

void syn__pic_put_spec(syn__pic_text *t, const syn__pic_range *r) {
    syn__pic_put(t, "%s[", syn_dtype_name((syn_dtype)r->lo.dtype));
    for (int32_t i = 0; i < r->lo.rank && i < SYN_MAX_RANK; i++) {
        syn__pic_put(t, "%s%" PRId64, i > 0 ? "," : "", r->lo.dims[i]);
        if (r->hi.dims[i] != r->lo.dims[i]) syn__pic_put(t, TO "%" PRId64, r->hi.dims[i]);
    }
    syn__pic_put(t, "]");
}

syn_status syn__pic_range_of(syn__pic_plan *plan, uint32_t node, bool output, uint32_t slot,
                             syn__pic_range *r, syn_error *err) {
    const uint32_t count = repeat_count(plan, node), n = samples(count);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t at = in_repeat(plan, node, sample(k, count));
        const syn_node *other;
        const syn_graph_tensor *t;
        uint32_t tensor;
        SYN_TRY(syn__pic_node(plan, at, &plan->other, &other, err));
        /* Steps are compared by hash. A collision may give a wrong label, but must not cause an
           invalid access. */
        if (slot >= (output ? other->n_outputs : other->n_inputs)) continue;
        if (output) {
            tensor = other->outputs[slot];
        } else {
            syn__pic_source source;
            SYN_TRY(syn__pic_resolve(plan, at, slot, &source, NULL, err));
            tensor = source.tensor;
        }
        SYN_TRY(syn__pic_tensor(plan, tensor, &t, err));
        if (k == 0) r->lo = r->hi = t->spec;
        for (int i = 0; i < t->spec.rank && i < SYN_MAX_RANK; i++) {
            if (t->spec.dims[i] < r->lo.dims[i]) r->lo.dims[i] = t->spec.dims[i];
            if (t->spec.dims[i] > r->hi.dims[i]) r->hi.dims[i] = t->spec.dims[i];
        }
    }
    return SYN_OK;
}

syn_status syn__pic_resolve(syn__pic_plan *plan, uint32_t node, uint32_t slot, syn__pic_source *out,
                            syn__pic_text *via, syn_error *err) {
    const syn_node *n;
    const syn_graph_tensor *t;
    SYN_TRY(syn__pic_node(plan, node, &plan->other, &n, err));
    uint32_t tensor = n->inputs[slot];
    char last[64] = "";
    *out = (syn__pic_source){tensor, SYN_NO_NODE, 0};
    for (int hops = 0; hops < 256; hops++) {
        SYN_TRY(syn__pic_tensor(plan, tensor, &t, err));
        out->tensor = tensor;
        out->node = syn__pic_place_of(plan, t->producer);
        if (t->producer == SYN_NO_NODE) return SYN_OK;
        SYN_TRY(syn__pic_node(plan, out->node, &plan->other, &n, err));
        if ((n->flags & SYN_NODE_VIRTUAL) == 0 || n->n_inputs == 0) break;
        if (via != NULL && strcmp(last, n->label) != 0) {
            syn__pic_text rest = *via; /* views are found from last to first, so each is put in
                                          front */
            syn__pic_clear(via);
            syn__pic_put_clean(via, n->label);
            if (rest.n > 0) syn__pic_put(via, DOT "%s", rest.s);
            snprintf(last, sizeof last, "%s", n->label);
        }
        tensor = n->inputs[0];
    }
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (n->outputs[i] == out->tensor) out->slot = i;
    return SYN_OK;
}
