/* GPT inference with tensor parallelism, traced: the main program, and the shortest complete use of
   the library.

   One rank's program is `rank_main`; it runs on N threads (--tp N), on N processes (mpirun -n N),
   or N times without data (--device meta), and cannot tell which. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm.h"
#include "models/generate.h"
#include "models/tokenizer.h"
#include "ops/blas.h"
#include "syntorch/memory.h"
#include "tools/cli.h"
#include "tools/gather.h"
#include "tools/npy.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/visualize.h"

static struct arguments {
    int64_t num_input_tokens, num_output_tokens, tp, batch_size, seed, top_k, watchdog;
    double temperature, top_p;
    const char *device, *hw_config, *model_config, *model, *tokenizer, *prompt, *out_dir,
        *save_logits, *attention;
    bool visualize_trace, debug, quiet, json, check_collectives;
} args = {.num_output_tokens = 16,
          .tp = 1,
          .batch_size = 1,
          .seed = 1,
          .watchdog = 60,
          .temperature = 1.0,
          .top_p = 1.0,
          .device = "cpu",
          .out_dir = ".",
          .attention = "unfused"};

static const cli_option options[] = {
    {"tp", CLI_INT, &args.tp, "N",
     "tensor-parallel ranks: threads of this process, or as many MPI processes", 1, 65536},
    {"device", CLI_TEXT, &args.device, "cpu|cuda|meta",
     "where to run; meta records everything and computes nothing", 0, 0},
    {"model", CLI_TEXT, &args.model, "NAME",
     "preset: gpt2, gpt2-xl, gpt3-175b, ... (a wrong name lists all)", 0, 0},
    {"model_config", CLI_TEXT, &args.model_config, "FILE",
     "HuggingFace-style config.json; default: the 2-layer examples/configs/gpt3-tiny.json", 0, 0},
    {"tokenizer", CLI_TEXT, &args.tokenizer, "DIR",
     "folder with GPT-2's vocab.json and merges.txt; default: one token a byte", 0, 0},
    {"prompt", CLI_TEXT, &args.prompt, "TEXT", "what to continue; default: a built-in sentence", 0,
     0},
    {"num_input_tokens", CLI_INT, &args.num_input_tokens, "N",
     "tokens of the prompt, which is cut or repeated to fit; default: the prompt as it is", 1, 1e9},
    {"num_output_tokens", CLI_INT, &args.num_output_tokens, "N", "tokens to generate", 1, 1e9},
    {"batch_size", CLI_INT, &args.batch_size, "N",
     "sequences with this prompt, generated side by side", 1, 1e6},
    {"temperature", CLI_REAL, &args.temperature, "T",
     "0 takes the likeliest token, larger is wilder", 0, 1e6},
    {"top_k", CLI_INT, &args.top_k, "K", "draw from the K likeliest tokens; 0: all", 0, 1e9},
    {"top_p", CLI_REAL, &args.top_p, "P",
     "draw from the smallest set of tokens with this probability", 1e-9, 1},
    {"seed", CLI_INT, &args.seed, "N", "of the random weights and of the sampling", 0,
     9007199254740991.0},
    {"attention", CLI_TEXT, &args.attention, "fused|unfused",
     "one op, or product, mask, softmax, product", 0, 0},
    {"hw_config", CLI_TEXT, &args.hw_config, "FILE|NAME",
     "predict times for this hardware: a100-80g, h100, h200, v100-32g, cpu or a JSON file", 0, 0},
    {"visualize_trace", CLI_FLAG, &args.visualize_trace, NULL,
     "write pictures, JSON, Chakra traces and a timeline", 0, 0},
    {"out_dir", CLI_TEXT, &args.out_dir, "DIR", "where they go; created if absent", 0, 0},
    {"save_logits", CLI_TEXT, &args.save_logits, "FILE.npy",
     "logits (batch, vocabulary) of the last prompt position", 0, 0},
    {"check_collectives", CLI_FLAG, &args.check_collectives, NULL,
     "over MPI: compare what the ranks call before each collective (threads always do)", 0, 0},
    {"watchdog", CLI_INT, &args.watchdog, "SECONDS",
     "over MPI: say what a rank waits for after this long, end the job after ten times as long; 0: "
     "never",
     0, 1e6},
    {"debug", CLI_FLAG, &args.debug, NULL, "print every recorded op of rank 0 on standard error", 0,
     0},
    {"quiet", CLI_FLAG, &args.quiet, NULL, "print nothing but errors", 0, 0},
    {"json", CLI_FLAG, &args.json, NULL, "print the summary as one JSON object", 0, 0},
    {NULL, CLI_FLAG, NULL, NULL, NULL, 0, 0}};

static const char *const examples[] = {
    "inference --tp 2 --visualize_trace --out_dir out      # two threads, pictures and traces",
    "mpirun -n 2 inference --tp 2                          # the same over MPI",
    "inference --device meta --model gpt3-175b --tp 8 --num_input_tokens 2048 --hw_config a100-80g",
    NULL};

static cli_program program = {"inference",
                              "Generates text with a GPT whose random weights are the same for any "
                              "number of ranks, records every op and\n"
                              "collective, and reports what they cost.",
                              options, examples, false};

/* What all ranks share and what each leaves behind. */
static struct run {
    syn_device device;
    syn_gpt_config config;
    syn_hardware hw;
    int32_t *prompt; /* (batch, prompt_tokens) */
    int64_t prompt_tokens;
    struct rank_result {
        syn_ctx *ctx;
        syn_generation generation;
        uint64_t hash; /* of the trace */
    } * results;       /* by rank; over MPI only this rank's is filled, and on rank 0 all hashes */
    syn_graph *graph;  /* over MPI, rank 0: all ranks */
} run;

/* ---- one rank -------------------------------------------------------------------------------- */

static bool shows_progress(const syn_comm *comm) {
    return comm->rank == 0 && !args.quiet && run.device != SYN_DEVICE_META;
}

static syn_status generate(syn_comm *comm, struct rank_result *r, syn_error *err) {
    syn_group *tp = NULL;
    syn_gpt *gpt = NULL;
    if (args.tp > 1) {
        int32_t *ranks = syn_malloc((size_t)args.tp * sizeof *ranks);
        if (!ranks) return SYN_FAIL_NOMEM(err, (size_t)args.tp * sizeof *ranks, "a group");
        for (int32_t i = 0; i < args.tp; i++) ranks[i] = i;
        const syn_status s = syn_comm_open_group(comm, 1, "tp0", ranks, (int32_t)args.tp, &tp, err);
        syn_free(ranks);
        SYN_TRY(s);
    }
    SYN_TRY(syn_ctx_new(&r->ctx, run.device, comm, err));
    progress weights = {.what = "making weights", .unit = "layers", .quiet = !shows_progress(comm)};
    progress tokens = {.what = "generating", .unit = "tokens", .quiet = !shows_progress(comm)};
    const syn_gpt_options how = {.tp = tp,
                                 .fused_attention = strcmp(args.attention, "fused") == 0,
                                 .seed = (uint64_t)args.seed,
                                 .progress = progress_step,
                                 .progress_user = &weights};
    SYN_TRY(syn_gpt_new(&gpt, r->ctx, &run.config, &how, err));
    r->generation = (syn_generation){
        .batch = args.batch_size,
        .prompt_tokens = run.prompt_tokens,
        .new_tokens = args.num_output_tokens,
        .prompt = run.device == SYN_DEVICE_META ? NULL : run.prompt,
        .sampling = {args.temperature, args.top_k, args.top_p, (uint64_t)args.seed},
        .eos_id = run.config.eos_id,
        .want_logits = args.save_logits && comm->rank == 0,
        .progress = progress_step,
        .progress_user = &tokens};
    const syn_status s = syn_generate(gpt, &r->generation, err);
    syn_gpt_free(gpt);
    if (args.json) r->hash = syn_trace_hash(syn_ctx_trace(r->ctx));
    return s;
}

static syn_status rank_main(syn_comm *comm, void *unused, syn_error *err) {
    (void)unused;
    return generate(comm, &run.results[comm->rank], err);
}

/* ---- the three ways to run ------------------------------------------------------------------- */

static syn_status run_meta(syn_error *err) {
    for (int32_t r = 0; r < args.tp; r++) {
        syn_comm *comm;
        SYN_TRY(syn_comm_fake_new(&comm, r, (int32_t)args.tp, err));
        const syn_status s = rank_main(comm, NULL, err);
        comm->ops->close(comm);
        SYN_TRY(s);
    }
    return SYN_OK;
}

static void mpi_log(void *unused, const char *sentence) {
    (void)unused;
    fprintf(stderr, "inference: %s\n", sentence);
}

static syn_status add_facts(syn_graph *graph, syn_error *err);

static syn_status share_hashes(syn_comm *comm, syn_error *err) {
    uint64_t *all = syn_calloc((size_t)comm->size, sizeof *all);
    if (!all) return SYN_FAIL_NOMEM(err, (size_t)comm->size * sizeof *all, "the ranks' hashes");
    const syn_status s = gather_hashes(all, comm, run.results[comm->rank].hash, err);
    for (int32_t r = 0; comm->rank == 0 && r < comm->size; r++) run.results[r].hash = all[r];
    syn_free(all);
    return s;
}

/* Hash of all that decides which collectives a rank will call, and with what. */
static uint64_t plan_hash(void) {
    const int64_t numbers[] = {
        args.num_output_tokens, args.tp,   args.batch_size,        args.seed,          args.top_k,
        run.prompt_tokens,      args.json, args.check_collectives, (int64_t)run.device};
    const double reals[] = {args.temperature, args.top_p};
    const syn_gpt_config *c = &run.config;
    const double shape[] = {(double)c->n_layer,     (double)c->n_embd,    (double)c->n_head,
                            (double)c->n_positions, (double)c->n_inner,   (double)c->vocab_size,
                            c->layer_norm_epsilon,  c->initializer_range, (double)c->gelu_tanh,
                            (double)c->tied,        (double)c->eos_id};
    uint64_t h = syn_hash(numbers, sizeof numbers, 0);
    h = syn_hash(reals, sizeof reals, h);
    h = syn_hash(shape, sizeof shape, h);
    h = syn_hash(args.attention, strlen(args.attention), h);
    return run.prompt ? syn_hash(run.prompt, (size_t)run.prompt_tokens * sizeof *run.prompt, h) : h;
}

/* A rank that could not begin (a file that only its machine lacks), or that was started with other
   options, must not leave the others waiting: the lowest such rank is named. */
static bool all_can_begin(syn_comm *comm, syn_status before, syn_error *err) {
    gather_start start;
    if (gather_agreement(&start, comm, before, before == SYN_OK ? plan_hash() : 0, err) != SYN_OK)
        return false;
    if (start.failed < 0 && start.differs < 0) return true;
    /* Said before the others end: a launcher stops all as soon as one has failed. */
    if (start.failed < 0 && comm->rank == 0)
        cli_fail(&program, CLI_FAILED,
                 "rank %d was started with other options, or another model or prompt, than rank 0",
                 start.differs);
    if (start.failed == 0 && comm->rank == 0) cli_fail(&program, CLI_FAILED, "%s", err->text);
    if (start.failed > 0 && comm->rank == start.failed)
        cli_fail(&program, CLI_FAILED, "rank %d: %s", start.failed, err->text);
    if (!program.mute) {
        /* Time for the launcher to pass the message on before it sees the rank end. */
        const struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
    }
    program.mute = true;
    return false;
}

/* Ends with all ranks' graphs on rank 0. A rank that fails says so and ends the job. `before`: how
 * preparing went. */
static syn_status run_mpi(syn_status before, syn_error *err) {
    const syn_mpi_options how = {.check_collectives = args.check_collectives,
                                 .measure_wait = true,
                                 .watchdog_s = (double)args.watchdog,
                                 .abort_s = 10.0 * (double)args.watchdog,
                                 .log = mpi_log};
    syn_comm *comm;
    SYN_TRY(syn_comm_mpi_new(&comm, &how, err));
    program.mute = false;
    if (!all_can_begin(comm, before, err)) {
        comm->ops->close(comm);
        return before != SYN_OK ? before : SYN_E_COMM;
    }
    syn_graph *mine = NULL;
    syn_status s = rank_main(comm, NULL, err);
    if (s == SYN_OK) {
        const syn_trace *trace = syn_ctx_trace(run.results[comm->rank].ctx);
        s = syn_trace_graph(&mine, &trace, 1, args.hw_config ? &run.hw : NULL, err);
    }
    if (s == SYN_OK) s = add_facts(mine, err);
    if (s == SYN_OK) s = gather_graphs(&run.graph, comm, mine, err);
    if (s == SYN_OK && args.json) s = share_hashes(comm, err);
    if (mine) syn_graph_free(mine);
    if (s != SYN_OK) {
        cli_fail(&program, CLI_FAILED, "rank %d: %s", comm->rank, err->text);
        comm->ops->abort(comm, err->text);
        program.mute = true;
    }
    if (comm->rank != 0) program.mute = true;
    comm->ops->close(comm);
    return s;
}

/* ---- before: configuration and prompt -------------------------------------------------------- */

static int load_model(syn_error *err) {
    char path[1280];
    if (args.model && args.model_config)
        return cli_fail(&program, CLI_USAGE,
                        "--model and --model_config both say which model; give one");
    syn_status s;
    if (args.model) {
        s = syn_gpt_config_preset(&run.config, args.model, err);
    } else if (args.model_config) {
        s = syn_gpt_config_load(&run.config, args.model_config, err);
    } else if (cli_find_data("configs/gpt3-tiny.json", path, sizeof path)) {
        s = syn_gpt_config_load(&run.config, path, err);
    } else {
        s = SYN_FAIL(err, SYN_E_IO,
                     "the default examples/configs/gpt3-tiny.json was not found; give --model or "
                     "--model_config");
    }
    if (s == SYN_OK) s = syn_gpt_config_check(&run.config, (int)args.tp, err);
    return s == SYN_OK ? CLI_RUN : CLI_FAILED;
}

/* Weights and KV caches of all ranks: what lives all the time. */
static double resident_bytes(void) {
    return 4.0 * (double)syn_gpt_config_params(&run.config) +
           2.0 * 4.0 * (double)run.config.n_layer * (double)run.config.n_embd *
               (double)args.batch_size * (double)(run.prompt_tokens + args.num_output_tokens - 1);
}

/* Refuses what cannot fit: systems that promise more memory than they have would end the process
   later without a word. Over MPI a machine holds the ranks that were started on it. */
static syn_status check_memory(bool mpi, syn_error *err) {
    char a[32], b[32];
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    const double here = mpi ? (local ? strtod(local, NULL) : 1.0) : (double)args.tp;
    const double have = cli_memory_bytes(), want = resident_bytes() * here / (double)args.tp;
    if (run.device == SYN_DEVICE_META || want <= have) return SYN_OK;
    return SYN_FAIL(err, SYN_E_NOMEM,
                    "out of memory: the weights of %s and the KV cache of %lld sequences are %s, "
                    "but this machine "
                    "allows %s; --device meta needs none",
                    run.config.name, (long long)args.batch_size, cli_bytes_text(want, a, sizeof a),
                    cli_bytes_text(have, b, sizeof b));
}

/* The prompt's tokens, cut or repeated to --num_input_tokens, once for every sequence of the batch.
 */
static syn_status make_prompt(const syn_tokenizer *tokenizer, bool mpi, syn_error *err) {
    const char *text = args.prompt ? args.prompt : "Once upon a time";
    int32_t *ids;
    size_t n, total;
    SYN_TRY(syn_tokenizer_encode(tokenizer, text, strlen(text), &ids, &n, err));
    if (n == 0) {
        syn_free(ids);
        return SYN_FAIL(err, SYN_E_INVALID, "the prompt is empty");
    }
    run.prompt_tokens = args.num_input_tokens ? args.num_input_tokens : (int64_t)n;
    if (run.prompt_tokens + args.num_output_tokens - 1 > run.config.n_positions) {
        syn_free(ids);
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%lld prompt tokens and %lld new ones need %lld positions, but %s has %lld",
                        (long long)run.prompt_tokens, (long long)args.num_output_tokens,
                        (long long)(run.prompt_tokens + args.num_output_tokens - 1),
                        run.config.name, (long long)run.config.n_positions);
    }
    const syn_status fits = check_memory(mpi, err);
    if (fits != SYN_OK) {
        syn_free(ids);
        return fits;
    }
    /* On meta nobody reads it but the summary, which shows one sequence. */
    const size_t rows = run.device == SYN_DEVICE_META ? 1 : (size_t)args.batch_size;
    run.prompt = NULL;
    if (syn_mul_size((size_t)run.prompt_tokens, rows, &total))
        run.prompt = syn_calloc(total, sizeof *run.prompt);
    for (size_t i = 0; run.prompt && i < total; i++)
        run.prompt[i] = ids[i % (size_t)run.prompt_tokens % n];
    syn_free(ids);
    return run.prompt ? SYN_OK : SYN_FAIL_NOMEM(err, total * sizeof *run.prompt, "the prompt");
}

/* CLI_FAILED: err says why, and nothing was printed yet. */
static int prepare(bool mpi, syn_tokenizer **tokenizer, syn_error *err) {
    if (strcmp(args.device, "cuda") == 0) {
        SYN_FAIL(err, SYN_E_UNSUPPORTED,
                 "this build has no CUDA backend; use --device cpu or --device meta");
        return CLI_FAILED;
    }
    if (strcmp(args.device, "cpu") != 0 && strcmp(args.device, "meta") != 0)
        return cli_fail(&program, CLI_USAGE, "--device is cpu, cuda or meta, not '%s'",
                        args.device);
    if (strcmp(args.attention, "fused") != 0 && strcmp(args.attention, "unfused") != 0)
        return cli_fail(&program, CLI_USAGE, "--attention is fused or unfused, not '%s'",
                        args.attention);
    run.device = strcmp(args.device, "meta") == 0 ? SYN_DEVICE_META : SYN_DEVICE_CPU;
    if (args.save_logits && run.device == SYN_DEVICE_META)
        return cli_fail(&program, CLI_USAGE,
                        "--save_logits needs numbers, and --device meta computes none");
    const int code = load_model(err);
    if (code != CLI_RUN) return code;
    syn_status s = args.hw_config ? syn_hardware_load(&run.hw, args.hw_config, err) : SYN_OK;
    if (s == SYN_OK)
        s = args.tokenizer ? syn_tokenizer_load(tokenizer, args.tokenizer, err)
                           : syn_tokenizer_open_bytes(tokenizer, err);
    if (s == SYN_OK && syn_tokenizer_vocab_size(*tokenizer) > run.config.vocab_size)
        s = SYN_FAIL(err, SYN_E_INVALID, "the tokenizer has %d tokens, but %s has only %lld",
                     syn_tokenizer_vocab_size(*tokenizer), run.config.name,
                     (long long)run.config.vocab_size);
    if (s == SYN_OK) s = make_prompt(*tokenizer, mpi, err);
    if (s == SYN_OK && args.visualize_trace && !program.mute)
        s = syn_make_folder(args.out_dir, err);
    return s == SYN_OK ? CLI_RUN : CLI_FAILED;
}

/* ---- after: what is printed and written ------------------------------------------------------ */

/* "8 ranks on 2 cores" when ranks take turns, which their times then show; else NULL. */
static const char *shared_cores(char *buf, size_t buf_bytes) {
    if (run.device == SYN_DEVICE_META || args.tp <= cli_cores()) return NULL;
    snprintf(buf, buf_bytes, "%lld ranks on %d cores", (long long)args.tp, cli_cores());
    return buf;
}

/* Facts about the run that titles and files show. */
static syn_status add_facts(syn_graph *graph, syn_error *err) {
    const syn_gpt_config *c = &run.config;
    char cores[64];
    const syn_attribute facts[] = {
        {.name = "model", .type = SYN_VALUE_TEXT, .text = c->name},
        {.name = "layers", .i64 = c->n_layer},
        {.name = "hidden", .i64 = c->n_embd},
        {.name = "heads", .i64 = c->n_head},
        {.name = "vocabulary", .i64 = c->vocab_size},
        {.name = "parameters", .i64 = syn_gpt_config_params(c)},
        {.name = "tp", .i64 = args.tp},
        {.name = "dtype", .type = SYN_VALUE_TEXT, .text = "f32"},
        {.name = "batch", .i64 = args.batch_size},
        {.name = "prompt_tokens", .i64 = run.prompt_tokens},
        {.name = "new_tokens", .i64 = args.num_output_tokens},
        {.name = "attention", .type = SYN_VALUE_TEXT, .text = args.attention},
        {.name = "device", .type = SYN_VALUE_TEXT, .text = args.device},
        {.name = "seed", .i64 = args.seed},
        {.name = "oversubscribed",
         .type = SYN_VALUE_TEXT,
         .text = shared_cores(cores, sizeof cores)},
        {.name = "hardware", .type = SYN_VALUE_TEXT, .text = args.hw_config ? run.hw.name : NULL},
    };
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        if (facts[i].type != SYN_VALUE_TEXT || facts[i].text)
            SYN_TRY(syn_graph_set_meta(graph, &facts[i], err));
    return SYN_OK;
}

/* The text of the ids; where the tokenizer knows fewer tokens than the model, the ids themselves.
 */
static void print_text(const char *what, const syn_tokenizer *tokenizer, const int32_t *ids,
                       int64_t n) {
    char *text;
    size_t bytes;
    if (syn_tokenizer_decode(tokenizer, ids, (size_t)n, &text, &bytes, NULL) != SYN_OK) {
        printf("%stoken ids", what);
        for (int64_t i = 0; i < n && i < 64; i++) printf(" %d", ids[i]);
        printf("%s (--tokenizer DIR gives text)\n", n > 64 ? " ..." : "");
        return;
    }
    const size_t most = 300; /* a long prompt would bury the rest */
    printf("%s\"", what);
    cli_print_escaped(stdout, text, bytes < most ? bytes : most);
    printf(bytes < most ? "\"\n" : "\" ... (%zu bytes)\n", bytes);
    syn_free(text);
}

static void print_tokens(const syn_tokenizer *tokenizer, const syn_generation *g) {
    print_text("prompt:  ", tokenizer, run.prompt, run.prompt_tokens);
    for (int64_t b = 0; g->tokens && b < g->batch; b++) {
        char what[32] = "text:    ";
        if (g->batch > 1)
            snprintf(what, sizeof what, "text %lld:%*s", (long long)b,
                     b < 10    ? 2
                     : b < 100 ? 1
                               : 0,
                     "");
        const int32_t *tokens = g->tokens + b * g->new_tokens;
        int64_t n = 0; /* without the end of the text and what fills up after it */
        while (n < g->made && (g->eos_id < 0 || tokens[n] != g->eos_id)) n++;
        print_text(what, tokenizer, tokens, n);
    }
}

struct speed {
    double prefill_ns, decode_ns, prefill_rate, decode_rate; /* tokens/s */
};

static struct speed speed_of(const syn_generation *g, const report *r) {
    const bool meta = run.device == SYN_DEVICE_META;
    struct speed s = {meta ? r->predicted_prefill_ns : (double)g->prefill_ns,
                      meta ? r->predicted_decode_ns : (double)g->decode_ns, 0, 0};
    if (s.prefill_ns > 0)
        s.prefill_rate = (double)(g->batch * g->prompt_tokens) * 1e9 / s.prefill_ns;
    if (s.decode_ns > 0) s.decode_rate = (double)(g->batch * (g->made - 1)) * 1e9 / s.decode_ns;
    return s;
}

static uint64_t all_nodes(const syn_graph *graph) {
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < graph->n_ranks; i++) nodes += graph->ranks[i].n_nodes;
    return nodes;
}

/* Predictions for hardware that could not hold the model deserve a word. */
static void print_fit(void) {
    char a[32], b[32];
    const double want = resident_bytes() / (double)args.tp;
    if (!args.hw_config || run.hw.memory_bytes <= 0 || want <= run.hw.memory_bytes) return;
    printf("note:    each rank needs %s for f32 weights and KV cache, but %s has %s\n",
           cli_bytes_text(want, a, sizeof a), run.hw.name,
           cli_bytes_text(run.hw.memory_bytes, b, sizeof b));
}

static void print_summary(const syn_graph *graph, const report *r, const syn_tokenizer *tokenizer) {
    const syn_generation *g = &run.results[0].generation;
    const syn_gpt_config *c = &run.config;
    char a[64], b[64];
    printf("model:   %s, %lld layers, hidden %lld, %lld heads, %s parameters, tp %lld\n", c->name,
           (long long)c->n_layer, (long long)c->n_embd, (long long)c->n_head,
           cli_count_text((double)syn_gpt_config_params(c), a, sizeof a), (long long)args.tp);
    if (run.device == SYN_DEVICE_META) {
        printf("device:  meta: nothing is computed%s\n",
               args.hw_config ? ", times are predictions" : "; --hw_config predicts times");
    } else {
        printf("device:  cpu, %s\n", syn_blas_describe(a, sizeof a));
    }
    print_fit();
    print_tokens(tokenizer, g);
    const struct speed s = speed_of(g, r);
    const char *kind = run.device == SYN_DEVICE_META ? "predicted " : "";
    if (s.prefill_ns > 0)
        printf("%sprefill: %lld tokens in %s, %s tokens/s\n", kind,
               (long long)(g->batch * g->prompt_tokens), cli_time_text(s.prefill_ns, a, sizeof a),
               cli_count_text(s.prefill_rate, b, sizeof b));
    if (s.decode_rate > 0)
        printf("%sdecode:  %lld tokens in %s, %s tokens/s\n", kind,
               (long long)(g->batch * (g->made - 1)), cli_time_text(s.decode_ns, a, sizeof a),
               cli_count_text(s.decode_rate, b, sizeof b));
    printf("trace:   %llu nodes on %u rank%s", (unsigned long long)all_nodes(graph), graph->n_ranks,
           graph->n_ranks == 1 ? "" : "s");
    if (run.device != SYN_DEVICE_META)
        printf("; rank 0 used at most %s of tensor data",
               cli_bytes_text((double)syn_ctx_peak_bytes(run.results[0].ctx), a, sizeof a));
    printf("\n\nops of rank 0, views left out:\n");
    report_print(r, stdout);
}

static syn_status print_json(const syn_graph *graph, const report *r, syn_error *err) {
    const syn_generation *g = &run.results[0].generation;
    const struct speed s = speed_of(g, r);
    syn_sink *out;
    SYN_TRY(syn_sink_open_file(&out, "-", err));
    syn_sink_text(out, "{\"model\": ");
    syn_sink_json_string(out, run.config.name);
    syn_sink_printf(out, ", \"tp\": %lld, \"device\": \"%s\", \"ranks\": %u, \"nodes\": %llu",
                    (long long)args.tp, args.device, graph->n_ranks,
                    (unsigned long long)all_nodes(graph));
    syn_sink_text(out, ", \"trace_hash\": [");
    for (uint32_t i = 0; i < graph->n_ranks; i++)
        syn_sink_printf(out, "%s\"%016llx\"", i ? ", " : "",
                        (unsigned long long)run.results[i].hash);
    syn_sink_text(out, "]");
    syn_sink_printf(out, ", \"prompt_tokens\": %lld, \"new_tokens\": %lld, \"tokens\": [",
                    (long long)g->prompt_tokens, (long long)g->made);
    for (int64_t b = 0; g->tokens && b < g->batch; b++) {
        syn_sink_text(out, b ? ", [" : "[");
        for (int64_t i = 0; i < g->made; i++)
            syn_sink_printf(out, "%s%d", i ? ", " : "", g->tokens[b * g->new_tokens + i]);
        syn_sink_char(out, ']');
    }
    syn_sink_printf(out,
                    "], \"%sprefill_ns\": ", run.device == SYN_DEVICE_META ? "predicted_" : "");
    syn_sink_double(out, s.prefill_ns);
    syn_sink_printf(out, ", \"%sdecode_ns\": ", run.device == SYN_DEVICE_META ? "predicted_" : "");
    syn_sink_double(out, s.decode_ns);
    syn_sink_text(out, ", \"ops\": ");
    report_json(r, out);
    syn_sink_text(out, "}\n");
    return syn_sink_close(out, true, err);
}

static syn_status finish(const syn_tokenizer *tokenizer, syn_error *err) {
    if (!run.graph) {
        const syn_trace **traces = syn_calloc((size_t)args.tp, sizeof *traces);
        if (!traces) return SYN_FAIL_NOMEM(err, (size_t)args.tp * sizeof *traces, "traces");
        for (int64_t r = 0; r < args.tp; r++) traces[r] = syn_ctx_trace(run.results[r].ctx);
        syn_status s = syn_trace_graph(&run.graph, traces, (uint32_t)args.tp,
                                       args.hw_config ? &run.hw : NULL, err);
        syn_free(traces);
        SYN_TRY(s);
        SYN_TRY(add_facts(run.graph, err));
    }
    report r;
    SYN_TRY(report_make(&r, run.graph, 0, err));
    if (args.debug) report_print_nodes(run.graph, 0, stderr);
    syn_status printed = SYN_OK;
    if (args.json) printed = print_json(run.graph, &r, err);
    else if (!args.quiet) print_summary(run.graph, &r, tokenizer);
    report_free(&r);
    SYN_TRY(printed);
    const syn_generation *g = &run.results[0].generation;
    if (args.save_logits)
        SYN_TRY(npy_write_f32(args.save_logits, g->logits, g->batch, run.config.vocab_size, err));
    if (!args.visualize_trace) return SYN_OK;
    FILE *list = args.quiet || args.json ? NULL : stdout;
    if (list) printf("\nwritten:\n");
    return visualize_run(run.graph, args.out_dir, "syntorch " SYN_VERSION, list, err);
}

static syn_status set_threads(bool mpi, syn_error *err) {
    const int together = mpi || run.device == SYN_DEVICE_META ? 1 : (int)args.tp;
    int32_t processes = 1;
    if (mpi) syn_mpi_launched(NULL, &processes);
    const int threads = together > 1 ? 1 : cli_cores() / processes;
    syn_blas_set_threads(threads > 1 ? threads : 1);
    const char *forced = getenv("SYNTORCH_BLAS_CHOSEN") ? NULL : syn_blas_forced_by();
    if (forced && run.device != SYN_DEVICE_META && !args.quiet && !program.mute)
        fprintf(stderr,
                "inference: warning: %s=%s decides the speed of matrix products; unset it to let "
                "OpenBLAS choose\n",
                forced, getenv(forced));
    if (run.device == SYN_DEVICE_META) return SYN_OK;
    SYN_TRY(syn_blas_reserve(together > threads ? together : threads, err));
    cli_take_blas_buffers(together);
    return SYN_OK;
}

int main(int argc, char **argv) {
    cli_choose_blas(argv);
    syn_error err = {0};
    syn_tokenizer *tokenizer = NULL;
    int32_t mpi_rank = 0, mpi_size = 1;
    const bool mpi = syn_mpi_launched(&mpi_rank, &mpi_size) && mpi_size > 1;
    program.mute = mpi && mpi_rank != 0;
    cli_check_address_space(&program);
    int code = cli_parse(&program, argc, argv);
    if (code == CLI_RUN && mpi && mpi_size != args.tp)
        code = cli_fail(&program, CLI_USAGE,
                        "%d MPI processes were started for --tp %lld; the two must agree", mpi_size,
                        (long long)args.tp);
    if (code == CLI_RUN) code = prepare(mpi, &tokenizer, &err);
    if (code == CLI_USAGE && mpi_rank != 0)
        sleep(1); /* a launcher stops all when one fails: rank 0 must come to say why */
    if (code == CLI_RUN || code == CLI_FAILED) {
        syn_status s = code == CLI_RUN ? set_threads(mpi, &err) : err.code;
        if (s == SYN_OK) run.results = syn_calloc((size_t)args.tp, sizeof *run.results);
        if (s == SYN_OK && !run.results)
            s = SYN_FAIL_NOMEM(&err, (size_t)args.tp * sizeof *run.results, "results");
        if (mpi) s = run_mpi(s, &err);
        else if (s == SYN_OK && run.device == SYN_DEVICE_META) s = run_meta(&err);
        else if (s == SYN_OK) s = syn_local_run((int32_t)args.tp, rank_main, NULL, &err);
        if (s == SYN_OK && !program.mute) s = finish(tokenizer, &err);
        code = s == SYN_OK ? CLI_OK : cli_fail(&program, CLI_FAILED, "%s", err.text);
    }
    if (run.graph) syn_graph_free(run.graph);
    for (int64_t r = 0; run.results && r < args.tp; r++) {
        syn_free(run.results[r].generation.tokens);
        syn_free(run.results[r].generation.logits);
        syn_ctx_free(run.results[r].ctx);
    }
    syn_free(run.results);
    syn_free(run.prompt);
    syn_tokenizer_free(tokenizer);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_OK)
        code = cli_fail(&program, CLI_FAILED, "cannot write to standard output");
    return code;
}
