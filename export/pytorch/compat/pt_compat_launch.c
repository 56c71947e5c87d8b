/* Finds which CPU op launched which device work, as the reference linker does; see
   pt_compat_link.h. It starts from the runtime event that launched the work. Among the ops of the
   same thread that start before this event, it chooses the last op that has the External id of the
   work, or if there is none, the last op. */
#include "export/pytorch/compat/pt_compat_link.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

/* Ops in some order. plain: for each position, that position or the nearest earlier one whose op is
   not nccl:coalesced. The reference skips nccl:coalesced ops when it searches for the launch of
   NCCL's work. */
typedef struct listing {
    uint32_t *order, *plain;
} listing;

typedef struct finder {
    syn__compat *c;
    listing by_id;       /* ordered by thread, External id, ts */
    listing by_thread;   /* ordered by thread, ts; its `order` belongs to the linker */
    syn__pt_map runtime; /* correlation id -> runtime event */
    bool coalesced;      /* the trace has nccl:coalesced ops */
} finder;

static bool is_coalesced(const syn__compat *c, uint32_t op) {
    const uint32_t name = c->device->events[c->ops[op].event].name;
    return syn__str_is(syn__pt_device_name(c->device, name), "nccl:coalesced");
}

static bool is_nccl(const syn__compat *c, uint32_t event) {
    const syn__str name = syn__pt_device_name(c->device, c->device->events[event].name);
    for (size_t i = 0; i + 4 <= name.bytes; i++) {
        const char *p = name.text + i;
        if ((p[0] | 32) == 'n' && (p[1] | 32) == 'c' && (p[2] | 32) == 'c' && (p[3] | 32) == 'l')
            return true;
    }
    return false;
}

static void find_plain(finder *f, const listing *l) {
    uint32_t last = SYN__PT_NONE;
    for (size_t i = 0; i < f->c->n_ops; i++) {
        if (!is_coalesced(f->c, l->order[i])) last = (uint32_t)i;
        else f->coalesced = true;
        l->plain[i] = last;
    }
}

/* Sorts by_id. by_thread is ordered by (thread, ts) already, so only the External ids within each
   thread must be sorted. */
static syn_status sort_by_id(finder *f) {
    syn__compat *c = f->c;
    uint64_t *keys = syn__compat_array(c, c->n_ops, sizeof *keys);
    uint32_t *places = NULL;
    if (keys == NULL) return SYN_E_NOMEM;
    memcpy(f->by_id.order, c->by_thread, c->n_ops * sizeof *c->by_thread);
    syn_status s = SYN_OK;
    for (uint32_t t = 0; t < c->n_threads && s == SYN_OK; t++) {
        const size_t first = c->first_of[t], n = c->first_of[t + 1] - first;
        uint32_t *order = f->by_id.order + first;
        bool sorted = true;
        for (size_t i = 0; i < n; i++) {
            keys[i] = syn__pt_i64_key(c->ops[order[i]].external_id);
            sorted = sorted && (i == 0 || keys[i - 1] <= keys[i]);
        }
        if (sorted) continue;
        s = syn__pt_sort(keys, n, &places, c->err);
        if (s == SYN_OK) syn__pt_permute(order, sizeof *order, places, n);
        syn_free(places);
        places = NULL;
    }
    syn_free(keys);
    return s;
}

/* The position after all entries of the thread that come before (external_id, op). */
static size_t place_by_id(const finder *f, uint32_t thread, int64_t external_id, size_t op) {
    const syn__compat *c = f->c;
    size_t low = c->first_of[thread], high = c->first_of[thread + 1];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const uint32_t at = f->by_id.order[middle];
        const int64_t id = c->ops[at].external_id;
        if (id < external_id || (id == external_id && at < op)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static size_t place_by_time(const finder *f, uint32_t thread, size_t op) {
    const syn__compat *c = f->c;
    size_t low = c->first_of[thread], high = c->first_of[thread + 1];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (f->by_thread.order[middle] < op) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The last op of the thread before position `place`; SYN__PT_NONE: none. nccl: skip
   nccl:coalesced. */
static uint32_t last_of(const finder *f, const listing *l, uint32_t thread, size_t place,
                        bool nccl) {
    const size_t first = f->c->first_of[thread];
    if (place == first) return SYN__PT_NONE;
    const size_t at = nccl ? l->plain[place - 1] : place - 1;
    return at != SYN__PT_NONE && at >= first ? l->order[at] : SYN__PT_NONE;
}

static uint32_t find_parent(const finder *f, uint32_t event) {
    const syn__compat *c = f->c;
    const syn__pt_event *gpu = &c->device->events[event];
    const uint32_t launch = syn__pt_map_get(&f->runtime, (uint64_t)gpu->correlation);
    if (launch == SYN__PT_NONE) return SYN__PT_NONE;
    const syn__pt_event *runtime = &c->device->events[launch];
    const uint32_t thread = syn__pt_map_get(&c->threads, runtime->tid);
    if (thread == SYN__PT_NONE) return SYN__PT_NONE;
    const size_t before = syn__compat_before(c, runtime->ts);
    const bool nccl = f->coalesced && is_nccl(c, event);
    const size_t place = place_by_id(f, thread, gpu->external_id, before);
    const uint32_t exact = last_of(f, &f->by_id, thread, place, nccl);
    if (exact != SYN__PT_NONE && c->ops[exact].external_id == gpu->external_id) return exact;
    return last_of(f, &f->by_thread, thread, place_by_time(f, thread, before), nccl);
}

static syn_status map_launches(finder *f) {
    syn__compat *c = f->c;
    for (size_t i = 0; i < c->device->n_events; i++) {
        const syn__pt_event *e = &c->device->events[i];
        if (e->class_ != SYN__PT_RUNTIME || !(e->flags & SYN__PT_EVENT_LAUNCH)) continue;
        uint32_t *slot = syn__pt_map_put(&f->runtime, (uint64_t)e->correlation);
        if (slot == NULL) return SYN_FAIL_NOMEM(c->err, (size_t)64, "correlation ids");
        if (*slot != SYN__PT_NONE)
            return SYN_FAIL(c->err, SYN_E_FORMAT,
                            "%.200s: the reference linker stops here: \"Duplicate correlation ID "
                            "%lld found\" among the events that launch device work; without "
                            "--compat they are distinguished",
                            c->device->input->name, (long long)e->correlation);
        *slot = (uint32_t)i;
    }
    return SYN_OK;
}

/* Groups device work by the External id of the op that launched it. The reference stores it under
   that id, so all ops with the same id share the work. */
static syn_status group_work(finder *f) {
    syn__compat *c = f->c;
    syn__pt_map last = {0};
    syn_status s = SYN_OK;
    for (size_t i = 0; i < c->n_gpu && s == SYN_OK; i++) {
        const uint32_t parent = find_parent(f, c->gpu[i]);
        c->next_gpu[i] = SYN__PT_NONE;
        if (parent == SYN__PT_NONE) continue;
        c->n_grouped++;
        const uint64_t id = (uint64_t)c->ops[parent].external_id;
        uint32_t *before = syn__pt_map_put(&last, id);
        uint32_t *first = before ? syn__pt_map_put(&c->groups, id) : NULL;
        if (first == NULL) {
            s = SYN_FAIL_NOMEM(c->err, (size_t)64, "device work by External id");
            break;
        }
        if (*before == SYN__PT_NONE) *first = (uint32_t)i;
        else c->next_gpu[*before] = (uint32_t)i;
        *before = (uint32_t)i;
    }
    syn__pt_map_free(&last);
    return s;
}

static syn_status collect_gpu(syn__compat *c) {
    const syn__pt_device *d = c->device;
    const size_t n = (size_t)(d->n_class[SYN__PT_KERNEL] + d->n_class[SYN__PT_MEMCPY]);
    c->gpu = syn__compat_array(c, n, sizeof *c->gpu);
    c->next_gpu = syn__compat_array(c, n, sizeof *c->next_gpu);
    if (!c->gpu || !c->next_gpu) return SYN_E_NOMEM;
    for (size_t i = 0; i < d->n_events && c->n_gpu < n; i++) {
        const unsigned class_ = d->events[i].class_;
        if (class_ == SYN__PT_KERNEL || class_ == SYN__PT_MEMCPY) c->gpu[c->n_gpu++] = (uint32_t)i;
    }
    return SYN_OK;
}

syn_status syn__compat_launches(syn__compat *c) {
    finder f = {.c = c};
    f.by_id.order = syn__compat_array(c, c->n_ops, sizeof(uint32_t));
    f.by_id.plain = syn__compat_array(c, c->n_ops, sizeof(uint32_t));
    f.by_thread.order = c->by_thread;
    f.by_thread.plain = syn__compat_array(c, c->n_ops, sizeof(uint32_t));
    syn_status s =
        f.by_id.order && f.by_id.plain && f.by_thread.plain ? collect_gpu(c) : SYN_E_NOMEM;
    if (s == SYN_OK) s = map_launches(&f);
    if (s == SYN_OK) s = sort_by_id(&f);
    if (s == SYN_OK) {
        find_plain(&f, &f.by_id);
        find_plain(&f, &f.by_thread);
        s = group_work(&f);
    }
    syn__pt_map_free(&f.runtime);
    syn_free(f.by_id.order);
    syn_free(f.by_id.plain);
    syn_free(f.by_thread.plain);
    return s;
}
