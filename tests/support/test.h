/* The tests' own few macros. A test program is a list of functions run by TEST_MAIN; a failed CHECK
   prints where and what, ends that function and makes the program exit 1. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct test_case {
    const char *name;
    void (*run)(void);
} test_case;

extern int test_failures, test_skips;

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
/* For helpers that return something: a failure ends the program, with the error's sentence. */
#define NEED(condition, sentence)                                                       \
    do {                                                                                \
        if (condition) break;                                                           \
        fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, (sentence)); \
        exit(1);                                                                        \
    } while (0)
#define NEED_OK(call, error) NEED((call) == SYN_OK, (error).text)
/* Says that the current test could not run here, and why; ends it. */
#define SKIP(why)                                \
    do {                                         \
        fprintf(stderr, "skipped: %s\n", (why)); \
        test_skips++;                            \
        return;                                  \
    } while (0)

/* True in builds that run the suite once more (tests/project/variant.sh): sanitizers take ten times
   as long and look for other faults than a wrong result in one of a million samples. A few of many
   similar samples are enough there. */
#ifdef NDEBUG
#define TEST_REDUCED false
#else
#define TEST_REDUCED true
#endif
/* How many of n similar rounds to run. */
#define TEST_ROUNDS(n) (TEST_REDUCED ? ((n) + 7) / 8 : (n))

/* Runs all cases, or those whose name contains argv[1], each with an empty folder (files.h). */
int test_run(const test_case *cases, size_t n, int argc, char **argv);

#define TEST_MAIN(cases)                                  \
    int main(int argc, char **argv) {                     \
        return test_run(cases, COUNT(cases), argc, argv); \
    }

/* Runs step(arg, &err) with its first, second, ... allocation failing, until it succeeds: how many
   failed. Each has to be SYN_E_NOMEM with a sentence that says so; 0, after a complaint, if one is
   not, or if the step never succeeds. */
uint64_t test_without_memory(syn_status (*step)(void *arg, syn_error *err), void *arg);

#ifdef __cplusplus
}
#endif
#endif
