/* syntorch help, man and completion: print what the option tables of the commands contain. Each
   table is reached through --help of its command. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/config.h"
#include "tools/cli.h"
#include "tools/commands/command.h"

int syntorch_usage(FILE *out, int code) {
    const char *group = "";
    fprintf(out, "Usage: syntorch COMMAND [options]\n");
    for (const command *c = syntorch_commands; c->name; c++) {
        if (strcmp(group, c->group) != 0) {
            fprintf(out, "\n");
            if (out == stdout) cli_print_heading(c->group);
            else fprintf(out, "%s", c->group);
            fprintf(out, ":\n");
        }
        group = c->group;
        fprintf(out, "  %-15s  %s\n", c->name, c->summary);
    }
    fprintf(out, "\n`syntorch COMMAND --help` describes a command.\n");
    return code;
}

/* Calls `print` with the command's option table. */
static int print_table(const command *c, cli_help *print, const void *user) {
    char name[64], help[] = "--help";
    char *argv[] = {name, help, NULL};
    snprintf(name, sizeof name, "syntorch %s", c->name);
    cli_set_help(print, user);
    const int code = c->run(2, argv);
    cli_set_help(NULL, NULL);
    return code;
}

/* Finds the command that the arguments after argv[0] name. Returns NULL after a message. */
static const command *named(int argc, char **argv) {
    char shown[CLI_SHOWN_BYTES];
    int n;
    const command *c = syntorch_find(argc - 1, argv + 1, &n);
    if (c && n == argc - 1) return c;
    fprintf(stderr, "%s: unknown command '%s' (`syntorch help` lists all)\n", argv[0],
            cli_shown(argc > 1 ? argv[c && n + 1 < argc ? n + 1 : 1] : "", shown, sizeof shown));
    return NULL;
}

/* Whether the only argument is --help; then prints the usage. */
static bool prints_usage(int argc, char **argv, const char *usage) {
    if (argc != 2 || (strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)) return false;
    printf("%s", usage);
    return true;
}

/* Whether the only argument is `convert`; then lists its formats. */
static bool lists_family(int argc, char **argv) {
    if (argc != 2 || !syntorch_is_family(argv[1])) return false;
    syntorch_list_family(argv[1], stdout);
    return true;
}

/* The presets with their numbers of parameters. */
static int list_models(void) {
    syn_model_config c;
    char params[32];
    for (size_t i = 0; syn_model_preset(i); i++)
        if (syn_model_config_preset(&c, syn_model_preset(i), NULL) == SYN_OK)
            printf("%-26s %9s parameters\n", c.name,
                   cli_count_text((double)syn_model_config_params(&c, 0), params, sizeof params));
    return CLI_OK;
}

int command_help(int argc, char **argv) {
    if (prints_usage(argc, argv,
                     "Usage: syntorch help [COMMAND|models]\n\nLists all commands, describes one "
                     "as --help does, or lists the models' names.\n"))
        return CLI_OK;
    if (argc < 2) return syntorch_usage(stdout, CLI_OK);
    if (argc == 2 && strcmp(argv[1], "models") == 0) return list_models();
    if (lists_family(argc, argv)) return CLI_OK;
    const command *c = named(argc, argv);
    return c ? print_table(c, NULL, NULL) : CLI_USAGE;
}

/* The man page of syntorch itself. */
static void print_commands(void) {
    printf(".TH SYNTORCH 1 \"\" \"syntorch %s\"\n.SH NAME\nsyntorch \\- trace transformer runs and "
           "work with traces\n.SH SYNOPSIS\n.B syntorch\n\\fIcommand\\fR [\\fIoptions\\fR]\n"
           ".SH COMMANDS\n",
           SYN_VERSION);
    for (const command *c = syntorch_commands; c->name; c++) {
        printf(".TP\n.B ");
        for (const char *p = c->name; *p; p++) printf(*p == '-' ? "\\-" : "%c", *p);
        printf("\n%s\n", c->summary);
    }
}

/* On a terminal, makes standard output a pipe to `man`, or to `cat` if there is none. Sets *pid to
   the process, 0: none. Returns a copy of standard output for close_pager. */
static int open_pager(pid_t *pid) {
    int ends[2];
    *pid = 0;
    if (!isatty(STDOUT_FILENO) || pipe(ends) != 0) return -1;
    const int terminal = dup(STDOUT_FILENO);
    *pid = fork();
    if (*pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("man", "man", "-l", "-", (char *)NULL);
        execlp("cat", "cat", (char *)NULL);
        _exit(1);
    }
    if (*pid > 0) dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    return terminal;
}

/* Waits until the user has read the page. */
static void close_pager(pid_t pid, int terminal) {
    fflush(stdout);
    if (pid > 0) dup2(terminal, STDOUT_FILENO); /* closes the pipe */
    if (terminal >= 0) close(terminal);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

int command_man(int argc, char **argv) {
    pid_t pid;
    if (prints_usage(argc, argv,
                     "Usage: syntorch man [COMMAND]\n\nShows the man page of a command, "
                     "or of syntorch itself. If standard\noutput is not a terminal, prints its "
                     "source.\n\nExamples:\n  syntorch man inference\n"))
        return CLI_OK;
    if (lists_family(argc, argv)) return CLI_OK;
    const command *c = argc < 2 ? NULL : named(argc, argv);
    if (argc >= 2 && !c) return CLI_USAGE;
    if (c && !c->has_options) {
        fprintf(stderr, "%s: %s has no options and no man page\n", argv[0], c->name);
        return CLI_USAGE;
    }
    int code = CLI_OK;
    const int terminal = open_pager(&pid);
    if (c) code = print_table(c, cli_print_man, c->summary);
    else print_commands();
    close_pager(pid, terminal);
    return code;
}

/* ---- Completion scripts ---- */

static int put_completion(const command *c, cli_help *print) {
    const cli_completed completed = {c->name, syn_model_preset};
    return print_table(c, print, &completed);
}

/* Prints the first words of all commands. */
static void put_names(void) {
    for (const command *c = syntorch_commands; c->name; c++) {
        const char *second = strchr(c->name, ' ');
        const int n = second ? (int)(second - c->name) : (int)strlen(c->name);
        if (second && c > syntorch_commands && strncmp(c[-1].name, c->name, (size_t)n + 1) == 0)
            continue;
        printf("%s%.*s", c > syntorch_commands ? " " : "", n, c->name);
    }
}

static int put_bash(void) {
    int code = CLI_OK;
    printf(
        "_syntorch() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    local name=${COMP_WORDS[0]##*/} command=${COMP_WORDS[1]-} words= files= at=1 lead=\n"
        "    case $previous-$word in\n" /* bash may split --device=m at the = */
        "    =-*) previous=${COMP_WORDS[COMP_CWORD-2]-} ;;\n"
        "    *-=) word= ;;\n"
        "    *---*=*) previous=${word%%%%=*} lead=${word%%%%=*}= word=${word#*=} ;;\n"
        "    esac\n"
        "    case $previous in\n"
        "    --*) previous=${previous#--} previous=${previous//-/_} ;;\n"
        "    *) previous= ;;\n"
        "    esac\n"
        "    case $name in syntorch-*) command=${name#syntorch-} at=0 ;; esac\n"
        "    if [ \"$command\" = convert ]; then command=\"convert ${COMP_WORDS[2]-}\" at=2; fi\n"
        "    if [ \"$COMP_CWORD\" -le $at ]; then command=$at; fi\n"
        "    case $command in\n"
        "    2) words='pytorch text' ;;\n"
        "    1 | help | man) words='");
    put_names();
    printf("' ;;\n    completion) words='bash zsh fish' ;;\n");
    for (const command *c = syntorch_commands; c->name && code == CLI_OK; c++)
        if (c->has_options) code = put_completion(c, cli_print_bash);
    printf("    esac\n"
           "    case $word in --*-*) words=${words//_/-} ;; esac\n"
           "    COMPREPLY=($(compgen -P \"$lead\" -W \"$words\" -- \"$word\"))\n"
           "    if [ -n \"$files\" ]; then\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        COMPREPLY+=($(compgen -P \"$lead\" -f -- \"$word\"))\n"
           "    fi\n"
           "}\n"
           "complete -F _syntorch syntorch syntorch-inference syntorch-pretrain syntorch-synth\n");
    return code;
}

static int put_zsh(void) {
    int code = CLI_OK;
    printf("#compdef syntorch syntorch-inference syntorch-pretrain syntorch-synth\n"
           "_syntorch() {\n"
           "    local command=$words[2] name=${words[1]:t} n=1\n"
           "    case $name in syntorch-*) command=${name#syntorch-} n=0 ;; esac\n"
           "    if (( n == 1 && CURRENT == 2 )); then\n        compadd ");
    put_names();
    printf("\n        return\n    fi\n"
           "    if [[ $command = convert ]]; then\n"
           "        if (( CURRENT == 3 )); then compadd pytorch text; return; fi\n"
           "        command=\"convert $words[3]\" n=2\n"
           "    fi\n"
           "    shift $n words\n    (( CURRENT -= n ))\n"
           "    case $command in\n"
           "    help | man) compadd ");
    put_names();
    printf(" ;;\n    completion) compadd bash zsh fish ;;\n");
    for (const command *c = syntorch_commands; c->name && code == CLI_OK; c++)
        if (c->has_options) code = put_completion(c, cli_print_zsh);
    printf("    esac\n}\n_syntorch \"$@\"\n");
    return code;
}

static int put_fish(void) {
    int code = CLI_OK;
    printf("function __syntorch_is\n"
           "    set -l words (commandline -opc)\n"
           "    set -l last (math 1 + (count (string split ' ' $argv[1])))\n"
           "    test (count $words) -ge $last; and test \"$words[2..$last]\" = $argv[1]\n"
           "end\n"
           "complete -c syntorch -n 'test (count (commandline -opc)) = 1' -f -a '");
    put_names();
    printf("'\ncomplete -c syntorch -n '__syntorch_is convert; and test (count (commandline -opc)) "
           "= 2' -f -a 'pytorch text'\n"
           "complete -c syntorch -n '__syntorch_is completion' -f -a 'bash zsh fish'\n");
    for (const command *c = syntorch_commands; c->name && code == CLI_OK; c++)
        if (c->has_options) code = put_completion(c, cli_print_fish);
    return code;
}

int command_completion(int argc, char **argv) {
    static const char usage[] =
        "Usage: syntorch completion bash|zsh|fish\n\nPrints a script that completes commands, "
        "options and their values.\n\nExamples:\n  source <(syntorch completion bash)\n";
    static const struct {
        const char *name;
        int (*put)(void);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    char shown[CLI_SHOWN_BYTES];
    if (prints_usage(argc, argv, usage)) return CLI_OK;
    for (size_t i = 0; argc == 2 && i < sizeof shells / sizeof *shells; i++)
        if (strcmp(argv[1], shells[i].name) == 0) return shells[i].put();
    fprintf(stderr, "%s: the shell must be bash, zsh or fish, not '%s'\n", argv[0],
            cli_shown(argc > 1 ? argv[1] : "", shown, sizeof shown));
    return CLI_USAGE;
}
