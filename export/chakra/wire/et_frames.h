/* Iterates over the messages of an .et file, each of which is preceded by its length. */
#ifndef EXPORT_ET_FRAMES_H
#define EXPORT_ET_FRAMES_H

#include "export/chakra/wire/et_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__et_frame {
    syn__str all; /* including the length prefix */
    syn__str message;
} syn__et_frame;

typedef struct syn__et_frames {
    const char *name, *begin; /* of the file */
    syn__et_reader reader;
} syn__et_frames;

syn__et_frames syn__et_frames_of(const char *name, const char *data, size_t bytes);
/* Gets the next message; *more is false at the end of the file. SYN_E_FORMAT if a message is cut
   off. */
syn_status syn__et_frames_next(syn__et_frames *frames, syn__et_frame *out, bool *more,
                               syn_error *err);
/* Fails with "trace.0.et, byte 17: why", where `at` is the position of byte 17 in memory. */
syn_status syn__et_frames_fail(const syn__et_frames *frames, const char *at, const char *why,
                               syn_error *err);

#ifdef __cplusplus
}
#endif
#endif
