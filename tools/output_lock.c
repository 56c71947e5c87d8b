/* Implements output locks with flock and, where flock is not available, with a file that names the
   owner. */
#include "tools/output_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "syntorch/base/memory.h"

/* Maximum length of the part of a lock file's name that comes from the prefix; NAME_MAX is 255. */
enum { NAME_BYTES = 200 };

static bool without_flock;

void output_lock_pretend(bool no_flock) {
    without_flock = no_flock;
}

/* ---- The record of a lock's owner ---- */

typedef struct owner {
    char who[40], host[256];
    long pid;        /* 0: unknown */
    long long since; /* seconds since 1970 */
} owner;

static void this_host(char host[256]) {
    if (gethostname(host, 256) != 0) *host = '\0';
    host[255] = '\0';
    if (!*host) snprintf(host, 256, "localhost");
}

static bool write_owner(int fd, const char *who) {
    char host[256], text[400];
    this_host(host);
    const int n = snprintf(text, sizeof text, "%ld %lld %s %.39s\n", (long)getpid(),
                           (long long)time(NULL), host, who);
    return ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n;
}

/* Reads the owner's record. Retries for 200 ms, because the other run may hold the lock before it
   has written its record. Returns all zeros if there is no record. */
static owner read_owner(int fd) {
    for (int tries = 0; tries < 20; tries++) {
        const struct timespec pause = {0, 10000000};
        owner o = {.pid = 0};
        char text[400];
        const ssize_t n = pread(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        if (sscanf(text, "%ld %lld %255s %39[^\n]", &o.pid, &o.since, o.host, o.who) == 4) return o;
        nanosleep(&pause, NULL);
    }
    return (owner){.pid = 0};
}

/* Whether the owner's process ran on this host and no longer exists. A record with this process's
   id comes from an earlier process that had the same id. */
static bool is_gone(const owner *o) {
    char host[256];
    this_host(host);
    if (o->pid <= 0 || strcmp(o->host, host) != 0) return false;
    return o->pid == (long)getpid() || (kill((pid_t)o->pid, 0) != 0 && errno == ESRCH);
}

/* Fails because another run holds the lock. remove: a file that the message tells the user to
   remove if the other run is finished; NULL: none. */
static syn_status fail_held(const char *prefix, const owner *o, const char *advice,
                            const char *remove, syn_error *err) {
    char run[400] = "another run", when[40] = "", rest[600] = "";
    const time_t since = (time_t)o->since;
    struct tm tm;
    if (o->pid > 0) {
        if (localtime_r(&since, &tm)) strftime(when, sizeof when, ", since %Y-%m-%d %H:%M:%S", &tm);
        snprintf(run, sizeof run, "another run (%s, process %ld on %.100s%s)", o->who, o->pid,
                 o->host, when);
    }
    if (remove) snprintf(rest, sizeof rest, "; if that run is finished, remove '%.300s'", remove);
    const size_t bytes = strlen(prefix);
    const bool folder = bytes > 0 && prefix[bytes - 1] == '/';
    return SYN_FAIL(err, SYN_E_INVALID, "%s writes to '%.*s%s': wait until it finishes, or %s%s",
                    run, (int)(bytes < 200 ? bytes - folder : 200), prefix, folder ? "" : ".*",
                    advice, rest);
}

/* ---- The lock file ---- */

/* Returns the path of the lock file, followed by `more`: "out/.trace.lock" for "out/trace" and
   "out/.lock" for "out/". The caller frees it. */
static char *lock_path(const char *prefix, const char *more) {
    const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
    const size_t bytes = strlen(prefix) + strlen(more) + 8;
    char *path = syn_malloc(bytes);
    if (path)
        snprintf(path, bytes, "%.*s%s%.*s.lock%s", (int)(name - prefix), prefix, *name ? "." : "",
                 NAME_BYTES, name, more);
    return path;
}

/* Whether `path` still names the open file `fd`; another run may have removed or replaced it. */
static bool is_named(int fd, const char *path) {
    struct stat held, named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

static int try_flock(int fd) {
    int rc;
    if (without_flock) {
        errno = ENOLCK;
        return -1;
    }
    do rc = flock(fd, LOCK_EX | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    return rc;
}

static syn_status fail_open(const char *path, syn_error *err) {
    return SYN_FAIL(err, SYN_E_IO, "cannot write '%.300s': %s", path, strerror(errno));
}

static bool create(const char *path, const char *who, syn_status *status, syn_error *err) {
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) return false;
    *status = SYN_OK;
    if (fd < 0) *status = fail_open(path, err);
    else if (!write_owner(fd, who))
        *status = SYN_FAIL(err, SYN_E_IO, "cannot write '%.300s'", path);
    if (fd >= 0) (void)close(fd);
    if (fd >= 0 && *status != SYN_OK) (void)unlink(path);
    return true;
}

/* Returns the owner recorded in a file; all zeros if the file does not exist. */
static owner owner_of(const char *path) {
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return (owner){.pid = 0};
    const owner o = read_owner(fd);
    (void)close(fd);
    return o;
}

/* Whether `path` names the file of an owner that no longer exists. The name is checked last,
   because the owner may have removed its file before it ended, and then another run created a new
   one. */
static bool is_left(const char *path) {
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return false;
    const owner o = read_owner(fd);
    const bool left = is_gone(&o) && is_named(fd, path);
    (void)close(fd);
    return left;
}

/* Removes the file of an owner that no longer exists. Several runs may find the file at the same
   time, and another run could replace it between the check and the removal. A guard file, which
   exists only during the removal, ensures that only one run removes the file. If a run is killed
   while it holds the guard, the user must remove the guard. */
static syn_status remove_gone(const char *path, const char *guard, const char *prefix,
                              const char *who, const char *advice, syn_error *err) {
    const struct timespec pause = {0, 10000000};
    for (int tries = 0; tries < 100; tries++) {
        syn_status s = SYN_OK;
        if (create(guard, who, &s, err)) {
            SYN_TRY(s);
            if (is_left(path)) (void)unlink(path);
            (void)unlink(guard);
            return SYN_OK;
        }
        nanosleep(&pause, NULL);
    }
    const owner o = owner_of(guard);
    return fail_held(prefix, &o, advice, guard, err);
}

/* Without flock: the run that creates the owner file holds the lock. */
static syn_status take_named(output_lock *lock, const char *prefix, const char *who,
                             const char *advice, syn_error *err) {
    char *guard = lock_path(prefix, ".guard");
    syn_status s = SYN_OK;
    struct stat there;
    lock->owner = lock_path(prefix, ".owner");
    if (!lock->owner || !guard) {
        syn_free(guard);
        return SYN_FAIL_NOMEM(err, strlen(prefix) + 16, "a file name");
    }
    while (s == SYN_OK && !create(lock->owner, who, &s, err)) {
        const owner o = owner_of(lock->owner);
        if (is_gone(&o)) s = remove_gone(lock->owner, guard, prefix, who, advice, err);
        else if (lstat(lock->owner, &there) == 0)
            s = fail_held(prefix, &o, advice, lock->owner, err);
    }
    syn_free(guard);
    return s;
}

/* Tries once to lock. Sets *again if the previous owner removed the lock file in the meantime, so
   that the caller must try again. */
static syn_status try_lock(output_lock *lock, const char *prefix, const char *who,
                           const char *advice, bool *again, syn_error *err) {
    *again = false;
    lock->fd = open(lock->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (lock->fd < 0) return fail_open(lock->path, err);
    if (try_flock(lock->fd) == 0) {
        *again = !is_named(lock->fd, lock->path);
        /* Only the error messages of other runs need the record, so a failed write is ignored. */
        if (*again) (void)close(lock->fd);
        else (void)write_owner(lock->fd, who);
        return SYN_OK;
    }
    if (errno != EWOULDBLOCK) {
        const syn_status s = take_named(lock, prefix, who, advice, err);
        if (s != SYN_OK) (void)close(lock->fd);
        return s;
    }
    const owner o = read_owner(lock->fd);
    (void)close(lock->fd);
    return fail_held(prefix, &o, advice, NULL, err);
}

static void forget(output_lock *lock) {
    syn_free(lock->path);
    syn_free(lock->owner);
    *lock = (output_lock){.path = NULL};
}

syn_status output_lock_take(output_lock *lock, const char *prefix, const char *who,
                            const char *advice, syn_error *err) {
    bool again = true;
    syn_status s = SYN_OK;
    if (lock->path) return SYN_OK;
    if (!(lock->path = lock_path(prefix, "")))
        return SYN_FAIL_NOMEM(err, strlen(prefix) + 8, "a file name");
    while (again && s == SYN_OK) s = try_lock(lock, prefix, who, advice, &again, err);
    if (s != SYN_OK) forget(lock);
    return s;
}

void output_lock_release(output_lock *lock) {
    if (!lock->path) return;
    /* Remove the files while the lock is held, so that another run's files are never removed. */
    if (lock->owner) (void)unlink(lock->owner);
    (void)unlink(lock->path);
    (void)close(lock->fd);
    forget(lock);
}
