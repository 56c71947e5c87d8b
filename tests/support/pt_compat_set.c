/* Implements pt_compat_set.h with sinks to memory. */
#include "tests/support/pt_compat_set.h"

void compat_free(compat_set *s) {
    syn__pt_merged_free(&s->merged);
    if (s->has_device) syn__pt_device_free(&s->device);
    syn__pt_host_free(&s->host);
    syn__file_text_close(&s->device_input);
    syn__file_text_close(&s->host_input);
    memset(s, 0, sizeof *s);
}

syn_status compat_read(compat_set *s) {
    SYN_TRY(syn__pt_host_read(&s->host, &s->host_input, (syn_pytorch_object){0}, NULL, &s->err));
    if (s->device_input.name == NULL) return SYN_OK;
    s->has_device = true;
    SYN_TRY(syn__pt_device_read(&s->device, &s->device_input, NULL, &s->err));
    SYN_TRY(syn__pt_compat_link(&s->host, &s->device, &s->merged, &s->err));
    s->linked = true;
    return SYN_OK;
}

syn_status compat_open(compat_set *s, const char *host, const char *device) {
    memset(s, 0, sizeof *s);
    SYN_TRY(syn__file_text_open(&s->host_input, host, 0, &s->err));
    if (device != NULL) SYN_TRY(syn__file_text_open(&s->device_input, device, 0, &s->err));
    return compat_read(s);
}

syn_status compat_text(compat_set *s, const char *host, const char *device) {
    memset(s, 0, sizeof *s);
    SYN_TRY(syn__file_text_memory(&s->host_input, "host.json", host, strlen(host), &s->err));
    if (device != NULL)
        SYN_TRY(syn__file_text_memory(&s->device_input, "device.json", device, strlen(device),
                                      &s->err));
    return compat_read(s);
}

syn_sink *compat_write(compat_set *s, bool json) {
    syn_sink *sink;
    if (syn_sink_open_memory(&sink, &s->err) != SYN_OK) return NULL;
    const syn__pt_device *device = s->has_device ? &s->device : NULL;
    const syn_status status =
        json ? syn__pt_write_linked(&s->host, device, &s->merged, sink, &s->err)
             : syn__pt_compat_convert(&s->host, device, s->linked ? &s->merged : NULL, sink,
                                      &s->err);
    if (status == SYN_OK) return sink;
    (void)syn_sink_close(sink, false, NULL);
    return NULL;
}
