/* Checks whether processes and threads that a test started have ended, for tests of failing
   ranks. */
#ifndef TESTS_PROCESSES_H
#define TESTS_PROCESSES_H

/* The number of processes that are named in a text (as "pid 123") and still run. Waits up to 3 s
   for them to end. */
int processes_alive(const char *text);
/* The number of threads of this process; -1 if there is no /proc. */
int threads_alive(void);
#endif
