/* The pen that builds a graph with graphviz's library cgraph, which then writes the DOT file.
   cgraph has state that the whole process shares, and its own allocator, so a lock lets only one
   thread use it at a time. */
#include "export/picture/picture.h"
#include "export/picture/picture_dot.h"

bool syn__pic_have_cgraph(void) {
#if defined(SYN_HAVE_CGRAPH) && SYN_HAVE_CGRAPH + 0
    return true;
#else
    return false;
#endif
}

#if defined(SYN_HAVE_CGRAPH) && SYN_HAVE_CGRAPH + 0
#include <cgraph.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 8

typedef struct builder {
    Agraph_t *open[DEPTH]; /* the graph, then the open clusters from outermost to innermost */
    int depth;
    bool failed;
} builder;

/* cgraph's parameters are char *, but it only reads them. */
static char *text(const char *s) {
    return (char *)(uintptr_t)s;
}

static void set(builder *b, void *object, const syn__dot_attr *attrs, size_t n) {
    if (object == NULL) b->failed = true;
    if (b->failed) return;
    for (size_t i = 0; i < n; i++) {
        char *html = attrs[i].html ? agstrdup_html(b->open[0], text(attrs[i].value)) : NULL;
        if (agsafeset(object, text(attrs[i].name), html ? html : text(attrs[i].value), text("")) !=
            0)
            b->failed = true;
        if (html != NULL) agstrfree(b->open[0], html);
    }
}

static void graph(void *self, const syn__dot_attr *attrs, size_t n) {
    builder *b = self;
    for (size_t i = 0; i < n; i++)
        if (agattr(b->open[0], AGRAPH, text(attrs[i].name), text(attrs[i].value)) == NULL)
            b->failed = true;
}

static void defaults(builder *b, int kind, const syn__dot_attr *attrs, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (agattr(b->open[0], kind, text(attrs[i].name), text(attrs[i].value)) == NULL)
            b->failed = true;
}

static void node_defaults(void *self, const syn__dot_attr *attrs, size_t n) {
    defaults(self, AGNODE, attrs, n);
}

static void edge_defaults(void *self, const syn__dot_attr *attrs, size_t n) {
    defaults(self, AGEDGE, attrs, n);
}

static void open_cluster(void *self, const char *cluster, const syn__dot_attr *attrs, size_t n) {
    builder *b = self;
    if (b->failed || b->depth + 1 >= DEPTH) {
        b->failed = true;
        return;
    }
    Agraph_t *sub = agsubg(b->open[b->depth], text(cluster), 1);
    set(b, sub, attrs, n);
    b->open[++b->depth] = sub;
}

static void close_cluster(void *self) {
    builder *b = self;
    if (b->depth > 0) b->depth--;
}

static void node(void *self, const char *id, const syn__dot_attr *attrs, size_t n) {
    builder *b = self;
    if (!b->failed) set(b, agnode(b->open[b->depth], text(id), 1), attrs, n);
}

static void edge(void *self, const char *from, const char *to, const syn__dot_attr *attrs,
                 size_t n) {
    builder *b = self;
    if (b->failed) return;
    Agnode_t *tail = agnode(b->open[0], text(from), 0), *head = agnode(b->open[0], text(to), 0);
    if (tail == NULL || head == NULL) b->failed = true;
    else set(b, agedge(b->open[0], tail, head, NULL, 1), attrs, n);
}

/* ---- ids ---- */

/* cgraph uses the address of a name as its id, and writes clusters in the order of their ids. To
   make files reproducible, clusters get odd ids in the order of their numbers. All other ids come
   from cgraph's own functions, which use even ids. */
typedef struct names {
    Agdisc_t disc; /* must be first: agopen passes its address to open_ids */
    Agraph_t *graph;
} names;

#define PREFIX "cluster"

static bool cluster_id(int kind, const char *name, IDTYPE *id) {
    if (kind != AGRAPH || name == NULL || strncmp(name, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    *id = 2 * (IDTYPE)strtoull(name + sizeof PREFIX - 1, NULL, 10) + 1;
    return true;
}

static void *open_ids(Agraph_t *g, Agdisc_t *disc) {
    names *n = (names *)disc;
    n->graph = g;
    return n;
}

static long map_id(void *state, int kind, char *name, IDTYPE *id, int create) {
    names *n = state;
    if (cluster_id(kind, name, id)) {
        agstrdup(n->graph, name); /* the string lives until the graph is closed, because print_id
                                     needs it */
        return 1;
    }
    return AgIdDisc.map(n->graph, kind, name, id, create);
}

static long alloc_id(void *state, int kind, IDTYPE id) {
    names *n = state;
    return AgIdDisc.alloc(n->graph, kind, id);
}

static void free_id(void *state, int kind, IDTYPE id) {
    names *n = state;
    AgIdDisc.free(n->graph, kind, id);
}

static char *print_id(void *state, int kind, IDTYPE id) {
    names *n = state;
    if (kind != AGRAPH || id % 2 == 0) return AgIdDisc.print(n->graph, kind, id);
    char name[32];
    snprintf(name, sizeof name, PREFIX "%llu", (unsigned long long)(id / 2));
    return agstrbind(n->graph, name); /* must be cgraph's own copy, because its writer reads the
                                         header in front of the string */
}

static void close_ids(void *state) {
    names *n = state;
    AgIdDisc.close(n->graph);
}

static void register_id(void *state, int kind, void *object) {
    names *n = state;
    AgIdDisc.idregister(n->graph, kind, object);
}

/* ---- writing ---- */

static int put(void *channel, const char *s) {
    syn_sink_text(channel, s);
    return 0;
}

static int flush(void *channel) {
    (void)channel;
    return 0;
}

static syn_status build(const syn__pic_drawing *d, syn_sink *sink, syn_error *err) {
    Agiodisc_t io = AgIoDisc;
    io.putstr = put;
    io.flush = flush;
    Agiddisc_t ids = {open_ids, map_id, alloc_id, free_id, print_id, close_ids, register_id};
    names n = {.disc = {NULL, &ids, &io}};
    builder b = {.open = {agopen(text("syntorch"), Agdirected, &n.disc)}};
    if (b.open[0] == NULL) return SYN_FAIL(err, SYN_E_NOMEM, "graphviz's cgraph could not start");
    const syn__dot_pen pen = {&b,           graph,         node_defaults, edge_defaults,
                              open_cluster, close_cluster, node,          edge};
    syn_status s = syn__pic_walk(d, &pen, err);
    if (s == SYN_OK && (b.failed || agwrite(b.open[0], sink) != 0))
        s = SYN_FAIL(err, SYN_E_NOMEM, "graphviz's cgraph could not hold the picture's %zu boxes",
                     d->n_boxes);
    agclose(b.open[0]);
    return s;
}

syn_status syn__pic_write_cgraph(const syn__pic_drawing *d, syn_sink *sink, syn_error *err) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    const syn_status s = build(d, sink, err);
    pthread_mutex_unlock(&one_at_a_time);
    return s;
}
#else
syn_status syn__pic_write_cgraph(const syn__pic_drawing *d, syn_sink *sink, syn_error *err) {
    return syn__pic_write_plain(d, sink, err);
}
#endif
