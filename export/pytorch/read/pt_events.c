/* Classifies and sorts device events; see pt_events.h. */
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

static uint64_t key_outer_first(const syn__pt_event *e) {
    const uint64_t dur_ns = e->dur_ns > 0 ? (uint64_t)e->dur_ns : 0;
    return (uint64_t)!syn__pt_is_cpu(e) << 63 | ((uint64_t)INT64_MAX - dur_ns);
}
static uint64_t key_start(const syn__pt_event *e) {
    return syn__pt_i64_key(e->ts_ns);
}
static uint64_t key_thread(const syn__pt_event *e) {
    return e->tid;
}

bool syn__pt_is_annotation(const syn__pt_event *e) {
    if (e->class_ == SYN__PT_STEP) return true;
    const syn__str cat = syn__loose_find((syn__str){e->text, e->text_bytes}, "cat");
    return syn__str_is(cat, "\"user_annotation\"");
}

/* Sorts `list` by the key of each event. `keys` is scratch memory for n keys. */
static syn_status sort_by(const syn__pt_device *device, uint32_t *list, uint64_t *keys, size_t n,
                          uint64_t (*key)(const syn__pt_event *), syn_error *err) {
    uint32_t *order = NULL;
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        keys[i] = key(&device->events[list[i]]);
        sorted = sorted && (i == 0 || keys[i - 1] <= keys[i]);
    }
    if (sorted) return SYN_OK;
    SYN_TRY(syn__pt_sort(keys, n, &order, err));
    for (size_t i = 0; i < n; i++) keys[i] = list[order[i]];
    for (size_t i = 0; i < n; i++) list[i] = (uint32_t)keys[i];
    syn_free(order);
    return SYN_OK;
}

syn_status syn__pt_sort_events(const syn__pt_device *device, uint32_t *list, size_t n, unsigned by,
                               syn_error *err) {
    uint64_t *keys = syn_malloc(n * sizeof *keys);
    if (!keys) return SYN_FAIL_NOMEM(err, n * sizeof *keys, "the order of calls");
    syn_status s = SYN_OK;
    if (by & SYN__PT_OUTER_FIRST) s = sort_by(device, list, keys, n, key_outer_first, err);
    if (s == SYN_OK && by & SYN__PT_BY_START) s = sort_by(device, list, keys, n, key_start, err);
    if (s == SYN_OK && by & SYN__PT_BY_THREAD) s = sort_by(device, list, keys, n, key_thread, err);
    syn_free(keys);
    return s;
}
