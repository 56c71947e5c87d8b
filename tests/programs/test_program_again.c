/* Calls programs several times in one process: each call begins with default options. */
#include <unistd.h>

#include "tests/support/test.h"
#include "tools/commands/command.h"

enum { OUTPUT_BYTES = 1 << 16 };

/* Runs `syntorch` with the words of `line`, and stores its standard output. */
static int run(const char *line, char output[OUTPUT_BYTES]) {
    char words[512], *argv[32];
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    argv[argc] = NULL;
    fflush(stdout);
    FILE *file = tmpfile();
    const int saved = dup(STDOUT_FILENO);
    NEED(file && saved >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0, "output to a file");
    const int code = syntorch_program(argc, argv);
    fflush(stdout);
    NEED(dup2(saved, STDOUT_FILENO) >= 0, "the former output");
    close(saved);
    rewind(file);
    output[fread(output, 1, OUTPUT_BYTES - 1, file)] = '\0';
    fclose(file);
    return code;
}

/* The command prints the same after it was called with other options. */
static void check_again(const char *line, const char *other) {
    static char before[OUTPUT_BYTES], between[OUTPUT_BYTES], after[OUTPUT_BYTES];
    CHECK_INT(run(line, before), 0);
    CHECK(before[0] != '\0');
    CHECK_INT(run(other, between), 0);
    CHECK(strcmp(before, between) != 0);
    CHECK_INT(run("syntorch inference --tp 0", between), 2);
    CHECK_INT(run(line, after), 0);
    CHECK_STR(after, before);
}

static void inference_again(void) {
    CHECK(chdir(getenv("TMPDIR")) == 0);
    check_again("syntorch inference --device meta --model gpt2 --json",
                "inference --device meta --model gpt2 --tp 2 --batch_size 2 --sweep "
                "hw=h100,h200 --out_dir .");
}

static void pretrain_again(void) {
    char examples[1024];
    snprintf(examples, sizeof examples, "%s/examples", getenv("SYN_SOURCE"));
    CHECK(symlink(examples, "examples") == 0); /* programs look for their data there */
    check_again("syntorch pretrain --device meta --model gpt2 --tokenizer bytes --num_gpus 4 "
                "--json",
                "syntorch-pretrain --device meta --model gpt2 --tokenizer bytes --num_gpus 8 --tp "
                "2 --dtype f32 "
                "--json");
}

static void synth_again(void) {
#ifndef SYN_HAVE_PROTOBUF_C
    SKIP("built without protobuf-c");
#endif
    check_again("syntorch synth --model gpt2 --dp 2 --dry_run --json",
                "synth --model gpt2 --tp 2 --phase decode --dry_run --json");
}

static void command_again(void) {
    check_again("syntorch --help", "syntorch weights --help");
}

static const test_case cases[] = {{"inference", inference_again},
                                  {"pretrain", pretrain_again},
                                  {"synth", synth_again},
                                  {"commands", command_again}};

TEST_MAIN(cases)
