/* The tests' own few macros. A test program is a list of functions run by TEST_MAIN; a failed CHECK
   prints where and what, ends that function and makes the program exit 1. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct test_case {
    const char *name;
    void (*run)(void);
} test_case;

static int test_failures;
static int test_skips;

#define CHECK_MSG(cond, ...)                                                   \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s: ", __FILE__, __LINE__, #cond); \
            fprintf(stderr, __VA_ARGS__);                                      \
            fputc('\n', stderr);                                               \
            test_failures++;                                                   \
            return;                                                            \
        }                                                                      \
    } while (0)
#define CHECK(cond) CHECK_MSG(cond, "expected to hold")
#define CHECK_INT(got, want)                                                                  \
    CHECK_MSG((long long)(got) == (long long)(want), "got %lld, want %lld", (long long)(got), \
              (long long)(want))
#define CHECK_STR(got, want) \
    CHECK_MSG(strcmp((got), (want)) == 0, "got \"%s\", want \"%s\"", (got), (want))
#define CHECK_HAS(text, part) \
    CHECK_MSG(strstr((text), (part)) != NULL, "\"%s\" lacks \"%s\"", (text), (part))
/* A syn_status call that must succeed; `error` is the syn_error it was given. */
#define CHECK_OK(call, error)                                            \
    do {                                                                 \
        int check_s = (int)(call);                                       \
        CHECK_MSG(check_s == 0, "status %d: %s", check_s, (error).text); \
    } while (0)
#define CHECK_NEAR(got, want, tol)                                                                 \
    CHECK_MSG(fabs((double)(got) - (double)(want)) <= (tol), "got %.9g, want %.9g", (double)(got), \
              (double)(want))
/* Says that the current test could not run here, and why; ends it. */
#define SKIP(why)                                \
    do {                                         \
        fprintf(stderr, "skipped: %s\n", (why)); \
        test_skips++;                            \
        return;                                  \
    } while (0)

/* Runs all cases, or those whose name contains argv[1]. */
static int test_run(const test_case *cases, size_t n, int argc, char **argv) {
    size_t ran = 0;
    for (size_t i = 0; i < n; i++) {
        if (argc > 1 && strstr(cases[i].name, argv[1]) == NULL) continue;
        const int before = test_failures;
        cases[i].run();
        ran++;
        if (test_failures != before) fprintf(stderr, "FAILED %s\n", cases[i].name);
    }
    printf("%zu cases, %d failed, %d skipped\n", ran, test_failures, test_skips);
    if (test_failures != 0 || ran == 0) return 1;
    return test_skips == (int)ran ? 77 : 0; /* nothing could run here: ctest shows it as skipped */
}

#define TEST_MAIN(cases)                                                          \
    int main(int argc, char **argv) {                                             \
        return test_run((cases), sizeof(cases) / sizeof((cases)[0]), argc, argv); \
    }
#endif
