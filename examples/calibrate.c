/* Compares predicted with measured times, and fits a stack's constants to the measurements. Each
   measured run is recorded on meta, so its ops can be priced for any hardware. */
#include "tools/calibrate/calibrate.h"
#include "tools/cli.h"

int main(int argc, char **argv) {
    cli_choose_blas(argv);
    return cli_main("calibrate", calibrate_program, argc, argv);
}
