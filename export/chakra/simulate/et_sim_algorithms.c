/* The times of collectives with other algorithms than rings. direct and halvingDoubling are those
   of ASTRA-sim, checked with runs; doubling and tree have the messages of `syntorch expand`. A
   round takes as long as its slowest message. As in ASTRA-sim's rings, a reduction takes three
   passes over the memory, and each step adds the endpoint's delay. */
#include <math.h>
#include <string.h>

#include "export/chakra/simulate/et_sim.h"
#include "export/chakra/wire/et_schema.h"

typedef struct algorithm {
    const syn__sim_machine *machine;
    const int32_t *ranks;
    uint32_t n;
    double endpoint_ns;
} algorithm;

/* The slowest message between ranks whose indices differ by `distance` in one bit. */
static double exchange_ns(const algorithm *a, uint32_t distance, double bytes) {
    double longest = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const uint32_t k = i ^ distance;
        if (k < a->n)
            longest = fmax(longest, syn__sim_hop_ns(a->machine, a->ranks[i], a->ranks[k], bytes));
    }
    return longest;
}

/* The slowest message between any two ranks. */
static double farthest_ns(const algorithm *a, double bytes) {
    double longest = 0;
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < i; k++)
            longest = fmax(longest, syn__sim_hop_ns(a->machine, a->ranks[i], a->ranks[k], bytes));
    return longest;
}

static double reduce_ns(const algorithm *a, double bytes) {
    return 3 * floor(bytes / a->machine->memory_bytes_per_ns);
}

/* Each rank sends a part to each other rank at the same time. In an all-reduce of only some of the
   ranks, ASTRA-sim reduces twice, unless there are two ranks. */
static double direct_ns(const algorithm *a, int comm_type, double bytes) {
    const double part = floor(bytes / a->n);
    const double sums = a->n > 2 && a->n < a->machine->n_ranks ? 2 : 1;
    switch (comm_type) {
    case SYN__ET_ALL_REDUCE:
        return 2 * farthest_ns(a, part) + sums * reduce_ns(a, part) + 3 * a->endpoint_ns;
    case SYN__ET_ALL_GATHER:
        return farthest_ns(a, bytes) + 2 * a->endpoint_ns;
    case SYN__ET_ALL_TO_ALL:
        return farthest_ns(a, part) + 2 * a->endpoint_ns;
    default:
        return farthest_ns(a, part) + reduce_ns(a, part) + 2 * a->endpoint_ns;
    }
}

/* A reduce-scatter: pairs exchange 1/2, 1/4, ... of the data. ASTRA-sim reduces half of what was
   received, except in the last round. Without the first endpoint delay. */
static double halving_ns(const algorithm *a, double bytes) {
    double ns = 0;
    for (uint32_t parts = 2; parts <= a->n; parts *= 2) {
        ns += exchange_ns(a, a->n / parts, floor(bytes / parts)) + a->endpoint_ns;
        if (parts < a->n) ns += reduce_ns(a, bytes / (2.0 * parts));
    }
    return ns;
}

/* An all-gather: pairs exchange 1, 2, 4, ... shards. The same. */
static double growing_ns(const algorithm *a, double bytes) {
    double ns = 0;
    for (uint32_t distance = 1; distance < a->n; distance *= 2)
        ns += exchange_ns(a, distance, bytes * distance) + a->endpoint_ns;
    return ns;
}

/* All data in each round. */
static double doubling_ns(const algorithm *a, double bytes) {
    double ns = 0;
    for (uint32_t distance = 1; distance < a->n; distance *= 2)
        ns += exchange_ns(a, distance, bytes) + a->endpoint_ns + reduce_ns(a, bytes);
    return ns;
}

/* A binomial tree: rank r has the parent r - (lowest bit of r). Receives overlap. */
static double tree_up_ns(const algorithm *a, uint32_t rank, double bytes) {
    double ns = 0;
    for (uint32_t at = rank, bit; at != 0; at -= bit) {
        bit = at & (0 - at);
        ns += syn__sim_hop_ns(a->machine, a->ranks[at], a->ranks[at - bit], bytes) +
              a->endpoint_ns + reduce_ns(a, bytes);
    }
    return ns;
}

/* A parent sends to one child after the other, the largest subtree first. */
static double tree_down_ns(const algorithm *a, uint32_t rank, double bytes) {
    double ns = 0;
    for (uint32_t at = rank, bit; at != 0; at -= bit) {
        bit = at & (0 - at);
        const uint32_t parent = at - bit;
        for (uint32_t i = bit; parent + i < a->n && (parent == 0 || i < (parent & (0 - parent)));
             i *= 2)
            ns += syn__sim_hop_ns(a->machine, a->ranks[parent], a->ranks[parent + i], bytes);
        ns += a->endpoint_ns;
    }
    return ns;
}

static double tree_ns(const algorithm *a, double bytes) {
    double up = 0, down = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        up = fmax(up, tree_up_ns(a, i, bytes));
        down = fmax(down, tree_down_ns(a, i, bytes));
    }
    return up + down;
}

bool syn__sim_has_algorithm(const syn__sim_machine *machine, int comm_type, uint32_t n_ranks) {
    const bool is_power = (n_ranks & (n_ranks - 1)) == 0;
    switch (machine->algorithms[comm_type]) {
    case SYN_ALGORITHM_DIRECT:
    case SYN_ALGORITHM_TREE:
        return n_ranks > 1;
    case SYN_ALGORITHM_DOUBLING:
    case SYN_ALGORITHM_HALVING_DOUBLING:
        return n_ranks > 1 && is_power;
    default:
        return false;
    }
}

double syn__sim_algorithm_ns(const syn__sim_machine *machine, const int32_t *ranks,
                             uint32_t n_ranks, int comm_type, double bytes, double endpoint_ns) {
    const algorithm a = {machine, ranks, n_ranks, endpoint_ns};
    const syn_algorithm which = machine->algorithms[comm_type];
    if (which == SYN_ALGORITHM_DIRECT) return direct_ns(&a, comm_type, bytes);
    switch (comm_type) {
    case SYN__ET_ALL_REDUCE:
        if (which == SYN_ALGORITHM_HALVING_DOUBLING)
            return halving_ns(&a, bytes) + growing_ns(&a, floor(bytes / n_ranks)) + endpoint_ns;
        return (which == SYN_ALGORITHM_TREE ? tree_ns(&a, bytes) : doubling_ns(&a, bytes)) +
               endpoint_ns;
    case SYN__ET_ALL_GATHER:
        return growing_ns(&a, bytes) + endpoint_ns;
    default:
        return halving_ns(&a, bytes) + endpoint_ns;
    }
}

/* ---- Choices ---- */

static const char *const names[] = {[SYN_ALGORITHM_RING] = "ring",
                                    [SYN_ALGORITHM_DIRECT] = "direct",
                                    [SYN_ALGORITHM_HALVING_DOUBLING] = "halvingDoubling",
                                    [SYN_ALGORITHM_DOUBLING] = "doubling",
                                    [SYN_ALGORITHM_TREE] = "tree"};

/* Whether the algorithm exists for the kind. */
static bool is_known(syn_algorithm which, int comm_type) {
    switch (comm_type) {
    case SYN__ET_ALL_REDUCE:
        return true;
    case SYN__ET_ALL_GATHER:
    case SYN__ET_REDUCE_SCATTER:
        return which != SYN_ALGORITHM_TREE;
    case SYN__ET_ALL_TO_ALL:
        return which == SYN_ALGORITHM_RING || which == SYN_ALGORITHM_DIRECT;
    default:
        return false;
    }
}

syn_status syn__sim_choose_algorithms(syn__sim_machine *machine,
                                      const syn_collective_algorithm *chosen, size_t n,
                                      syn_error *err) {
    for (size_t i = 0; i < n; i++) {
        int type = 0;
        while (type < SYN__SIM_COMM_TYPES &&
               (syn__et_collective_name(type) == NULL ||
                strcmp(syn__et_collective_name(type), chosen[i].kind)))
            type++;
        if (type == SYN__SIM_COMM_TYPES || !is_known(chosen[i].algorithm, type))
            return SYN_FAIL(err, SYN_E_INVALID,
                            "%.40s has no algorithm '%s': ALL_REDUCE has ring, direct, "
                            "halvingDoubling, doubling and tree; ALL_GATHER and REDUCE_SCATTER "
                            "have all of these but tree; ALL_TO_ALL has ring and direct",
                            chosen[i].kind, names[chosen[i].algorithm]);
        machine->algorithms[type] = chosen[i].algorithm;
    }
    return SYN_OK;
}

uint64_t syn__sim_chosen(const syn__sim_set *set, const syn_collective_algorithm *chosen,
                         size_t n) {
    uint64_t types = 0, out = 0;
    for (size_t i = 0; i < set->n_programs; i++) {
        const syn__sim_program *p = &set->programs[i];
        for (const syn__sim_call *c = p->calls; c < p->calls + p->n_calls; c++)
            if (p->kinds[c->node] == SYN__SIM_COLLECTIVE) types |= (uint64_t)1 << c->comm_type;
    }
    for (size_t i = 0; i < n; i++)
        for (int type = 0; type < SYN__SIM_COMM_TYPES; type++) {
            const char *name = syn__et_collective_name(type);
            if ((types >> type & 1) != 0 && name != NULL && strcmp(name, chosen[i].kind) == 0)
                out |= (uint64_t)1 << i;
        }
    return out;
}

bool syn_algorithm_named(const char *name, syn_algorithm *out) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (syn_algorithm)i;
            return true;
        }
    return false;
}
