/* Available memory, for checks before large allocations. */
#ifndef TOOLS_MEMORY_ROOM_H
#define TOOLS_MEMORY_ROOM_H

typedef struct memory_check {
    double bytes;     /* infinity: unknown */
    const char *says; /* begins a sentence: "this machine has", followed by "3.2 GiB available" */
} memory_check;

/* Available memory of this machine, or of this container if that is less. File caches that the
   system can drop, and swap, count as available. `root` is put before /proc and /sys; it is ""
   except in tests. */
memory_check memory_free_in_machine(const char *root);
/* Memory that this process may still map within the shell's limits (ulimit -v, ulimit -d; infinity:
   no limit). */
memory_check memory_free_in_process(const char *root, double space_bytes, double data_bytes);
/* The same with the current limits. */
memory_check memory_free_in_this_process(void);

#endif
