/* Measures single ops on a device, each at sizes that grow until a call takes long, with the
   device's clock. */
#ifndef TOOLS_PROBE_H
#define TOOLS_PROBE_H

#include "tools/calibrate/timed_ops.h"

typedef struct probed {
    syn_device_info device;
    double memory_bytes; /* total memory of the device */
    timed_ops ops;       /* times, settled */
    timed_ops first;     /* the first call of each size, with its number of kernels */
    int n_series, sizes; /* a series is an op in one dtype; sizes: total over all series */
    double launch_ns;    /* host time to launch a small op */
} probed;

/* Measures with a context of its own on an asynchronous device. After until_ns (monotonic clock), a
   series ends after its first size. */
syn_status probe_device(probed *out, syn_device device, uint64_t until_ns,
                        syn_error *err) SYN_MUST_USE;
void probed_free(probed *p);

#endif
