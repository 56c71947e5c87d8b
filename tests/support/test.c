/* Implements test.h: runs the cases, counts failures and skips, and injects failed allocations. */
#include "tests/support/test.h"

#include "syntorch/base/memory.h"
#include "tests/support/files.h"

int test_failures, test_skips;

int test_run(const test_case *cases, size_t n, int argc, char **argv) {
    size_t ran = 0;
    for (size_t i = 0; i < n; i++) {
        if (argc > 1 && strstr(cases[i].name, argv[1]) == NULL) continue;
        const int failed = test_failures, said = test_skips;
        clear_folder();
        cases[i].run();
        ran++;
        test_skips = said + (test_skips > said);
        if (test_failures != failed) fprintf(stderr, "FAILED %s\n", cases[i].name);
    }
    printf("%zu cases, %d failed, %d skipped\n", ran, test_failures, test_skips);
    if (test_failures != 0 || ran == 0) return 1;
    return test_skips == (int)ran ? 77 : 0; /* if every case was skipped, ctest reports a skip */
}

uint64_t test_without_memory(syn_status (*step)(void *arg, syn_error *err), void *arg) {
    for (uint64_t n = 0; n < 100000; n++) {
        syn_error err = {0};
        syn_memory_fail_after(n);
        const syn_status status = step(arg, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (status == SYN_OK) return n;
        if (status == SYN_E_NOMEM && status == err.code && strstr(err.text, "memory") != NULL)
            continue;
        fprintf(stderr, "allocation %d fails: status %d, \"%s\"\n", (int)n, (int)status, err.text);
        return 0;
    }
    fputs("it needs more than 100000 allocations\n", stderr);
    return 0;
}
