/* Tables of the names of calls and dtypes; see pt_names.h. */
#include "export/pytorch/read/pt_names.h"

#define MAX_NAME 48

typedef struct entry {
    const char *name;
    int value;
} entry;

/* The kinds of calls by name. Names have only lower-case letters and digits, and no "out" at the
   end. */
static const entry kinds[] = {
    {"allreduce", SYN__PT_CALL_ALL_REDUCE},
    {"allreducecoalesced", SYN__PT_CALL_ALL_REDUCE},
    {"allreducesparse", SYN__PT_CALL_ALL_REDUCE},
    {"sparseallreduce", SYN__PT_CALL_ALL_REDUCE},
    {"allreducebarrier", SYN__PT_CALL_BARRIER},
    {"reduce", SYN__PT_CALL_REDUCE},
    {"reduceoop", SYN__PT_CALL_REDUCE},
    {"allgather", SYN__PT_CALL_ALL_GATHER},
    {"allgatherv", SYN__PT_CALL_ALL_GATHER},
    {"allgatherbase", SYN__PT_CALL_ALL_GATHER},
    {"allgathersingle", SYN__PT_CALL_ALL_GATHER},
    {"allgathercoalesced", SYN__PT_CALL_ALL_GATHER},
    {"allgathersinglecoalesced", SYN__PT_CALL_ALL_GATHER},
    {"allgatherintotensor", SYN__PT_CALL_ALL_GATHER},
    {"allgatherintotensorcoalesced", SYN__PT_CALL_ALL_GATHER},
    {"allgathertensor", SYN__PT_CALL_ALL_GATHER},
    {"gather", SYN__PT_CALL_GATHER},
    {"gatherv", SYN__PT_CALL_GATHER},
    {"gathersingle", SYN__PT_CALL_GATHER},
    {"gatherintotensor", SYN__PT_CALL_GATHER},
    {"scatter", SYN__PT_CALL_SCATTER},
    {"scatterv", SYN__PT_CALL_SCATTER},
    {"broadcast", SYN__PT_CALL_BROADCAST},
    {"broadcastoop", SYN__PT_CALL_BROADCAST},
    {"broadcastcoalesced", SYN__PT_CALL_BROADCAST},
    {"bcast", SYN__PT_CALL_BROADCAST},
    {"alltoall", SYN__PT_CALL_ALL_TO_ALL},
    {"alltoallv", SYN__PT_CALL_ALL_TO_ALL},
    {"alltoallbase", SYN__PT_CALL_ALL_TO_ALL},
    {"alltoallsingle", SYN__PT_CALL_ALL_TO_ALL},
    {"alltoallvsingle", SYN__PT_CALL_ALL_TO_ALL},
    {"reducescatter", SYN__PT_CALL_REDUCE_SCATTER},
    {"reducescatterv", SYN__PT_CALL_REDUCE_SCATTER},
    {"reducescatterbase", SYN__PT_CALL_REDUCE_SCATTER},
    {"reducescattersingle", SYN__PT_CALL_REDUCE_SCATTER},
    {"reducescattercoalesced", SYN__PT_CALL_REDUCE_SCATTER},
    {"reducescattersinglecoalesced", SYN__PT_CALL_REDUCE_SCATTER},
    {"reducescattertensor", SYN__PT_CALL_REDUCE_SCATTER},
    {"reducescattertensorcoalesced", SYN__PT_CALL_REDUCE_SCATTER},
    {"barrier", SYN__PT_CALL_BARRIER},
    {"monitoredbarrier", SYN__PT_CALL_BARRIER},
    {"send", SYN__PT_CALL_SEND},
    {"isend", SYN__PT_CALL_SEND},
    {"recv", SYN__PT_CALL_RECV},
    {"irecv", SYN__PT_CALL_RECV},
    {"recvanysource", SYN__PT_CALL_RECV},
    {"batchp2pops", SYN__PT_CALL_NONE},
    {"wait", SYN__PT_CALL_NONE},
    {"waittensor", SYN__PT_CALL_NONE},
    {"init", SYN__PT_CALL_NONE},
    {"coalesced", SYN__PT_CALL_NONE},
    {"startcoalescing", SYN__PT_CALL_NONE},
    {"endcoalescing", SYN__PT_CALL_NONE},
    {"groupstart", SYN__PT_CALL_NONE},
    {"groupend", SYN__PT_CALL_NONE},
};

/* The dtypes by name: names of c10::ScalarType, and names of C++ types. A packed type counts as the
   whole byte that contains it. */
static const entry types[] = {
    {"byte", 1},           {"char", 1},           {"short", 2},          {"int", 4},
    {"long", 8},           {"half", 2},           {"float", 4},          {"double", 8},
    {"complexhalf", 4},    {"complexfloat", 8},   {"complexdouble", 16}, {"bool", 1},
    {"qint8", 1},          {"quint8", 1},         {"qint32", 4},         {"bfloat16", 2},
    {"quint4x2", 1},       {"quint2x4", 1},       {"bits1x8", 1},        {"bits2x4", 1},
    {"bits4x2", 1},        {"bits8", 1},          {"bits16", 2},         {"float8e5m2", 1},
    {"float8e4m3fn", 1},   {"float8e5m2fnuz", 1}, {"float8e4m3fnuz", 1}, {"float8e8m0fnu", 1},
    {"float4e2m1fnx2", 1}, {"uint1", 1},          {"uint2", 1},          {"uint3", 1},
    {"uint4", 1},          {"uint5", 1},          {"uint6", 1},          {"uint7", 1},
    {"uint8", 1},          {"uint16", 2},         {"uint32", 4},         {"uint64", 8},
    {"int1", 1},           {"int2", 1},           {"int3", 1},           {"int4", 1},
    {"int5", 1},           {"int6", 1},           {"int7", 1},           {"int8", 1},
    {"int16", 2},          {"int32", 4},          {"int64", 8},          {"unsignedchar", 1},
    {"signedchar", 1},     {"shortint", 2},       {"longint", 8},        {"unsignedshort", 2},
    {"unsignedint", 4},    {"unsignedlong", 8},   {"float16", 2},        {"float32", 4},
    {"float64", 8},        {"complex64", 8},      {"complex128", 16},    {"complexchalf", 4},
    {"complexc10half", 4},
};

static size_t plain(syn__str name, char out[MAX_NAME]) {
    size_t n = 0;
    for (size_t i = 0; i < name.bytes && n + 1 < MAX_NAME; i++) {
        const char c = name.text[i];
        if (c >= 'A' && c <= 'Z') out[n++] = (char)(c - 'A' + 'a');
        else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out[n++] = c;
    }
    out[n] = '\0';
    return n;
}

static const entry *find(const entry *table, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(table[i].name, name) == 0) return &table[i];
    }
    return NULL;
}
#define FIND(table, name) find(table, sizeof(table) / sizeof((table)[0]), name)

/* The text after the last colon, up to a space or parenthesis. */
static syn__str last_part(syn__str name) {
    for (size_t i = 0; i < name.bytes; i++) {
        if (name.text[i] == ' ' || name.text[i] == '(') name.bytes = i;
    }
    for (size_t i = name.bytes; i > 0; i--) {
        if (name.text[i - 1] != ':') continue;
        name.text += i;
        name.bytes -= i;
        break;
    }
    return name;
}

/* Accepts "nccl:all_reduce", but not "c10d::...". */
bool syn__pt_is_library_call(syn__str name) {
    size_t i = 0;
    while (i < name.bytes && ((name.text[i] >= 'a' && name.text[i] <= 'z') ||
                              (name.text[i] >= '0' && name.text[i] <= '9')))
        i++;
    return i > 0 && i + 1 < name.bytes && name.text[i] == ':' && name.text[i + 1] != ':' &&
           syn__pt_call_kind(name) >= 0;
}

bool syn__pt_is_call(syn__str name) {
    const bool api = syn__str_begins(name, "c10d::") ||
                     syn__str_begins(name, "c10d_functional::") ||
                     syn__str_begins(name, "_c10d_functional::");
    return syn__str_is(name, "record_param_comms") || syn__pt_is_library_call(name) ||
           (api && syn__pt_call_kind(name) >= 0);
}

int syn__pt_call_kind(syn__str name) {
    char text[MAX_NAME];
    const syn__str part = last_part(name);
    if (part.bytes >= MAX_NAME) return SYN__PT_CALL_UNKNOWN;
    const size_t n = plain(part, text);
    const entry *found = FIND(kinds, text);
    if (found == NULL && n > 3 && strcmp(text + n - 3, "out") == 0) {
        text[n - 3] = '\0';
        found = FIND(kinds, text);
    }
    return found != NULL ? found->value : SYN__PT_CALL_UNKNOWN;
}

int64_t syn__pt_dtype_bytes(syn__str name) {
    char text[MAX_NAME];
    if (name.bytes >= 5 && memcmp(name.text, "c10::", 5) == 0) {
        name.text += 5;
        name.bytes -= 5;
    }
    if (name.bytes >= MAX_NAME) return 0;
    plain(name, text);
    const entry *found = FIND(types, text);
    return found != NULL ? found->value : 0;
}
