#include "export/chakra/wire/chakra_json_frames.h"

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
    uint64_t bytes;
    *more = r->cur != r->end;
    if (!*more) return SYN_OK;
    if (!syn__et_read_varint(r, &bytes)) return syn__et_frames_fail(frames, start, r->why, err);
    if (bytes > (size_t)(r->end - r->cur))
        return syn__et_frames_fail(frames, start, "the file ends within this message", err);
    out->message = (syn__str){r->cur, (size_t)bytes};
    r->cur += bytes;
    out->all = (syn__str){start, (size_t)(r->cur - start)};
    return SYN_OK;
}
