/* What the name of a file tells that torch.profiler or its observer wrote. */
#ifndef TOOLS_RECORDED_NAME_H
#define TOOLS_RECORDED_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* What a device trace may be called; ended by NULL. */
extern const char *const recorded_device_words[];

/* HEAD, then host or one of these words, then TAIL: HEAD is empty or ends in _ or a dot, TAIL
   is .json or .RANK.json; .gz may follow. host.0.json, NAME_host.json, NAME.0_kineto.json.gz,
   NAME_device.3.json, and NAME.pt.trace.json, which tensorboard_trace_handler writes. */
typedef struct recorded_name {
    const char *name; /* the caller's */
    size_t head_bytes;
    size_t tail_at, tail_bytes; /* without .gz */
    bool is_host;
} recorded_name;

/* False: no such name. */
bool recorded_name_parse(recorded_name *out, const char *name);
/* What the trace is called that is made of it: HEAD without its last character, or "trace", and
   .RANK where TAIL has one. The caller's, to be freed with syn_free; NULL: no memory. */
char *recorded_name_stem(const recorded_name *n);

#endif
