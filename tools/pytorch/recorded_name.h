/* Parses names of files that torch.profiler or ExecutionTraceObserver wrote. */
#ifndef TOOLS_RECORDED_NAME_H
#define TOOLS_RECORDED_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* Words that mark a device trace in a file name, terminated by NULL. */
extern const char *const recorded_device_words[];

/* A file name consists of HEAD, "host" or one of these words, TAIL, and optionally .gz. HEAD is
   empty or ends in "_" or "."; TAIL is .json or .RANK.json. Examples: host.0.json, NAME_host.json,
   NAME.0_kineto.json.gz, NAME_device.3.json, and NAME.pt.trace.json of
   tensorboard_trace_handler. */
typedef struct recorded_name {
    const char *name; /* owned by the caller */
    size_t head_bytes;
    size_t tail_at, tail_bytes; /* TAIL, without .gz */
    bool is_host;
} recorded_name;

/* Returns false if the name has another form. */
bool recorded_name_parse(recorded_name *out, const char *name);
/* Returns the name for the converted trace: HEAD without its last character, or "trace" if HEAD is
   empty, followed by .RANK if TAIL has a rank. The caller frees it with syn_free. NULL: out of
   memory. */
char *recorded_name_stem(const recorded_name *n);

#endif
