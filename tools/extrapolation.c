/* Collects the ops outside the fitted ranges, grouped by kind of op and range, and formats them as
   text and JSON. */
#include "tools/extrapolation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"

#define MIN_SHARE 0.01

enum { TEXT_BYTES = 1024 };

static double off(const syn_hw_extrapolation *b) {
    if (b->fitted.most <= 0) return 0;
    return fabs(log(b->value / (b->value > b->fitted.most ? b->fitted.most : b->fitted.least)));
}

static void add(extrapolation *e, const syn_hw_extrapolation *b, double ns, bool measured) {
    int i = 0;
    while (i < e->n &&
           (e->at[i].worst.extent != b->extent || strcmp(e->at[i].worst.what, b->what) != 0))
        i++;
    if (i == EXTRAPOLATION_MAX) return;
    if (i == e->n) e->at[e->n++] = (struct extrapolated){*b, 0, measured};
    e->at[i].ns += ns;
    if (off(b) > off(&e->at[i].worst)) e->at[i].worst = *b;
}

void extrapolation_add(extrapolation *e, const syn_hardware *hw, const syn_node *node,
                       const syn_graph_group *group, double ns) {
    syn_hw_extrapolation extrapolated[SYN_HW_EXTENTS];
    const bool measured = hw->alone.ranks > 0 && node->kind == SYN_NODE_COMPUTE;
    const int n = syn_hardware_extrapolated(hw, node, group, extrapolated);
    e->ns += ns;
    for (int i = 0; i < n; i++) add(e, &extrapolated[i], ns, measured);
}

static bool is_reported(const extrapolation *e, const struct extrapolated *x) {
    const bool structure =
        x->worst.extent == SYN_HW_EXTENT_RANKS || x->worst.extent == SYN_HW_EXTENT_NODES;
    return structure || x->ns >= MIN_SHARE * e->ns;
}

void extrapolation_merge(extrapolation *e, const extrapolation *from) {
    for (int i = 0; i < from->n; i++)
        if (is_reported(from, &from->at[i]))
            add(e, &from->at[i].worst, from->at[i].ns, from->at[i].measured);
}

static const char *amount(syn_hw_extent extent, double value, char *buf, size_t bytes) {
    if (extent == SYN_HW_EXTENT_BYTES) return cli_bytes_text(value, buf, bytes);
    snprintf(buf, bytes, "%.0f", value);
    return buf;
}

static const char *one_text(const struct extrapolated *x, char *buf, size_t bytes) {
    static const char *const before[SYN_HW_EXTENTS] = {"over ", "over ",         "of ", "with ",
                                                       "with ", "with sums of ", "of ", "of "};
    static const char *const behind[SYN_HW_EXTENTS] = {" ranks",   " nodes", "",         " rows",
                                                       " columns", " terms", " queries", " keys"};
    const syn_hw_extrapolation *b = &x->worst;
    char what[32], a[32], least[32], most[32];
    snprintf(what, sizeof what, "%s", b->what);
    for (char *c = what; *c; c++)
        if (*c == '_') *c = '-';
    if (b->extent == SYN_HW_EXTENTS) snprintf(buf, bytes, "%s (not fitted)", what);
    else
        snprintf(buf, bytes, "%s %s%s%s (%s for %s to %s)", what, before[b->extent],
                 amount(b->extent, b->value, a, sizeof a), behind[b->extent],
                 x->measured ? "measured" : "fitted",
                 amount(b->extent, b->fitted.least, least, sizeof least),
                 amount(b->extent, b->fitted.most, most, sizeof most));
    return buf;
}

const char *extrapolation_text(const extrapolation *e, char *buf, size_t bytes) {
    char one[200];
    size_t used = 0;
    buf[0] = '\0';
    for (int i = 0; i < e->n && used < bytes; i++)
        if (is_reported(e, &e->at[i]))
            used += (size_t)snprintf(buf + used, bytes - used, "%s%s", used ? ", " : "",
                                     one_text(&e->at[i], one, sizeof one));
    return buf;
}

void extrapolation_json(const extrapolation *e, syn_sink *out) {
    char one[200];
    const char *before = "[";
    for (int i = 0; i < e->n; i++) {
        if (!is_reported(e, &e->at[i])) continue;
        syn_sink_text(out, before);
        syn_sink_json_string(out, one_text(&e->at[i], one, sizeof one));
        before = ", ";
    }
    syn_sink_text(out, *before == '[' ? "[]" : "]");
}

void extrapolation_print(const extrapolation *e, FILE *out) {
    char text[TEXT_BYTES];
    if (*extrapolation_text(e, text, sizeof text)) fprintf(out, "extrapolated: %s\n", text);
}
