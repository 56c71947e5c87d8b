/* Matches backward ops to forward ops; see kineto_backward.h. */
#include "export/kineto/kineto_backward.h"

#include <string.h>

#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"

enum { MAX_SEARCHED = 64 }; /* maximum number of forward ops searched, from the last */

/* The length of an op's name without endings such as "_grad". */
static size_t base_bytes(const char *op) {
    static const char *const endings[] = {"_grad", "_train"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const char *at = strstr(op, endings[i]);
        if (at != NULL && at > op) return (size_t)(at - op);
    }
    return strlen(op);
}

static bool is_product(const char *op) {
    return strcmp(op, "linear") == 0 || strncmp(op, "matmul", 6) == 0;
}

/* Ops of gradient rules whose name does not show to which forward op they belong. */
static bool is_helper(const char *op) {
    static const char *const helpers[] = {"sum_to",    "accumulate", "slice_grad", "slice_add",
                                          "add",       "copy",       "contiguous", "cast",
                                          "fill_zero", "expand"};
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++) {
        if (strcmp(op, helpers[i]) == 0) return true;
    }
    return false;
}

static syn__kineto_mark mark_of(const syn_node *node) {
    return (syn__kineto_mark){.scope = syn_hash(node->scope, strlen(node->scope), 0),
                              .op = syn_hash(node->op, base_bytes(node->op), 0),
                              .product = is_product(node->op)};
}

syn_status syn__kineto_forward(syn__kineto_forwards *forwards, const syn_node *node, uint32_t event,
                               syn_error *err) {
    SYN_TRY(
        syn_grow(&forwards->marks, &forwards->cap, forwards->n + 1, sizeof *forwards->marks, err));
    forwards->marks[forwards->n] = mark_of(node);
    forwards->marks[forwards->n++].event = event;
    return SYN_OK;
}

/* Makes the last matching forward op the current group, and removes the forward ops after it, which
   have no backward op. */
static bool claim(syn__kineto_forwards *f, const syn__kineto_mark *like) {
    for (size_t i = f->n; i > 0 && f->n - i < MAX_SEARCHED; i--) {
        const syn__kineto_mark *m = &f->marks[i - 1];
        const bool same = like->product ? m->product : m->op == like->op;
        if (m->scope != like->scope || !same) continue;
        f->group = *m;
        f->n = i - 1;
        return true;
    }
    return false;
}

syn__kineto_belongs syn__kineto_backward(syn__kineto_forwards *f, const syn_node *node, bool open) {
    const syn__kineto_mark own = mark_of(node);
    const bool joins = open && own.scope == f->group.scope;
    if (is_helper(node->op)) return joins ? SYN__KINETO_JOINS : SYN__KINETO_UNMATCHED;
    if (own.product && f->n_products == 1 && own.scope == f->product.scope &&
        strcmp(node->op, "linear") != 0) {
        f->n_products++;
        if (joins && f->group.event == f->product.event) return SYN__KINETO_JOINS;
        f->group = f->product;
        return SYN__KINETO_AGAIN;
    }
    if (!claim(f, &own)) return joins ? SYN__KINETO_JOINS : SYN__KINETO_UNMATCHED;
    if (own.product) {
        f->product = f->group;
        f->n_products = 1;
    }
    return SYN__KINETO_BEGINS;
}

void syn__kineto_forwards_free(syn__kineto_forwards *forwards) {
    syn_free(forwards->marks);
    *forwards = (syn__kineto_forwards){0};
}
