/* Memory that can still be had. */
#ifndef TOOLS_MEMORY_ROOM_H
#define TOOLS_MEMORY_ROOM_H

typedef struct memory_room {
    double bytes;     /* infinity: nobody knows */
    const char *says; /* for a sentence: "this machine has", before "3.2 GiB available" */
} memory_room;

/* Of all processes of this machine together, or of this container's if that has less: free, or
   caches of files that the system gives up; swap counts. `root`: before /proc and /sys, "" but in
   tests. */
memory_room memory_room_of_machine(const char *root);
/* Of this process alone: the limits of the shell (ulimit -v, ulimit -d; infinity: none) less what
   is mapped. */
memory_room memory_room_of_process(const char *root, double space_bytes, double data_bytes);
/* The same with the limits that there are. */
memory_room memory_room_of_this_process(void);

#endif
