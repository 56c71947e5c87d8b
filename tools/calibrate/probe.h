/* Ops alone on a device, each at sizes that grow until one takes long: what they take by its
   clock. */
#ifndef TOOLS_PROBE_H
#define TOOLS_PROBE_H

#include "tools/calibrate/timed_ops.h"

typedef struct probed {
    syn_device_facts device;
    double memory_bytes;
    timed_ops ops;       /* settled */
    timed_ops first;     /* what each size took for the first time, with the kernels of each */
    int n_series, sizes; /* an op of a type and its sizes; of all together */
    double launch_ns;    /* what the host takes to ask for a small op */
} probed;

/* In a context of its own on a device that works beside the host. From until_ns on, by the clock,
   a series has no further size than its first. */
syn_status probe_device(probed *out, syn_device device, uint64_t until_ns,
                        syn_error *err) SYN_MUST_USE;
void probed_free(probed *p);

#endif
