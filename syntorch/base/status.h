/* Status codes and error messages. Every function that can fail returns a syn_status. The first
   failure is stored in a syn_error, as one full sentence that tells a user what to do. */
#ifndef SYNTORCH_STATUS_H
#define SYNTORCH_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SYN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SYN_MUST_USE          __attribute__((warn_unused_result))
#define SYN__EXPORT_BEGIN     _Pragma("GCC visibility push(default)")
#define SYN__EXPORT_END       _Pragma("GCC visibility pop")
#else
#define SYN_PRINTF(fmt, args)
#define SYN_MUST_USE
#define SYN__EXPORT_BEGIN
#define SYN__EXPORT_END
#endif

/* Enclose the declarations of a public header. A shared library exports only these. Headers with
   these lines are public and are installed (cmake/SynHeaders.cmake). */
#ifdef __cplusplus
#define SYN_API_BEGIN SYN__EXPORT_BEGIN extern "C" {
#define SYN_API_END \
    }               \
    SYN__EXPORT_END
#else
#define SYN_API_BEGIN SYN__EXPORT_BEGIN
#define SYN_API_END   SYN__EXPORT_END
#endif

/* A struct literal that works in C and C++: SYN_LITERAL(syn_tensor){0, 0}. */
#ifdef __cplusplus
#define SYN_LITERAL(type) type
#else
#define SYN_LITERAL(type) (type)
#endif

SYN_API_BEGIN

/* This list defines the enum and the names. */
#define SYN_STATUS_LIST(X)           \
    X(OK, "ok")                      \
    X(E_NOMEM, "out of memory")      \
    X(E_INVALID, "invalid argument") \
    X(E_SHAPE, "shape mismatch")     \
    X(E_IO, "input/output error")    \
    X(E_FORMAT, "malformed input")   \
    X(E_COMM, "communication error") \
    X(E_UNSUPPORTED, "not supported")

typedef enum syn_status {
#define SYN_X(id, text) SYN_##id,
    SYN_STATUS_LIST(SYN_X)
#undef SYN_X
} syn_status;

#define SYN_ERROR_TEXT 512 /* size of an error message in bytes, including the NUL */

/* The first failure: its code, its sentence, and the source line that reported it. */
typedef struct syn_error {
    syn_status code;
    char text[SYN_ERROR_TEXT]; /* NUL-terminated; UTF-8 if its arguments were; a longer message is
                                  cut and ends with "..." */
    const char *file;
    int line;
} syn_error;

/* Short name of a code ("out of memory"); never NULL. */
const char *syn_status_name(syn_status code);

/* Stores the code and the error message in *err, unless err is NULL or *err already holds a
   failure. Returns the code, so that callers can write `return SYN_FAIL(err, SYN_E_IO, "...")`. */
syn_status syn__fail(syn_error *err, const char *file, int line, syn_status code, const char *fmt,
                     ...) SYN_PRINTF(5, 6);
#define SYN_FAIL(err, code, ...) syn__fail((err), __FILE__, __LINE__, (code), __VA_ARGS__)

/* Fails because `bytes` bytes for `what` could not be allocated. */
#define SYN_FAIL_NOMEM(err, bytes, what) \
    SYN_FAIL((err), SYN_E_NOMEM, "out of memory: %zu bytes for %s", (size_t)(bytes), (what))

/* Returns from the calling function if expr fails. */
#define SYN_TRY(expr)                        \
    do {                                     \
        const syn_status syn__s = (expr);    \
        if (syn__s != SYN_OK) return syn__s; \
    } while (0)

SYN_API_END
#endif
