/* Finds the data_deps that the reference converter would write; see pt_compat_convert.h. */
#include "export/pytorch/compat/pt_compat_convert.h"
#include "syntorch/base/memory.h"

static syn_status no_memory(const syn__converter *c) {
    return SYN_FAIL(c->err, SYN_E_NOMEM, "out of memory while converting %.200s",
                    c->host->input->name);
}

/* Adds a dependency on the node with this id, unless `node` has it already. on: the index of that
   node; SYN__PT_NONE: not looked up yet. */
static syn_status add_dep(syn__converter *c, syn__compat_node *node, uint64_t id, uint32_t on) {
    for (uint32_t d = node->first_dep; d != SYN__PT_NONE; d = c->deps[d].next)
        if (c->deps[d].id == id) return SYN_OK;
    SYN_TRY(syn_grow(&c->deps, &c->deps_cap, c->n_deps + 1, sizeof *c->deps, c->err));
    const uint32_t added = (uint32_t)c->n_deps++;
    c->deps[added] = (syn__compat_dep){id, on, SYN__PT_NONE};
    if (node->first_dep == SYN__PT_NONE) node->first_dep = added;
    else c->deps[node->last_dep].next = added;
    node->last_dep = added;
    return SYN_OK;
}

/* ---- The walk over a thread's tree in program order ---- */

typedef struct walk {
    syn__converter *c;
    uint32_t *stack;
    size_t n_stack, stack_cap;
    uint32_t number; /* number of this walk; the first is 1 */
    uint32_t last;   /* the last CPU node that was visited; SYN__PT_NONE: none */
} walk;

static syn_status visit(walk *w, uint32_t at) {
    syn__converter *c = w->c;
    syn__compat_node *node = &c->nodes[at];
    if (!syn__compat_is_cpu(node)) /* device work waits only for the last CPU node */
        return w->last != SYN__PT_NONE ? add_dep(c, node, c->nodes[w->last].id, w->last) : SYN_OK;
    if (node->inter_thread_dep != 0)
        SYN_TRY(add_dep(c, node, node->inter_thread_dep, SYN__PT_NONE));
    if (w->last != SYN__PT_NONE) SYN_TRY(add_dep(c, node, c->nodes[w->last].id, w->last));
    w->last = at;
    return SYN_OK;
}

static syn_status push_children(walk *w, uint32_t at) {
    const syn__converter *c = w->c;
    const uint32_t first = c->first_child[at], end = c->first_child[at + 1];
    SYN_TRY(
        syn_grow(&w->stack, &w->stack_cap, w->n_stack + (end - first), sizeof *w->stack, c->err));
    for (uint32_t i = end; i-- > first;) {
        const syn__compat_node *child = &c->nodes[c->children[i]];
        if (child->written && child->seen != w->number) w->stack[w->n_stack++] = c->children[i];
    }
    return SYN_OK;
}

static syn_status walk_tree(walk *w, uint32_t root) {
    w->number++;
    w->last = SYN__PT_NONE;
    w->n_stack = 0;
    SYN_TRY(syn_grow(&w->stack, &w->stack_cap, 1, sizeof *w->stack, w->c->err));
    w->stack[w->n_stack++] = root;
    while (w->n_stack > 0) {
        const uint32_t at = w->stack[--w->n_stack];
        syn__compat_node *node = &w->c->nodes[at];
        if (node->seen == w->number) continue;
        node->seen = w->number;
        SYN_TRY(visit(w, at));
        SYN_TRY(push_children(w, at));
    }
    return SYN_OK;
}

/* Selects the roots of trees to walk. A root below another root adds nothing to the walk from the
   other, so only the highest roots matter. If roots are on a cycle of parents, the walks from two
   of them make these two depend on each other; more walks add nothing. */
typedef struct roots {
    const syn__converter *c;
    uint8_t *flags;
    uint32_t *path;
} roots;

enum { IS_ROOT = 1, WITHIN = 2, KNOWN = 4, ON_PATH = 8, WALK = 16 };

/* Handles the cycle of parents that contains a node: the first two roots on it are walked. */
static void close_circle(const roots *r, uint32_t node) {
    unsigned n = 0;
    uint32_t at = node;
    do {
        if ((r->flags[at] & IS_ROOT) && n++ < 2) r->flags[at] |= WALK;
        at = r->c->nodes[at].parent;
    } while (at != node);
    do {
        r->flags[at] |= KNOWN | (n > 0 ? WITHIN : 0);
        at = r->c->nodes[at].parent;
    } while (at != node);
}

/* Determines whether the node and each of its ancestors is a root or below one. */
static void look_above(const roots *r, uint32_t node) {
    size_t n = 0;
    uint32_t at = node;
    while (at != SYN__PT_NONE && !(r->flags[at] & (KNOWN | ON_PATH))) {
        r->flags[at] |= ON_PATH;
        r->path[n++] = at;
        at = r->c->nodes[at].parent;
    }
    if (at != SYN__PT_NONE && !(r->flags[at] & KNOWN)) close_circle(r, at);
    while (n > 0) {
        uint8_t *flags = &r->flags[r->path[--n]];
        const uint32_t parent = r->c->nodes[r->path[n]].parent;
        if (*flags & KNOWN) continue;
        const bool below = parent != SYN__PT_NONE && (r->flags[parent] & WITHIN) != 0;
        *flags |= KNOWN;
        if ((*flags & IS_ROOT) && !below) *flags |= WALK;
        if ((*flags & IS_ROOT) || below) *flags |= WITHIN;
    }
}

static syn_status find_roots(const roots *r, syn__converter *c) {
    for (size_t i = 0; i < c->n_nodes; i++) {
        const syn__compat_name *name = syn__compat_name_of(c, &c->nodes[i]);
        if (name == NULL) return no_memory(c);
        if (c->nodes[i].written && (name->flags & SYN__NAME_ROOT)) r->flags[i] = IS_ROOT;
    }
    for (size_t i = 0; i < c->n_nodes; i++) look_above(r, (uint32_t)i);
    return SYN_OK;
}

static syn_status walk_roots(walk *w) {
    syn__converter *c = w->c;
    roots r = {c, syn_calloc(c->n_nodes + 1, 1), syn_calloc(c->n_nodes + 1, sizeof *r.path)};
    syn_status s = r.flags && r.path ? find_roots(&r, c) : no_memory(c);
    for (size_t i = 0; i < c->n_nodes && s == SYN_OK; i++)
        if (r.flags[i] & WALK) s = walk_tree(w, (uint32_t)i);
    syn_free(r.flags);
    syn_free(r.path);
    return s;
}

/* ---- Isolated nodes and cycles ---- */

static syn_status look_up(syn__converter *c) {
    for (size_t i = 0; i < c->n_nodes; i++) {
        for (uint32_t d = c->nodes[i].first_dep; d != SYN__PT_NONE; d = c->deps[d].next) {
            syn__compat_dep *dep = &c->deps[d];
            if (dep->node == SYN__PT_NONE) dep->node = syn__pt_map_get(&c->by_id, dep->id);
            if (dep->node == SYN__PT_NONE || !c->nodes[dep->node].written)
                return SYN__COMPAT_STOP(
                    c, "\"KeyError: %llu\", because node %llu depends on it and it is missing",
                    (unsigned long long)dep->id, (unsigned long long)c->nodes[i].id);
        }
    }
    return SYN_OK;
}

/* Marks the nodes that have neither dependencies nor dependents. */
static syn_status drop_alone(syn__converter *c) {
    uint8_t *wanted = syn_calloc(c->n_nodes + 1, 1);
    if (wanted == NULL) return no_memory(c);
    for (size_t d = 0; d < c->n_deps; d++) wanted[c->deps[d].node] = 1;
    for (size_t i = 0; i < c->n_nodes; i++)
        if (!wanted[i] && c->nodes[i].first_dep == SYN__PT_NONE) c->nodes[i].alone = true;
    syn_free(wanted);
    return SYN_OK;
}

/* Whether all dependencies of all nodes have lower ids. If so, there is no cycle. */
static bool goes_up(const syn__converter *c) {
    for (size_t i = 0; i < c->n_nodes; i++)
        for (uint32_t d = c->nodes[i].first_dep; d != SYN__PT_NONE; d = c->deps[d].next)
            if (c->deps[d].id >= c->nodes[i].id) return false;
    return true;
}

/* Repeatedly removes the nodes whose dependencies have all been removed (Kahn 1962). *stuck: a node
   that cannot be removed; SYN__PT_NONE: all were removed. Scratch memory: per node, `left` has the
   number of open dependencies and `first` its first dependent; per dependency, `next` has the next
   dependent and `owner` the node that has the dependency. */
static void peel(const syn__converter *c, uint32_t *left, uint32_t *first, uint32_t *next,
                 uint32_t *owner, uint32_t *stack, uint32_t *stuck) {
    size_t n_stack = 0, n_left = c->n_nodes;
    for (size_t i = 0; i < c->n_nodes; i++) first[i] = SYN__PT_NONE, left[i] = 0;
    for (size_t i = 0; i < c->n_nodes; i++) {
        for (uint32_t d = c->nodes[i].first_dep; d != SYN__PT_NONE; d = c->deps[d].next) {
            left[i]++;
            owner[d] = (uint32_t)i;
            next[d] = first[c->deps[d].node];
            first[c->deps[d].node] = d;
        }
    }
    for (size_t i = 0; i < c->n_nodes; i++)
        if (left[i] == 0) stack[n_stack++] = (uint32_t)i;
    while (n_stack > 0) {
        const uint32_t at = stack[--n_stack];
        n_left--;
        for (uint32_t d = first[at]; d != SYN__PT_NONE; d = next[d])
            if (--left[owner[d]] == 0) stack[n_stack++] = owner[d];
    }
    *stuck = SYN__PT_NONE;
    for (size_t i = 0; i < c->n_nodes && n_left > 0; i++) {
        if (left[i] == 0) continue;
        *stuck = (uint32_t)i;
        return;
    }
}

/* Finds a node on a cycle, starting from a node that depends on it directly or indirectly. */
static uint32_t on_cycle(const syn__converter *c, const uint32_t *left, uint32_t at) {
    for (size_t steps = 0; steps < c->n_nodes; steps++) {
        uint32_t d = c->nodes[at].first_dep;
        while (left[c->deps[d].node] == 0) d = c->deps[d].next;
        at = c->deps[d].node;
    }
    return at;
}

static syn_status check_cycles(syn__converter *c) {
    if (goes_up(c)) return SYN_OK;
    const size_t n = c->n_nodes + 1, m = c->n_deps + 1;
    uint32_t *left = syn_calloc(n, sizeof *left), *first = syn_calloc(n, sizeof *first);
    uint32_t *stack = syn_calloc(n, sizeof *stack);
    uint32_t *next = syn_calloc(m, sizeof *next), *owner = syn_calloc(m, sizeof *owner);
    uint32_t stuck = SYN__PT_NONE;
    syn_status s = SYN_OK;
    if (left && first && stack && next && owner) {
        peel(c, left, first, next, owner, stack, &stuck);
        if (stuck != SYN__PT_NONE)
            s = SYN__COMPAT_STOP(c,
                                 "\"Cyclic dependency detected\", through node %llu; without "
                                 "--compat the cycle is cut",
                                 (unsigned long long)c->nodes[on_cycle(c, left, stuck)].id);
    } else {
        s = no_memory(c);
    }
    syn_free(left);
    syn_free(first);
    syn_free(stack);
    syn_free(next);
    syn_free(owner);
    return s;
}

syn_status syn__compat_deps(syn__converter *c) {
    walk w = {.c = c};
    const syn_status s = walk_roots(&w);
    syn_free(w.stack);
    SYN_TRY(s);
    SYN_TRY(look_up(c));
    SYN_TRY(drop_alone(c));
    return check_cycles(c);
}
