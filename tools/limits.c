/* Adds up predicted times by phase and by limit, and formats their shares. */
#include "tools/limits.h"

#include <stdio.h>

static const char *const names[LIMITS_SHARES] = {"compute", "memory", "launch overhead",
                                                 "communication", "bubble"};
static const char *const keys[LIMITS_SHARES] = {"compute", "memory", "launches", "communication",
                                                "bubble"}; /* in JSON */

const char *limits_name(int limit) {
    return names[limit];
}

void limits_add(limits *l, const syn_hardware *hw, const syn_graph *graph, uint32_t rank,
                const syn_node *node) {
    const syn_graph_group *group = node->group ? syn_graph_group_by_id(graph, node->group) : NULL;
    double parts[SYN_LIMIT_COUNT];
    const double ns = syn_hardware_predict_parts(hw, node, group, graph->ranks[rank].rank, parts);
    extrapolation_add(&l->extrapolated, hw, node, group, ns);
    for (int i = 0; i < SYN_LIMIT_COUNT; i++) l->ns[node->phase][i] += parts[i];
    const bool counts =
        node->category == SYN_CATEGORY_MATMUL || node->category == SYN_CATEGORY_ATTENTION;
    if (counts && node->phase != SYN_PHASE_RECOMPUTE)
        l->at_peak_ns[node->phase] += (double)node->flops / syn_hardware_peak(hw, node);
}

bool limits_shares(const limits *l, uint32_t phases, double wall_ns, double shares[LIMITS_SHARES],
                   double *utilisation) {
    const int stages = l->stages > 0 ? l->stages : 1;
    double others = 0;
    *utilisation = 0;
    for (int i = 0; i < LIMITS_SHARES; i++) shares[i] = 0;
    if (!(wall_ns > 0)) return false;
    wall_ns *= stages; /* of all stages' ranks */
    for (int phase = 0; phase < SYN_PHASE_COUNT; phase++) {
        if (!(phases >> phase & 1)) continue;
        *utilisation += l->at_peak_ns[phase] / wall_ns;
        for (int i = 0; i < SYN_LIMIT_COMMUNICATION; i++) {
            shares[i] += l->ns[phase][i] / wall_ns;
            others += l->ns[phase][i] / wall_ns;
        }
    }
    shares[LIMITS_BUBBLE] = 1 - 1.0 / stages;
    const double busy = others + shares[LIMITS_BUBBLE];
    shares[SYN_LIMIT_COMMUNICATION] = busy < 1 ? 1 - busy : 0;
    return true;
}

/* Converts shares to whole percentages that add up to 100. Rounds down first, then adds the missing
   percentage points to the shares that lost most. */
static void whole(const double shares[LIMITS_SHARES], int out[LIMITS_SHARES]) {
    double lost[LIMITS_SHARES];
    int left = 100;
    for (int i = 0; i < LIMITS_SHARES; i++) {
        out[i] = (int)(100 * shares[i]);
        lost[i] = 100 * shares[i] - out[i];
        left -= out[i];
    }
    for (; left > 0; left--) {
        int most = 0;
        for (int i = 1; i < LIMITS_SHARES; i++)
            if (lost[i] > lost[most]) most = i;
        out[most]++;
        lost[most] = -1;
    }
}

static int n_shown(const double shares[LIMITS_SHARES]) {
    return shares[LIMITS_BUBBLE] > 0 ? LIMITS_SHARES : SYN_LIMIT_COUNT;
}

const char *limits_shares_text(const double shares[LIMITS_SHARES], double utilisation, char *buf,
                               size_t bytes) {
    size_t at = 0;
    int percent[LIMITS_SHARES];
    whole(shares, percent);
    for (int i = 0; i < n_shown(shares) && at < bytes; i++)
        at += (size_t)snprintf(buf + at, bytes - at, "%s%d%% %s", i ? ", " : "", percent[i],
                               names[i]);
    if (at < bytes) snprintf(buf + at, bytes - at, "; %.0f%% MFU", 100 * utilisation);
    return buf;
}

const char *limits_text(const limits *l, uint32_t phases, double wall_ns, char *buf, size_t bytes) {
    double shares[LIMITS_SHARES], used;
    if (!limits_shares(l, phases, wall_ns, shares, &used)) return "unknown";
    return limits_shares_text(shares, used, buf, bytes);
}

void limits_shares_json(const double shares[LIMITS_SHARES], double utilisation, syn_sink *out) {
    for (int i = 0; i < n_shown(shares); i++) {
        syn_sink_printf(out, "%s\"%s\": ", i ? ", " : "{", keys[i]);
        syn_sink_double(out, shares[i]);
    }
    syn_sink_text(out, ", \"utilisation\": ");
    syn_sink_double(out, utilisation);
    syn_sink_char(out, '}');
}

void limits_json(const limits *l, uint32_t phases, double wall_ns, syn_sink *out) {
    double shares[LIMITS_SHARES], used;
    limits_shares(l, phases, wall_ns, shares, &used);
    limits_shares_json(shares, used, out);
}
