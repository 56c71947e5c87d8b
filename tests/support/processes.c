/* Implements processes.h with kill and /proc. */
#include "tests/support/processes.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Whether the process is running. With /proc, a zombie counts as ended: the process has exited, but
   its parent has not waited for it. */
static bool process_runs(long pid) {
    char path[64], state = 'R';
    if (kill((pid_t)pid, 0) != 0) return false;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) return true;
    if (fscanf(file, "%*d %*s %c", &state) != 1) state = 'R';
    fclose(file);
    return state != 'Z' && state != 'X';
}

int processes_alive(const char *text) {
    int n = 1;
    for (int tries = 0; tries < 30 && n > 0; tries++) {
        const struct timespec moment = {0, 100000000};
        n = 0;
        for (const char *at = text; (at = strstr(at, "pid ")) != NULL; at++)
            n += process_runs(strtol(at + 4, NULL, 10));
        if (n > 0) nanosleep(&moment, NULL);
    }
    return n;
}

int threads_alive(void) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    if (tasks == NULL) return -1;
    for (const struct dirent *t; (t = readdir(tasks)) != NULL;) n += t->d_name[0] != '.';
    closedir(tasks);
    return n;
}
