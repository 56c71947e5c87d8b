/* Ensures that only one run at a time writes a group of output files, such as checkpoints or a
   trace set. A run takes the lock before it writes the first file and holds it until the run ends.
   Another run that would write the same files fails immediately; runs that write files with other
   names to the same folder are independent.

   The lock is a file next to the output, held with flock(2). The system releases it when the
   process ends for any reason, so the next run can take over the lock file of a killed run. On file
   systems without flock, a second file names the host and process of the owner; another run takes
   it over if the process ran on this host and no longer exists. */
#ifndef TOOLS_OUTPUT_LOCK_H
#define TOOLS_OUTPUT_LOCK_H

#include "syntorch/base/status.h"

typedef struct output_lock {
    char *path;  /* path of the lock file; NULL: not locked */
    char *owner; /* without flock: path of the file that names the owner; otherwise NULL */
    int fd;      /* descriptor of the lock file, which holds the flock */
} output_lock;

/* Locks all files whose names begin with `prefix`: "out/trace", or "out/" for files with fixed
   names in the folder, which must exist. `who` is the program's name. `advice` is the end of the
   error message if another run holds the lock: "name another --save-dir". Does nothing if *lock is
   locked already. Fails with SYN_E_INVALID if another run holds the lock. Over MPI only rank 0
   takes the lock. */
syn_status output_lock_take(output_lock *lock, const char *prefix, const char *who,
                            const char *advice, syn_error *err) SYN_MUST_USE;
/* Releases the lock and removes its file. Does nothing if *lock is not locked. */
void output_lock_release(output_lock *lock);
/* For tests: makes locks behave as on a file system without flock, in the whole process. */
void output_lock_pretend(bool no_flock);

#endif
