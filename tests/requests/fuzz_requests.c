/* Fuzz target for files of requests: any bytes give requests in order of arrival with at least one
   token, or an error that names the file. The first byte selects the options. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/requests/requests.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool cond) {
    if (!cond) abort();
}

static void check_request(const request *r, double before) {
    need(r->arrival_ns >= before && r->prompt >= 1 && r->output >= 1 && r->line >= 1);
    need(r->prefix_tokens >= 0 && r->prefix_tokens <= r->prompt && r->prefix >= 0);
    need(r->measured_last_ns < 0 || r->measured_last_ns >= r->measured_first_ns);
    for (int32_t i = 0; i < r->n_blocks; i++)
        (void)request_shared_key(r, i * r->block_tokens, r->block_tokens);
    (void)request_shared_key(r, 0, r->prompt);
}

/* Reads all requests from standard input. */
static void read_all(const request_options *how) {
    request_source *source;
    syn_error err = {0};
    bool end = false;
    double before = 0;
    if (requests_open(&source, how, &err) != SYN_OK) {
        need(strstr(err.text, "standard input") != NULL || strstr(err.text, "--") != NULL);
        return;
    }
    (void)requests_value(source, "model");
    while (!end) {
        request r;
        if (requests_next(source, &r, &end, &err) != SYN_OK) break;
        if (end) break;
        check_request(&r, before);
        before = r.arrival_ns;
    }
    requests_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const where[] = {NULL, "model=a", "tp!=1,model=a", "input_tokens!=0"};
    int ends[2];
    if (size == 0 || size > 60000) return 0; /* what a pipe holds */
    need(pipe(ends) == 0);
    need(write(ends[1], data + 1, size - 1) == (ssize_t)(size - 1));
    close(ends[1]);
    need(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    close(ends[0]);
    const request_options how = {.requests = "-",
                                 .where = where[data[0] % 4],
                                 .rate = data[0] & 4 ? 3 : 0,
                                 .num_requests = data[0] & 8 ? 2 : 0};
    read_all(&how);
    return 0;
}
