/* Determines the section (pass and part) of each call in a step of a PyTorch trace. Some calls show
   their section: calls of autograd and of DDP's reducer, calls in modules, calls in ranges named
   after a section, and calls with an autograd sequence number. Every other call gets the section of
   the calls before and after it. */
#include "export/picture/picture_boxes.h"

#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define BACKWARD_FUNCTION 1 /* value of PyTorch's RecordScope */

typedef enum mark { FORWARD, BACKWARD, REST, UNKNOWN } mark;

typedef struct call {
    int64_t start;
    uint32_t slice;
    mark self, next; /* self: section that the call itself shows. next: section of the next call
                        that shows its own */
} call;

/* Whether `text` contains `word`, ignoring case. `word` must be in lower case. */
static bool contains(const char *text, const char *word) {
    for (; *text != '\0'; text++) {
        size_t n = 0;
        while (word[n] != '\0' && (text[n] == word[n] || text[n] == word[n] - 'a' + 'A')) n++;
        if (word[n] == '\0') return true;
    }
    return false;
}

/* The section that the name of a range shows. A name that contains both "forward" and "backward"
   shows none. */
static mark of_range(const char *name) {
    const bool forward = contains(name, "forward"), backward = contains(name, "backward");
    if (forward != backward) return forward ? FORWARD : BACKWARD;
    return contains(name, "optimizer") && !contains(name, "zero_grad") ? REST : UNKNOWN;
}

static int64_t number(const syn_node *node, const char *name, int64_t otherwise) {
    for (uint32_t i = 0; i < node->n_attributes; i++)
        if (node->attributes[i].type == SYN_VALUE_I64 &&
            strcmp(node->attributes[i].name, name) == 0)
            return node->attributes[i].i64;
    return otherwise;
}

static bool of_autograd(const syn_node *node) {
    return strstr(node->op, "autograd::") != NULL || number(node, "scope", 0) == BACKWARD_FUNCTION;
}

static bool of_backward(const syn_node *node) {
    return of_autograd(node) || number(node, "fw_tid", 0) != 0 ||
           strstr(node->op, "ddp.reducer") != NULL;
}

/* Determines the section that the call itself or a range around it shows. */
static syn_status look_at(syn__boxes *m, call *c, bool *autograd) {
    const syn__pic_times *t = m->times;
    const syn_node *node;
    SYN_TRY(syn__walk_node(&m->times->walk, t->lanes.slices[c->slice].node, &node, m->err));
    *autograd = of_autograd(node);
    c->self = of_backward(node) ? BACKWARD : UNKNOWN;
    const bool numbered = number(node, "seq_id", -1) >= 0;
    for (uint32_t r = m->range_of[c->slice]; c->self == UNKNOWN && r != UINT32_MAX;
         r = m->range_of[r]) {
        SYN_TRY(syn__walk_node(&m->times->walk, t->lanes.slices[r].node, &node, m->err));
        c->self = of_range(node->op);
    }
    if (c->self == UNKNOWN && (numbered || m->named_by[c->slice] != UINT32_MAX)) c->self = FORWARD;
    return SYN_OK;
}

static int compare_calls(const void *a, const void *b) {
    const call *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->slice < y->slice ? -1 : x->slice > y->slice;
}

/* Lists the outermost calls of the step, by lane and start. If the first call of a thread belongs
   to autograd, the thread is one of autograd's own, and all its calls are backward. */
static syn_status collect(syn__boxes *m, call *calls, size_t *n) {
    const syn__pic_times *t = m->times;
    uint32_t lane = UINT32_MAX;
    bool engine = false, autograd = false;
    for (uint32_t i = 0; i < t->lanes.n_slices; i++) {
        const syn__slice *s = &t->lanes.slices[i];
        if (!s->host || m->top_of[i] != i || m->slice_of[s->node] != i) continue;
        call *c = &calls[(*n)++];
        *c = (call){.start = s->start, .slice = i};
        SYN_TRY(look_at(m, c, &autograd));
        if (s->lane != lane) engine = autograd;
        lane = s->lane;
        if (engine) c->self = BACKWARD;
    }
    return SYN_OK;
}

/* Fills `next`. A forward call without a later backward call processes the loss at the end of the
   step, so it does not count as forward. */
static void find_next(call *calls, size_t n) {
    mark next = UNKNOWN;
    bool backward_follows = false;
    for (size_t i = n; i-- > 0;) {
        call *c = &calls[i];
        backward_follows = backward_follows || c->self == BACKWARD;
        if (c->self == FORWARD && !backward_follows) c->self = UNKNOWN;
        c->next = next;
        if (c->self != UNKNOWN) next = c->self;
    }
}

static mark between(mark before, mark next) {
    if (before == UNKNOWN || before == FORWARD) return FORWARD;
    if (next == FORWARD) return FORWARD;
    return before == BACKWARD && next == REST ? REST : before;
}

static void number_passes(syn__boxes *m, call *calls, size_t n) {
    mark before = UNKNOWN;
    uint32_t pass = 0;
    for (size_t i = 0; i < n; i++) {
        const call *c = &calls[i];
        const mark now = c->self != UNKNOWN ? c->self : between(before, c->next);
        if (before != UNKNOWN && now < before) pass++;
        m->section_of[c->slice] = pass * SYN__BOX_PARTS + (uint32_t)now;
        if (c->self != UNKNOWN || before != UNKNOWN) before = now;
    }
}

syn_status syn__boxes_sections(syn__boxes *m) {
    const size_t n_slices = m->times->lanes.n_slices;
    size_t n = 0;
    call *calls = syn_calloc(n_slices + 1, sizeof *calls);
    if (calls == NULL) return SYN_FAIL_NOMEM(m->err, n_slices * sizeof *calls, "a picture");
    const syn_status s = collect(m, calls, &n);
    if (s == SYN_OK) {
        qsort(calls, n, sizeof *calls, compare_calls);
        find_next(calls, n);
        number_passes(m, calls, n);
    }
    syn_free(calls);
    return s;
}
