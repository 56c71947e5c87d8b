/* syn_trace_verify, which checks what all readers of rows rely on. */
#include "syntorch/base/memory.h"
#include "syntorch/trace.h"

/* Checks that all entries to which rows refer exist. */
static syn_status verify_references(const syn_trace *trace, syn_error *err) {
    for (uint32_t i = 1; i < trace->n_nodes; i++) {
        const syn_trace_node *n = &trace->nodes[i];
        if (n->scope >= trace->texts.n_entries || n->label >= trace->texts.n_entries ||
            n->attrs >= trace->blobs.n_entries || n->group > trace->n_groups ||
            n->phase >= SYN_PHASE_COUNT)
            return SYN_FAIL(
                err, SYN_E_FORMAT,
                "trace node %u refers to a text, attribute, group or phase that does not exist", i);
    }
    for (uint32_t id = 1; id < trace->n_tensors; id++) {
        const syn_trace_tensor *t = &trace->tensors[id];
        if (t->spec >= trace->specs.n_entries || t->layout > trace->layouts.n_entries ||
            t->name > trace->texts.n_entries || t->producer >= trace->n_nodes)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "tensor %u refers to a shape, layout, text or node that does not exist",
                            id);
        if (t->base == 0 || t->base > id || trace->tensors[t->base].base != t->base)
            return SYN_FAIL(
                err, SYN_E_FORMAT,
                "tensor %u shares the storage of a tensor that is later or has no storage", id);
    }
    for (size_t i = 0; i < trace->n_steps; i++)
        if (trace->steps[i].node > trace->n_nodes ||
            (i > 0 && (trace->steps[i].node < trace->steps[i - 1].node ||
                       trace->steps[i].step <= trace->steps[i - 1].step)))
            return SYN_FAIL(err, SYN_E_FORMAT, "step %zu begins out of order", i + 1);
    return SYN_OK;
}

/* Checks that a node reads only current versions, and records the versions that it writes.
   newest[row], for the row that owns a storage, is the current version in the storage. */
static syn_status verify_versions(const syn_trace *trace, uint32_t node, uint32_t *current,
                                  syn_error *err) {
    const syn_trace_node *n = &trace->nodes[node];
    const uint32_t *inputs = trace->inputs + n->first_in;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (inputs[k] < current[trace->tensors[inputs[k]].base])
            return SYN_FAIL(
                err, SYN_E_FORMAT, "trace node %u reads tensor %u, which node %u overwrote", node,
                inputs[k], trace->tensors[current[trace->tensors[inputs[k]].base]].producer);
    for (uint32_t k = 0; k < (uint32_t)syn_trace_versions(trace, n); k++) {
        const uint32_t base = trace->tensors[n->first_out + k].base;
        if (k >= n->n_in || base != trace->tensors[inputs[k]].base)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "trace node %u: output %u is not a new version of its input", node, k);
        current[base] = n->first_out + k;
    }
    return SYN_OK;
}

static syn_status verify_all_versions(const syn_trace *trace, syn_error *err) {
    uint32_t *current = syn_calloc(trace->n_tensors, sizeof *current);
    if (!current)
        return SYN_FAIL_NOMEM(err, trace->n_tensors * sizeof *current, "the checks of a trace");
    syn_status s = SYN_OK;
    for (uint32_t id = 1; id < trace->n_tensors; id++) current[id] = id;
    for (uint32_t i = 1; i < trace->n_nodes && s == SYN_OK; i++)
        s = verify_versions(trace, i, current, err);
    syn_free(current);
    return s;
}

syn_status syn_trace_verify(const syn_trace *trace, syn_error *err) {
    SYN_TRY(verify_references(trace, err));
    uint32_t next_tensor = 1;
    for (uint32_t i = 1; i < trace->n_nodes; i++) {
        const syn_trace_node *n = &trace->nodes[i];
        if (n->op == SYN_OP_NONE || n->op >= SYN_OP_COUNT)
            return SYN_FAIL(err, SYN_E_FORMAT, "trace node %u has no op", i);
        if ((size_t)n->first_in + n->n_in > trace->n_inputs)
            return SYN_FAIL(err, SYN_E_FORMAT, "trace node %u: inputs out of range", i);
        for (uint32_t k = 0; k < n->n_in; k++) {
            const uint32_t id = trace->inputs[n->first_in + k];
            if (id == 0 || id >= trace->n_tensors || id >= n->first_out ||
                trace->tensors[id].producer >= i)
                return SYN_FAIL(err, SYN_E_FORMAT, "trace node %u uses tensor %u before it exists",
                                i, id);
        }
        if (n->n_out &&
            (n->first_out < next_tensor || (size_t)n->first_out + n->n_out > trace->n_tensors))
            return SYN_FAIL(err, SYN_E_FORMAT, "trace node %u: outputs out of order", i);
        for (uint32_t k = 0; k < n->n_out; k++)
            if (trace->tensors[n->first_out + k].producer != i)
                return SYN_FAIL(err, SYN_E_FORMAT,
                                "trace node %u: output %u belongs to another node", i, k);
        if (n->n_out) next_tensor = n->first_out + n->n_out;
    }
    return verify_all_versions(trace, err);
}
