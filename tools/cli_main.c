/* How every program begins and ends. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/thread.h"
#include "tools/cli.h"

struct call {
    int (*body)(int argc, char **argv);
    int argc;
    char **argv;
    int code;
};

static void *run(void *arg) {
    struct call *call = arg;
    call->code = call->body(call->argc, call->argv);
    return NULL;
}

/* What was printed may still wait in the buffer, and an earlier write may have failed: on a full
   disk, or where the output was closed. */
static int check_output(const char *name, int code) {
    errno = 0;
    const bool flushed = fflush(stdout) == 0;
    if ((flushed && !ferror(stdout)) || code != CLI_OK) return code;
    fprintf(stderr, "%s: cannot write to standard output%s%s\n", name, flushed ? "" : ": ",
            flushed ? "" : strerror(errno));
    return CLI_FAILED;
}

int cli_main(const char *name, int (*body)(int argc, char **argv), int argc, char **argv) {
    struct call call = {body, argc, argv, CLI_FAILED};
    pthread_t thread;
    if (!syn__stack_is_small()) {
        run(&call);
    } else if (syn__thread_start(&thread, run, &call) == 0) {
        pthread_join(thread, NULL);
    } else {
        fprintf(stderr, "%s: the system cannot start a thread\n", name);
    }
    return check_output(name, call.code);
}
