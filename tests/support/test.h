/* The test framework. A test program is a list of functions, which TEST_MAIN runs. A failed CHECK
   prints its location and condition, returns from the function, and makes the program exit with
   1. */
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
/* Checks a call that returns a syn_status and must succeed. `error` is the syn_error that was
   passed to the call. */
#define CHECK_OK(call, error)                                            \
    do {                                                                 \
        int check_s = (int)(call);                                       \
        CHECK_MSG(check_s == 0, "status %d: %s", check_s, (error).text); \
    } while (0)
#define CHECK_NEAR(got, want, tol)                                                                 \
    CHECK_MSG(fabs((double)(got) - (double)(want)) <= (tol), "got %.9g, want %.9g", (double)(got), \
              (double)(want))
/* For helpers that return a value: if the condition is false, prints the sentence and ends the
   program. */
#define NEED(condition, sentence)                                                       \
    do {                                                                                \
        if (condition) break;                                                           \
        fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, (sentence)); \
        exit(1);                                                                        \
    } while (0)
#define NEED_OK(call, error) NEED((call) == SYN_OK, (error).text)
/* Prints why the current test cannot run on this machine, and returns from the test. */
#define SKIP(why)                                \
    do {                                         \
        fprintf(stderr, "skipped: %s\n", (why)); \
        test_skips++;                            \
        return;                                  \
    } while (0)

/* True in builds that run the test suite a second time (tests/project/variant.sh). Sanitizers make
   tests ten times slower. They find memory errors and races, for which fewer samples are enough
   than for a result that is wrong in one of a million samples. */
#ifdef NDEBUG
#define TEST_REDUCED false
#else
#define TEST_REDUCED true
#endif
/* The number of rounds to run, out of n similar ones. */
#define TEST_ROUNDS(n) (TEST_REDUCED ? ((n) + 7) / 8 : (n))

/* Runs all cases, or only those whose name contains argv[1]. Each case gets an empty folder
   (files.h). Returns the exit code. */
int test_run(const test_case *cases, size_t n, int argc, char **argv);

#define TEST_MAIN(cases)                                  \
    int main(int argc, char **argv) {                     \
        return test_run(cases, COUNT(cases), argc, argv); \
    }

/* Calls step(arg, &err) repeatedly, with its first, second, ... allocation failing, until the call
   succeeds. Returns the number of failed calls. Each of them must return SYN_E_NOMEM with a message
   about memory. If one does not, or if the step never succeeds, prints a message and returns 0. */
uint64_t test_without_memory(syn_status (*step)(void *arg, syn_error *err), void *arg);

#ifdef __cplusplus
}
#endif
#endif
