/* Rewrites damaged traces as valid JSON. A first pass finds the JSON objects of the file. A second
   pass writes the selected objects, element by element. An element is written only after it was
   read as a whole, so an unreadable element can be omitted. */
#include "export/pytorch/read/pt_repair.h"

#include <string.h>

#include "syntorch/base/memory.h"

/* Limit for the bytes that are read again while searching for the next element, as a multiple of
   the size of the file. */
#define SPENT_MAX 16

typedef struct object {
    const char *begin, *end; /* end: the end of the file, or the start of the next object */
    bool whole, listed;      /* whole: it has its closing bracket; listed: it has a list of nodes or
                                events */
} object;

typedef enum target { TO_SINK, TO_HEAD, TO_TAIL, TO_NOWHERE } target;

/* What to do with the comma before the next value. */
typedef enum glue {
    NO_COMMA,     /* there must be no comma, because this is the first value */
    COMMA,        /* there must be one comma, and the text should have it */
    INSERT_COMMA, /* a comma must be inserted, because the comma in the text was omitted together
                     with the value before it */
    SKIP_COMMA    /* there must be no comma, but the text may have one, because the value before it
                     was omitted */
} glue;

typedef struct repair {
    syn__pt_repaired *repaired;
    syn__file_text *input;
    syn_sink *sink;
    syn__fix fix;
    size_t spent;
    uint64_t n_values;   /* number of members and elements written */
    const char *lost_at; /* position at which a list could not be continued */
    object chosen;
    object *objects; /* when merging: the objects that are merged */
    size_t n_objects, objects_cap;
    bool merge;
    glue merge_glue;    /* comma before the next element of the merged list */
    syn__str merge_key; /* key of the merged list; bytes 0: no list yet */
    target target;
    syn__buf head, tail; /* when merging: the text before and after the list */
} repair;

/* ---- Output ---- */

static void put(repair *r, const char *text, size_t bytes) {
    if (bytes == 0) return;
    if (r->target == TO_SINK) syn_sink_write(r->sink, text, bytes);
    else if (r->target == TO_HEAD) syn__buf_put(&r->head, text, bytes);
    else if (r->target == TO_TAIL) syn__buf_put(&r->tail, text, bytes);
}

/* Writes the text that was not written yet, up to `to`. */
static void flush(repair *r, const char *to) {
    syn__fix *f = &r->fix;
    put(r, f->out.data, f->out.bytes);
    put(r, f->mark, (size_t)(to - f->mark));
    f->out.bytes = 0;
    f->mark = to;
    syn__file_text_done(r->input, to);
}

/* Drops the text that was not written yet and continues at `to`. */
static void drop(repair *r, const char *to) {
    r->fix.out.bytes = 0;
    r->fix.mark = to;
}

static void count(repair *r, syn__fix_kind kind, const char *at) {
    syn__fix_count(&r->fix, kind, at);
}

/* ---- Recovery after damage ---- */

/* The glue for the next value, if the text directly before this value was omitted. */
static glue without_text(glue g) {
    return g == NO_COMMA || g == SKIP_COMMA ? NO_COMMA : INSERT_COMMA;
}

static bool may_spend(const repair *r) {
    return r->spent / SPENT_MAX <= r->input->bytes;
}

/* Whether the key whose opening quote is at p names a list of nodes or events, and the list
   follows. */
static bool is_list(const char *p, const char *end, syn__str *key) {
    static const char *const names[] = {"nodes", "traceEvents"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t n = strlen(names[i]);
        if ((size_t)(end - p) < n + 4 || memcmp(p + 1, names[i], n) != 0 || p[n + 1] != '"')
            continue;
        const char *q = p + n + 2;
        for (bool colon = false; q < end && ((unsigned char)*q <= ' ' || (*q == ':' && !colon));
             q++)
            colon = colon || *q == ':';
        *key = (syn__str){p + 1, n};
        return q < end && *q == '[';
    }
    return false;
}

static const char *find_list(const char *p, const char *end) {
    syn__str key;
    while (p < end && (p = memchr(p, '"', (size_t)(end - p))) != NULL) {
        if (is_list(p, end, &key)) return p;
        p++;
    }
    return NULL;
}

/* Returns the end of the element at `start`, if its brackets match before `limit` and are followed
   by a comma or the end of the list. Otherwise returns NULL. */
static const char *behind_brackets(const repair *r, const char *start, const char *limit) {
    syn__loose probe = r->fix.loose;
    probe.cur = start;
    probe.end = limit;
    probe.broken = probe.cut = false;
    if (start >= limit || (*start != '{' && *start != '[')) return NULL;
    if (syn__loose_skip(&probe, NULL) == SYN__LOOSE_NONE) return NULL;
    probe.end = r->fix.loose.end;
    const char next = syn__loose_peek(&probe);
    return next == ',' || next == ']' ? probe.cur : NULL;
}

/* Recovers from an element at `start` that cannot be read: moves past it if its brackets match,
   otherwise to the start of the next element. Returns false if the rest of the list is lost. */
static bool recover(repair *r, const char *start, syn__str first_key, glue *g) {
    syn__loose *l = &r->fix.loose;
    const char *broke_at = l->cur, *from = start < l->end ? start + 1 : l->end;
    const bool cut = l->cut;
    bool found = false;
    if (first_key.bytes > 0 && may_spend(r)) {
        found = syn__loose_resume(l, from, first_key);
        r->spent += (size_t)(l->cur - from) + (size_t)(broke_at - start);
    }
    const char *behind = behind_brackets(r, start, found ? l->cur : l->end);
    if (found || behind != NULL || !cut) count(r, SYN__FIX_BROKEN, start);
    else count(r, SYN__FIX_TRUNCATED, start);
    r->lost_at = start;
    if (!found && behind == NULL) return false;
    if (behind != NULL) {
        l->cur = behind;
        l->broken = l->cut = false;
        l->fresh = *g == NO_COMMA || *g == SKIP_COMMA;
        *g = l->fresh ? SKIP_COMMA : COMMA;
    } else {
        *g = without_text(*g);
    }
    drop(r, l->cur);
    return true;
}

/* ---- Lists ---- */

/* Repairs the text between two elements or members. */
static void fix_glue(repair *r, const char *from, const char *to, glue g) {
    syn__fix *f = &r->fix;
    if (g == INSERT_COMMA) syn__fix_change(f, from, from, ", ", 2);
    if (g == SKIP_COMMA) {
        while (from < to && *from != ',') from++;
        if (from < to) from++;
        drop(r, from);
    }
    syn__fix_gap(f, from, to, g == COMMA);
}

/* Gets the first key of the current object. It is used to find other elements of the list. */
static void learn_key(const syn__loose *l, syn__str *key) {
    syn__loose probe = *l;
    syn__str text, first;
    if (*l->cur != '{') return;
    (void)syn__loose_value(&probe, &text);
    if (syn__loose_member(&probe, &first)) *key = first;
}

/* Reads the elements of a list, after its opening bracket. Returns false if the end of the list was
   not found. *n: increased by the number of elements written. */
static bool take_elements(repair *r, syn__str first_key, glue *g, uint64_t *n) {
    syn__fix *f = &r->fix;
    syn__loose *l = &f->loose;
    bool learned = false;
    while (!f->out.failed) {
        const char *from = l->cur;
        const bool more = syn__loose_element(l);
        const char *start = l->cur;
        if (!l->broken && !more) {
            fix_glue(r, from, l->cur - 1, *g == SKIP_COMMA ? SKIP_COMMA : NO_COMMA);
            return true;
        }
        if (more) {
            fix_glue(r, from, start, *g);
            if (!learned) learn_key(l, &first_key);
            if (syn__fix_value(f)) {
                flush(r, l->cur);
                *g = COMMA;
                learned = true;
                ++*n;
                continue;
            }
        }
        drop(r, from);
        if (f->out.failed || !recover(r, start, first_key, g)) break;
    }
    return false;
}

/* The first key that the elements of a list usually have, given the key of the list. A file that is
   a single array has no key. */
static syn__str usual_first_key(syn__str key) {
    if (syn__str_is(key, "nodes")) return syn__str_of("id");
    if (syn__str_is(key, "traceEvents") || key.bytes == 0) return syn__str_of("ph");
    return (syn__str){"", 0};
}

/* Begins a list when merging, after its opening bracket: its elements are appended to the elements
   of earlier lists. */
static void begin_merged(repair *r, syn__str key) {
    const char *at = r->fix.loose.cur;
    if (r->merge_key.bytes == 0) {
        flush(r, at);
        r->merge_key = key;
        r->target = TO_SINK;
        put(r, r->head.data, r->head.bytes);
    } else {
        drop(r, at);
        r->target = TO_SINK;
        r->merge_glue = without_text(r->merge_glue);
    }
}

/* Reads the current list, which is the value of a member. If the key is empty, the whole file is
   this list. */
static void take_list(repair *r, syn__str key) {
    syn__loose *l = &r->fix.loose;
    const syn__str first_key = usual_first_key(key);
    const bool listed = first_key.bytes > 0;
    const bool merged =
        r->merge && listed && (r->merge_key.bytes == 0 || r->merge_key.bytes == key.bytes);
    uint64_t n = 0;
    glue own = NO_COMMA;
    syn__str text;
    (void)syn__loose_value(l, &text);
    if (merged) begin_merged(r, key);
    else flush(r, l->cur);
    const bool whole = take_elements(r, first_key, merged ? &r->merge_glue : &own, &n);
    if (merged) {
        r->target = TO_TAIL;
        r->tail.bytes = 0;
    }
    if (!whole) {
        drop(r, l->cur);
        syn__fix_change(&r->fix, l->cur, l->cur, "]", 1);
    }
    flush(r, l->cur);
    if (listed) r->repaired->n_kept += n;
    r->n_values += n;
}

/* ---- Objects ---- */

/* Reads a member of the document. `from`: where the text between the previous member and this one
   begins. Returns false if the member cannot be read, or if the end of its list was not found. */
static bool take_member(repair *r, const char *from, syn__str key, glue *g) {
    syn__fix *f = &r->fix;
    syn__loose *l = &f->loose;
    fix_glue(r, from, key.text - 1, *g);
    syn__fix_key(f, key);
    r->lost_at = NULL;
    if (*l->cur == '[' && l->cur < l->end) {
        take_list(r, key);
        *g = COMMA;
        return !l->broken;
    }
    if (!syn__fix_value(f)) return false;
    flush(r, l->cur);
    r->n_values++;
    *g = COMMA;
    return true;
}

/* Recovers from damage between lists: moves to the next list of nodes or events. Returns false if
   there is none. */
static bool find_next_list(repair *r, const char *from, glue *g) {
    syn__loose *l = &r->fix.loose;
    const char *next = may_spend(r) ? find_list(from, l->end) : NULL;
    r->spent += (size_t)((next != NULL ? next : l->end) - from) +
                (size_t)(l->cur > from ? l->cur - from : 0);
    if (next == NULL) return false;
    l->cur = next;
    l->broken = l->cut = false;
    l->fresh = true;
    *g = without_text(*g);
    drop(r, next);
    return true;
}

static void take_object(repair *r) {
    syn__fix *f = &r->fix;
    syn__loose *l = &f->loose;
    syn__str text, key;
    glue g = NO_COMMA;
    (void)syn__loose_value(l, &text);
    flush(r, l->cur);
    while (!f->out.failed) {
        const char *from = l->cur;
        const bool more = syn__loose_member(l, &key);
        if (!l->broken && !more) {
            fix_glue(r, from, l->cur - 1, NO_COMMA);
            flush(r, l->cur);
            return;
        }
        if (more && take_member(r, from, key, &g)) continue;
        if (!more || r->lost_at == NULL) {
            drop(r, from);
            count(r, l->cut ? SYN__FIX_TRUNCATED : SYN__FIX_BROKEN, more ? key.text - 1 : from);
            r->lost_at = from < l->end ? from + 1 : from;
        }
        if (!find_next_list(r, r->lost_at, &g)) break;
    }
    drop(r, l->cur);
    syn__fix_change(f, l->cur, l->cur, "}", 1);
    flush(r, l->cur);
}

/* ---- The file ---- */

static bool all_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
    return p == end;
}

/* Whether "[" begins a list of events, and not a line of a log. */
static bool opens_list(const char *p, const char *end) {
    do p++;
    while (p < end && (unsigned char)*p <= ' ');
    return p < end && (*p == '{' || *p == ']');
}

/* Handles an object that was found: decides whether it is the one to write, or where the chosen one
   ends. */
static syn_status consider(repair *r, const object *o, syn_pytorch_object wanted, syn_error *err) {
    object *c = &r->chosen;
    const uint64_t number = r->repaired->n_objects++;
    if (number == 1) count(r, r->merge ? SYN__FIX_MERGED : SYN__FIX_OBJECTS, o->begin);
    if (number >= 1) r->fix.notes[r->merge ? SYN__FIX_MERGED : SYN__FIX_OBJECTS].count = number + 1;
    if (r->merge && o->listed) {
        SYN_TRY(syn_grow(&r->objects, &r->objects_cap, r->n_objects + 1, sizeof *o, err));
        if (r->n_objects > 0) r->objects[r->n_objects - 1].end = o->begin;
        r->objects[r->n_objects++] = *o;
    }
    const bool better = wanted.which == SYN_PYTORCH_ONE_OBJECT
                            ? number == wanted.number
                            : c->begin == NULL || o->listed > c->listed ||
                                  (o->listed == c->listed && o->whole >= c->whole);
    if (better) *c = *o;
    else if (c->begin != NULL && c->end == r->fix.loose.end && o->listed >= c->listed)
        c->end = o->begin;
    return SYN_OK;
}

/* Finds the objects of the file. Objects without a list that come after a list of nodes are
   ignored, because they are pieces of that list that damaged brackets separated from it. */
static syn_status find_objects(repair *r, syn_pytorch_object wanted, syn_error *err) {
    syn__loose l;
    syn__loose_init(&l, r->input->data, r->input->bytes);
    const char *const begin = l.begin;
    bool listed = false;
    while (syn__loose_peek(&l), l.cur < l.end) {
        const bool list = *l.cur == '[' && r->repaired->n_objects == 0 && opens_list(l.cur, l.end);
        if (*l.cur != '{' && !list) {
            l.cur = memchr(l.cur, '{', (size_t)(l.end - l.cur));
            if (l.cur == NULL) break;
        }
        if (r->repaired->n_objects == 0 && !all_space(begin, l.cur))
            count(r, SYN__FIX_AROUND, begin);
        object o = {.begin = l.cur, .end = l.end};
        o.whole = syn__loose_skip(&l, NULL) != SYN__LOOSE_NONE;
        o.listed = list || find_list(o.begin, l.cur) != NULL;
        if (o.listed || !listed) SYN_TRY(consider(r, &o, wanted, err));
        listed = listed || o.listed;
        if (!o.whole || list) break;
        syn__file_text_done(r->input, l.cur);
    }
    return SYN_OK;
}

static void take(repair *r, const object *o) {
    syn__loose *l = &r->fix.loose;
    l->cur = o->begin;
    l->end = o->end;
    l->broken = l->cut = false;
    l->fresh = true;
    drop(r, o->begin);
    if (*o->begin == '[') take_list(r, (syn__str){"", 0});
    else take_object(r);
}

/* Writes one object. If the file has nothing else, the white space around it is written, too. */
static void write_chosen(repair *r) {
    const char *begin = r->input->data, *end = begin + r->input->bytes;
    syn__loose *l = &r->fix.loose;
    const object *o = &r->chosen;
    const bool alone = r->repaired->n_objects == 1;
    if (alone && all_space(begin, o->begin)) put(r, begin, (size_t)(o->begin - begin));
    take(r, o);
    if (alone && all_space(l->cur, end)) flush(r, end);
    else if (syn__loose_peek(l) != '\0' && *l->cur != ',') count(r, SYN__FIX_AROUND, l->cur);
}

static void write_merged(repair *r) {
    for (size_t i = 0; i < r->n_objects; i++) {
        r->target = r->merge_key.bytes == 0 ? TO_HEAD : TO_NOWHERE;
        r->head.bytes = 0;
        take(r, &r->objects[i]);
    }
    r->target = TO_SINK;
    put(r, r->tail.data, r->tail.bytes);
}

static syn_status fail_merge(const repair *r, syn_error *err) {
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "%.380s has no objects with a list \"nodes\" or \"traceEvents\" to merge",
                    r->input->name);
}

static syn_status check_found(const repair *r, syn_pytorch_object wanted, syn_error *err) {
    const char *name = r->input->name;
    const uint64_t n = r->repaired->n_objects;
    if (n == 0) return SYN_FAIL(err, SYN_E_FORMAT, "%.380s has no JSON object", name);
    if (wanted.which == SYN_PYTORCH_ONE_OBJECT && wanted.number >= n)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%.380s has %llu JSON objects, so there is no number %llu (the first is 0)",
                        name, (unsigned long long)n, (unsigned long long)wanted.number);
    return SYN_OK;
}

static syn_status run(repair *r, syn_pytorch_object wanted, syn_error *err) {
    SYN_TRY(find_objects(r, wanted, err));
    SYN_TRY(check_found(r, wanted, err));
    syn__file_text_done(r->input, r->input->data);
    r->merge = r->merge && r->repaired->n_objects > 1;
    if (r->merge) write_merged(r);
    else write_chosen(r);
    if (r->merge && r->merge_key.bytes == 0) return fail_merge(r, err);
    if (r->fix.out.failed || r->head.failed || r->tail.failed)
        return SYN_FAIL(err, SYN_E_NOMEM, "out of memory while repairing %.380s", r->input->name);
    const syn__fix_note *notes = r->fix.notes;
    if (r->n_values == 0 && notes[SYN__FIX_BROKEN].count + notes[SYN__FIX_TRUNCATED].count > 0)
        return SYN_FAIL(err, SYN_E_FORMAT, "nothing in %.380s can be repaired", r->input->name);
    return SYN_OK;
}

syn_status syn__pt_repair(syn__pt_repaired *repaired, syn__file_text *input,
                          syn_pytorch_object wanted, syn_sink *out, syn_error *err) {
    repair r = {.repaired = repaired, .input = input, .sink = out};
    memset(repaired, 0, sizeof *repaired);
    r.merge = wanted.which == SYN_PYTORCH_ALL_OBJECTS;
    syn__loose_init(&r.fix.loose, input->data, input->bytes);
    const syn_status status = run(&r, wanted, err);
    /* Reached if the gzip file was truncated but the JSON text in it is complete. */
    if (input->cut && r.fix.notes[SYN__FIX_TRUNCATED].count == 0)
        count(&r, SYN__FIX_TRUNCATED, input->data + input->bytes);
    memcpy(repaired->notes, r.fix.notes, sizeof repaired->notes);
    syn__fix_free(&r.fix);
    syn__buf_free(&r.head);
    syn__buf_free(&r.tail);
    syn_free(r.objects);
    return status;
}
