/* The program syntorch. */
#include "tools/cli.h"
#include "tools/commands/command.h"

int main(int argc, char **argv) {
    return cli_main(argc > 0 ? cli_base_name(argv[0]) : "syntorch", syntorch_program, argc, argv);
}
