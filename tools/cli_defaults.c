/* Resets the options of a program to their defaults, so that a process can run it several times.
   The defaults are the values of the options before they are parsed for the first time. */
#include <pthread.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/cli.h"

/* The default values of one option table, kept until the process ends. */
typedef struct defaults {
    struct defaults *next;
    const cli_option *options;
    unsigned char values[]; /* of all options, one after the other */
} defaults;

static defaults *first;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static size_t value_bytes(const cli_option *o) {
    switch (o->kind) {
    case CLI_HEADING:
    case CLI_ALIAS:
        return 0;
    case CLI_FLAG:
        return sizeof(bool);
    case CLI_TEXT:
        return sizeof(const char *);
    case CLI_TEXTS:
        return sizeof(cli_texts);
    case CLI_CHOICE:
        return sizeof(int);
    case CLI_INT:
        return sizeof(int64_t);
    case CLI_MIB:
        return sizeof(uint64_t);
    case CLI_REAL:
        return sizeof(double);
    }
    return 0;
}

static void copy(defaults *d, bool restore) {
    size_t at = 0;
    for (const cli_option *o = d->options; o->name; o++) {
        const size_t bytes = value_bytes(o);
        if (bytes > 0)
            memcpy(restore ? o->value : d->values + at, restore ? d->values + at : o->value, bytes);
        at += bytes;
    }
}

static bool restore(const cli_option *options) {
    for (defaults *d = first; d; d = d->next)
        if (d->options == options) {
            copy(d, true);
            return true;
        }
    return false;
}

static bool keep(const cli_option *options) {
    size_t bytes = 0;
    for (const cli_option *o = options; o->name; o++) bytes += value_bytes(o);
    defaults *d = syn_malloc(sizeof *d + bytes);
    if (!d) return false;
    d->next = first;
    d->options = options;
    copy(d, false);
    first = d;
    return true;
}

bool cli_restore_defaults(const cli_option *options) {
    pthread_mutex_lock(&mutex);
    const bool done = restore(options) || keep(options);
    pthread_mutex_unlock(&mutex);
    return done;
}
