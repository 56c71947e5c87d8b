/* The option --slo; see serving_options.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serving/serving_options.h"

/* Reads a time such as "500ms" or "2s" in front of a comma or the end. Returns what follows; NULL:
   the text is no time. */
static const char *read_time(const char *text, double *ns) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"s", 1e9}};
    char *end;
    const double value = strtod(text, &end);
    if (end == text || !(value > 0) || !isfinite(value)) return NULL;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t n = strlen(units[i].unit);
        if (strncmp(end, units[i].unit, n) != 0 || (end[n] != ',' && end[n] != '\0')) continue;
        *ns = value * units[i].ns;
        return end[n] == ',' ? end + n + 1 : end + n;
    }
    return NULL;
}

int serving_read_slo(const cli_program *program, const char *text, serving_slo *out) {
    const char *at = *text ? text : NULL;
    *out = (serving_slo){0, 0, 0};
    while (at && *at) {
        double *const value = strncmp(at, "ttft=", 5) == 0      ? &out->ttft_ns
                              : strncmp(at, "tpot=", 5) == 0    ? &out->tpot_ns
                              : strncmp(at, "latency=", 8) == 0 ? &out->latency_ns
                                                                : NULL;
        at = value && *value <= 0 ? read_time(strchr(at, '=') + 1, value) : NULL;
    }
    return at ? CLI_RUN
              : cli_fail(program, CLI_USAGE,
                         "--slo must be like ttft=500ms,tpot=40ms,latency=20s, not '%s'", text);
}
