/* Writes safetensors files: first the header, then the data in pieces; see safetensors.h. It shares
   only names and limits with the reader. */
#include <stdlib.h>
#include <string.h>

#include "models/weights/safetensors_private.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#define LENGTH_BYTES 8
#define DATA_ALIGN   64 /* alignment of the data in the file; optional in the format */
#define SHOWN        SYN__SAFETENSORS_SHOWN

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static syn_status check_names(const syn_safetensors_entry *entries, size_t n, syn_error *err) {
    char shown[SHOWN];
    const char **names = syn_malloc(n * sizeof *names);
    if (!names) return SYN_FAIL_NOMEM(err, n * sizeof *names, "the names of tensors");
    for (size_t i = 0; i < n; i++) names[i] = entries[i].name;
    if (n) qsort(names, n, sizeof *names, compare_names);
    syn_status status = SYN_OK;
    for (size_t i = 0; i < n && status == SYN_OK; i++) {
        (void)syn__safetensors_shown(names[i], shown);
        if (strcmp(names[i], SYN__SAFETENSORS_METADATA) == 0)
            status = SYN_FAIL(err, SYN_E_INVALID, "%s cannot be the name of a tensor", shown);
        else if (!syn_utf8_valid(names[i], strlen(names[i])))
            status = SYN_FAIL(err, SYN_E_INVALID, "the tensor name '%s' is not UTF-8", shown);
        else if (i > 0 && strcmp(names[i - 1], names[i]) == 0)
            status = SYN_FAIL(err, SYN_E_INVALID, "two tensors have the name '%s'", shown);
    }
    syn_free(names);
    return status;
}

/* Writes `"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}`, where *at is the first
   offset, and advances *at past the tensor. */
static syn_status put_entry(syn_sink *sink, const syn_safetensors_entry *e, int64_t *at,
                            syn_error *err) {
    char shown[SHOWN];
    (void)syn__safetensors_shown(e->name, shown);
    if (!syn_spec_valid(&e->spec) || (int64_t)syn_spec_bytes(&e->spec) > INT64_MAX - *at)
        return SYN_FAIL(err, SYN_E_INVALID, "the tensor '%s' has an invalid size", shown);
    const int64_t elem_bytes = (int64_t)syn_dtype_bytes((syn_dtype)e->spec.dtype);
    if (*at % elem_bytes != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the tensor '%s' would begin at byte %lld, which is not a multiple of its "
                        "element size, %lld; put wider dtypes first",
                        shown, (long long)*at, (long long)elem_bytes);
    syn_sink_json_string(sink, e->name);
    syn_sink_printf(sink, ":{\"dtype\":\"%s\",\"shape\":[",
                    syn__safetensors_dtype_of((syn_dtype)e->spec.dtype)->name);
    for (int d = 0; d < e->spec.rank; d++) {
        if (d > 0) syn_sink_char(sink, ',');
        syn_sink_i64(sink, e->spec.dims[d]);
    }
    syn_sink_text(sink, "],\"data_offsets\":[");
    syn_sink_i64(sink, *at);
    *at += (int64_t)syn_spec_bytes(&e->spec);
    syn_sink_char(sink, ',');
    syn_sink_i64(sink, *at);
    syn_sink_text(sink, "]}");
    return SYN_OK;
}

static syn_status put_json(syn_sink *sink, const syn_safetensors_entry *entries, size_t n,
                           int64_t *data_bytes, syn_error *err) {
    syn_sink_text(sink, "{\"" SYN__SAFETENSORS_METADATA "\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < n; i++) {
        syn_sink_char(sink, ',');
        SYN_TRY(put_entry(sink, &entries[i], data_bytes, err));
    }
    syn_sink_char(sink, '}');
    const uint64_t over = (syn_sink_bytes(sink) + LENGTH_BYTES) % DATA_ALIGN;
    for (uint64_t i = over; over != 0 && i < DATA_ALIGN; i++) syn_sink_char(sink, ' ');
    if (syn_sink_bytes(sink) > SYN__SAFETENSORS_HEADER_BYTES)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the header of a safetensors file of %zu tensors is longer than the %u "
                        "bytes that readers accept",
                        n, SYN__SAFETENSORS_HEADER_BYTES);
    return SYN_OK;
}

syn_status syn_safetensors_write_header(syn_safetensors_writer *writer, syn_sink *sink,
                                        const syn_safetensors_entry *entries, size_t n_entries,
                                        syn_error *err) {
    syn_sink *header;
    int64_t data_bytes = 0;
    SYN_TRY(check_names(entries, n_entries, err));
    SYN_TRY(syn_sink_open_memory(&header, err));
    syn_status status = put_json(header, entries, n_entries, &data_bytes, err);
    size_t bytes = 0;
    const char *json = status == SYN_OK ? syn_sink_data(header, &bytes) : NULL;
    if (json) {
        unsigned char length[LENGTH_BYTES];
        for (int i = 0; i < LENGTH_BYTES; i++)
            length[i] = (unsigned char)((uint64_t)bytes >> 8 * i);
        syn_sink_write(sink, length, LENGTH_BYTES);
        syn_sink_write(sink, json, bytes);
    }
    const syn_status closed = syn_sink_close(header, true, err); /* also reports why json is NULL */
    *writer = (syn_safetensors_writer){sink, (uint64_t)data_bytes};
    return status != SYN_OK ? status : closed;
}

syn_status syn_safetensors_write_data(syn_safetensors_writer *writer, const void *data,
                                      size_t bytes, syn_error *err) {
    if (bytes > writer->left_bytes)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%zu bytes of tensors exceed the %llu bytes left to write", bytes,
                        (unsigned long long)writer->left_bytes);
    syn_sink_write(writer->sink, data, bytes);
    writer->left_bytes -= bytes;
    return SYN_OK;
}

syn_status syn_safetensors_write_end(const syn_safetensors_writer *writer, syn_error *err) {
    if (writer->left_bytes != 0)
        return SYN_FAIL(err, SYN_E_INVALID, "%llu bytes of tensors were not written",
                        (unsigned long long)writer->left_bytes);
    return SYN_OK;
}
