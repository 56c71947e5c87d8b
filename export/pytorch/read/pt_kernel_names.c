/* Detects from their names which kernels communicate, and how.
   Only the qualified name of the kernel's function is used, without return type, template arguments
   and parameters. So cutlass::device_kernel<AllGatherGemm> is computation. The parts between "::"
   are compared one by one, in lower case and without underscores. */
#include "export/pytorch/read/pt_kernel_names.h"
#include "export/pytorch/read/pt_names.h"

#define MAX_PARTS   16
#define MAX_LETTERS 512

/* A qualified name; part i starts at letters + part[i], and the last part is the function's own
   name. */
typedef struct function {
    char letters[MAX_LETTERS]; /* lower-case letters and digits of all parts, with a NUL after each
                                  part */
    bool begins[MAX_LETTERS];  /* a word begins here: "all", "To" and "All" in allToAll */
    size_t part[MAX_PARTS];
    size_t n_letters, n_parts;
} function;

/* ---- Qualified names ---- */

static bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return is_upper(c) || is_lower(c) || is_digit(c);
}

/* Whether a word begins at this character. In camelCase a word begins at each capital letter that
   does not follow another capital. In a row of capitals, a word also begins at the last one if a
   lower-case letter follows it: "Dispatch" in A2ADispatch. */
static bool word_begins(const char *from, const char *at, const char *end) {
    if (at == from || !is_letter(at[-1])) return true;
    if (!is_upper(*at)) return false;
    return !is_upper(at[-1]) || (at + 1 < end && is_lower(at[1]));
}

/* Adds a part to the name. Parts that exceed the limits are truncated or ignored; no known library
   has such names. */
static void add_part(function *f, const char *text, size_t bytes) {
    const size_t first = f->n_letters;
    if (f->n_parts == MAX_PARTS || (bytes > 0 && *text == '.')) return; /* ".kd" of HIP */
    for (size_t i = 0; i < bytes && f->n_letters + 2 < MAX_LETTERS; i++) {
        if (!is_letter(text[i])) continue;
        f->begins[f->n_letters] = word_begins(text, text + i, text + bytes);
        f->letters[f->n_letters++] = is_upper(text[i]) ? (char)(text[i] - 'A' + 'a') : text[i];
    }
    if (f->n_letters == first) return;
    f->letters[f->n_letters++] = '\0';
    f->part[f->n_parts++] = first;
}

/* Returns the end of the bracketed text that begins at i, or the end of the name if the bracket is
   not closed. */
static size_t past_brackets(syn__str name, size_t i) {
    size_t depth = 0;
    for (; i < name.bytes; i++) {
        const char c = name.text[i];
        if (c == '<' || c == '(' || c == '{') depth++;
        const bool arrow = c == '>' && name.text[i - 1] == '-';
        if ((c == '>' && !arrow) || c == ')' || c == '}') depth--;
        if (depth == 0) return i + 1;
    }
    return i;
}

/* Reads "void a::(anonymous namespace)::b<...>(...)". Text before a blank is the return type. */
static void read_demangled(function *f, syn__str name) {
    static const char anonymous[] = "(anonymous namespace)";
    bool blank = false; /* there was a blank before the current text */
    for (size_t i = 0, from = 0;; from = i) {
        while (i < name.bytes && strchr(":<([ ", name.text[i]) == NULL) i++;
        if (i > from && blank) f->n_parts = f->n_letters = 0;
        if (i > from) blank = false;
        add_part(f, name.text + from, i - from);
        const syn__str rest = {name.text + i, name.bytes - i};
        if (rest.bytes == 0 || *rest.text == '[') return;
        if (*rest.text == '(' && !syn__str_begins(rest, anonymous)) return;
        if (*rest.text == ' ') blank = true;
        i = *rest.text == '<' || *rest.text == '(' ? past_brackets(name, i) : i + 1;
    }
}

/* Reads _ZN7deep_ep9internode8dispatchILb0EEvPi: each part follows its length. */
static void read_mangled(function *f, syn__str name) {
    size_t i = 2;
    const bool nested = i < name.bytes && name.text[i] == 'N';
    if (nested) i++;
    while (i < name.bytes && (name.text[i] == 'K' || name.text[i] == 'L')) i++;
    while (i < name.bytes && is_digit(name.text[i])) {
        size_t bytes = 0;
        for (; i < name.bytes && is_digit(name.text[i]) && bytes < name.bytes; i++)
            bytes = 10 * bytes + (size_t)(name.text[i] - '0');
        if (bytes > name.bytes - i) bytes = name.bytes - i;
        if (bytes < 8 || memcmp(name.text + i, "_GLOBAL_", 8) != 0)
            add_part(f, name.text + i, bytes);
        i += bytes;
        if (!nested) return;
        while (i < name.bytes && name.text[i] == 'L') i++;
    }
}

static void read_name(function *f, syn__str name) {
    f->n_letters = f->n_parts = 0;
    if (syn__str_begins(name, "_Z")) read_mangled(f, name);
    else read_demangled(f, name);
}

/* ---- Patterns ---- */

/* Whether a part matches a pattern. The letters of a pattern must begin and end at word boundaries.
   With "^" in front, they must be at the start of the part. With "*" in front, they may begin
   within a word. With "*" at the end, they may end within a word. */
static bool matches_one(const function *f, size_t part, syn__str pattern) {
    const char *text = f->letters + part;
    const bool first = *pattern.text == '^', within = *pattern.text == '*';
    if (first || within) {
        pattern.text++;
        pattern.bytes--;
    }
    const bool open = pattern.text[pattern.bytes - 1] == '*';
    if (open) pattern.bytes--;
    for (size_t i = 0; text[i] != '\0' && (i == 0 || !first); i++) {
        if (!within && !f->begins[part + i]) continue;
        if (strncmp(text + i, pattern.text, pattern.bytes) != 0) continue;
        const size_t end = i + pattern.bytes;
        if (open || within || text[end] == '\0' || is_digit(text[end]) || f->begins[part + end])
            return true;
    }
    return false;
}

/* Whether the part matches one of several patterns, separated by "|". */
static bool matches(const function *f, size_t part, const char *patterns) {
    for (;;) {
        const char *bar = strchr(patterns, '|');
        const size_t bytes = bar != NULL ? (size_t)(bar - patterns) : strlen(patterns);
        if (matches_one(f, part, (syn__str){patterns, bytes})) return true;
        if (bar == NULL) return false;
        patterns = bar + 1;
    }
}

typedef struct row {
    const char *scope; /* pattern for a namespace or class of the function; NULL: any */
    const char *name;  /* pattern for the function's name; NULL: any */
    const char *also;  /* second pattern that the function's name must match; NULL: none */
    int kind;          /* SYN__PT_CALL_...; SYN__PT_CALL_NONE: computation */
    syn__pt_kernel_library library;
} row;

#define NCCL(scope, name) \
    { scope, name, NULL, SYN__PT_CALL_UNKNOWN, SYN__PT_KERNEL_OF_NCCL }
#define OTHER(scope, name, also, kind) \
    { scope, name, also, SYN__PT_CALL_##kind, SYN__PT_KERNEL_OF_OTHER }
#define COMPUTES(scope, name, also) \
    { scope, name, also, SYN__PT_CALL_NONE, SYN__PT_KERNEL_COMPUTES }

/* Namespaces in which the functions dispatch and combine exchange tokens with experts on other
   ranks. "ep" is a word of deep_ep, hybrid_ep, nccl_ep and nixl_ep. Forks of DeepEP use the last
   three. */
#define EXPERTS "ep|hybridep|mooncake|pplx*|internode|intranode|internodell"
#define SHMEM   "nvshmem|nvshmemi|nvshmemx|rocshmem"

/* For each name, the first row that matches is used. */
static const row rows[] = {
    /* DeepEP and its forks. notify_dispatch exchanges the token counts. */
    COMPUTES(EXPERTS, "epilogue", NULL),
    COMPUTES(EXPERTS, "prologue", NULL),
    OTHER(EXPERTS, "^dispatch*|^hybriddispatch*|^notify*", NULL, ALL_TO_ALL),
    OTHER(EXPERTS, "^combine*|^hybridcombine*", NULL, ALL_TO_ALL),
    OTHER(EXPERTS, "^groupcast*|^groupreduce*", NULL, ALL_TO_ALL), /* MagiAttention */
    OTHER(EXPERTS, "^cachednotify*|^barrier*|^cleanlowlatencybuffer|^devicesync*", NULL, BARRIER),
    OTHER(EXPERTS, "^ppsend*", NULL, SEND),
    OTHER(EXPERTS, "^pprecv*|^engramfetch*", NULL, RECV),
    /* MORI */
    COMPUTES(NULL, "epcombineall|epdispatchcopytostaging", NULL),
    OTHER(NULL, "epcombinesync*", NULL, BARRIER),
    OTHER(NULL, "epdispatch*|epcombine*", NULL, ALL_TO_ALL),
    /* Triton-distributed */
    OTHER(NULL, "kerneldispatchtoken*|kernelcombinetoken*", NULL, ALL_TO_ALL),
    /* PyTorch's symmetric memory */
    OTHER(NULL, "putsignal*|lsaput*", NULL, SEND),
    OTHER(NULL, "waitsignal*|waitforsignal*|lsaget*", NULL, RECV),
    OTHER("symmetricmemory|comm", "^barrier*", NULL, BARRIER),
    OTHER("comm", "^broadcast*", NULL, BROADCAST), /* turbomind */
    OTHER(NULL, "exchangesplitandoffset*", NULL, ALL_TO_ALL),
    OTHER("nvshmemextension|rocshmemextension", "tilereduce*|multiroottilereduce*", NULL, REDUCE),
    /* NCCL, RCCL, and MSCCL, which replaces kernels of these two */
    NCCL(NULL, "*nccl|*rccl|mscclkernel*|mscclrun*"),
    NCCL("*nccl|*rccl", NULL),
    /* Computation with names that look like communication: reductions within a GPU; copies that
       Inductor makes of the inputs of collectives; matrix products that also communicate; local
       work before or after a collective */
    COMPUTES(NULL,
             "blockall*|warpall*|waveall*|threadall*|ctaall*|clusterall*|laneall*|quadall*|"
             "subgroupall*|gridall*",
             NULL),
    COMPUTES(NULL, "^triton", "fused"),
    COMPUTES(NULL, "gemm*|matmul*", NULL),
    COMPUTES(NULL, "a2aprepare*|a2asanitize*|reducescatterlocal*", NULL),
    /* All-reduces of vLLM, SGLang, AITER, TensorRT-LLM, FlashInfer, Transformer Engine */
    OTHER(NULL, "crossdevicereducescatter*", NULL, REDUCE_SCATTER),
    OTHER(NULL, "crossdevicereduce*", NULL, ALL_REDUCE),
    OTHER("tensorrtllm|trtllm*|flashinfer", "oneshot*|twoshot*|minimaxreducerms*", NULL,
          ALL_REDUCE),
    OTHER(NULL, "userbuffersfp16suminplace*", "rs|reducescatter*", REDUCE_SCATTER),
    OTHER(NULL, "userbuffersfp16suminplace*", "ag|allgather*", ALL_GATHER),
    OTHER(NULL, "userbuffersfp16suminplace*", NULL, ALL_REDUCE),
    OTHER(NULL, "kuserbufferspushsendrecv*|pushpullhalos*", NULL, ALL_TO_ALL),
    OTHER(NULL, "kuserbufferspushsend*|kuserbufferspullsend*", NULL, SEND),
    OTHER(NULL, "kuserbufferspushrecv*|kuserbufferspullrecv*", NULL, RECV),
    OTHER("aiter", "ar", NULL, ALL_REDUCE),
    OTHER("aiter", "ag", NULL, ALL_GATHER),
    OTHER("aiter", "rs", NULL, REDUCE_SCATTER),
    /* Any library: one_shot_all_reduce_kernel, allToAllV, moeA2ADispatchKernel, ... */
    OTHER(NULL, "allreduce*|reducescatterallgather*", NULL, ALL_REDUCE),
    OTHER(NULL, "allgather*", NULL, ALL_GATHER),
    OTHER(NULL, "reducescatter*", NULL, REDUCE_SCATTER),
    OTHER(NULL, "alltoall*|all2all*|a2a|a2av", NULL, ALL_TO_ALL),
    OTHER(NULL, "fusedmoecomm*", NULL, ALL_TO_ALL), /* TensorRT-LLM */
    OTHER(NULL, "^ggmlcudaar", NULL, ALL_REDUCE),
    OTHER(NULL, "^pgbroadcast*", NULL, BROADCAST), /* ExLlamaV3 */
    OTHER(NULL, "^pggather*", NULL, GATHER),
    OTHER(NULL, "^ubx", "barrier", BARRIER), /* NCCL's UBX */
    OTHER(NULL, "^ubx", "dispatch|combine", ALL_TO_ALL),
    OTHER(NULL, "multimem", "reduce", REDUCE),
    OTHER(NULL, "barrierall*", NULL, BARRIER),
    OTHER("mscclpp", "executionkernel", NULL, UNKNOWN),
    /* Other kernels of NVSHMEM */
    COMPUTES(NULL, "nvshmemiinit*|nvshmemiteam*", NULL),
    OTHER(NULL, "barrieronstream*|synconstream*", NULL, BARRIER),
    OTHER(NULL, "broadcastonstream*", NULL, BROADCAST),
    OTHER(NULL, "fcollectonstream*", NULL, ALL_GATHER),
    OTHER(NULL, "rdxnonstream*", NULL, ALL_REDUCE),
    OTHER(NULL, SHMEM, "fcollect*", ALL_GATHER),
    OTHER(NULL, SHMEM, "reduce*", ALL_REDUCE),
    OTHER(NULL, SHMEM, "broadcast*", BROADCAST),
    OTHER(NULL, SHMEM, "barrier*|sync*|quiet*|fence*", BARRIER),
    OTHER(NULL, SHMEM, "wait*|get*|recv*", RECV),
    OTHER(NULL, SHMEM, "put*|rma*|send*|signal*", SEND),
    OTHER(NULL, SHMEM, NULL, UNKNOWN),
};

static bool fits(const function *f, const row *r) {
    const size_t own = f->part[f->n_parts - 1];
    bool inside = r->scope == NULL;
    for (size_t k = 0; k + 1 < f->n_parts && !inside; k++)
        inside = matches(f, f->part[k], r->scope);
    return inside && (r->name == NULL || matches(f, own, r->name)) &&
           (r->also == NULL || matches(f, own, r->also));
}

static const row *find_row(syn__str name) {
    function f;
    read_name(&f, name);
    for (size_t i = 0; f.n_parts > 0 && i < sizeof rows / sizeof rows[0]; i++) {
        if (fits(&f, &rows[i])) return &rows[i];
    }
    return NULL;
}

/* ---- Interface ---- */

syn__pt_kernel_library syn__pt_kernel_library_of(syn__str name) {
    const row *r = find_row(name);
    return r != NULL ? r->library : SYN__PT_KERNEL_COMPUTES;
}

/* The kind of call that a kernel of NCCL or RCCL runs. Longer names come before the names that they
   contain. */
static int nccl_kind(const function *f) {
    static const struct {
        const char *name;
        int kind;
    } kinds[] = {
        {"sendrecv", SYN__PT_CALL_SEND},
        {"allreduce", SYN__PT_CALL_ALL_REDUCE},
        {"allgather", SYN__PT_CALL_ALL_GATHER},
        {"alltoall", SYN__PT_CALL_ALL_TO_ALL},
        {"reducescatter", SYN__PT_CALL_REDUCE_SCATTER},
        {"broadcast", SYN__PT_CALL_BROADCAST},
        {"barrier", SYN__PT_CALL_BARRIER},
        {"reduce", SYN__PT_CALL_REDUCE},
        {"gather", SYN__PT_CALL_GATHER},
        {"scatter", SYN__PT_CALL_SCATTER},
    };
    if (f->n_parts == 0) return SYN__PT_CALL_UNKNOWN;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strstr(f->letters + f->part[f->n_parts - 1], kinds[i].name) != NULL)
            return kinds[i].kind;
    }
    return SYN__PT_CALL_UNKNOWN;
}

int syn__pt_kernel_kind(syn__str name) {
    const row *r = find_row(name);
    function f;
    if (r != NULL && r->library == SYN__PT_KERNEL_OF_OTHER) return r->kind;
    read_name(&f, name);
    return nccl_kind(&f);
}
