/* syntorch calibrate: runs the `calibrate` program in the folder of this program. calibrate is a
   separate program because it runs models and links a BLAS library, whose threads would otherwise
   start with every command. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/commands/command.h"

static const cli_option options[] = {CLI_END};
static const cli_program program = {"syntorch calibrate", "", options, NULL, false};

int command_calibrate(int argc, char **argv) {
    char path[4096 + 16];
    const ssize_t n = readlink("/proc/self/exe", path, 4095);
    (void)argc;
    if (n <= 0) return cli_fail(&program, CLI_FAILED, "/proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    char *name = strrchr(path, '/');
    snprintf(name != NULL ? name + 1 : path, 16, "calibrate");
    execv(path, argv);
    return cli_fail(&program, CLI_FAILED, "%s: %s", path, strerror(errno));
}
