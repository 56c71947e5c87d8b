/* How far predicted times are from measured ones, and constants of a stack fitted to them. Each
   measured run is recorded on meta; its ops are priced for any hardware. */
#include "tools/calibrate/calibrate.h"
#include "tools/cli.h"

int main(int argc, char **argv) {
    cli_choose_blas(argv);
    return cli_main("calibrate", calibrate_program, argc, argv);
}
