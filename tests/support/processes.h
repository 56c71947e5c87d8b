/* Checks whether processes and threads that a test started have ended. */
#ifndef TESTS_PROCESSES_H
#define TESTS_PROCESSES_H

/* Number of processes named in a text (as "pid 123") that still run. Waits up to 3 s for
   them to end. */
int processes_alive(const char *text);
/* Number of threads of this process; -1 if /proc does not have it. */
int threads_alive(void);
#endif
