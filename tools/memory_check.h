/* Determines how much memory is available, for checks before large allocations. */
#ifndef TOOLS_MEMORY_CHECK_H
#define TOOLS_MEMORY_CHECK_H

typedef struct memory_check {
    double bytes;       /* available bytes; infinity: unknown */
    const char *source; /* beginning of a sentence for messages, such as "this machine has", which
                         the caller continues with the size */
} memory_check;

/* Returns the memory available on this machine, or in this container if that is less. Swap and file
   caches that the system can drop count as available. `root` is prepended to the paths /proc and
   /sys; it is "" except in tests. */
memory_check memory_free_in_machine(const char *root);
/* Returns the memory that this process can still map within limits on its address space (ulimit -v)
   and its data (ulimit -d), in bytes; infinity: no limit. */
memory_check memory_free_in_process(const char *root, double space_bytes, double data_bytes);
/* The same for the limits that this process has. */
memory_check memory_free_in_this_process(void);

#endif
