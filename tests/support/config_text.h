/* Checks readers of config.json with texts that are changed in one place and must be rejected. */
#ifndef TESTS_CONFIG_TEXT_H
#define TESTS_CONFIG_TEXT_H

#include "models/config.h"

/* Read a text as if it were the content of the file `name`, or of "m.json". *err is cleared
   first. */
syn_status config_parse_as(syn_model_config *c, const char *name, const char *json, syn_error *err);
syn_status config_parse(syn_model_config *c, const char *json, syn_error *err);
/* The text with the first occurrence of `from` replaced by `to`. Valid until the next call. */
const char *config_with(const char *text, const char *from, const char *to);

/* A change that makes a text invalid, and two parts of the expected error. */
typedef struct config_refusal {
    const char *from, *to;
    /* The beginning of the error, such as "m.json:1:12: ", and words that must follow it. */
    const char *where, *says;
} config_refusal;

/* Whether two configurations have the same values for everything that a file contains. */
bool config_same(const syn_model_config *a, const syn_model_config *b);

/* The following functions run checks in cases of TEST_MAIN. config_check_refused applies each
   change to the text. The reader must return the change's error and leave the configuration as it
   was. */
void config_check_refused(const char *text, const config_refusal *rows, size_t n);
/* The same for the text truncated after each of its bytes. */
void config_check_cuts(const char *text);
/* Reads the text repeatedly. Each time a different allocation fails. */
void config_check_without_memory(const char *text);
/* The preset must have 12 heads. Checks which numbers of ranks are accepted: exactly those that
   divide its heads and its widths. */
void config_check_ranks(const char *preset);

#endif
