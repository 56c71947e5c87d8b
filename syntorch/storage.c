/* The storages of a context and the pool of free buffers, which storage_private.h describes. */
#include "syntorch/storage_private.h"

#include <string.h>

#include <assert.h>

#include "syntorch/base/memory.h"

static const double GIB = 1024.0 * 1024.0 * 1024.0;

/* The smallest size class whose buffers have at least `bytes` bytes. */
static uint16_t class_of(size_t bytes) {
    assert(bytes <= INT64_MAX); /* valid specs are not larger */
    int shift = SYN__MIN_SHIFT;
    while (shift < 62 && ((size_t)1 << (shift + 1)) < bytes) shift++;
    const size_t base = (size_t)1 << shift, step = base / SYN__STEPS;
    const size_t n = bytes <= base ? 0 : (bytes - base + step - 1) / step;
    return (uint16_t)((size_t)(shift - SYN__MIN_SHIFT) * SYN__STEPS + n);
}

/* The size of the buffers of a class. */
static size_t class_bytes(int size_class) {
    const size_t base = (size_t)1 << (size_class / SYN__STEPS + SYN__MIN_SHIFT);
    return base + base / SYN__STEPS * (size_t)(size_class % SYN__STEPS);
}

/* ---- Hash table: owner to storage ---- */

static uint32_t *bucket_of(const syn_storages *s, uint32_t tensor) {
    return &s->buckets[tensor & (s->n_buckets - 1)];
}

static void enter(syn_storages *s, uint32_t number) {
    uint32_t *bucket = bucket_of(s, s->at[number].tensor);
    s->at[number].next = *bucket;
    *bucket = number;
}

static void leave(syn_storages *s, uint32_t number) {
    uint32_t *at = bucket_of(s, s->at[number].tensor);
    while (*at != number) at = &s->at[*at].next;
    *at = s->at[number].next;
}

/* ---- List by age ---- */

static void append(syn_storages *s, uint32_t number) {
    s->at[number].older = s->newest;
    s->at[number].newer = 0;
    if (s->newest) s->at[s->newest].newer = number;
    s->newest = number;
}

static void unlink_storage(syn_storages *s, uint32_t number) {
    const uint32_t older = s->at[number].older, newer = s->at[number].newer;
    if (older) s->at[older].newer = newer;
    if (newer) s->at[newer].older = older;
    else s->newest = older;
}

/* ---- The pool ---- */

/* Reserves space for another storage. The hash table gets at least as many buckets as there are
   storages. */
static syn_status grow_tables(syn_storages *s, syn_error *err) {
    if (s->count == 0) s->count = 1; /* number 0 means none */
    SYN_TRY(syn_grow(&s->at, &s->cap, s->count + 1, sizeof *s->at, err));
    if (s->count < s->n_buckets) return SYN_OK;
    const size_t n = s->n_buckets ? 2 * s->n_buckets : 64;
    uint32_t *buckets = syn_calloc(n, sizeof *buckets);
    if (!buckets) return SYN_FAIL_NOMEM(err, n * sizeof *buckets, "a table of storages");
    syn_free(s->buckets);
    s->buckets = buckets;
    s->n_buckets = n;
    for (uint32_t i = 1; i < s->count; i++)
        if (s->at[i].tensor) enter(s, i);
    return SYN_OK;
}

/* Allocates a buffer on the device and returns its storage number; 0 if memory is out. */
static uint32_t new_buffer(syn_storages *s, int size_class) {
    const size_t bytes = class_bytes(size_class);
    void *data = NULL;
    if (s->backend->has_data && !(data = s->backend->alloc(s->device, bytes))) return 0;
    const uint32_t number = s->vacant ? s->vacant : (uint32_t)s->count++;
    if (s->vacant) s->vacant = s->at[number].older;
    s->held_bytes += bytes;
    s->at[number] = (syn_storage){.data = data, .size_class = (uint16_t)size_class};
    return number;
}

/* Returns a buffer to the device. The entry of its storage becomes vacant. */
static void give_to_device(syn_storages *s, uint32_t number) {
    s->backend->free(s->device, s->at[number].data);
    s->held_bytes -= class_bytes(s->at[number].size_class);
    s->at[number].data = NULL;
    s->at[number].older = s->vacant;
    s->vacant = number;
}

/* Whether the pool has any buffer. */
static bool any_waits(const syn_storages *s) {
    for (int c = 0; c < SYN__CLASSES; c++)
        if (s->waiting[c]) return true;
    return false;
}

/* Returns the buffers of all size classes, because any of them may make space on the device for an
   allocation of another class. */
bool syn__storages_trim(syn_storages *s) {
    const bool any = any_waits(s);
    for (int c = 0; c < SYN__CLASSES; c++)
        while (s->waiting[c]) {
            const uint32_t number = s->waiting[c];
            s->waiting[c] = s->at[number].older;
            give_to_device(s, number);
        }
    return any;
}

syn_status syn__storages_out_of_memory(const syn_storages *s, size_t bytes, const char *what,
                                       syn_error *err) {
    size_t left, all;
    syn_error ignored = {0};
    if (!s->backend->memory_info ||
        s->backend->memory_info(s->device, &left, &all, &ignored) != SYN_OK)
        return SYN_FAIL_NOMEM(err, bytes, what);
    return SYN_FAIL(err, SYN_E_NOMEM,
                    "out of memory: %zu bytes for %s, but only %.2f of the device's %.2f GiB are "
                    "free (tensors use %.2f GiB); use a smaller batch, --dtype bf16 or more ranks",
                    bytes, what, (double)left / GIB, (double)all / GIB,
                    (double)s->held_bytes / GIB);
}

/* Takes a buffer for `bytes` bytes from the pool or the device. *number: its entry. */
static syn_status take_buffer(syn_storages *s, size_t bytes, syn_memory_kind kind, uint32_t *number,
                              syn_error *err) {
    const uint16_t c = class_of(bytes);
    uint32_t block = 0;
    size_t used;
    SYN_TRY(grow_tables(s, err));
    if (!syn_add_size(s->used_bytes, class_bytes(c), &used))
        return SYN_FAIL_NOMEM(err, bytes, "a tensor");
    *number = s->waiting[c];
    if (*number) s->waiting[c] = s->at[*number].older;
    else *number = new_buffer(s, c);
    if (!*number && any_waits(s)) {
        SYN_TRY(s->backend->sync(s->device, err));
        syn__storages_trim(s);
        *number = new_buffer(s, c);
    }
    if (!*number) return syn__storages_out_of_memory(s, bytes, "a tensor", err);
    if (s->caching) SYN_TRY(syn__caching_take(s->caching, bytes, &block, err));
    s->at[*number].block = block;
    s->at[*number].bytes = bytes;
    s->used_bytes = used;
    s->used_by[kind] += class_bytes(c);
    if (used <= s->peak_bytes) return SYN_OK;
    s->peak_bytes = used;
    memcpy(s->peak_by, s->used_by, sizeof s->peak_by);
    return SYN_OK;
}

/* Counts a buffer that is no longer in use. */
static void count_unused(syn_storages *s, syn_storage *storage) {
    if (storage->block) syn__caching_give(s->caching, storage->block);
    storage->block = 0;
    s->used_bytes -= class_bytes(storage->size_class);
    s->used_by[storage->kind] -= class_bytes(storage->size_class);
}

void syn__storage_set_kind(syn_storages *s, uint32_t number, syn_memory_kind kind) {
    syn_storage *storage = &s->at[number];
    const size_t bytes = storage->evicted ? 0 : class_bytes(storage->size_class);
    s->used_by[storage->kind] -= bytes;
    s->used_by[kind] += bytes;
    storage->kind = (uint8_t)kind;
    if (s->used_bytes == s->peak_bytes) memcpy(s->peak_by, s->used_by, sizeof s->peak_by);
}

syn_status syn__storage_new(syn_storages *s, uint32_t tensor, size_t bytes, syn_error *err) {
    uint32_t number;
    SYN_TRY(take_buffer(s, bytes, SYN_MEMORY_OTHER, &number, err));
    s->at[number].kind = SYN_MEMORY_OTHER;
    s->at[number].tensor = s->at[number].version = tensor;
    s->at[number].released = false;
    s->at[number].leaf = s->at[number].grads = 0;
    s->at[number].managed = s->at[number].evicted = false;
    enter(s, number);
    append(s, number);
    return SYN_OK;
}

/* Makes an entry without a buffer vacant. */
static void vacate(syn_storages *s, uint32_t number) {
    s->at[number] = (syn_storage){.older = s->vacant};
    s->vacant = number;
}

syn_status syn__storage_evict(syn_storages *s, uint32_t number, syn_error *err) {
    if (s->at[number].evicted) return SYN_OK;
    SYN_TRY(grow_tables(s, err)); /* space for one more entry, which gets the buffer */
    const uint32_t free_entry = s->vacant ? s->vacant : (uint32_t)s->count++;
    if (s->vacant) s->vacant = s->at[free_entry].older;
    syn_storage *storage = &s->at[number];
    const uint16_t c = storage->size_class;
    s->at[free_entry] = (syn_storage){.data = storage->data, .size_class = c};
    s->at[free_entry].older = s->waiting[c];
    s->waiting[c] = free_entry;
    storage->data = NULL;
    storage->evicted = true;
    count_unused(s, storage);
    return SYN_OK;
}

syn_status syn__storage_restore(syn_storages *s, uint32_t number, syn_error *err) {
    uint32_t from;
    if (!s->at[number].evicted) return SYN_OK;
    const syn_storage *storage = &s->at[number];
    SYN_TRY(take_buffer(s, storage->bytes, (syn_memory_kind)storage->kind, &from, err));
    s->at[number].data = s->at[from].data;
    s->at[number].block = s->at[from].block;
    s->at[number].evicted = false;
    vacate(s, from);
    return SYN_OK;
}

/* Returns a storage to the pool if it is released and nothing uses it. */
static void free_unused(syn_storages *s, uint32_t number) {
    syn_storage *storage = &s->at[number];
    if (!storage->released || storage->pins > 0 || storage->in_flight > 0 || storage->kept > 0)
        return;
    leave(s, number);
    if (storage->evicted) {
        vacate(s, number);
        return;
    }
    count_unused(s, storage);
    storage->tensor = 0;
    storage->older = s->waiting[storage->size_class];
    s->waiting[storage->size_class] = number;
}

void syn__storage_release(syn_storages *s, uint32_t number) {
    if (s->at[number].released) return;
    unlink_storage(s, number);
    s->at[number].released = true;
    free_unused(s, number);
}

void syn__storage_unpin(syn_storages *s, uint32_t number) {
    s->at[number].pins--;
    free_unused(s, number);
}

void syn__storage_unkeep(syn_storages *s, uint32_t number) {
    s->at[number].kept--;
    free_unused(s, number);
}

void syn__storage_op_done(syn_storages *s, uint32_t number) {
    s->at[number].in_flight--;
    free_unused(s, number);
}

void syn__storages_free(syn_storages *s) {
    for (size_t i = 1; i < s->count; i++)
        if (s->at[i].data) s->backend->free(s->device, s->at[i].data);
    syn_free(s->at);
    syn_free(s->buckets);
    if (s->caching) syn__caching_close(s->caching);
    syn_free(s->caching);
}
