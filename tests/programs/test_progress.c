/* Tests progress output on a terminal and elsewhere. The test sets the start time back, so that it
   need not wait. */
#include "tests/support/test.h"
#include "tools/progress.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text that one step writes to standard error if the work began a minute ago. */
static const char *shown(progress *p, bool on_terminal, int64_t done, int64_t of) {
    static char text[400];
    FILE *file = tmpfile();
    const int kept = dup(STDERR_FILENO);
    NEED(file && kept >= 0, "no file");
    fflush(stderr);
    NEED(dup2(fileno(file), STDERR_FILENO) >= 0, "no file");
    progress_step(p, 0, of);
    p->on_terminal = on_terminal;
    p->start_s -= 60;
    p->shown_s -= 60;
    progress_step(p, done, of);
    fflush(stderr);
    NEED(dup2(kept, STDERR_FILENO) >= 0, "no file");
    close(kept);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static const int64_t GIB = (int64_t)1 << 30;

static void units(void) {
    progress p = {.what = "generating", .unit = "tokens"};
    CHECK_STR(shown(&p, false, 30, 120),
              "generating: 30 of 120 tokens, 0.5 tokens/s, about 3:00 left\n");
    p = (progress){.what = "generating", .unit = "tokens"};
    const char *line = shown(&p, true, 30, 120);
    CHECK_HAS(line, "generating");
    CHECK_HAS(line, "30/120 tokens");
    CHECK_HAS(line, "3:00 left");
}

static void bytes(void) {
    progress p = {.what = "loading weights"};
    CHECK_STR(shown(&p, false, 3 * GIB, 12 * GIB),
              "loading weights: 3.00 GiB of 12.0 GiB, 51.2 MiB/s, about 3:00 left\n");
    p = (progress){.what = "loading weights", .terminal_only = true};
    CHECK_STR(shown(&p, false, 3 * GIB, 12 * GIB), "");
    p = (progress){.what = "loading weights", .terminal_only = true};
    const char *line = shown(&p, true, 3 * GIB, 12 * GIB);
    CHECK_HAS(line, "3.00 GiB/12.0 GiB");
    CHECK(!strchr(line, '\n'));
}

static void nothing_early_or_quiet(void) {
    progress p = {.what = "loading weights", .quiet = true};
    CHECK_STR(shown(&p, true, 3, 12), "");
    progress_step(&p, 1, 2);
    p = (progress){.what = "loading weights"};
    progress_step(&p, 0, 2); /* the work has just begun */
    p.on_terminal = true;
    progress_step(&p, 1, 2);
    CHECK_INT(p.line.filled, 0);
}

static const test_case cases[] = {
    {"units", units},
    {"bytes", bytes},
    {"nothing_early_or_quiet", nothing_early_or_quiet},
};

TEST_MAIN(cases)
