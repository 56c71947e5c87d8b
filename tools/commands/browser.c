/* See browser.h. Separate because only this file starts other programs. */
#include "tools/commands/browser.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

#ifdef __APPLE__
#define DESKTOP "open"
#else
#define DESKTOP "xdg-open"
#endif

enum { NAME_BYTES = 1024, LOOKS = 40 };

static bool has_display(void) {
#ifdef __APPLE__
    return true;
#else
    const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
    return (x != NULL && x[0] != '\0') || (wayland != NULL && wayland[0] != '\0');
#endif
}

/* Waits until the program ends; a program with a window gets 2 s to report an error. Returns its
   exit status, or 0 if it still runs. */
static int wait_for(pid_t pid) {
    const struct timespec pause = {0, 50000000};
    const int how = has_display() ? WNOHANG : 0;
    int status = 0;
    for (int i = 0; i < LOOKS; i++) {
        const pid_t ended = waitpid(pid, &status, how);
        if (ended == pid) return status;
        if (ended < 0 && errno != EINTR) return 0;
        if (how != 0) nanosleep(&pause, NULL);
    }
    return 0;
}

static syn_status start(const char *program, const char *path, int *started, syn_error *err) {
    char *const argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)path, NULL};
    pid_t pid;
    *started = posix_spawnp(&pid, program, NULL, NULL, argv, environ) == 0;
    if (!*started) return SYN_OK;
    const int status = wait_for(pid);
    if (status == 0) return SYN_OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        *started = 0; /* some systems report a missing program only so */
        return SYN_OK;
    }
    if (WIFEXITED(status))
        return SYN_FAIL(err, SYN_E_IO, "%s failed with exit code %d; open the file yourself",
                        program, WEXITSTATUS(status));
    return SYN_FAIL(err, SYN_E_IO, "%s was ended by signal %d; open the file yourself", program,
                    WTERMSIG(status));
}

syn_status browser_open(const char *path, syn_error *err) {
    const char *names = getenv("BROWSER");
    if (names == NULL || names[0] == '\0') {
        if (!has_display()) return SYN_OK;
        names = DESKTOP;
    }
    for (const char *at = names; *at != '\0';) {
        char program[NAME_BYTES];
        int started = 0;
        const size_t n = strcspn(at, ":");
        snprintf(program, sizeof program, "%.*s", (int)(n < NAME_BYTES ? n : NAME_BYTES - 1), at);
        at += n + (at[n] == ':');
        if (program[0] == '\0') continue;
        SYN_TRY(start(program, path, &started, err));
        if (started) return SYN_OK;
    }
    return SYN_FAIL(err, SYN_E_IO,
                    "no browser: cannot start '%.200s'; set BROWSER to a program, or open the file "
                    "yourself",
                    names);
}
