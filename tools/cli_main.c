/* Starts and ends every program: provides a large enough stack and valid standard descriptors, and
   detects lost output. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "syntorch/base/thread.h"
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

/* Opens /dev/null on each of the descriptors 0 to 2 that is closed. Otherwise the next opened file
   would get that descriptor, and printed text would go to that file. /dev/null is opened for
   writing as standard input and for reading as the other two, so that reading or printing fails and
   check_output reports it. */
static void fill_standard(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* Returns CLI_FAILED if printed text was lost, because the disk is full or the output is closed.
   Flushes standard output first, since text may still be buffered. */
static int check_output(const char *name, int code) {
    errno = 0;
    const bool flushed = fflush(stdout) == 0;
    const int why = errno;
    if (flushed && !ferror(stdout)) return ferror(stderr) && code == CLI_OK ? CLI_FAILED : code;
    if (code != CLI_OK) return code;
    fprintf(stderr, "%s: cannot write to standard output%s%s\n", name, flushed ? "" : ": ",
            flushed        ? ""
            : why == EBADF ? "it is closed"
                           : strerror(why));
    return CLI_FAILED;
}

int cli_main(const char *name, int (*body)(int argc, char **argv), int argc, char **argv) {
    struct call call = {body, argc, argv, CLI_FAILED};
    pthread_t thread;
    /* Writing past `ulimit -f` then returns an error instead of killing the process. */
    signal(SIGXFSZ, SIG_IGN);
    fill_standard();
    if (!syn__stack_is_small()) {
        run(&call);
    } else if (syn__thread_start(&thread, run, &call) == 0) {
        pthread_join(thread, NULL);
    } else {
        fprintf(stderr, "%s: the system cannot start a thread\n", name);
    }
    return check_output(name, call.code);
}
