/* Implements pt_calls_json.h: formats events as JSON and reads them like files. */
#include "tests/support/pt_calls_json.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/files.h"

void put(char *text, size_t *n, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    *n += (size_t)vsnprintf(text + *n, JSON_ROOM - *n, fmt, args);
    va_end(args);
}

void host_op(traces *t, int id, int parent, int tid, const char *name, const char *inputs,
             const char *outputs, const char *attrs) {
    put(t->host, &t->n_host,
        "%s{\"id\":%d,\"name\":\"%s\",\"ctrl_deps\":%d,\"inputs\":{\"values\":[%s],\"shapes\":[],"
        "\"types\":[]},\"outputs\":{\"values\":[%s],\"shapes\":[],\"types\":[]},\"attrs\":"
        "[" OP_ATTRS "%s%s]}",
        t->n_host == 0 ? "" : ",", id, name, parent, inputs, outputs, id, tid,
        *attrs != '\0' ? "," : "", attrs);
    if (id < 4) return;
    put(t->device, &t->n_device,
        "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%d,\"dur\":"
        "8,\"args\":{\"External id\":%d,\"Record function id\":%d}}",
        t->n_device == 0 ? "" : ",", name, tid, 10 * id, id, id);
}

traces *begin_traces(void) {
    traces *t = (traces *)calloc(1, sizeof *t);
    if (t == NULL) abort();
    host_op(t, 1, 1, 0, "[pytorch|profiler|execution_trace|process]", "", "", "");
    host_op(t, 2, 1, 1, "[pytorch|profiler|execution_trace|thread]", "", "", "");
    return t;
}

void kernel(traces *t, int id, const char *name, const char *args) {
    const int n = ++t->correlation;
    put(t->device, &t->n_device,
        ",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
        "\"ts\":%d,\"dur\":1,\"args\":{\"External id\":%d,\"correlation\":%d}},{\"ph\":\"X\","
        "\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":4,\"args\":{"
        "\"External id\":%d,\"device\":0,\"stream\":7,\"correlation\":%d%s%s}}",
        10 * id + 2, id, n, name, 1000 + 10 * id + n % 5, id, n, *args != '\0' ? "," : "", args);
}

/* The text of a complete trace file around the elements of its list; valid until the next call. */
static const char *whole(const char *top, const char *list, const char *elements, size_t *bytes) {
    static char text[2 * JSON_ROOM];
    *bytes = (size_t)snprintf(text, sizeof text, "{%s\"%s\":[%s]}", top, list, elements);
    return text;
}

#define HOST_TOP "\"schema\":\"1.1.1-chakra.0.0.4\","

const char *put_host(const traces *t, const char *name) {
    size_t bytes;
    const char *text = whole(HOST_TOP, "nodes", t->host, &bytes);
    return put_file(name, text, bytes);
}

const char *put_device(const traces *t, const char *name) {
    size_t bytes;
    const char *text = whole("", "traceEvents", t->device, &bytes);
    return put_file(name, text, bytes);
}

syn_status find(traces *t, const char *top) {
    const syn_pytorch_options options = {0};
    syn__pt_rank *r = &t->rank;
    size_t n;
    const char *text = whole(HOST_TOP, "nodes", t->host, &n);
    memset(r, 0, sizeof *r);
    memset(t->notes, 0, sizeof t->notes);
    memset(&t->err, 0, sizeof t->err);
    r->rank = r->world_size = -1;
    SYN_TRY(syn__file_text_memory(&r->host_input, "host", text, n, &t->err));
    SYN_TRY(
        syn__pt_host_read(&r->host, &r->host_input, (syn_pytorch_object){0}, t->notes, &t->err));
    if (!t->no_device) {
        text = whole(top, "traceEvents", t->device, &n);
        SYN_TRY(syn__file_text_memory(&r->device_input, "device", text, n, &t->err));
        SYN_TRY(syn__pt_device_read(&r->device, &r->device_input, t->notes, &t->err));
        r->has_device = true;
    }
    SYN_TRY(syn__pt_match(r, &options, t->notes, &t->err));
    return syn__pt_find_comms(r, t->notes, &t->err);
}

void end_traces(traces *t) {
    syn__pt_rank_free(&t->rank);
    free(t);
}

uint64_t host_id(const syn__pt_rank *r, const syn__pt_comm *c) {
    const uint32_t host = r->ops[c->op].host;
    return host != SYN__PT_NONE ? r->host.nodes[host].id : 0;
}

traces *one_call(const char *api, const char *inputs, const char *attrs, const char *nccl,
                 const char *kernel_name, const char *args) {
    traces *t = begin_traces();
    int parent = 2;
    if (*api != '\0') {
        host_op(t, 10, 2, 1, api, "", "", "");
        parent = 10;
    }
    if (*inputs != '\0' || *attrs != '\0') {
        host_op(t, 11, parent, 1, "record_param_comms", inputs, "", attrs);
        parent = 11;
    }
    if (*nccl != '\0') {
        host_op(t, 12, parent, 1, nccl, TENSOR("10", "4"), "", "");
        parent = 12;
    }
    if (*kernel_name != '\0')
        kernel(t, parent == 12 && parent != 2 ? 12 : parent, kernel_name, args);
    return t;
}

void send_recv(traces *t, int id, const char *name, const char *inputs) {
    host_op(t, id, 10, 1, name, "", "", "");
    host_op(t, id + 1, id, 1, "record_param_comms", inputs, "", "");
}
