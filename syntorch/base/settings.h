/* Reads configuration files: one JSON object of known keys into the members of a struct, driven by
   a table; writes and hashes the members by the same table. Every complaint is one sentence with
   file:line:column that names the key. Internal; shared by hardware.c and
   the models' configurations. */
#ifndef SYNTORCH_SETTINGS_H
#define SYNTORCH_SETTINGS_H

#include "syntorch/base/json.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__SETTING_ROWS       64 /* of one table, at most */
#define SYN__SETTING_NAME_BYTES 64 /* of a NAME member, NUL included */
#define SYN__SETTING_FILE_BYTES ((size_t)1 << 20)

typedef enum syn__setting_type {
    SYN__SETTING_F64,    /* double: the file's value times scale */
    SYN__SETTING_I64,    /* int64_t */
    SYN__SETTING_I32,    /* int32_t */
    SYN__SETTING_BOOL,   /* bool */
    SYN__SETTING_NAME,   /* char[64]: 1 to 63 bytes without control characters */
    SYN__SETTING_CHOICE, /* int32_t or an enum: one of several texts */
    SYN__SETTING_GROUP,  /* a nested object; its members are relative to offset */
    SYN__SETTING_CUSTOM  /* `read` takes the value's tokens */
} syn__setting_type;

#define SYN__SETTING_REQUIRED 1u
#define SYN__SETTING_NULLABLE 2u  /* null leaves the member as it is */
#define SYN__SETTING_SAVED    4u  /* the name under which the member is written */
#define SYN__SETTING_NONE     8u  /* of I64: null is -1, and the other way round */
#define SYN__SETTING_ASIDE    16u /* not hashed */

typedef struct syn__settings syn__settings;
struct syn__setting_table;

/* A text and what it stands for; of several for one value the first is written. */
typedef struct syn__setting_choice {
    const char *text; /* NULL ends a list */
    int32_t value;
} syn__setting_choice;

/* Scalar rows with the same offset are names of one member: one of them suffices,
   several must agree. */
typedef struct syn__setting {
    const char *key;
    syn__setting_type type;
    uint32_t flags;
    size_t offset;
    double min, max; /* F64, I64, I32: inclusive, in the file's unit; integers within 2^53 */
    double scale;    /* F64 */
    const struct syn__setting_table *group;
    const syn__setting_choice *choices; /* CHOICE */
    syn_status (*read)(syn__settings *s, void *member);
    /* Of a CUSTOM or GROUP row that is SAVED: writes the entry, as syn__settings_write does. */
    void (*write)(syn_sink *out, const void *member);
} syn__setting;

/* A key that no row names and whose value may change what the file describes. It is accepted only
   with an empty value (see syn__settings_empty) or the number `neutral`. */
typedef struct syn__setting_refused {
    const char *key; /* NULL ends a list */
    double neutral;
} syn__setting_refused;

typedef struct syn__setting_table {
    const syn__setting *rows;
    size_t n_rows;
    bool ignore_unknown;                 /* otherwise a key that no row names is an error */
    const syn__setting_refused *refused; /* exceptions from ignore_unknown; NULL: none */
} syn__setting_table;

/* What one object has given, by row. */
typedef struct syn__setting_marks {
    uint64_t seen, set; /* set: seen with a value other than null */
    const char *at[SYN__SETTING_ROWS];
} syn__setting_marks;

struct syn__settings {
    syn_json json;
    syn_error error;
    bool named;             /* the sentence in error names its key */
    char path[128];         /* of the value being read: "hardware.intra.alpha_us" */
    syn__setting_marks top; /* of the outermost object */
};

/* Prepares a document; `json` must live until syn__settings_end. */
void syn__settings_begin(syn__settings *s, const char *name, const char *json, size_t bytes);
/* The whole document into *target, whose members hold the defaults. A failure is
   kept for syn__settings_end. */
syn_status syn__settings_read(syn__settings *s, const syn__setting_table *table, void *target);
/* Frees; the first failure since the beginning, its sentence in err. */
syn_status syn__settings_end(syn__settings *s, syn_error *err) SYN_MUST_USE;

/* Writes the rows that are SAVED, in order, each as ",\n \"key\": value"; those
   of a GROUP have `write`. */
void syn__settings_write(const syn__setting_table *table, const void *source, syn_sink *out);
/* Hashes the members of those rows but the CUSTOM and ASIDE ones. */
uint64_t syn__settings_hash(const syn__setting_table *table, const void *source, uint64_t seed);

/* The first key that gave the member at `offset` a value; NULL: none did. */
const char *syn__settings_key(const syn__settings *s, const syn__setting_table *table,
                              size_t offset);
/* Fails at the last token / at the value of a key of the outermost object (at its end if it
   was not given). */
syn_status syn__settings_fail(syn__settings *s, const char *fmt, ...) SYN_PRINTF(2, 3);
syn_status syn__settings_fail_at(syn__settings *s, const syn__setting_table *table, const char *key,
                                 const char *fmt, ...) SYN_PRINTF(4, 5);

/* For CUSTOM rows. The next token must be a number within [min, max]. */
syn_status syn__settings_number(syn__settings *s, double min, double max, double *out) SYN_MUST_USE;
/* Reads a value and says whether it is null, false, 0, "", [] or {}. Of another array or object
   only the first tokens are read, so the caller must fail then. */
syn_status syn__settings_empty(syn__settings *s, bool *empty) SYN_MUST_USE;
/* Appends ".key" to the path; returns what to pass to syn__settings_leave. */
size_t syn__settings_enter(syn__settings *s, const char *key);
void syn__settings_leave(syn__settings *s, size_t path_bytes);
/* The last KEY or STRING for a sentence: cut at whole characters, without control characters. */
const char *syn__settings_shown(const syn__settings *s, char buf[64]);
bool syn__settings_text_is(const syn__settings *s, const char *text);

/* Text for a name or a sentence: the whole characters that fit, control characters as '?'. */
void syn__settings_copy(const char *text, size_t bytes, char *out, size_t out_bytes);

/* The part of a path after its last '/', without ".json"; for "folder/config.json" the folder. Cut
   to 63 bytes at a whole character; control characters become '?'. */
void syn__settings_base_name(const char *path, char out[SYN__SETTING_NAME_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
