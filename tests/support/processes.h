/* Whether processes and threads that a test started are gone. */
#ifndef TESTS_PROCESSES_H
#define TESTS_PROCESSES_H

/* How many of the processes named in a text ("pid 123" each) still run, a little later if need
   be. */
int processes_alive(const char *text);
/* Threads of this process; -1 where /proc does not tell. */
int threads_alive(void);
#endif
