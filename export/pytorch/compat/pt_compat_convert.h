/* The state that the steps of the compat converter share. Each step has its own file:
     pt_compat_convert.c  makes the nodes, and finds their parents and children
     pt_compat_names.c    determines what names imply: communication and its kind
     pt_compat_deps.c     finds data_deps, isolated nodes and cycles
     pt_compat_write.c    writes the .et file */
#ifndef EXPORT_PT_COMPAT_CONVERT_H
#define EXPORT_PT_COMPAT_CONVERT_H

#include "export/pytorch/read/pt_device.h"
#include "export/pytorch/read/pt_host.h"
#include "export/text/arena.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits that say what a name implies. */
enum {
    SYN__NAME_READ = 1,
    SYN__NAME_GROUPS = 2,     /* process_group:init */
    SYN__NAME_OPTIMIZER = 4,  /* Optimizer.step */
    SYN__NAME_ROOT = 8,       /* root node of a thread */
    SYN__NAME_PARAM = 16,     /* record_param_comms */
    SYN__NAME_SEND_RECV = 32, /* ncclDevKernel_SendRecv */
    SYN__NAME_NCCL = 64,      /* ncclKernel, ncclDevKernel */
    SYN__NAME_SEND = 128,
    SYN__NAME_RECV = 256,
    SYN__NAME_ALL_TO_ALL = 512 /* nccl:all_to_all */
};

typedef struct syn__compat_name {
    uint32_t flags;
    syn__str text; /* decoded */
} syn__compat_name;

typedef struct syn__compat_node {
    uint64_t id, parent_id, inter_thread_dep; /* inter_thread_dep 0: none */
    double exclusive;                         /* µs */
    int64_t stream;
    uint32_t parent;              /* index; SYN__PT_NONE: none */
    uint32_t host, event;         /* event: set only for device work that comes from a device
                                     trace */
    uint32_t first_dep, last_dep; /* list of dependencies: indices into deps; SYN__PT_NONE: none */
    uint32_t seen;                /* number of the last walk that visited the node */
    bool gpu;                     /* the node has a "cat", as device work has */
    bool group;                   /* the node describes process groups, so it is a CPU node even if
                                     `gpu` is set */
    bool written, ctrl_dep, has_stream;
    bool alone; /* the node has no dependencies and no dependents, so it is not written */
} syn__compat_node;

static inline bool syn__compat_is_cpu(const syn__compat_node *n) {
    return !n->gpu || n->group;
}

typedef struct syn__compat_dep {
    uint64_t id;
    uint32_t node; /* index of the node; SYN__PT_NONE: not looked up yet */
    uint32_t next;
} syn__compat_dep;

typedef struct syn__converter {
    const syn__pt_host *host;
    const syn__pt_device *device; /* NULL: the input is a linked trace */
    syn_error *err;
    syn__compat_node *nodes; /* in the order in which the ids first occur */
    size_t n_nodes;
    syn__pt_map by_id;
    uint32_t *order;       /* nodes ordered by id */
    uint32_t *first_child; /* n_nodes + 1 entries: index of the node's first entry in children */
    uint32_t *children;    /* indices of nodes, per parent ordered by id */
    syn__compat_dep *deps;
    size_t n_deps, deps_cap;
    syn__compat_name *names[2]; /* properties of the host's [0] and of the device's [1] strings */
    syn__arena arena;
} syn__converter;

/* Returns the properties of a node's name; NULL if memory is exhausted. */
const syn__compat_name *syn__compat_name_of(syn__converter *c, const syn__compat_node *node);
/* The same for a string of the host trace. */
const syn__compat_name *syn__compat_host_text(syn__converter *c, uint32_t text);
/* Fills the lists of dependencies, and `alone`. Fails if the dependencies have a cycle. */
syn_status syn__compat_deps(syn__converter *c) SYN_MUST_USE;
syn_status syn__compat_write(syn__converter *c, syn_sink *sink) SYN_MUST_USE;

/* The communication of a node. */
typedef struct syn__compat_comm {
    uint32_t type; /* SYN__ET_COMP_NODE, ... */
    int64_t collective, bytes;
    syn__str group; /* decoded; bytes 0: not written */
} syn__compat_comm;

syn_status syn__compat_comm_of(syn__converter *c, const syn__compat_node *node,
                               syn__compat_comm *out) SYN_MUST_USE;

/* Fails with "FILE: the reference converter stops here: " and the formatted text, where FILE is the
   input. */
#define SYN__COMPAT_STOP(c, ...) syn__compat_stop((c), __FILE__, __LINE__, __VA_ARGS__)
syn_status syn__compat_stop(const syn__converter *c, const char *file, int line, const char *fmt,
                            ...) SYN_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif
#endif
