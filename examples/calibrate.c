/* Compares predicted times with measured times, and fits a stack's constants to the measurements.
   Each measured run is also recorded on meta, so that the times of its ops can be predicted for any
   hardware. */
#include "tools/calibrate/calibrate.h"
#include "tools/cli.h"

int main(int argc, char **argv) {
    cli_choose_blas(argv);
    return cli_main("calibrate", calibrate_program, argc, argv);
}
