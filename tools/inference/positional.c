#include "tools/inference/positional.h"

#include <string.h>

/* Whether the argument is a known option whose value is the next argument. */
static bool takes_next(const cli_program *program, const char *arg) {
    for (const cli_option *o = program->options; o->name; o++) {
        size_t i = 0;
        while (o->name[i] && (o->name[i] == arg[i] || (o->name[i] == '_' && arg[i] == '-'))) i++;
        if (!o->name[i] && !arg[i]) return o->kind != CLI_FLAG;
    }
    return false;
}

/* Rotates argv[from] to the end. */
static void move_to_end(int from, int end, char **argv) {
    char *moved = argv[from];
    for (int i = from; i + 1 < end; i++) argv[i] = argv[i + 1];
    argv[end - 1] = moved;
}

size_t cli_take_positional(const cli_program *program, int *argc, char **argv) {
    const int end = *argc;
    for (int i = 1; i < *argc;) {
        const bool option = strncmp(argv[i], "--", 2) == 0 || strcmp(argv[i], "-h") == 0;
        if (option) {
            i += takes_next(program, argv[i] + 2) ? 2 : 1;
            continue;
        }
        move_to_end(i, end, argv);
        --*argc;
    }
    return (size_t)(end - *argc);
}
