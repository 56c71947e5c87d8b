/* Tests compatible mode: its files must equal, byte for byte, those that the reference tools
   (chakra_trace_link and chakra_converter) wrote for the traces of tests/reference/pt_compat and
   for the shared traces. */
#include "tests/support/files.h"
#include "tests/support/pt_compat_set.h"

/* ---- MD5 (RFC 1321): of some linked traces, up to 59 MB, only the digest is stored ---- */

static uint32_t rotate(uint32_t v, unsigned n) {
    return v << n | v >> (32 - n);
}

static void md5_block(uint32_t state[4], const unsigned char *p) {
    static const unsigned shifts[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (unsigned i = 0; i < 64; i++) {
        const unsigned round = i / 16;
        const unsigned at = (round == 0   ? i
                             : round == 1 ? 5 * i + 1
                             : round == 2 ? 3 * i + 5
                                          : 7 * i) %
                            16;
        const uint32_t f = round == 0   ? (b & c) | (~b & d)
                           : round == 1 ? (d & b) | (~d & c)
                           : round == 2 ? b ^ c ^ d
                                        : c ^ (b | ~d);
        uint32_t word = 0;
        for (unsigned k = 0; k < 4; k++) word |= (uint32_t)p[4 * at + k] << (8 * k);
        const uint32_t sine = (uint32_t)(long long)(fabs(sin(i + 1.0)) * 4294967296.0);
        const uint32_t next = b + rotate(a + f + sine + word, shifts[round][i % 4]);
        a = d, d = c, c = b, b = next;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

static void md5(const char *data, size_t bytes, char hex[33]) {
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    unsigned char tail[128] = {0};
    size_t at = 0;
    for (; bytes - at >= 64; at += 64) md5_block(state, (const unsigned char *)data + at);
    memcpy(tail, data + at, bytes - at);
    tail[bytes - at] = 0x80;
    const size_t end = bytes - at < 56 ? 64 : 128;
    for (unsigned k = 0; k < 8; k++)
        tail[end - 8 + k] = (unsigned char)((uint64_t)bytes * 8 >> (8 * k));
    for (at = 0; at < end; at += 64) md5_block(state, tail + at);
    for (unsigned i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned)(state[i / 4] >> (8 * (i % 4)) & 255));
}

static void md5_as_in_its_standard(void) {
    char hex[33];
    md5("", 0, hex);
    CHECK_STR(hex, "d41d8cd98f00b204e9800998ecf8427e");
    md5("message digest", 14, hex);
    CHECK_STR(hex, "f96b697d7cb7938d525a2f31aaf161d0");
    const char *digits =
        "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
    md5(digits, strlen(digits), hex);
    CHECK_STR(hex, "57edf4a22be3c955ac49da2e2107b67a");
}

/* ---- Comparing ---- */

static bool same_bytes(const char *what, syn_sink *sink, const char *want, size_t want_bytes) {
    size_t bytes = 0;
    const char *data = syn_sink_data(sink, &bytes);
    size_t at = 0;
    while (at < bytes && at < want_bytes && data[at] == want[at]) at++;
    if (at == bytes && at == want_bytes) return true;
    fprintf(stderr, "%s: %zu bytes, want %zu; they differ from byte %zu on\n", what, bytes,
            want_bytes, at);
    return false;
}

/* Converts and compares the .et file with an expected file, which may be compressed. */
static bool same_et(compat_set *s, const char *path) {
    syn__file_text want;
    syn_sink *et = compat_write(s, false);
    if (et == NULL) {
        fprintf(stderr, "%s: %s\n", path, s->err.text);
        return false;
    }
    bool same = false;
    if (syn__file_text_open(&want, path, 0, &s->err) == SYN_OK) {
        same = same_bytes(path, et, want.data, want.bytes);
        syn__file_text_close(&want);
    } else fprintf(stderr, "%s\n", s->err.text);
    (void)syn_sink_close(et, false, NULL);
    return same;
}

/* Returns the linked trace, which the caller closes, or NULL on failure. digest: the expected MD5;
   NULL: any. */
static syn_sink *linked(compat_set *s, const char *digest) {
    size_t bytes = 0;
    char hex[33];
    syn_sink *json = compat_write(s, true);
    if (json == NULL) {
        fprintf(stderr, "%s\n", s->err.text);
        return NULL;
    }
    const char *data = syn_sink_data(json, &bytes);
    md5(data, bytes, hex);
    if (digest == NULL || strcmp(hex, digest) == 0) return json;
    fprintf(stderr, "%s: the linked trace has MD5 %s, want %s\n", s->host_input.name, hex, digest);
    (void)syn_sink_close(json, false, NULL);
    return NULL;
}

static bool read_digest(const char *path, char digest[33]) {
    FILE *f = fopen(path, "r");
    const bool read = f != NULL && fscanf(f, "%32s", digest) == 1;
    if (f != NULL) fclose(f);
    return read;
}

/* Reads the linked trace back, converts it, and compares the result with an expected .et file. */
static bool same_again(syn_sink *json, const char *et) {
    compat_set again = {0};
    size_t bytes = 0;
    const char *data = syn_sink_data(json, &bytes);
    bool same = syn__file_text_memory(&again.host_input, "linked.json", data, bytes, &again.err) ==
                    SYN_OK &&
                compat_read(&again) == SYN_OK && same_et(&again, et);
    compat_free(&again);
    return same;
}

/* ---- Traces in this repository ---- */

static const char *own(const char *set, const char *part) {
    return reference_path("pt_compat/%s_%s", set, part);
}

static void compare_own(const char *name) {
    const char *host = own(name, "host.json"), *et = own(name, "linked.et");
    char digest[33];
    compat_set s;
    CHECK(read_digest(own(name, "linked.md5"), digest));
    CHECK_OK(compat_open(&s, host, own(name, "device.json")), s.err);
    syn_sink *json = linked(&s, digest);
    CHECK(json != NULL);
    CHECK(same_et(&s, et));
    CHECK(same_again(json, et));
    (void)syn_sink_close(json, false, NULL);
    compat_free(&s);
    CHECK_OK(compat_open(&s, host, NULL), s.err);
    CHECK(same_et(&s, own(name, "host.et")));
    compat_free(&s);
}

static void own_threads(void) {
    compare_own("threads");
}
static void own_shared_ids(void) {
    compare_own("shared");
}
static void own_messages(void) {
    compare_own("messages");
}

static void own_edges(void) {
    compare_own("edges");
}

/* ---- Shared traces ---- */

static const char *shared(const char *set, const char *part) {
    return shared_path("pytorch-traces/%s/%s", set, part);
}

static bool can_unpack(void) {
#ifdef SYN_HAVE_ZLIB
    return have_shared_data();
#else
    return false;
#endif
}

/* Removes all members "sync_dep" from a linked trace and returns its new size. They come from the
   critical path analysis, which compatible mode does not reproduce. */
static size_t without_syncs(char *text, size_t bytes) {
    static const char key[] = ",\n            \"sync_dep\": [";
    char *at;
    while ((at = strstr(text, key)) != NULL) {
        char *end = strchr(at, ']') + 1;
        memmove(at, end, bytes - (size_t)(end - text) + 1);
        bytes -= (size_t)(end - at);
    }
    return bytes;
}

static void compare_linked(const char *set, syn_sink *json) {
    const char *path = shared(set, "linked.0.json.gz");
    syn__file_text want;
    syn_error err = {0};
    CHECK_OK(syn__file_text_open(&want, path, 0, &err), err);
    char *text = syn_strndup(want.data, want.bytes);
    CHECK(text != NULL);
    const size_t bytes = without_syncs(text, want.bytes);
    CHECK(same_bytes(path, json, text, bytes));
    syn_free(text);
    syn__file_text_close(&want);
}

static void compare_shared(const char *set, const char *et, const char *digest, bool has_linked) {
    const char *want = shared(set, et);
    compat_set s;
    if (!can_unpack()) SKIP("no SYN_SHARED_DATA, or no zlib");
    CHECK_OK(compat_open(&s, shared(set, "host.0.json.gz"), shared(set, "device.0.json.gz")),
             s.err);
    syn_sink *json = linked(&s, digest);
    CHECK(json != NULL);
    if (has_linked) compare_linked(set, json);
    CHECK(same_et(&s, want));
    CHECK(same_again(json, want));
    (void)syn_sink_close(json, false, NULL);
    compat_free(&s);
}

static void shared_resnet(void) {
    char digest[33];
    if (!can_unpack()) SKIP("no SYN_SHARED_DATA, or no zlib");
    CHECK(read_digest(shared("resnet_2gpu_rank0", "linked.0.json.md5"), digest));
    compare_shared("resnet_2gpu_rank0", "chakra_trace.0.et.gz", digest, false);
}
static void shared_simple(void) {
    compare_shared("simple_add_upgraded", "chakra_trace.0.et.gz", NULL, true);
}
static void shared_all_features(void) {
    compare_shared("synth_allfeatures", "chakra_trace.0.et.gz", NULL, true);
}
static void shared_recursion(void) {
    compare_shared("recursion_repro", "expected_with_raised_limit.0.et.gz", NULL, false);
}

static void shared_host_traces(void) {
    static const char *const sets[] = {"hostonly_chakra_1.0.2", "hostonly_pt2_1.1.1",
                                       "hostonly_resnet_1.1.0"};
    if (!can_unpack()) SKIP("no SYN_SHARED_DATA, or no zlib");
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        compat_set s;
        CHECK_OK(compat_open(&s, shared(sets[i], "linked.0.json.gz"), NULL), s.err);
        CHECK(same_et(&s, shared(sets[i], "chakra_trace.0.et.gz")));
        compat_free(&s);
    }
}

static const test_case cases[] = {
    {"md5_as_in_its_standard", md5_as_in_its_standard},
    {"own_threads", own_threads},
    {"own_shared_ids", own_shared_ids},
    {"own_messages", own_messages},
    {"own_edges", own_edges},
    {"shared_resnet", shared_resnet},
    {"shared_simple", shared_simple},
    {"shared_all_features", shared_all_features},
    {"shared_recursion", shared_recursion},
    {"shared_host_traces", shared_host_traces},
};

TEST_MAIN(cases)
