/* Splits an execution trace into its length-delimited messages. */
#include "export/chakra/wire/et_frames.h"

syn__et_frames syn__et_frames_of(const char *name, const char *data, size_t bytes) {
    return (syn__et_frames){name, data, {data, data + bytes, NULL}};
}

syn_status syn__et_frames_fail(const syn__et_frames *frames, const char *at, const char *why,
                               syn_error *err) {
    return SYN_FAIL(err, SYN_E_FORMAT, "%.200s, byte %zu: %s", frames->name,
                    (size_t)(at - frames->begin), why);
}

syn_status syn__et_frames_next(syn__et_frames *frames, syn__et_frame *out, bool *more,
                               syn_error *err) {
    syn__et_reader *r = &frames->reader;
    const char *start = r->cur;
    *more = syn__et_read_message(r, &out->message);
    if (!*more) return r->why == NULL ? SYN_OK : syn__et_frames_fail(frames, start, r->why, err);
    out->all = (syn__str){start, (size_t)(r->cur - start)};
    return SYN_OK;
}
