/* Tests the check of available memory, with simulated Linux files: those of the machine, control
   groups of both versions, and limits of the shell. */
#include "tests/support/files.h"
#include "tests/support/test.h"
#include "tools/memory_check.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#define KIB 1024.0

/* Writes a file in the test's folder and creates the folders of its path. */
static void put(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder(name));
    for (char *p = path + strlen(in_folder("")) + 1; *p; p++)
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0700);
            *p = '/';
        }
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void clear_system(void) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'/proc '%s'/sys", in_folder(""), in_folder(""));
    CHECK_INT(system(command), 0);
}

static memory_check machine(void) {
    return memory_free_in_machine(in_folder(""));
}

#define MEMINFO                    \
    "MemTotal:       1000000 kB\n" \
    "MemFree:           1000 kB\n" \
    "MemAvailable:    600000 kB\n" \
    "SwapTotal:        99999 kB\n" \
    "SwapFree:         50000 kB\n"

static void the_machine(void) {
    put("proc/meminfo", MEMINFO);
    const memory_check memory = machine();
    CHECK_NEAR(memory.bytes, 650000 * KIB, 0.5);
    CHECK_STR(memory.source, "this machine has");
    clear_system();
    CHECK(machine().bytes > 1e7); /* without /proc, the machine's total memory is used */
}

static void container_with_cgroup_v2(void) {
    put("proc/meminfo", MEMINFO);
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/memory.max", "max\n");
    CHECK_NEAR(machine().bytes, 650000 * KIB, 0.5);
    /* The limit of the parent group applies. */
    put("sys/fs/cgroup/user/memory.max", "400000000\n");
    put("sys/fs/cgroup/user/memory.current", "150000000\n");
    CHECK_NEAR(machine().bytes, 250000000, 0.5);
    CHECK_STR(machine().source, "this container has");
    /* File caches count as free. "inactive_file_x" is another key. */
    put("sys/fs/cgroup/user/memory.stat",
        "anon 1\ninactive_file_x 7\ninactive_file 20000000\nactive_file 30000000\n");
    CHECK_NEAR(machine().bytes, 300000000, 0.5);
    /* The group's own limit is smaller, and the group uses all of it. */
    put("sys/fs/cgroup/user/job/memory.max", "1000000\n");
    put("sys/fs/cgroup/user/job/memory.current", "1500000\n");
    CHECK_NEAR(machine().bytes, 0, 0);
    clear_system();
    /* In a container, the path is the root of the namespace. */
    put("proc/meminfo", MEMINFO);
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.max", "5000000\n");
    CHECK_NEAR(machine().bytes, 5000000, 0);
    clear_system();
}

static void container_with_cgroup_v1(void) {
    put("proc/meminfo", MEMINFO);
    put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/12ab\n0::/\n");
    put("sys/fs/cgroup/memory/docker/12ab/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_NEAR(machine().bytes, 650000 * KIB, 0.5);
    put("sys/fs/cgroup/memory/docker/12ab/memory.limit_in_bytes", "300000000\n");
    put("sys/fs/cgroup/memory/docker/12ab/memory.usage_in_bytes", "100000000\n");
    put("sys/fs/cgroup/memory/docker/12ab/memory.stat",
        "inactive_file 5\ntotal_inactive_file 40000000\ntotal_active_file 10000000\n");
    CHECK_NEAR(machine().bytes, 250000000, 0.5);
    clear_system();
    /* The path exists only on the host, so the container's root is used. */
    put("proc/self/cgroup", "4:memory:/docker/12ab\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000000\n");
    CHECK_NEAR(machine().bytes, 7000000, 0);
    clear_system();
}

static void limits_of_the_shell(void) {
    put("proc/self/status",
        "Name:\tx\nVmPeak:\t  90000 kB\nVmSize:\t  80000 kB\nVmData:\t 300 kB\n");
    const char *root = in_folder("");
    CHECK(isinf(memory_free_in_process(root, INFINITY, INFINITY).bytes));
    CHECK_NEAR(memory_free_in_process(root, 100000 * KIB, INFINITY).bytes, 20000 * KIB, 0);
    CHECK_HAS(memory_free_in_process(root, 100000 * KIB, INFINITY).source, "ulimit -v");
    CHECK_NEAR(memory_free_in_process(root, 100000 * KIB, 1000 * KIB).bytes, 700 * KIB, 0);
    CHECK_HAS(memory_free_in_process(root, 100000 * KIB, 1000 * KIB).source, "ulimit -d");
    CHECK_NEAR(memory_free_in_process(root, 70000 * KIB, INFINITY).bytes, 0, 0);
    clear_system();
}

static const test_case cases[] = {
    {"the_machine", the_machine},
    {"container_with_cgroup_v2", container_with_cgroup_v2},
    {"container_with_cgroup_v1", container_with_cgroup_v1},
    {"limits_of_the_shell", limits_of_the_shell},
};

TEST_MAIN(cases)
