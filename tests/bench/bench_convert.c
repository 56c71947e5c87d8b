/* Measures speed and memory of `syntorch convert pytorch`. Its inputs are the real traces of ResNet
   (a host and a device trace, 21.6 MB together); 4, 16 and 64 copies of them in one file; the
   device trace alone; the traces without record function ids; a chain of 200,000 nested nodes; and
   a device trace with ten million events. Each conversion runs in its own process. Times are CPU
   time, which other programs affect less. Skipped if the data or 8 GB of disk space are not
   available. */
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/text/file_text.h"
#include "tests/support/bench.h"
#include "tests/support/files.h"

#define MIN_MB_PER_S 200.0
#define MAX_MEMORY   1.5  /* largest memory, as a multiple of the input size */
#define PAIR_S       0.11 /* largest CPU time of the real traces, in seconds */
#define MAX_GROWTH   1.25 /* largest increase of the seconds per byte from one copy to 64 */
/* Smallest MB/s for short events and short nodes, of which a megabyte has more. */
#define MIN_EXTREME 100.0
#define ROOM_BYTES  8e9
#define ID_STEP     20000 /* difference of ids between two copies */
#define US_STEP     2000000
#define EVENTS      10000000
#define CHAIN       200000

extern char **environ;
static char program[512];
static const char *host_copy, *device_copy, *output; /* paths of files */

typedef struct usage {
    double wall_s, cpu_s, peak_bytes;
    int code;
} usage;

/* Converts the given traces. host or device may be NULL, which omits it. */
static usage run(const char *host, const char *device, const char *profile) {
    const char *const files_of[2][2] = {{"--host", host}, {"--device", device}};
    char *args[12] = {program,
                      "convert",
                      "pytorch",
                      "--output",
                      (char *)(uintptr_t)output,
                      "--quiet",
                      (char *)(uintptr_t)profile};
    size_t n = 7;
    for (int i = 0; i < 2; i++) {
        if (!files_of[i][1]) continue;
        args[n++] = (char *)(uintptr_t)files_of[i][0];
        args[n++] = (char *)(uintptr_t)files_of[i][1];
    }
    posix_spawn_file_actions_t files;
    struct rusage r;
    pid_t pid;
    int status = -1;
    usage u = {.code = -1};
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    const double begin = now_s();
    if (posix_spawn(&pid, program, &files, NULL, args, environ) == 0 &&
        wait4(pid, &status, 0, &r) == pid) {
        u.wall_s = now_s() - begin;
        u.cpu_s = (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
                  1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
        u.peak_bytes = 1024.0 * (double)r.ru_maxrss;
        u.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    posix_spawn_file_actions_destroy(&files);
    return u;
}

static double size_of(const char *name) {
    struct stat st;
    return stat(name, &st) == 0 ? (double)st.st_size : 0;
}

/* ---- Copies with shifted ids and times ---- */

/* Keys whose integers are shifted from copy to copy. The ids of the roots (up to 3) are not
   shifted. */
static const char *const moving[] = {"\"id\": ",
                                     "\"ctrl_deps\": ",
                                     "\"External id\": ",
                                     "\"correlation\": ",
                                     "\"Record function id\": ",
                                     "\"rf_id\", \"type\": \"uint64\", \"value\": "};

/* Writes `text` with its ids and times shifted for this copy. */
static void write_moved(FILE *out, const char *text, size_t bytes, uint64_t copy) {
    const char *p = text, *end = text + bytes, *done = text;
    while (p < end && (p = memchr(p, '"', (size_t)(end - p))) != NULL) {
        const char *value = NULL;
        bool time = false;
        for (size_t k = 0; k < sizeof moving / sizeof moving[0] && !value; k++)
            if (strncmp(p, moving[k], strlen(moving[k])) == 0) value = p + strlen(moving[k]);
        if (!value && strncmp(p, "\"ts\": ", 6) == 0) {
            value = p + 6;
            time = true;
        }
        p++;
        if (!value) continue;
        char *behind;
        const unsigned long long v = strtoull(value, &behind, 10);
        if (!time && v <= 3) continue;
        fwrite(done, 1, (size_t)(value - done), out);
        fprintf(out, "%llu", v + copy * (time ? US_STEP : ID_STEP * 4ull));
        p = done = behind;
    }
    fwrite(done, 1, (size_t)(end - done), out);
}

static bool write_copies(const char *from, const char *to, const char *list, int copies) {
    syn__file_text in;
    syn_error err = {0};
    syn__loose l;
    syn__str text, key;
    if (syn__file_text_open(&in, from, 0, &err) != SYN_OK) return false;
    FILE *out = fopen(to, "wb");
    syn__loose_init(&l, in.data, in.bytes);
    (void)syn__loose_value(&l, &text);
    bool done = false;
    while (out && !done && syn__loose_member(&l, &key)) {
        if (!syn__str_is(key, list)) {
            syn__loose_skip(&l, NULL);
            continue;
        }
        /* Writes the text before the elements, the elements of each copy, and the text after the
           elements. */
        const char *first = l.cur + 1;
        syn__loose_skip(&l, &text);
        const char *last = text.text + text.bytes - 1;
        fwrite(in.data, 1, (size_t)(first - in.data), out);
        for (int c = 0; c < copies; c++) {
            if (c > 0) fputc(',', out);
            write_moved(out, first, (size_t)(last - first), (uint64_t)c);
        }
        fwrite(last, 1, (size_t)(in.data + in.bytes - last), out);
        done = true;
    }
    const bool ok = out && fclose(out) == 0 && done;
    syn__file_text_close(&in);
    return ok;
}

static usage best_of(int rounds, const char *host, const char *device, const char *profile) {
    usage best = {.cpu_s = 1e9};
    for (int i = 0; i < rounds; i++) {
        const usage u = run(host, device, profile);
        if (u.code != 0) return u;
        if (u.cpu_s < best.cpu_s) best = u;
    }
    return best;
}

/* Returns the seconds per byte. */
static double bench_copies(const char *host, const char *device, int copies, double pair) {
    char what[80];
    double each = 0;
    if (!write_copies(host, host_copy, "nodes", copies) ||
        !write_copies(device, device_copy, "traceEvents", copies)) {
        printf("  cannot write %d copies\n", copies);
        missed++;
        return 0;
    }
    const double bytes = size_of(host_copy) + size_of(device_copy);
    for (int sim = 0; sim < 2; sim++) {
        const char *profile = sim ? "--profile=astra-sim" : "--profile=full";
        const usage u = best_of(copies > 16 ? 4 : 5, host_copy, device_copy, profile);
        if (u.code != 0) {
            printf("  %d copies, %s: exit code %d\n", copies, profile, u.code);
            missed++;
            return 0;
        }
        snprintf(what, sizeof what, "x%d (%.0f MB), %s: speed", copies, bytes / 1e6, profile + 10);
        line(what, bytes / 1e6 / u.cpu_s, "MB/s", MIN_MB_PER_S, false);
        snprintf(what, sizeof what, "x%d, %s: peak memory of input", copies, profile + 10);
        line(what, u.peak_bytes / bytes, "", MAX_MEMORY, true);
        if (sim) continue;
        each = u.cpu_s / bytes;
        if (copies == 1) line("x1, full: processor time", u.cpu_s, "s", PAIR_S, true);
        else if (pair > 0) {
            snprintf(what, sizeof what, "x%d, full: time per byte of that of x1", copies);
            line(what, each / pair, "", MAX_GROWTH, true);
        }
    }
    return each;
}

/* ---- Incomplete inputs ---- */

/* Removes record function ids, which PyTorch writes since version 2.3. */
static void hide_ids(void) {
    static const char key[] = "\"Record function id\"";
    size_t bytes;
    char *text = file_bytes(device_copy, &bytes);
    for (char *at = text; (at = strstr(at, key)) != NULL; at++) at[1] = 'X';
    put_file("device.json", text, bytes);
    free(text);
}

static void bench_less(const char *host, const char *device) {
    if (!write_copies(host, host_copy, "nodes", 16) ||
        !write_copies(device, device_copy, "traceEvents", 16)) {
        missed++;
        return;
    }
    const double bytes = size_of(device_copy), both = bytes + size_of(host_copy);
    usage u = best_of(3, NULL, device_copy, "--profile=full");
    line("x16, the device trace alone: exit code", u.code, "", 0, true);
    line("  speed", bytes / 1e6 / u.cpu_s, "MB/s", MIN_EXTREME, false);
    line("  peak memory of input", u.peak_bytes / bytes, "", MAX_MEMORY, true);
    hide_ids();
    u = best_of(3, host_copy, device_copy, "--profile=full");
    line("x16, no record function ids: exit code", u.code, "", 0, true);
    line("  speed", both / 1e6 / u.cpu_s, "MB/s", MIN_EXTREME, false);
    line("  peak memory of input", u.peak_bytes / both, "", MAX_MEMORY, true);
}

/* ---- Extremes ---- */

static const char attrs[] =
    "\"inputs\": {\"values\": [], \"shapes\": [], \"types\": []}, \"outputs\": {\"values\": [], "
    "\"shapes\": [], \"types\": []}, \"attrs\": [{\"name\": \"rf_id\", \"type\": \"uint64\", "
    "\"value\": %d}, {\"name\": \"tid\", \"type\": \"uint64\", \"value\": 1}]}";

static void write_chain(FILE *f, int nodes) {
    fputs("{\"schema\": \"1.1.0-chakra.0.0.4\", \"pid\": 1, \"nodes\": [", f);
    for (int i = nodes; i >= 1; i--) { /* children come before parents, as PyTorch writes them */
        fprintf(f, "%s{\"id\": %d, \"name\": \"op %d\", \"ctrl_deps\": %d, ",
                i < nodes ? ",\n" : "", i, i, i > 1 ? i - 1 : 1);
        fprintf(f, attrs, i > 2 ? i : 0);
    }
    fputs("]}\n", f);
}

static void write_events(FILE *f, int events) {
    fputs("{\"traceEvents\": [", f);
    for (int i = 0; i < events; i++) {
        const int op = i / 3 + 3;
        const long long ts = 1700000000000000LL + 30LL * (i / 3);
        if (i % 3 == 0)
            fprintf(f,
                    "%s{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"op\", \"pid\": 7, \"tid\": "
                    "7, \"ts\": %lld.250, \"dur\": 20.5, \"args\": {\"External id\": %d, "
                    "\"Record function id\": %d}}",
                    i ? ",\n" : "", ts, op, op);
        else if (i % 3 == 1)
            fprintf(f,
                    ",\n{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", "
                    "\"pid\": 7, \"tid\": 7, \"ts\": %lld.500, \"dur\": 5, \"args\": {\"External "
                    "id\": %d, \"correlation\": %d}}",
                    ts, op, op);
        else
            fprintf(f,
                    ",\n{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, "
                    "\"tid\": 7, \"ts\": %lld.125, \"dur\": 19.000, \"args\": {\"External id\": "
                    "%d, \"device\": 0, \"stream\": 7, \"correlation\": %d}}",
                    ts + 10, op, op);
    }
    fputs("]}\n", f);
}

static bool write_file(const char *name, void (*write)(FILE *, int), int n) {
    FILE *f = fopen(name, "wb");
    if (!f) return false;
    write(f, n);
    return fclose(f) == 0;
}

static void bench_extremes(void) {
    if (!write_file(host_copy, write_chain, CHAIN) ||
        !write_file(device_copy, write_events, EVENTS)) {
        missed++;
        return;
    }
    usage u = run(host_copy, NULL, "--profile=full");
    line("chain of 200,000 nested nodes: exit code", u.code, "", 0, true);
    line("  speed", size_of(host_copy) / 1e6 / u.cpu_s, "MB/s", MIN_EXTREME, false);
    const double bytes = size_of(host_copy) + size_of(device_copy);
    u = run(host_copy, device_copy, "--profile=full");
    line("10 million device events: exit code", u.code, "", 0, true);
    line("  speed", bytes / 1e6 / u.cpu_s, "MB/s", MIN_EXTREME, false);
    line("  peak memory of input", u.peak_bytes / bytes, "", MAX_MEMORY, true);
}

int main(void) {
    const char *build = getenv("SYN_BUILD");
    const char *host = shared_path("pytorch-traces/resnet_2gpu_rank0/host.0.json.gz");
    const char *device = shared_path("pytorch-traces/resnet_2gpu_rank0/device.0.json.gz");
    struct statvfs disk;
    snprintf(program, sizeof program, "%s/syntorch", build ? build : ".");
    if (!have_shared_data() || size_of(host) == 0) {
        printf("  skipped: the ResNet pair is not there\n");
        return 0;
    }
    if (statvfs(in_folder(""), &disk) != 0 ||
        (double)disk.f_bavail * (double)disk.f_frsize < ROOM_BYTES) {
        printf("  skipped: 8 GB of room are needed for files (TMPDIR)\n");
        return 0;
    }
    host_copy = in_folder("host.json");
    device_copy = in_folder("device.json");
    output = in_folder("out.et");
    const double pair = bench_copies(host, device, 1, 0);
    for (int copies = 4; copies <= 64; copies *= 4) bench_copies(host, device, copies, pair);
    bench_less(host, device);
    bench_extremes();
    return missed > 0;
}
