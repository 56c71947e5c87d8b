/* Sets of traces for the tests of compatible mode: a host and a device trace read, linked and
   converted into memory. */
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

/* Reads what was opened; links if there is a device trace. The error is in s->err. */
syn_status compat_read(compat_set *s);

/* device NULL: none. */
syn_status compat_open(compat_set *s, const char *host, const char *device);

syn_status compat_text(compat_set *s, const char *host, const char *device);

/* The .et, or (json) the linked trace; NULL with s->err on failure. */
syn_sink *compat_write(compat_set *s, bool json);

#endif
