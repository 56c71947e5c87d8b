/* Converts an .et file to a JSON document. Messages are written to memory in batches and read back
   from there, so that anything the JSON form would lose is detected and stored in "@wire". */
#include <inttypes.h>

#include "export/chakra/chakra_json.h"
#include "export/chakra/et_index.h"
#include "export/chakra/wire/et_frames.h"
#include "export/chakra/wire/et_json_read.h"
#include "syntorch/base/memory.h"

#define BATCH_NODES 1024
#define BATCH_BYTES ((uint64_t)1 << 18) /* JSON text; a longer message is a batch of its own */

typedef struct written {
    syn__et_frame frame;
    size_t begin, end; /* byte range of the message's text in the batch */
} written;

typedef struct writer {
    syn__et_frames frames;
    syn__et_decoder decoder;
    syn__et_json_reader reader;
    syn_sink *text; /* the batch as a JSON array */
    syn_sink *out;
    written batch[BATCH_NODES];
    size_t n_batch;
    syn_chakra_json_stats *stats;
    syn_error *err;
} writer;

/* ---- A batch ---- */

static syn_status decode_fail(const writer *w, syn_status status) {
    if (status != SYN_E_FORMAT) return SYN_FAIL_NOMEM(w->err, (size_t)0, "a message");
    return syn__et_frames_fail(&w->frames, w->decoder.at, w->decoder.why, w->err);
}

static syn_status add_message(writer *w, const syn__et_frame *frame, bool is_meta) {
    syn__et_meta meta;
    syn__et_node node;
    const syn_status status = is_meta ? syn__et_decode_meta(&w->decoder, frame->message, &meta)
                                      : syn__et_decode_node(&w->decoder, frame->message, &node);
    if (status != SYN_OK) return decode_fail(w, status);
    syn_sink_char(w->text, w->n_batch == 0 ? '[' : ',');
    written *entry = &w->batch[w->n_batch++];
    entry->frame = *frame;
    entry->begin = (size_t)syn_sink_bytes(w->text);
    if (is_meta) syn__et_json_meta(w->text, &meta);
    else syn__et_json_node(w->text, &node);
    entry->end = (size_t)syn_sink_bytes(w->text);
    return SYN_OK;
}

static bool is_canonical(const syn__et_frame *frame, const syn__buf *again) {
    const syn__str m = frame->message;
    return frame->all.bytes - m.bytes == syn__et_varint_bytes(m.bytes) && again->bytes == m.bytes &&
           (m.bytes == 0 || memcmp(again->data, m.text, m.bytes) == 0);
}

/* Reads the batch's next message back from JSON and writes it, with "@wire" if its bytes differ
   from those in the file. */
static syn_status put_message(writer *w, const char *text, const written *entry, bool is_meta) {
    syn_error why = {0};
    w->reader.err = w->reader.json.err = &why;
    (void)syn_json_next(&w->reader.json);
    const syn_status status =
        is_meta ? syn__et_json_read_meta(&w->reader) : syn__et_json_read_node(&w->reader);
    if (status == SYN_E_NOMEM) return SYN_FAIL(w->err, status, "%s", why.text);
    if (status != SYN_OK)
        return syn__et_frames_fail(&w->frames, entry->frame.all.text,
                                   "this message cannot be written as JSON that converts back",
                                   w->err);
    if (is_canonical(&entry->frame, &w->reader.message)) {
        syn_sink_write(w->out, text + entry->begin, entry->end - entry->begin);
        return SYN_OK;
    }
    if (w->stats->n_wire++ == 0)
        w->stats->first_wire = (size_t)(entry->frame.all.text - w->frames.begin);
    syn_sink_write(w->out, text + entry->begin, entry->end - entry->begin - 1);
    if (entry->end - entry->begin > 2) syn_sink_char(w->out, ',');
    syn_sink_text(w->out, "\"" SYN__ET_JSON_WIRE "\":");
    syn__et_json_base64(w->out, entry->frame.all);
    syn_sink_char(w->out, '}');
    return SYN_OK;
}

static syn_status put_batch(writer *w, bool is_meta) {
    size_t bytes;
    syn_sink_char(w->text, ']');
    const char *text = syn_sink_data(w->text, &bytes);
    if (text == NULL) return SYN_FAIL_NOMEM(w->err, (size_t)BATCH_BYTES, "messages as JSON");
    syn_json_free(&w->reader.json);
    syn_json_init(&w->reader.json, "", text, bytes, NULL);
    (void)syn_json_next(&w->reader.json);
    for (size_t i = 0; i < w->n_batch; i++) {
        if (!is_meta) syn_sink_text(w->out, w->stats->n_nodes++ == 0 ? "\n" : ",\n");
        SYN_TRY(put_message(w, text, &w->batch[i], is_meta));
    }
    w->n_batch = 0;
    return SYN_OK;
}

static void drop_batch(writer *w) {
    (void)syn_sink_close(w->text, false, NULL);
    w->text = NULL;
}

/* ---- The document ---- */

static syn_status write_metadata(writer *w) {
    syn__et_frame frame;
    bool more;
    SYN_TRY(syn__et_frames_next(&w->frames, &frame, &more, w->err));
    if (!more)
        return SYN_FAIL(w->err, SYN_E_FORMAT, "%.200s is empty: it lacks even the metadata",
                        w->frames.name);
    SYN_TRY(syn_sink_open_memory(&w->text, w->err));
    SYN_TRY(add_message(w, &frame, true));
    SYN_TRY(put_batch(w, true));
    drop_batch(w);
    return SYN_OK;
}

static syn_status write_nodes(writer *w) {
    for (bool more = true; more && syn_sink_status(w->out) == SYN_OK;) {
        syn__et_frame frame;
        SYN_TRY(syn_sink_open_memory(&w->text, w->err));
        while (w->n_batch < BATCH_NODES && syn_sink_bytes(w->text) < BATCH_BYTES) {
            SYN_TRY(syn__et_frames_next(&w->frames, &frame, &more, w->err));
            if (!more) break;
            SYN_TRY(add_message(w, &frame, false));
        }
        if (w->n_batch != 0) SYN_TRY(put_batch(w, false));
        drop_batch(w);
    }
    return SYN_OK;
}

static syn_status write_document(writer *w, int32_t rank) {
    syn_sink_text(w->out, "{\"ranks\":[\n{\"rank\":");
    syn_sink_i64(w->out, rank);
    syn_sink_text(w->out, ",\"metadata\":");
    SYN_TRY(write_metadata(w));
    syn_sink_text(w->out, ",\"nodes\":[");
    SYN_TRY(write_nodes(w));
    syn_sink_text(w->out, "]}]}\n");
    return SYN_OK;
}

syn_status syn_chakra_et_to_json(const char *name, const char *data, size_t bytes, int32_t rank,
                                 syn_sink *out, syn_chakra_json_stats *stats, syn_error *err) {
    const int32_t recorded = syn__et_peek_rank(data, bytes);
    *stats = (syn_chakra_json_stats){0};
    SYN_TRY(syn__et_supported(err));
    writer *w = (writer *)syn_calloc(1, sizeof *w);
    if (w == NULL) return SYN_FAIL_NOMEM(err, sizeof *w, "messages");
    w->frames = syn__et_frames_of(name, data, bytes);
    w->out = out;
    w->stats = stats;
    w->err = err;
    const syn_status status = write_document(w, recorded >= 0 ? recorded : rank);
    drop_batch(w);
    syn__et_json_reader_free(&w->reader);
    syn__et_decoder_free(&w->decoder);
    syn_free(w);
    return status;
}
