/* syntorch doctor: reports what this build and this machine have, and what is missing. */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

/* The whole program. argv[0] is the name in its messages. Returns the exit code: CLI_FAILED if a
   part that every run needs does not work. */
int doctor_program(int argc, char **argv);

#endif
