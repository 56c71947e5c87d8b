/* Measures single ops on a device with the device's clock. The size of each op grows until one call
   takes more than 4 ms. */
#ifndef TOOLS_PROBE_H
#define TOOLS_PROBE_H

#include "tools/calibrate/timed_ops.h"

typedef struct probed {
    syn_device_info device;
    double memory_bytes; /* total memory of the device */
    timed_ops ops;       /* op times, with their means set by timed_ops_settle */
    timed_ops first;     /* the first call of each op and size, with the number of its kernels */
    int n_series, sizes; /* number of series, each an op in one dtype at growing sizes; total number
                            of measured sizes */
    double launch_ns;    /* host time to launch a small op */
} probed;

/* Measures in a context of its own on `device`, which must be asynchronous. Series that begin after
   until_ns (monotonic clock) measure only their first size. */
syn_status probe_device(probed *out, syn_device device, uint64_t until_ns,
                        syn_error *err) SYN_MUST_USE;
void probed_free(probed *p);

#endif
