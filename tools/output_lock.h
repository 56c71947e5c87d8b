/* One run at a time writes the files of a name. A run takes a lock before it writes the first of
   several files that belong together (checkpoints, a trace set), and holds it until it ends;
   another run is refused at once. Runs that write other names into the same folder do not meet.

   The lock is a file beside the output, held with flock(2): the system releases it when the process
   ends, however it ends, so a lock that a killed run has left is taken over. On file systems
   without flock the file names the owner's host and process, and a lock is taken over if that
   process ran on this host and is gone. */
#ifndef TOOLS_OUTPUT_LOCK_H
#define TOOLS_OUTPUT_LOCK_H

#include "syntorch/base/status.h"

typedef struct output_lock {
    char *path;  /* of the lock file; NULL: nothing is locked */
    char *owner; /* of the file that names the owner, where there is no flock; else NULL */
    int fd;
} output_lock;

/* Locks all files whose names begin with `prefix`: "out/trace", or "out/" for what a run keeps in
   the folder itself. The folder exists. `who` is the program; `advice` ends the sentence about
   another run: "name another --save-dir". Does nothing if it is locked already. Fails with
   SYN_E_INVALID if another run holds the lock. Over MPI rank 0 alone takes it. */
syn_status output_lock_take(output_lock *lock, const char *prefix, const char *who,
                            const char *advice, syn_error *err) SYN_MUST_USE;
/* Gives the lock back and removes its file. Nothing may be locked. */
void output_lock_release(output_lock *lock);
/* Test instrument: behave as on a file system without flock. Process-wide. */
void output_lock_pretend(bool no_flock);

#endif
