/* Checks the parts that runs use: libraries of the build, programs, a CUDA device and data files. A
   check is one line of the report. */
#include "tools/doctor/doctor.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "ops/blas.h"
#include "ops/simd.h"
#include "syntorch/base/sink.h"
#include "syntorch/context.h"
#include "tools/cli_json.h"

static struct arguments { bool json; } args;

static const cli_option options[] = {
    {"json", CLI_FLAG, &args.json, NULL, "print one JSON object", 0, 0}, CLI_END};

static const char *const examples[] = {"syntorch doctor", NULL};

static cli_program program = {
    "syntorch doctor",
    "Reports what this build and this machine have, what is missing, the effect of each missing "
    "part and how to get it. States: ok; slow (works, but below its speed); missing (not found on "
    "this machine); off (not in this build); failed (does not work). The exit code is 1 if a "
    "check failed, otherwise 0.",
    options, examples, false};

typedef enum state { OK, SLOW, MISSING, OFF, FAILED } state;
static const char *const state_names[] = {"ok", "slow", "missing", "off", "failed"};

typedef struct finding {
    const char *name;
    state state;
    char detail[512];    /* what was found, or what is wrong */
    const char *effect;  /* of a part that is missing or off; NULL: none */
    const char *package; /* Debian package that has the part; NULL: none */
} finding;

enum { MOST = 20 };

typedef struct report {
    finding of[MOST];
    int n;
} report;

static finding *add(report *r, const char *name, state s) {
    finding *f = &r->of[r->n++];
    *f = (finding){.name = name, .state = s};
    return f;
}

/* ---- Checks ---- */

static void check_build(report *r) {
    finding *f = add(r, "build", OK);
#ifdef __clang__
    static const char compiler[] = "clang " __clang_version__;
#else
    static const char compiler[] = "gcc " __VERSION__;
#endif
    snprintf(f->detail, sizeof f->detail, "syntorch %s, %s, %s", SYN_VERSION, compiler,
             SYN_BUILD_TYPE);
}

static void check_cpu(report *r) {
    const syn_simd used = syn_simd_level();
    syn_simd best = SYN_SIMD_SCALAR;
    for (int level = 0; level < SYN_SIMD_COUNT; level++)
        if (syn_simd_supported((syn_simd)level)) best = (syn_simd)level;
    finding *f = add(r, "cpu", used < best ? SLOW : OK);
    snprintf(f->detail, sizeof f->detail, "%d core%s, %s kernels", cli_cores(),
             cli_plural((uint64_t)cli_cores()), syn_simd_name(used));
    if (used < best) f->effect = "unset SYNTORCH_SIMD to use the widest kernels";
}

/* Whether a product of two 2 x 2 matrices is right. */
static bool multiplies(void) {
    static const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, want[] = {19, 22, 43, 50};
    float c[4];
    syn_blas_gemm(false, false, 2, 2, 2, a, 2, b, 2, 0, c, 2);
    for (int i = 0; i < 4; i++)
        if (fabsf(c[i] - want[i]) > 1e-3f) return false;
    return true;
}

static void check_blas(report *r) {
    const char *forced = syn_blas_forced_by();
    finding *f = add(r, "OpenBLAS", OK);
    syn_blas_describe(f->detail, sizeof f->detail);
    if (!multiplies()) {
        f->state = FAILED;
        f->effect = "a matrix product is wrong";
    } else if (!syn_blas_found()) {
#ifdef SYN_HAVE_OPENBLAS
        f->state = MISSING;
        f->package = "libopenblas0-pthread";
#else
        f->state = OFF;
        f->package = "libopenblas-dev";
#endif
        f->effect = "large matrix products on the CPU are slow";
    } else if (forced) {
        f->state = SLOW;
        f->effect = strcmp(forced, "OPENBLAS_CORETYPE") == 0
                        ? "unset OPENBLAS_CORETYPE to let OpenBLAS choose its kernels"
                        : "unset OPENBLAS_L2_SIZE to let OpenBLAS choose its block sizes";
    }
}

/* Whether the program is in a folder of PATH. */
static bool find_program(const char *name, char *path, size_t bytes) {
    const char *folder = getenv("PATH");
    while (folder && *folder) {
        const int n = (int)strcspn(folder, ":");
        snprintf(path, bytes, "%.*s/%s", n, folder, name);
        if (access(path, X_OK) == 0) return true;
        folder += n;
        folder += *folder == ':';
    }
    return false;
}

static void check_program(report *r, const char *name, const char *effect, const char *package) {
    finding *f = add(r, name, OK);
    if (find_program(name, f->detail, sizeof f->detail)) return;
    snprintf(f->detail, sizeof f->detail, "not in the PATH");
    f->state = MISSING;
    f->effect = effect;
    f->package = package;
}

static void check_mpi(report *r) {
    finding *f = add(r, "MPI", syn_mpi_built() ? OK : OFF);
    if (!syn_mpi_built()) {
        snprintf(f->detail, sizeof f->detail, "not in this build");
        f->effect = "all ranks run in one process";
        f->package = "libopenmpi-dev openmpi-bin";
        return;
    }
    syn_mpi_version(f->detail, sizeof f->detail);
    check_program(r, "mpirun", "ranks cannot run as several processes", "openmpi-bin");
}

/* A library that is linked if the build has it. */
static void check_library(report *r, const char *name, bool built, const char *effect,
                          const char *package) {
    finding *f = add(r, name, built ? OK : OFF);
    snprintf(f->detail, sizeof f->detail, "%sin this build", built ? "" : "not ");
    if (built) return;
    f->effect = effect;
    f->package = package;
}

static void check_libraries(report *r) {
    bool cgraph = false, protobuf = false, pcre2 = false, utf8proc = false, zlib = false;
#ifdef SYN_HAVE_CGRAPH
    cgraph = true;
#endif
#ifdef SYN_HAVE_PROTOBUF_C
    protobuf = true;
#endif
#ifdef SYN_HAVE_PCRE2
    pcre2 = true;
#endif
#ifdef SYN_HAVE_UTF8PROC
    utf8proc = true;
#endif
#ifdef SYN_HAVE_ZLIB
    zlib = true;
#endif
    check_library(r, "protobuf-c", protobuf, "no Chakra execution traces (.et)",
                  "libprotobuf-c-dev protobuf-c-compiler");
    check_library(r, "PCRE2", pcre2, "no tokenizers of GPT models, bytes only", "libpcre2-dev");
    check_library(r, "utf8proc", utf8proc, "no tokenizers of BERT models", "libutf8proc-dev");
    check_library(r, "zlib", zlib, "no packed traces (.json.gz)", "zlib1g-dev");
    check_library(r, "cgraph", cgraph, "DOT text is written without graphviz's library",
                  "libgraphviz-dev");
}

static void check_fonts(report *r) {
    finding *f = add(r, "fonts", MISSING);
    DIR *folder = opendir("/usr/share/fonts");
    for (const struct dirent *e; folder && (e = readdir(folder)) != NULL;)
        if (e->d_name[0] != '.') f->state = OK;
    if (folder) closedir(folder);
    snprintf(f->detail, sizeof f->detail, "/usr/share/fonts%s", f->state == OK ? "" : " is empty");
    if (f->state == OK) return;
    f->effect = "no text in PNG and PDF pictures";
    f->package = "fonts-dejavu-core";
}

static void check_cuda(report *r) {
    finding *f = add(r, "CUDA", OK);
    syn_device_info info;
    syn_ctx *ctx;
    syn_error err = {0};
    const syn_status s = syn_ctx_new(&ctx, SYN_DEVICE_CUDA, NULL, &err);
    if (s != SYN_OK) {
#ifdef SYN_HAVE_CUDA
        f->state = MISSING;
#else
        f->state = OFF;
#endif
        f->effect = "no --device cuda";
        snprintf(f->detail, sizeof f->detail, "%s", err.text);
        return;
    }
    syn_ctx_device_info(ctx, &info);
    snprintf(f->detail, sizeof f->detail, "%d x %s", info.devices, info.name);
    syn_ctx_free(ctx);
}

static void check_data(report *r) {
    finding *f = add(r, "data files", OK);
    if (cli_find_data("configs/gpt3-tiny.json", f->detail, sizeof f->detail)) {
        *strrchr(f->detail, '/') = '\0';
        return;
    }
    f->state = MISSING;
    snprintf(f->detail, sizeof f->detail, "examples/configs was not found");
    f->effect = "inference and pretrain need --model or --model_config, and --data";
}

/* ---- Output ---- */

static void print_report(const report *r) {
    char shown[CLI_SHOWN_BYTES];
    for (int i = 0; i < r->n; i++) {
        const finding *f = &r->of[i];
        printf("%-8s %-11s %s", state_names[f->state], f->name,
               cli_shown(f->detail, shown, sizeof shown));
        if (f->effect) printf("; %s", f->effect);
        if (f->package)
            printf("; apt install %s%s", f->package, f->state == OFF ? ", and build again" : "");
        putchar('\n');
    }
}

static syn_status print_json(const report *r, bool works, syn_error *err) {
    syn_sink *json;
    SYN_TRY(cli_json_open(&json, &program, err));
    cli_json_text(json, "version", SYN_VERSION);
    cli_json_bool(json, "ok", works);
    syn_sink_text(json, ", \"checks\": [");
    for (int i = 0; i < r->n; i++) {
        const finding *f = &r->of[i];
        syn_sink_text(json, i ? ",\n{\"name\": " : "\n{\"name\": ");
        syn_sink_json_string(json, f->name);
        cli_json_text(json, "state", state_names[f->state]);
        cli_json_text(json, "detail", f->detail);
        cli_json_text(json, "effect", f->effect);
        cli_json_text(json, "package", f->package);
        syn_sink_char(json, '}');
    }
    syn_sink_char(json, ']');
    return cli_json_close(json, SYN_OK, err);
}

int doctor_program(int argc, char **argv) {
    report r = {.n = 0};
    syn_error err = {0};
    bool works = true;
    program.name = argv[0];
    const int code = cli_parse(&program, argc, argv);
    if (code != CLI_RUN) return code;
    check_build(&r);
    check_cpu(&r);
    check_blas(&r);
    check_mpi(&r);
    check_libraries(&r);
    check_program(&r, "neato", "no pictures; DOT text can be written", "graphviz");
    check_fonts(&r);
    check_cuda(&r);
    check_data(&r);
    for (int i = 0; i < r.n; i++) works = works && r.of[i].state != FAILED;
    if (!args.json) print_report(&r);
    else if (print_json(&r, works, &err) != SYN_OK) return cli_done(&program, err.code, &err);
    return works ? CLI_OK : CLI_FAILED;
}
