/* For the tests of compatible mode, which imitates PyTorch's converter: reads a host and a device
   trace, links them, and converts them to memory. */
#ifndef TESTS_PT_COMPAT_SET_H
#define TESTS_PT_COMPAT_SET_H

#include "export/pytorch/compat/pt_compat.h"
#include "syntorch/base/memory.h"
#include "tests/support/test.h"

typedef struct compat_set {
    syn__file_text host_input, device_input;
    syn__pt_host host;
    syn__pt_device device;
    syn__pt_merged_list merged;
    bool has_device, linked;
    syn_error err;
} compat_set;

void compat_free(compat_set *s);

/* Reads the opened traces and links them if there is a device trace. Errors are in s->err. */
syn_status compat_read(compat_set *s);

/* Open traces as files, or as text. device NULL: there is no device trace. */
syn_status compat_open(compat_set *s, const char *host, const char *device);

syn_status compat_text(compat_set *s, const char *host, const char *device);

/* Returns the .et, or with `json` the linked trace. On failure returns NULL and sets s->err. */
syn_sink *compat_write(compat_set *s, bool json);

#endif
