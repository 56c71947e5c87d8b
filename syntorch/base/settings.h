/* Internal. Reads a configuration file, that is, one JSON object with known keys, into the members
   of a struct. A table maps keys to members; the same table is used to write and hash the members.
   Every error is one sentence with file:line:column that names the key. Hardware files and models'
   configurations are read this way. */
#ifndef SYNTORCH_SETTINGS_H
#define SYNTORCH_SETTINGS_H

#include "syntorch/base/json.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__SETTING_ROWS       64 /* maximum rows per table */
#define SYN__SETTING_NAME_BYTES 64 /* size of a NAME member, including the NUL */
#define SYN__SETTING_FILE_BYTES ((size_t)1 << 20)

typedef enum syn__setting_type {
    SYN__SETTING_F64,    /* double: the file's value times `scale` */
    SYN__SETTING_I64,    /* int64_t */
    SYN__SETTING_I32,    /* int32_t */
    SYN__SETTING_BOOL,   /* bool */
    SYN__SETTING_NAME,   /* char[64]: 1 to 63 bytes without control characters */
    SYN__SETTING_CHOICE, /* int32_t or an enum, written as one of several texts */
    SYN__SETTING_GROUP,  /* nested object; its members are relative to `offset` */
    SYN__SETTING_CUSTOM  /* `read` reads the value's tokens */
} syn__setting_type;

#define SYN__SETTING_REQUIRED 1u
#define SYN__SETTING_NULLABLE 2u  /* null is accepted and does not change the member */
#define SYN__SETTING_SAVED    4u  /* the member is written under this key */
#define SYN__SETTING_NONE     8u  /* I64: null means -1, and -1 is written as null */
#define SYN__SETTING_UNHASHED 16u /* not hashed */

typedef struct syn__settings syn__settings;
struct syn__setting_table;

/* A text in the file and the member's value for it. If several texts have the same value, the first
   of them is written. */
typedef struct syn__setting_choice {
    const char *text; /* NULL: end of the list */
    int32_t value;
} syn__setting_choice;

/* One key. Scalar rows with the same offset are alternative keys of one member: a file needs only
   one of them, and if it has several, their values must be equal. */
typedef struct syn__setting {
    const char *key;
    syn__setting_type type;
    uint32_t flags;
    size_t offset;
    double min, max; /* F64, I64, I32: inclusive, in the file's unit; integers up to 2^53 */
    double scale;    /* F64 */
    const struct syn__setting_table *group;
    const syn__setting_choice *choices;                 /* CHOICE */
    syn_status (*read)(syn__settings *s, void *member); /* CUSTOM */
    /* CUSTOM or GROUP rows with SAVED: writes the entry, as syn__settings_write does. */
    void (*write)(syn_sink *out, const void *member);
} syn__setting;

/* A key without a row whose value may change the meaning of the file. It is accepted only with an
   empty value (see syn__settings_empty) or the number `neutral`. */
typedef struct syn__setting_restricted {
    const char *key; /* NULL: end of the list */
    double neutral;
} syn__setting_restricted;

typedef struct syn__setting_table {
    const syn__setting *rows;
    size_t n_rows;
    bool ignore_unknown;                    /* false: a key without a row is an error */
    const syn__setting_restricted *refused; /* keys that are not ignored; NULL: none */
} syn__setting_table;

/* The rows of a table whose keys an object has. Bit i of `seen` and `set` is row i. */
typedef struct syn__setting_marks {
    uint64_t seen, set;                /* set: has a value other than null */
    const char *at[SYN__SETTING_ROWS]; /* position of each value in the file */
} syn__setting_marks;

struct syn__settings {
    syn_json json;
    syn_error error;
    bool named;             /* the error message already names the key */
    char path[128];         /* path of the value being read: "hardware.intra.alpha_us" */
    syn__setting_marks top; /* for the outermost object */
};

/* Starts reading a document of `bytes` bytes, which must stay valid until syn__settings_end. `name`
   begins the error messages. */
void syn__settings_begin(syn__settings *s, const char *name, const char *json, size_t bytes);
/* Reads the whole document into *target, whose members must hold the defaults. After a failure,
   syn__settings_end returns the same failure. */
syn_status syn__settings_read(syn__settings *s, const syn__setting_table *table, void *target);
/* Frees *s. Returns the first failure since syn__settings_begin, with its message in *err. */
syn_status syn__settings_end(syn__settings *s, syn_error *err) SYN_MUST_USE;

/* Writes the SAVED rows in order, each as ",\n \"key\": value". GROUP rows need `write`. */
void syn__settings_write(const syn__setting_table *table, const void *source, syn_sink *out);
/* Hashes the members of the SAVED rows, except CUSTOM and UNHASHED rows. */
uint64_t syn__settings_hash(const syn__setting_table *table, const void *source, uint64_t seed);

/* The first key that set the member at `offset`; NULL if none did. */
const char *syn__settings_key(const syn__settings *s, const syn__setting_table *table,
                              size_t offset);
/* syn__settings_fail reports an error at the last token. syn__settings_fail_at reports it at the
   value of `key` in the outermost object, or at the end of the object if it does not have the
   key. */
syn_status syn__settings_fail(syn__settings *s, const char *fmt, ...) SYN_PRINTF(2, 3);
syn_status syn__settings_fail_at(syn__settings *s, const syn__setting_table *table, const char *key,
                                 const char *fmt, ...) SYN_PRINTF(4, 5);

/* For CUSTOM rows: reads a number in [min, max]. */
syn_status syn__settings_number(syn__settings *s, double min, double max, double *out) SYN_MUST_USE;
/* Reads a value and sets *empty to whether it is null, false, 0, "", [] or {}. Of an array or
   object that is not empty, only the beginning is read, so the caller must then fail. */
syn_status syn__settings_empty(syn__settings *s, bool *empty) SYN_MUST_USE;
/* Appends ".key" to the path. Returns the argument for syn__settings_leave, which removes the key
   again. */
size_t syn__settings_enter(syn__settings *s, const char *key);
void syn__settings_leave(syn__settings *s, size_t path_bytes);
/* Copies the last KEY or STRING to buf for an error message and returns buf. A long text is cut
   between characters; control characters become '?'. */
const char *syn__settings_shown(const syn__settings *s, char buf[64]);
/* Whether the last KEY or STRING equals `text`. */
bool syn__settings_text_is(const syn__settings *s, const char *text);

/* Copies as many whole characters as fit; control characters become '?'. */
void syn__settings_copy(const char *text, size_t bytes, char *out, size_t out_bytes);

/* Writes the file name of a path without ".json", or for "folder/config.json" the folder's name. A
   name of more than 63 bytes is cut between characters; control characters become '?'. */
void syn__settings_base_name(const char *path, char out[SYN__SETTING_NAME_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
