/* Functions of programs for the Python package. The programs keep their options in static
   variables, so a lock lets one call run at a time. */
#include "tools/embed/embed.h"

#include <pthread.h>

#include "tools/synth/synth.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *syn_embed_version(void) {
    return SYN_VERSION;
}

void syn_embed_set_data(const char *folder) {
    cli_set_data(folder);
}

syn_status syn_embed_trace(syn_graph **out, int argc, const char *const *argv, syn_error *err) {
    /* cli_parse does not change the arguments. */
    char **args = (char **)(uintptr_t)argv;
    *out = NULL;
    pthread_mutex_lock(&lock);
    cli_keep_messages(err);
    const syn_status s = synth_record(out, argc, args, err);
    cli_keep_messages(NULL);
    pthread_mutex_unlock(&lock);
    return s;
}
