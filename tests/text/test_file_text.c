/* Tests how PyTorch's trace files are read into memory: mapped, from pipes and decompressed. Also
   tests which files are rejected, and with which messages. */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef SYN_HAVE_ZLIB
#include <zlib.h>
#endif

#include "export/text/file_text.h"
#include "syntorch/base/memory.h"

#define LARGE (3 * SYN__FILE_TEXT_STEP + 12345)

/* A text with different content at every position, so that a page in the wrong place is
   detected. */
static char *make_text(size_t bytes) {
    char *text = malloc(bytes + 1);
    uint64_t x = 1;
    for (size_t i = 0; text != NULL && i < bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        text[i] = (char)(' ' + (x >> 60));
    }
    return text;
}

static bool is_padded(const syn__file_text *input) {
    for (size_t i = 0; i < SYN__LOOSE_PADDING; i++)
        if (((const volatile char *)input->data)[input->bytes + i] != '\0') return false;
    return true;
}

static bool holds(const syn__file_text *input, const char *text, size_t bytes) {
    return input->bytes == bytes && memcmp(input->data, text, bytes) == 0 && is_padded(input);
}

static void mapped(void) {
    put_folder("a");
    const long page = sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {1, (size_t)page - 1, (size_t)page, (size_t)page + 1, LARGE};
    const char *path = in_folder("a/x");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        syn_error err = {0};
        syn__file_text input;
        char *text = make_text(sizes[i]);
        CHECK(text != NULL);
        put_file("a/x", text, sizes[i]);
        CHECK_OK(syn__file_text_open(&input, path, 0, &err), err);
        CHECK(holds(&input, text, sizes[i]));
        CHECK(input.mapped_bytes != 0 && !input.packed && !input.cut);
        CHECK_STR(input.name, path);
        syn__file_text_close(&input);
        CHECK(input.data == NULL);
        free(text);
    }
}

/* Resident memory of this process in KiB, including file pages. */
static long resident_kib(void) {
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    long kib = -1;
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "Rss: %ld", &kib) == 1) break;
    if (f != NULL) fclose(f);
    return kib;
}

static void giving_back(void) {
    put_folder("b");
    const char *path = in_folder("b/x");
    syn_error err = {0};
    syn__file_text input;
    char *text = make_text(LARGE);
    CHECK(text != NULL);
    put_file("b/x", text, LARGE);
    CHECK_OK(syn__file_text_open(&input, path, 0, &err), err);
    CHECK(holds(&input, text, LARGE));
    const long before = resident_kib();
    for (size_t at = 0; at <= input.bytes; at += 777) syn__file_text_done(&input, input.data + at);
    syn__file_text_done(&input, input.data + input.bytes);
    CHECK_INT(input.released_bytes, 3 * SYN__FILE_TEXT_STEP);
    const long after = resident_kib();
    if (before >= 0)
        CHECK_MSG(before - after > (long)(SYN__FILE_TEXT_STEP >> 10) * 2, "%ld KiB, then %ld KiB",
                  before, after);
    CHECK(holds(&input, text, LARGE));
    /* Reads the text a second time. */
    syn__file_text_done(&input, input.data);
    CHECK_INT(input.released_bytes, 0);
    syn__file_text_done(&input, input.data + SYN__FILE_TEXT_STEP + 1);
    CHECK_INT(input.released_bytes, SYN__FILE_TEXT_STEP);
    CHECK(holds(&input, text, LARGE));
    syn__file_text_close(&input);
    CHECK_OK(syn__file_text_memory(&input, "memory", text, LARGE, &err), err);
    syn__file_text_done(&input, input.data + input.bytes);
    CHECK(holds(&input, text, LARGE));
    syn__file_text_close(&input);
    free(text);
}

static void expect(const char *path, syn_status status, const char *words) {
    syn_error err = {0};
    syn__file_text input;
    CHECK_INT(syn__file_text_open(&input, path, 0, &err), status);
    CHECK_HAS(err.text, words);
    CHECK(input.data == NULL);
}

static void refused(void) {
    put_folder("c");
    const char *path = in_folder("c/host.json");
    put_file("c/host.json", "", 0);
    expect(path, SYN_E_FORMAT, "c/host.json is empty");
    expect("/dev/null", SYN_E_FORMAT, "/dev/null is empty");
    expect(in_folder("c"), SYN_E_IO, "it is a folder");
    expect(in_folder("c/none"), SYN_E_IO, "c/none: No such file");
    if (access("/dev/zero", R_OK) == 0) expect("/dev/zero", SYN_E_IO, "device");
    put_file("c/host.json", "\x28\xB5\x2F\xFD....", 8);
    expect(path, SYN_E_UNSUPPORTED, "compressed with zstd; unpack it first (unzstd)");
    put_file("c/host.json",
             "\xFD"
             "7zXZ\0....",
             10);
    expect(path, SYN_E_UNSUPPORTED, "compressed with xz");
    put_file("c/host.json", "\x04\x22\x4D\x18", 4);
    expect(path, SYN_E_UNSUPPORTED, "compressed with lz4");
    put_file("c/host.json", "BZh91AY", 7);
    expect(path, SYN_E_UNSUPPORTED, "compressed with bzip2");
    put_file("c/host.json", "PK\x03\x04", 4);
    expect(path, SYN_E_UNSUPPORTED, "compressed with zip");
    put_file("c/host.json", "PK", 2);
    syn_error err = {0};
    syn__file_text input;
    CHECK_OK(syn__file_text_open(&input, path, 0, &err), err);
    CHECK(holds(&input, "PK", 2));
    syn__file_text_close(&input);
}

static void pipes(void) {
    put_folder("d");
    const char *path = in_folder("d/pipe");
    CHECK(mkfifo(path, 0600) == 0);
    char *text = make_text(300001);
    CHECK(text != NULL);
    fflush(NULL);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        put_file("d/pipe", text, 300001);
        _exit(0);
    }
    syn_error err = {0};
    syn__file_text input;
    CHECK_OK(syn__file_text_open(&input, path, 0, &err), err);
    int ended = -1;
    CHECK(waitpid(child, &ended, 0) == child && ended == 0);
    CHECK(holds(&input, text, 300001));
    CHECK_INT(input.mapped_bytes, 0);
    syn__file_text_done(&input, input.data + input.bytes);
    CHECK(holds(&input, text, 300001));
    syn__file_text_close(&input);
    free(text);
}

static void standard_input(void) {
    put_folder("e");
    const char *path = in_folder("e/x");
    put_file("e/x", "some text", 9);
    if (access("/dev/stdin", F_OK) != 0) SKIP("there is no /dev/stdin");
    syn_error err = {0};
    syn__file_text input;
    CHECK(freopen(path, "rb", stdin) != NULL);
    CHECK_OK(syn__file_text_open(&input, "-", 0, &err), err);
    CHECK(holds(&input, "some text", 9));
    CHECK_STR(input.name, "standard input");
    syn__file_text_close(&input);
}

static void copies(void) {
    syn_error err = {0};
    syn__file_text input;
    CHECK_OK(syn__file_text_memory(&input, "none", NULL, 0, &err), err);
    CHECK(holds(&input, "", 0));
    syn__file_text_close(&input);
    CHECK_OK(syn__file_text_memory(&input, "two", "a\0b", 3, &err), err);
    CHECK(holds(&input, "a\0b", 3));
    syn__file_text_close(&input);
}

#ifdef SYN_HAVE_ZLIB

/* Compresses the text to one gzip member. The caller frees the result. */
static unsigned char *pack(const char *text, size_t bytes, size_t *packed_bytes) {
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) return NULL;
    const uLong capacity = deflateBound(&z, (uLong)bytes) + 100;
    unsigned char *out = malloc(capacity);
    char *in = malloc(bytes + 1);
    if (out == NULL || in == NULL) return NULL;
    memcpy(in, text, bytes);
    z.next_in = (Bytef *)in;
    z.avail_in = (uInt)bytes;
    z.next_out = out;
    z.avail_out = (uInt)capacity;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) return NULL;
    *packed_bytes = capacity - z.avail_out;
    deflateEnd(&z);
    free(in);
    return out;
}

static void unpacked(void) {
    put_folder("f");
    const char *path = in_folder("f/named.json");
    char *text = make_text(LARGE);
    size_t n = 0, m = 0;
    unsigned char *all = pack(text, LARGE, &n), *part = pack("end", 3, &m);
    CHECK(text != NULL && all != NULL && part != NULL);
    put_file("f/named.json", all, n);
    syn_error err = {0};
    syn__file_text input;
    CHECK_OK(syn__file_text_open(&input, path, 0, &err), err);
    CHECK(holds(&input, text, LARGE));
    CHECK(input.packed && !input.cut && input.mapped_bytes == 0);
    CHECK_STR(input.name, path);
    syn__file_text_close(&input);
    /* Several members, followed by bytes that are not a member. The length field of the last member
       is not the total length. */
    all = realloc(all, n + m + 4);
    CHECK(all != NULL);
    memcpy(all + n, part, m);
    memset(all + n + m, 0, 4);
    put_file("f/named.json", all, n + m + 4);
    CHECK_OK(syn__file_text_open(&input, path, 0, &err), err);
    CHECK_INT(input.bytes, LARGE + 3);
    CHECK(memcmp(input.data, text, LARGE) == 0 && memcmp(input.data + LARGE, "end", 4) == 0);
    CHECK(is_padded(&input) && input.packed && !input.cut);
    syn__file_text_close(&input);
    free(part);
    part = pack("", 0, &m);
    CHECK(part != NULL);
    put_file("f/named.json", part, m);
    expect(path, SYN_E_FORMAT, "f/named.json is empty");
    free(part);
    free(all);
    free(text);
}

static void cut_or_damaged(void) {
    put_folder("g");
    const char *path = in_folder("g/x");
    char *text = make_text(100000);
    size_t n = 0, longest = 0;
    unsigned char *all = pack(text, 100000, &n);
    CHECK(text != NULL && all != NULL);
    for (size_t keep = 2; keep < n; keep += keep < 30 || keep + 1000 > n ? 1 : 997) {
        syn_error err = {0};
        syn__file_text input;
        put_file("g/x", all, keep);
        const syn_status status = syn__file_text_open(&input, path, 0, &err);
        if (status != SYN_OK) {
            CHECK_INT(status, SYN_E_FORMAT);
            CHECK_HAS(err.text, "g/x: it is a gzip file that is damaged");
            CHECK_INT(longest, 0);
            continue;
        }
        CHECK(input.cut && input.packed && input.bytes >= longest && input.bytes <= 100000);
        CHECK(holds(&input, text, input.bytes));
        longest = input.bytes;
        syn__file_text_close(&input);
    }
    /* If only the last bytes are missing, the text is complete and only its checksum is lost. */
    CHECK_INT(longest, 100000);
    all[n - 6] ^= 1;
    put_file("g/x", all, n);
    syn_error err = {0};
    syn__file_text input;
    CHECK_OK(syn__file_text_open(&input, path, 0, &err), err);
    CHECK(input.cut && holds(&input, text, 100000));
    syn__file_text_close(&input);
    free(all);
    free(text);
}

static void bombs(void) {
    put_folder("h");
    const char *path = in_folder("h/x");
    char *text = calloc(1, LARGE);
    size_t n = 0;
    unsigned char *all = pack(text, LARGE, &n);
    CHECK(text != NULL && all != NULL);
    for (int hint = 0; hint < 2; hint++) { /* also with a length field that is too small */
        put_file("h/x", all, n);
        syn_error err = {0};
        syn__file_text input;
        CHECK_INT(syn__file_text_open_within(&input, path, 8u << 20, LARGE, &err), SYN_E_NOMEM);
        CHECK_HAS(err.text, "longer than the 8388608 bytes that this machine's memory allows");
        CHECK(input.data == NULL);
        err = (syn_error){0};
        CHECK_OK(syn__file_text_open_within(&input, path, LARGE, LARGE, &err), err);
        CHECK_INT(input.bytes, LARGE);
        syn__file_text_close(&input);
        /* Zeros compress a thousandfold. No PyTorch trace does. */
        expect(path, SYN_E_UNSUPPORTED, "raise --max_unpacked_mib");
        CHECK_INT(syn__file_text_open(&input, path, LARGE - 1, &err), SYN_E_UNSUPPORTED);
        CHECK_HAS(err.text, "of gzip unpack to more than");
        CHECK(input.data == NULL);
        err = (syn_error){0};
        CHECK_OK(syn__file_text_open(&input, path, LARGE, &err), err);
        CHECK_INT(input.bytes, LARGE);
        syn__file_text_close(&input);
        memset(all + n - 4, 1 - hint, 4);
    }
    free(all);
    /* One mebibyte is always allowed, whatever the ratio. */
    for (size_t bytes = 1 << 20; bytes <= (1 << 20) + 1; bytes++) {
        syn_error err = {0};
        syn__file_text input;
        all = pack(text, bytes, &n);
        CHECK(all != NULL && n < 2000);
        put_file("h/x", all, n);
        CHECK_INT(syn__file_text_open(&input, path, 0, &err) == SYN_OK, bytes == 1 << 20);
        syn__file_text_close(&input);
        free(all);
    }
    all = NULL;
    free(all);
    free(text);
}

#else

static void gzip_is_named(void) {
    put_folder("i");
    const char *path = in_folder("i/x");
    put_file("i/x", "\x1f\x8b\x08......", 9);
    expect(path, SYN_E_UNSUPPORTED, "i/x: it is compressed with gzip, but this program was built");
}

#endif

static syn_status open_and_copy(void *unused, syn_error *err) {
    (void)unused;
    syn__file_text input;
    SYN_TRY(syn__file_text_open(&input, in_folder("j/x"), 0, err));
    const bool same = holds(&input, "some text", 9);
    syn__file_text_close(&input);
    SYN_TRY(syn__file_text_memory(&input, "x", "some text", 9, err));
    syn__file_text_close(&input);
    return same ? SYN_OK : SYN_FAIL(err, SYN_E_FORMAT, "it was read as another text");
}

static void out_of_memory(void) {
    put_folder("j");
#ifdef SYN_HAVE_ZLIB
    size_t n = 0;
    unsigned char *all = pack("some text", 9, &n);
    CHECK(all != NULL);
    put_file("j/x", all, n);
    free(all);
#else
    put_text("j/x", "some text");
#endif
    CHECK(test_without_memory(open_and_copy, NULL) > 0);
}

static const test_case cases[] = {
    {"mapped", mapped},
    {"giving_back", giving_back},
    {"refused", refused},
    {"pipes", pipes},
    {"standard_input", standard_input},
    {"copies", copies},
#ifdef SYN_HAVE_ZLIB
    {"unpacked", unpacked},
    {"cut_or_damaged", cut_or_damaged},
    {"bombs", bombs},
#else
    {"gzip_is_named", gzip_is_named},
#endif
    {"out_of_memory", out_of_memory},
};

TEST_MAIN(cases)
