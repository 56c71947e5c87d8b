/* Fuzz target: the reader of device traces. Checks that it terminates, that events are ordered by
   time, and that their texts lie within the file. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/pytorch/read/pt_device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool cond) {
    if (!cond) abort();
}

static void check_event(const syn__pt_device *device, const syn__pt_event *e) {
    const syn__file_text *input = device->input;
    const syn__str all = {e->text, e->text_bytes};
    need(e->text >= input->data && e->text < input->data + input->bytes);
    need(e->text_bytes <= (size_t)(input->data + input->bytes - e->text));
    need(e->text_bytes >= 2 && all.text[0] == '{' && all.text[all.bytes - 1] == '}');
    need(isfinite(e->ts) && isfinite(e->dur));
    need(e->class_ < SYN__PT_CLASSES && e->device >= -1);
    need((e->flags & SYN__PT_EVENT_TS) || (e->ts == 0 && e->ts_ns == 0));
    need((e->flags & SYN__PT_EVENT_DUR) || (e->dur == 0 && e->dur_ns == 0));
    need(syn__pt_device_name(device, e->name).text != NULL);
    need(syn__pt_device_name(device, e->tid).text != NULL);
    need(syn__pt_device_name(device, e->pid).text != NULL);
    const syn__str args = syn__loose_find(all, "args");
    need(args.bytes == 0 ||
         (args.text > e->text && args.text + args.bytes <= all.text + all.bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1 << 14) return 0;
    syn__file_text input;
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
    syn_error err = {0};
    syn__pt_device device;
    if (syn__file_text_memory(&input, "fuzz", (const char *)data, size, &err) != SYN_OK) return 0;
    const syn_status status = syn__pt_device_read(&device, &input, notes, &err);
    if (status == SYN_OK) {
        uint64_t n = 0;
        for (int i = 0; i < SYN__PT_CLASSES; i++) n += device.n_class[i];
        need(n == device.n_read && device.n_events <= n);
        for (size_t i = 0; i < device.n_events; i++) {
            const syn__pt_event *e = &device.events[i];
            check_event(&device, e);
            need(i == 0 || e[-1].ts < e->ts || (e[-1].ts == e->ts && e[-1].text < e->text));
        }
    } else {
        need(err.text[0] != '\0');
    }
    syn__pt_device_free(&device);
    syn__file_text_close(&input);
    return 0;
}
