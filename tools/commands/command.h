/* The subcommands of `syntorch`. Each gets its own arguments, with its name as argv[0], and returns
   the exit code. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

/* Runs the command that argv[1] names, or the one after which argv[0] is named, such as
   `build/inference`. Returns the exit code. It can be called again, but not concurrently. */
int syntorch_program(int argc, char **argv);

int command_astra_sim(int argc, char **argv);
int command_convert_all(int argc, char **argv);
int command_convert_pytorch(int argc, char **argv);
int command_convert_text(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_expand(int argc, char **argv);
int command_export(int argc, char **argv);
int command_json(int argc, char **argv);
int command_link(int argc, char **argv);
int command_repair(int argc, char **argv);
int command_simulate(int argc, char **argv);
int command_stamp(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_validate(int argc, char **argv);
int command_view(int argc, char **argv);
int command_weights(int argc, char **argv);
int command_what_if(int argc, char **argv);

#endif
