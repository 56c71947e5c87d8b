/* Reads available memory from /proc, control groups and resource limits. It is separate so that
   tests can run it on a copy of /proc and /sys. */
#include "tools/memory_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_BYTES = 4500, LINE_BYTES = 4096 };

/* ---- Files of numbers ---- */

static FILE *open_under(const char *root, const char *folder, const char *name) {
    char path[PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
}

/* Reads the number that follows `key` at the beginning of a line ("": on the first line), in the
   unit of the file. Returns `none` if there is no number; cgroup files contain "max" for no
   limit. */
static double number_of(const char *root, const char *folder, const char *name, const char *key,
                        double none) {
    char line[LINE_BYTES];
    const size_t n = strlen(key);
    double found = none;
    FILE *file = open_under(root, folder, name);
    if (!file) return none;
    while (fgets(line, sizeof line, file)) {
        char *end;
        if (strncmp(line, key, n) != 0 || (n > 0 && !strchr(" :\t", line[n]))) continue;
        const char *text = line + n + (line[n] == ':');
        const double v = strtod(text, &end);
        if (end != text) found = v;
        break;
    }
    fclose(file);
    return found;
}

/* ---- The machine ---- */

static double of_machine(const char *root) {
    const double kib = 1024, swap = number_of(root, "/proc", "meminfo", "SwapFree", 0);
    const double available = number_of(root, "/proc", "meminfo", "MemAvailable", -1);
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (available >= 0) return (available + swap) * kib;
    return pages > 0 && page > 0 ? (double)pages * (double)page : INFINITY;
}

/* ---- Control groups, versions 1 and 2 ---- */

typedef struct group_files {
    const char *limit, *used, *inactive, *active; /* names of the files with limit and usage; keys
                                                     of file caches in memory.stat */
} group_files;

static const group_files version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                      "total_inactive_file", "total_active_file"};
static const group_files version_2 = {"memory.max", "memory.current", "inactive_file",
                                      "active_file"};

/* Returns the memory that a control group may still use. File caches count as available. */
static double of_group(const char *root, const char *folder, const group_files *f) {
    const double limit = number_of(root, folder, f->limit, "", INFINITY);
    if (!isfinite(limit)) return INFINITY;
    const double used = number_of(root, folder, f->used, "", 0),
                 caches = number_of(root, folder, "memory.stat", f->inactive, 0) +
                          number_of(root, folder, "memory.stat", f->active, 0);
    const double taken = used > caches ? used - caches : 0;
    return limit > taken ? limit - taken : 0;
}

/* Returns the minimum over the group and all groups that contain it. Folders that do not exist
   belong to another namespace and are ignored. */
static double of_groups(const char *root, const char *mount, const char *path,
                        const group_files *f) {
    char folder[PATH_BYTES];
    double least = INFINITY;
    snprintf(folder, sizeof folder, "%s%s", mount, path);
    for (char *end;;) {
        const double free_bytes = of_group(root, folder, f);
        if (free_bytes < least) least = free_bytes;
        end = strrchr(folder, '/');
        if (!end || strlen(folder) <= strlen(mount)) return least;
        *end = '\0';
    }
}

static double of_container(const char *root) {
    char line[LINE_BYTES];
    double least = INFINITY;
    FILE *file = open_under(root, "/proc/self", "cgroup");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *path = strchr(line, '/');
        if (!controllers || !path) continue;
        double free_bytes = INFINITY;
        if (strncmp(controllers, "::", 2) == 0)
            free_bytes = fmin(of_groups(root, "/sys/fs/cgroup", path, &version_2),
                              of_groups(root, "/sys/fs/cgroup/unified", path, &version_2));
        else if (strncmp(controllers, ":memory:", 8) == 0)
            free_bytes = of_groups(root, "/sys/fs/cgroup/memory", path, &version_1);
        if (free_bytes < least) least = free_bytes;
    }
    if (file) fclose(file);
    return least;
}

memory_check memory_free_in_machine(const char *root) {
    const memory_check machine = {of_machine(root), "this machine has"},
                       container = {of_container(root), "this container has"};
    return container.bytes < machine.bytes ? container : machine;
}

/* ---- This process ---- */

memory_check memory_free_in_process(const char *root, double space_bytes, double data_bytes) {
    const double kib = 1024;
    const memory_check space = {space_bytes -
                                    kib * number_of(root, "/proc/self", "status", "VmSize", 0),
                                "the limit on the address space (ulimit -v) leaves"};
    const memory_check data = {data_bytes -
                                   kib * number_of(root, "/proc/self", "status", "VmData", 0),
                               "the limit on data (ulimit -d) leaves"};
    memory_check least = data.bytes < space.bytes ? data : space;
    if (least.bytes < 0) least.bytes = 0;
    return least;
}

static double bytes_of(const struct rlimit *limit) {
    return limit->rlim_cur == RLIM_INFINITY ? INFINITY : (double)limit->rlim_cur;
}

memory_check memory_free_in_this_process(void) {
    struct rlimit space = {RLIM_INFINITY, RLIM_INFINITY}, data = space;
    (void)getrlimit(RLIMIT_AS, &space);
    (void)getrlimit(RLIMIT_DATA, &data);
    return memory_free_in_process("", bytes_of(&space), bytes_of(&data));
}
