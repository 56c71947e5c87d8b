/* Tests of config.json readers with texts that are changed in one place and must be rejected. */
#ifndef TESTS_CONFIG_TEXT_H
#define TESTS_CONFIG_TEXT_H

#include "models/config.h"

/* Reads a text as if it were the file `name`, or "m.json". Clears *err first. */
syn_status config_parse_as(syn_model_config *c, const char *name, const char *json, syn_error *err);
syn_status config_parse(syn_model_config *c, const char *json, syn_error *err);
/* The text with the first `from` replaced by `to`. Valid until the next call. */
const char *config_with(const char *text, const char *from, const char *to);

/* A change that makes a text invalid, and parts of the expected error. */
typedef struct config_refusal {
    const char *from, *to;
    const char *where, *says; /* its beginning, "m.json:1:12: ", and the words after it */
} config_refusal;

/* Whether two configurations are equal in everything that a file contains. */
bool config_same(const syn_model_config *a, const syn_model_config *b);

/* The following are checks for the cases of TEST_MAIN. Each change of the text must be rejected
   with its error and leave the configuration unchanged. */
void config_check_refused(const char *text, const config_refusal *rows, size_t n);
/* The same for the text truncated at any byte. */
void config_check_cuts(const char *text);
/* Reads the text repeatedly, with a different allocation failing each time. */
void config_check_without_memory(const char *text);
/* A preset with 12 heads can be sharded over numbers of ranks that divide its heads and width, and
   no others. */
void config_check_ranks(const char *preset);

#endif
