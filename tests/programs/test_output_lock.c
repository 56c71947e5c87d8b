/* Tests output locks, which keep two processes from writing the same files, with real processes. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/test.h"
#include "tools/output_lock.h"

/* Starts a process that takes the lock. It releases the lock immediately, or holds it until it is
   killed. */
static pid_t holder(const char *prefix, bool release) {
    int ready[2];
    char byte;
    NEED(pipe(ready) == 0, "no pipe");
    const pid_t pid = fork();
    if (pid == 0) {
        output_lock lock = {.path = NULL};
        syn_error err = {0};
        if (output_lock_take(&lock, prefix, "holder", "give up", &err) != SYN_OK) _exit(1);
        if (release) output_lock_release(&lock);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        while (!release) pause();
        _exit(0);
    }
    (void)close(ready[1]);
    NEED(read(ready[0], &byte, 1) == 1, "the holder has no lock");
    (void)close(ready[0]);
    return pid;
}

static void end(pid_t pid) {
    int status;
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
}

static syn_status try_it(const char *prefix, syn_error *err) {
    output_lock lock = {.path = NULL};
    *err = (syn_error){0};
    const syn_status s = output_lock_take(&lock, prefix, "test", "name another --save-dir", err);
    output_lock_release(&lock);
    return s;
}

/* The lock is held as long as its process lives. It is free after a release, and after the process
   was killed, which leaves the lock file behind. */
static void held_and_free(void) {
    char prefix[300], other[300], folder[300], who[80], host[200] = "";
    syn_error err;
    snprintf(prefix, sizeof prefix, "%s/trace", put_folder("out"));
    snprintf(other, sizeof other, "%s/trace2", in_folder("out"));
    snprintf(folder, sizeof folder, "%s/", in_folder("out"));
    const pid_t pid = holder(prefix, false);
    CHECK_INT(try_it(prefix, &err), SYN_E_INVALID);
    snprintf(who, sizeof who, "another run (holder, process %ld on ", (long)pid);
    CHECK(gethostname(host, sizeof host - 1) == 0);
    CHECK_HAS(err.text, who);
    CHECK_HAS(err.text, host);
    CHECK_HAS(err.text, ", since 2");
    CHECK_HAS(err.text, "trace.*': wait until it finishes, or name another --save-dir");
    /* Another prefix in the same folder, and the folder itself, are not locked. */
    CHECK_OK(try_it(other, &err), err);
    CHECK_OK(try_it(folder, &err), err);
    end(pid);
    CHECK_OK(try_it(prefix, &err), err);
    end(holder(prefix, true));
    CHECK(!path_exists(in_folder("out/.trace.lock")));
    CHECK_OK(try_it(prefix, &err), err);
    CHECK(!path_exists(in_folder("out/.trace.lock")) && !path_exists(in_folder("out/.lock")));
}

static void works(void) {
    held_and_free();
}

/* On a file system without flock, the lock of a dead process is recognized by its process id. The
   lock of another host is never taken over. */
static void works_without_flock(void) {
    char folder[300];
    syn_error err;
    output_lock_pretend(true);
    held_and_free();
    snprintf(folder, sizeof folder, "%s/", put_folder("out"));
    put_text("out/.lock.owner", "1 1764269485 no-such-host pretrain\n");
    CHECK_INT(try_it(folder, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "another run (pretrain, process 1 on no-such-host, since ");
    CHECK_HAS(err.text, "/out': wait until");
    CHECK_HAS(err.text, "if that run is finished, remove '");
    CHECK_HAS(err.text, "/out/.lock.owner'");
    put_text("out/.lock.owner", "");
    CHECK_INT(try_it(folder, &err), SYN_E_INVALID);
    output_lock_pretend(false);
}

/* Takes the lock and holds it for a moment. The exit code is 2 if another process held it at the
   same time. */
static void take_alone(const char *prefix, int begin) {
    output_lock lock = {.path = NULL};
    syn_error err = {0};
    char byte;
    if (read(begin, &byte, 1) != 0) _exit(3);
    if (output_lock_take(&lock, prefix, "test", "", &err) != SYN_OK) _exit(1);
    const int fd = open(in_folder("out/alone"), O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0) _exit(2);
    usleep(3000);
    (void)unlink(in_folder("out/alone"));
    output_lock_release(&lock);
    _exit(0);
}

/* Eight processes find the lock of a dead process. No two of them may hold it at the same time. */
static void gone_is_taken_once(void) {
    enum { RUNS = 8, ROUNDS = 30 };
    char prefix[300], host[200] = "", left[300];
    snprintf(prefix, sizeof prefix, "%s/", put_folder("out"));
    CHECK(gethostname(host, sizeof host - 1) == 0);
    snprintf(left, sizeof left, "%d 1764269485 %s syntorch export\n", INT_MAX, host);
    output_lock_pretend(true);
    for (int round = 0; round < ROUNDS; round++) {
        int begin[2], status, ended[4] = {0};
        put_text("out/.lock.owner", left);
        NEED(pipe(begin) == 0, "no pipe");
        for (int i = 0; i < RUNS; i++) {
            if (fork() != 0) continue;
            (void)close(begin[1]);
            take_alone(prefix, begin[0]);
        }
        (void)close(begin[0]);
        (void)close(begin[1]);
        while (wait(&status) > 0) ended[WIFEXITED(status) ? WEXITSTATUS(status) & 3 : 3]++;
        CHECK(ended[0] > 0 && ended[2] == 0 && ended[3] == 0);
    }
    output_lock_pretend(false);
    CHECK(!path_exists(in_folder("out/.lock.guard")));
}

/* Taking a lock twice with the same object takes it once. A second lock object in this process
   counts as another run. */
static void taken_twice(void) {
    char prefix[300];
    syn_error err = {0};
    output_lock lock = {.path = NULL};
    snprintf(prefix, sizeof prefix, "%s/", put_folder("out"));
    CHECK_OK(output_lock_take(&lock, prefix, "test", "", &err), err);
    CHECK_OK(output_lock_take(&lock, prefix, "test", "", &err), err);
    syn_error why;
    CHECK_INT(try_it(prefix, &why), SYN_E_INVALID);
    output_lock_release(&lock);
    output_lock_release(&lock);
    CHECK_OK(try_it(prefix, &why), why);
    CHECK_INT(try_it(in_folder("absent/trace"), &why), SYN_E_IO);
    CHECK_HAS(why.text, "absent/.trace.lock");
}

static const test_case cases[] = {
    {"works", works},
    {"works_without_flock", works_without_flock},
    {"gone_is_taken_once", gone_is_taken_once},
    {"taken_twice", taken_twice},
};

TEST_MAIN(cases)
