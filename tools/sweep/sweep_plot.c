/* Logarithmic axes and texts of the pictures of sweeps; see sweep_plot.h. */
#include "tools/sweep/sweep_plot.h"

#include <math.h>

const char *const sweep_colors[SWEEP_COLORS] = {"#4f7aa8", "#e08a2e", "#4c9f70",
                                                "#8d6cab", "#b0863c", "#7a7f87"};

void sweep_widen(sweep_scale *a, double value) {
    a->from = fmin(a->from, log10(value));
    a->to = fmax(a->to, log10(value));
}

void sweep_settle(sweep_scale *a) {
    const double margin = fmax(0.06 * (a->to - a->from), (0.5 - (a->to - a->from)) / 2);
    a->from -= margin;
    a->to += margin;
}

double sweep_position(const sweep_scale *a, double value) {
    return (log10(value) - a->from) / (a->to - a->from);
}

enum { STEPS = 6 };

int sweep_first_tick(const sweep_scale *a) {
    return STEPS * (int)floor(a->from);
}

bool sweep_next_tick(const sweep_scale *a, int *at, double *value) {
    static const double steps[STEPS] = {1, 1.5, 2, 3, 5, 7};
    const bool few = a->to - a->from > 3, many = a->dense && a->to - a->from < 1;
    for (;; ++*at) {
        const int decade = *at >= 0 ? *at / STEPS : -((STEPS - 1 - *at) / STEPS);
        const int step = *at - STEPS * decade;
        const double log = decade + log10(steps[step]);
        if (log > a->to) return false;
        if (log < a->from || (few && step != 0) || (step % 2 == 1 && !many)) continue;
        *value = steps[step] * pow(10, decade);
        ++*at;
        return true;
    }
}

const char *sweep_tick_time(double ns, char buf[32]) {
    static const char *const units[] = {"ns", "\xC2\xB5s", "ms", "s"};
    int u = 0;
    for (; u < 3 && ns >= 999.5; u++) ns /= 1000;
    snprintf(buf, 32, "%g %s", ns, units[u]);
    return buf;
}

void sweep_text_at(syn_sink *svg, double x, double y, const char *how, const char *text) {
    syn_sink_printf(svg, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, how);
    syn_sink_xml_text(svg, text);
    syn_sink_text(svg, "</text>\n");
}
