/* Drops rows for syn_forget. Tensor rows that stay move to the front of the dropped range. Interned
   entries that are no longer used are removed. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/trace_private.h"

/* ---- Numbers ---- */

/* Reserves space for `more` runs. */
static syn_status reserve_runs(syn_trace_numbers *numbers, size_t more, syn_error *err) {
    return syn_grow(&numbers->runs, &numbers->runs_cap, numbers->n_runs + more,
                    sizeof *numbers->runs, err);
}

static void cut_runs(syn_trace_numbers *numbers, uint32_t row) {
    while (numbers->n_runs && numbers->runs[numbers->n_runs - 1].row >= row) numbers->n_runs--;
}

/* Begins a run: row `row`, which must be after the last run's first row, gets number `number`. */
static void add_run(syn_trace_numbers *numbers, uint32_t row, uint32_t number) {
    if (syn__number_of(numbers, row) != number)
        numbers->runs[numbers->n_runs++] = (syn_trace_run){row, number};
}

/* ---- Interned entries ---- */

/* An array for each table of interned entries, indexed by id. An element says whether the entry is
   used, until syn_intern_sweep replaces this element by the entry's new id. */
struct names {
    uint32_t *texts, *specs, *layouts, *blobs;
};

static syn_status names_new(const syn_trace *t, struct names *names, syn_error *err) {
    const size_t n =
        t->texts.n_entries + t->specs.n_entries + t->layouts.n_entries + t->blobs.n_entries;
    names->texts = syn_calloc(n, sizeof *names->texts);
    if (!names->texts) return SYN_FAIL_NOMEM(err, n * sizeof *names->texts, "the rows to drop");
    names->specs = names->texts + t->texts.n_entries;
    names->layouts = names->specs + t->specs.n_entries;
    names->blobs = names->layouts + t->layouts.n_entries;
    return SYN_OK;
}

/* Called for every use of an interned entry, in two passes. The first marks the entry as used; the
   second (renamed) writes its new id. */
static void name(uint32_t *ids, uint32_t *id, bool renamed) {
    if (renamed) *id = ids[*id];
    else ids[*id] = 1;
}

static void visit_names(syn_trace *t, const syn__drop_plan *what, struct names *names,
                        bool renamed) {
    for (size_t i = 0; i < t->n_nodes; i++) {
        name(names->texts, &t->nodes[i].scope, renamed);
        name(names->texts, &t->nodes[i].label, renamed);
        name(names->blobs, &t->nodes[i].attrs, renamed);
    }
    for (size_t i = 0; i < t->n_tensors; i++) {
        syn_trace_tensor *row = &t->tensors[i];
        uint32_t text = row->name - 1, layout = row->layout - 1; /* not valid if the tensor has
                                                                    none */
        name(names->specs, &row->spec, renamed);
        if (row->name) name(names->texts, &text, renamed);
        if (row->layout) name(names->layouts, &layout, renamed);
        row->name = text + 1;
        row->layout = layout + 1;
    }
    for (size_t i = 0; i < what->n_texts; i++) name(names->texts, &what->texts[i], renamed);
}

static void sweep(syn_trace *t, const syn__drop_plan *what, struct names *names) {
    names->texts[0] = names->blobs[0] = names->specs[0] = 1; /* these always stay */
    visit_names(t, what, names, false);
    syn_intern_sweep(&t->texts, names->texts);
    syn_intern_sweep(&t->specs, names->specs);
    syn_intern_sweep(&t->layouts, names->layouts);
    syn_intern_sweep(&t->blobs, names->blobs);
    visit_names(t, what, names, true);
}

/* ---- Rows ---- */

/* Stores the names of tensors that stay and whose names are derived from their producers, because
   they lose the producers. Sets *n_stay to the number of tensors that stay. */
static syn_status keep_names(syn_trace *t, const syn__drop_plan *what, size_t *n_stay,
                             syn_error *err) {
    *n_stay = 0;
    for (uint32_t row = what->first_tensor; row < t->n_tensors; row++) {
        if (!what->stays[row - what->first_tensor]) continue;
        ++*n_stay;
        if (t->tensors[row].name || !t->tensors[row].producer) continue;
        char buf[SYN_MAX_NAME];
        const char *text = syn_trace_tensor_name(t, row, buf);
        SYN_TRY(syn_intern_put(&t->texts, text, strlen(text), &t->tensors[row].name, err));
        t->tensors[row].name++;
    }
    return SYN_OK;
}

static void drop_nodes(syn_trace *t, uint32_t first) {
    const uint32_t next = syn__number_of(&t->node_numbers, (uint32_t)t->n_nodes);
    if (first < t->n_nodes) t->n_inputs = t->nodes[first].first_in;
    if (t->times) memset(&t->times[first], 0, (t->n_nodes - first) * sizeof *t->times);
    syn_work_drop(&t->work, syn__number_of(&t->node_numbers, first));
    t->n_nodes = first;
    cut_runs(&t->node_numbers, first);
    add_run(&t->node_numbers, first, next);
    while (t->n_steps && t->steps[t->n_steps - 1].node >= first) t->n_steps--;
    while (t->n_passes && t->passes[t->n_passes - 1].node >= first) t->n_passes--;
    if (t->step && (!t->n_steps || t->steps[t->n_steps - 1].step != t->step))
        t->steps[t->n_steps++] = (syn_trace_step){first, t->step};
}

/* Drops tensor rows. Both arrays are working memory: `moved` has a zero for each row from
   first_tensor, and gets the new rows of those that stay; `stay` has space for one entry per row
   that stays. */
static void drop_tensors(syn_trace *t, const syn__drop_plan *what, uint32_t *moved,
                         syn_trace_run *stay) {
    const uint32_t first = what->first_tensor,
                   next = syn__number_of(&t->tensor_numbers, (uint32_t)t->n_tensors);
    uint32_t to = first, n = 0;
    for (uint32_t row = first; row < t->n_tensors; row++) {
        if (!what->stays[row - first]) continue;
        syn_trace_tensor tensor = t->tensors[row];
        moved[row - first] = to;
        stay[n++] = (syn_trace_run){to, syn_trace_tensor_number(t, row)};
        if (tensor.base >= first) tensor.base = moved[tensor.base - first];
        tensor.producer = 0;
        if (!(tensor.flags & (SYN_TENSOR_PARAM | SYN_TENSOR_INPUT | SYN_TENSOR_STATE)))
            tensor.flags |= SYN_TENSOR_INPUT; /* an input of the remaining nodes */
        t->tensors[to++] = tensor;
    }
    t->n_tensors = to;
    cut_runs(&t->tensor_numbers, first);
    for (uint32_t i = 0; i < n; i++) add_run(&t->tensor_numbers, stay[i].row, stay[i].number);
    add_run(&t->tensor_numbers, to, next);
}

syn_status syn__trace_drop(syn_trace *t, const syn__drop_plan *what, syn_error *err) {
    const size_t n = t->n_tensors - what->first_tensor;
    struct names names = {0};
    size_t n_stay;
    if (what->hashed) t->hashed = syn__trace_hash_rows(t);
    SYN_TRY(keep_names(t, what, &n_stay, err));
    SYN_TRY(reserve_runs(&t->node_numbers, 1, err));
    SYN_TRY(reserve_runs(&t->tensor_numbers, n_stay + 1, err));
    SYN_TRY(syn_grow(&t->steps, &t->steps_cap, t->n_steps + 1, sizeof *t->steps, err));
    SYN_TRY(names_new(t, &names, err));
    uint32_t *moved = syn_calloc(n + 1, sizeof *moved);
    syn_trace_run *stay = syn_calloc(n_stay + 1, sizeof *stay);
    syn_status s = SYN_OK;
    if (moved && stay) { /* nothing below can fail */
        drop_tensors(t, what, moved, stay);
        drop_nodes(t, what->first_node);
        t->unhashed = t->unhashed || !what->hashed;
        t->hashed.next_node = (uint32_t)t->n_nodes;
        t->hashed.next_tensor = (uint32_t)t->n_tensors;
        sweep(t, what, &names);
    } else {
        s = SYN_FAIL_NOMEM(err, n * sizeof *moved, "the rows to drop");
    }
    syn_free(names.texts);
    syn_free(moved);
    syn_free(stay);
    return s;
}
