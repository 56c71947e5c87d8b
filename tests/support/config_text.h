/* Configuration files as texts: read, changed in one place, refused. */
#ifndef TESTS_CONFIG_TEXT_H
#define TESTS_CONFIG_TEXT_H

#include "models/config.h"

/* Reads a text as the file `name`, or as "m.json"; *err is cleared before. */
syn_status config_parse_as(syn_model_config *c, const char *name, const char *json, syn_error *err);
syn_status config_parse(syn_model_config *c, const char *json, syn_error *err);
/* The text with `to` in place of the first `from`; valid until the next call. */
const char *config_with(const char *text, const char *from, const char *to);

/* A change of a text that makes it a bad file, and parts of the sentence that says so. */
typedef struct config_refusal {
    const char *from, *to;
    const char *where, *says; /* the beginning: "m.json:1:12: "; what stands behind it */
} config_refusal;

/* Whether all that a file says of a model is the same. */
bool config_same(const syn_model_config *a, const syn_model_config *b);

/* Checks of TEST_MAIN's cases. Each change of the text is refused with its sentence, and leaves the
   configuration as it was. */
void config_check_refused(const char *text, const config_refusal *rows, size_t n);
/* So is the text cut anywhere. */
void config_check_cuts(const char *text);
/* Reading the text with every single allocation failing. */
void config_check_without_memory(const char *text);
/* A preset of 12 heads is cut among the ranks that divide them and its width, and no others. */
void config_check_ranks(const char *preset);

#endif
