/* Writes an execution trace as MLCommons Chakra's chakra_jsonizer does, byte for byte: each message
   is the output of Python's MessageToJson, which is json.dumps(indent=2) of protobuf's JSON
   mapping. Separate from chakra_json_out.c because this output is not one JSON document, and lacks
   ids of 0 and fields that are not in the schema. */
#include "export/chakra/chakra_json.h"
#include "export/chakra/wire/et_frames.h"
#include "export/chakra/wire/et_json_print.h"

static syn_status put_message(syn__et_printer *p, syn__et_decoder *d, syn__str message,
                              bool is_meta) {
    syn__et_meta meta;
    syn__et_node node;
    if (is_meta) SYN_TRY(syn__et_decode_meta(d, message, &meta));
    else SYN_TRY(syn__et_decode_node(d, message, &node));
    if (is_meta) syn__et_print_meta(p, &meta);
    else syn__et_print_node(p, &node);
    return SYN_OK;
}

static syn_status put_file(syn__et_frames *frames, syn__et_decoder *d, syn_sink *out,
                           syn_chakra_json_stats *stats, syn_error *err) {
    syn__et_printer p = {.sink = out, .python = true};
    for (bool is_meta = true; syn_sink_status(out) == SYN_OK; is_meta = false) {
        syn__et_frame frame;
        bool more;
        SYN_TRY(syn__et_frames_next(frames, &frame, &more, err));
        if (!more && is_meta) syn_sink_text(out, "{}");
        if (!more) return SYN_OK;
        if (!is_meta && frame.message.bytes == 0) {
            stats->omitted_bytes = (uint64_t)(frames->reader.end - frames->reader.cur);
            return SYN_OK;
        }
        const syn_status status = put_message(&p, d, frame.message, is_meta);
        if (status == SYN_E_FORMAT) return syn__et_frames_fail(frames, d->at, d->why, err);
        if (status != SYN_OK) return SYN_FAIL_NOMEM(err, frame.message.bytes, "a message");
        stats->n_nodes += !is_meta;
    }
    return SYN_OK;
}

syn_status syn_chakra_et_to_json_compat(const char *name, const char *data, size_t bytes,
                                        syn_sink *out, syn_chakra_json_stats *stats,
                                        syn_error *err) {
    syn__et_frames frames = syn__et_frames_of(name, data, bytes);
    syn__et_decoder decoder = {0};
    *stats = (syn_chakra_json_stats){0};
    SYN_TRY(syn__et_supported(err));
    const syn_status status = put_file(&frames, &decoder, out, stats, err);
    syn__et_decoder_free(&decoder);
    return status;
}
