/* Tests files of requests: the names of columns, the formats of public traces, selection of rows,
   and what is reported for files that are damaged. */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <unistd.h>

#include "tools/requests/request_lines.h"
#include "tools/requests/requests.h"

static request rows[1000];
static int n_rows;

/* Reads all requests to `rows`. */
static syn_status read_all(const request_options *how, syn_error *err) {
    request_source *source;
    bool end = false;
    n_rows = 0;
    SYN_TRY(requests_open(&source, how, err));
    syn_status s = SYN_OK;
    for (int i = 0; s == SYN_OK && !end && i < (int)COUNT(rows); i++) {
        s = requests_next(source, &rows[i], &end, err);
        n_rows += s == SYN_OK && !end;
    }
    requests_close(source);
    return s;
}

static syn_status read_text(const char *text, const char *where, syn_error *err) {
    const request_options how = {.requests = put_text("r", text), .where = where};
    return read_all(&how, err);
}

/* Reads one request and compares it with "ARRIVAL_NS PROMPT OUTPUT". */
static void reads(const char *text, double arrival_ns, int prompt, int output) {
    syn_error err = {0};
    CHECK_OK(read_text(text, NULL, &err), err);
    CHECK(n_rows >= 1);
    const request *r = &rows[n_rows - 1];
    CHECK_MSG(r->arrival_ns == arrival_ns && r->prompt == prompt && r->output == output,
              "%.17g %d %d for %s", r->arrival_ns, r->prompt, r->output, text);
}

static void names(void) {
    static const char *const arrivals[] = {"arrival_s",  "arrival",   "timestamp",
                                           "arrived_at", "TIMESTAMP", "arrival_time"},
                             *const prompts[] = {"input_tokens",       "prompt_tokens",
                                                 "num_prefill_tokens", "ContextTokens",
                                                 "input_length",       "prompt_len",
                                                 "Request tokens",     "input_toks"},
                             *const outputs[] = {"output_tokens",     "num_decode_tokens",
                                                 "GeneratedTokens",   "output_length",
                                                 "output_len",        "Response tokens",
                                                 "completion-tokens", "output_toks"};
    char text[200];
    for (size_t i = 0; i < COUNT(prompts); i++) {
        const char *arrival = arrivals[i % COUNT(arrivals)];
        snprintf(text, sizeof text, "%s,%s,%s\n0.25,7,9\n", arrival, prompts[i], outputs[i]);
        reads(text, 0.25e9, 7, 9);
        snprintf(text, sizeof text, "%s,other,%s,%s\n9,x,7,0.25\n", outputs[i], prompts[i],
                 arrival);
        reads(text, 0.25e9, 7, 9);
    }
    reads("arrival_ms,input_tokens,output_tokens\n250,7,9", 0.25e9, 7, 9);
    reads("arrival_time_ns,input_tokens,output_tokens\n250000000,7,9", 0.25e9, 7, 9);
}

static void csv(void) {
    syn_error err = {0};
    reads("\xef\xbb\xbf\"arrival_s\",input_tokens,output_tokens,note\r\n"
          "1.5,\"7\" , 9 ,\"a, \"\"b\"\"\nand more\"\r\n\r\n",
          1.5e9, 7, 9);
    CHECK_INT(rows[0].line, 2);
    reads("arrival_s,input_tokens,output_tokens\n\n0.285059,12.0,1e2", 285059000, 12, 100);
    CHECK_INT(rows[0].line, 3);
    CHECK_OK(read_text("arrival_s,input_tokens,output_tokens,priority,prefix,prefix_tokens,"
                       "first_token_s,last_token_s\n"
                       "0,5,1,-2,9,4,0.5,\n0,5,1,0,0,4,0.5,2\n",
                       NULL, &err),
             err);
    CHECK_INT(n_rows, 2);
    CHECK(rows[0].priority == -2 && rows[0].prefix == 9 && rows[0].prefix_tokens == 4);
    CHECK(rows[0].measured_first_ns == 5e8 && rows[0].measured_last_ns < 0);
    CHECK(rows[1].prefix == 0 && rows[1].prefix_tokens == 0 && rows[1].measured_last_ns == 2e9);
}

static void dates(void) {
    char text[100];
    syn_error err = {0};
    static const char *const none[] = {"2023-02-29", "2023-02-30", "2024-02-30", "2023-04-31",
                                       "2100-02-29", "2023-01-32", "2023-12-00"};
    reads("arrival,input_tokens,output_tokens\n2024-02-28 23:59,1,1\n2024-02-29 00:01,7,9\n", 120e9,
          7, 9);
    reads("arrival,input_tokens,output_tokens\n2023-02-28T23:00Z,1,1\n2023-03-01 00:00:01.5,7,9\n",
          3601.5e9, 7, 9);
    reads("arrival,input_tokens,output_tokens\n2000-02-29 00:00:00,1,1\n2000-12-31 00:00:00,7,9\n",
          306 * 86400e9, 7, 9);
    for (size_t i = 0; i < COUNT(none); i++) {
        snprintf(text, sizeof text, "arrival,input_tokens,output_tokens\n%s 10:00:00,1,1\n",
                 none[i]);
        err = (syn_error){0};
        CHECK_INT(read_text(text, NULL, &err), SYN_E_FORMAT);
        CHECK_HAS(err.text, none[i]);
    }
}

static void unix_times(void) {
    reads("arrival_s,input_tokens,output_tokens\n1700000000,1,1\n1700000002.5,7,9\n", 2.5e9, 7, 9);
    reads("timestamp,input_tokens,output_tokens\n1700000000000,1,1\n1700000002500,7,9\n", 2.5e9, 7,
          9);
    reads("arrival,input_tokens,output_tokens\n1700000000000000,1,1\n1700000002500000,7,9\n", 2.5e9,
          7, 9);
    reads("{\"timestamp\": 1700000000000, \"input_tokens\": 1, \"output_tokens\": 1}\n"
          "{\"timestamp\": 1700000002500, \"input_tokens\": 7, \"output_tokens\": 9}\n",
          2.5e9, 7, 9);
}

/* The formats of published traces. */
static void traces(void) {
    reads("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
          "2023-12-31 23:59:59.6805900,374,44\r\n2024-01-01 00:00:01.1805901,396,109\r\n",
          1.5000001e9, 396, 109);
    reads("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n"
          "2024-05-10T02:00:00.009930+01:00,2399,6\n",
          3600e9, 2399, 6);
    reads("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
          "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n",
          45e9, 1087, 230);
    reads("{\"input_toks\": 11, \"output_toks\": 32, \"arrival_time_ns\": 50000000, "
          "\"input_tok_ids\": [1, 2]}\n",
          5e7, 11, 32);
    reads("{\"request_id\": \"a\", \"input_toks\": 11, \"output_toks\": 1, \"arrival_time\": "
          "1777142838.5, \"queued_ts\": 400.25, \"first_token_ts\": 400.5, \"last_token_ts\": "
          "null}\n{\"output_toks\": 2, \"input_toks\": 12, \"arrival_time\": 1777142840, "
          "\"queued_ts\": 402, \"first_token_ts\": 403.25, \"last_token_ts\": 404.25}\n",
          1.5e9, 12, 2);
    CHECK(rows[0].measured_first_ns == 0.25e9 && rows[0].measured_last_ns < 0);
    CHECK(rows[1].measured_first_ns == 3e9 && rows[1].measured_last_ns == 4e9);
    /* Mooncake, Qwen-Bailian, and seconds without a chat_id */
    reads(
        "{\"timestamp\": 3500, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 2]}",
        3.5e9, 600, 5);
    CHECK_INT(rows[0].block_tokens, 512);
    reads("{\"chat_id\": 7, \"parent_chat_id\": -1, \"timestamp\": 61, \"input_length\": 15, "
          "\"output_length\": 5, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [1]}\n"
          "{\"chat_id\": 8, \"parent_chat_id\": 7, \"timestamp\": 61.114, \"input_length\": 30, "
          "\"output_length\": 6, \"type\": \"text\", \"turn\": 2, \"hash_ids\": [1, 2]}",
          61.114e9, 30, 6);
    CHECK(rows[0].block_tokens == 16 && rows[1].block_tokens == 16 && rows[1].n_blocks == 2);
    reads("{\"timestamp\": 0.0, \"input_length\": 6, \"output_length\": 5}\n"
          "{\"timestamp\": 2, \"input_length\": 6, \"output_length\": 5}",
          2e9, 6, 5);
}

/* Ids of blocks: which ranges two prompts share. */
static void blocks(void) {
    request_source *source;
    request r;
    bool end;
    uint64_t first[4], second[4];
    syn_error err = {0};
    const request_options how = {
        .requests = put_text(
            "m", "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 5, \"hash_ids\": "
                 "[0, 1, 18446744073709551615]}\n{\"timestamp\": 3000, \"input_length\": 2000, "
                 "\"output_length\": 5, \"hash_ids\": [0, 1, 7, 8]}\n")};
    static const int32_t from[] = {0, 512, 1008, 1024};
    CHECK_OK(requests_open(&source, &how, &err), err);
    CHECK_OK(requests_next(source, &r, &end, &err), err);
    CHECK_INT(r.block_tokens, 512);
    CHECK_INT(r.n_blocks, 3);
    CHECK(r.blocks[2] == UINT64_MAX);
    for (int i = 0; i < 4; i++) first[i] = request_shared_key(&r, from[i], 16);
    CHECK(request_shared_key(&r, 1096, 16) == 0); /* behind the prompt */
    CHECK_OK(requests_next(source, &r, &end, &err), err);
    CHECK(r.arrival_ns == 3e9);
    for (int i = 0; i < 4; i++) second[i] = request_shared_key(&r, from[i], 16);
    for (int i = 0; i < 3; i++) CHECK(first[i] == second[i] && first[i] != 0);
    CHECK(first[3] != second[3] && first[0] != first[1] && first[1] != first[2]);
    requests_close(source);

    reads("arrival_s,input_tokens,output_tokens,hash_ids,hash_block_tokens\n0,90,1,,\n"
          "1,65,2,7 18446744073709551615 9,32\n",
          1e9, 65, 2);
    CHECK(rows[0].n_blocks == 0 && rows[1].n_blocks == 3 && rows[1].block_tokens == 32);
    reads("arrival_s,input_tokens,output_tokens,hash_ids\n0,33,2,\"[5, 6, 7]\"\n", 0, 33, 2);
    CHECK(rows[0].n_blocks == 3 && rows[0].block_tokens == 16);
    reads("{\"arrival_s\": 0, \"input_tokens\": 20, \"output_tokens\": 2, \"hash_ids\": [1, 2, 3], "
          "\"hash_block_tokens\": 8}",
          0, 20, 2);
    CHECK(rows[0].n_blocks == 3 && rows[0].block_tokens == 8);

    const request prefix = {.prompt = 100, .prefix = 3, .prefix_tokens = 40};
    request other = prefix;
    other.prompt = 60;
    CHECK(request_shared_key(&prefix, 16, 16) == request_shared_key(&other, 16, 16));
    CHECK(request_shared_key(&prefix, 16, 16) != request_shared_key(&prefix, 0, 16));
    CHECK_INT(request_shared_key(&prefix, 32, 16), 0);
    other.prefix = 4;
    CHECK(request_shared_key(&prefix, 16, 16) != request_shared_key(&other, 16, 16));
}

static const char two_runs[] = "model,tp,arrival_s,input_tokens,output_tokens,kind\n"
                               "a,1,0,1,1,x\na,1,1,2,1,y\nb,1,0,3,1,x\nb,1,2,4,1,y\n";

static void selection(void) {
    syn_error err = {0};
    CHECK_OK(read_text(two_runs, "model=a", &err), err);
    CHECK(n_rows == 2 && rows[1].prompt == 2);
    CHECK_OK(read_text(two_runs, "Model!=a,kind=y", &err), err);
    CHECK(n_rows == 1 && rows[0].prompt == 4 && rows[0].line == 5);
    CHECK_OK(read_text("{\"arrival_s\": 0, \"input_tokens\": 1, \"output_tokens\": 1, \"a\": 2}\n"
                       "{\"arrival_s\": 0, \"input_tokens\": 2, \"output_tokens\": 1}\n",
                       "a!=2", &err),
             err);
    CHECK(n_rows == 1 && rows[0].prompt == 2);
    static const struct {
        const char *where;
        int n, first; /* rows, and the prompt of the first one */
    } of[] = {{"Request tokens<10", 1, 9},          {"Request tokens<=10", 2, 9},
              {"Request tokens>10", 2, 11},         {"Request tokens>=10", 3, 10},
              {"note>=0,request_tokens<11", 1, 10}, {"note>-1e9", 2, 10}};
    for (size_t i = 0; i < COUNT(of); i++) {
        CHECK_OK(read_text("arrival_s,Request tokens,output_tokens,note\n0,9,1,\n0,10,1,3\n"
                           "0,11,1,2\n0,12,1,\n",
                           of[i].where, &err),
                 err);
        CHECK_MSG(n_rows == of[i].n && rows[0].prompt == of[i].first, "%s: %d rows", of[i].where,
                  n_rows);
    }
    request_source *source;
    const request_options how = {.requests = put_text("t", two_runs), .where = "model=b"};
    CHECK_OK(requests_open(&source, &how, &err), err);
    CHECK_STR(requests_value(source, "model"), "b");
    CHECK_STR(requests_value(source, "kind"), "x");
    CHECK(requests_value(source, "gpu") == NULL);
    requests_close(source);
}

static void options(void) {
    syn_error err = {0};
    request_options how = {.requests = put_text("t", two_runs), .where = "model=b"};
    how.time_scale = 4;
    CHECK_OK(read_all(&how, &err), err);
    CHECK(n_rows == 2 && rows[1].arrival_ns == 0.5e9);
    how.duration_s = 0.5;
    CHECK_OK(read_all(&how, &err), err);
    CHECK_INT(n_rows, 1);
    how.requests = put_text("late", "arrival_s,input_tokens,output_tokens\n100000,1,1\n"
                                    "100001.5,2,1\n100003,3,1\n");
    how.where = NULL;
    how.time_scale = 0;
    how.duration_s = 2; /* from the first arrival on */
    CHECK_OK(read_all(&how, &err), err);
    CHECK(n_rows == 2 && rows[1].arrival_ns == 100001.5e9);
    how.requests = put_text("t", two_runs); /* the rows of the second run are not reached */
    how.time_scale = 4;
    how.num_requests = 2;
    how.duration_s = 0;
    CHECK_OK(read_all(&how, &err), err);
    CHECK(n_rows == 2 && rows[1].arrival_ns == 0.25e9);
}

/* The example has short requests, which small models can serve. */
static void example(void) {
    syn_error err = {0};
    const request_options how = {.requests = source_path("examples/requests.csv")};
    CHECK_OK(read_all(&how, &err), err);
    CHECK_INT(n_rows, 40);
    for (int i = 0; i < n_rows; i++) CHECK(rows[i].prompt <= 60 && rows[i].output <= 24);
    CHECK(rows[0].arrival_ns == 0 && rows[39].arrival_ns < 5e9);
}

/* A measured run of vLLM, if the machine has it. */
static void measured(void) {
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    syn_error err = {0};
    request_options how = {.requests = shared_path("measured/clusters/serving_vllm.csv")};
    CHECK_INT(read_all(&how, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "serving_vllm.csv:302: model is qwen3-30b-a3b, but llama3.1-8b in line 2");
    CHECK_HAS(err.text, "--where model=llama3.1-8b");
    err = (syn_error){0};
    how.where = "model=qwen3-30b-a3b";
    CHECK_OK(read_all(&how, &err), err);
    CHECK_INT(n_rows, 300);
    CHECK(rows[0].arrival_ns == 0 && rows[299].measured_last_ns > rows[299].measured_first_ns);
}

#define HEADER "arrival_s,input_tokens,output_tokens\n"

static void refused(void) {
    static const struct {
        const char *text, *where, *words;
    } bad[] = {
        {"", NULL, "r has no requests: it is empty"},
        {"\n\n", NULL, "it is empty"},
        {HEADER, NULL, "r has no requests"},
        {HEADER "0,1,1\n", "arrival_s=7", "r has no requests that fulfil --where arrival_s=7"},
        {"0,1,1\n", NULL, "r:1: the first line has numbers, but must be a header"},
        {"[\n{}]", NULL, "r:1: the file is a JSON array"},
        {"\x1f\x8b,", NULL, "r is compressed with gzip; unpack it: gzip -dc"},
        {"\xff\xfe"
         "a",
         NULL, "r is text in UTF-16; convert it: iconv -f UTF-16"},
        {"\xfe\xff,", NULL, "r is text in UTF-16"},
        {"arrival_s\tinput_tokens\toutput_tokens\n", NULL,
         "r:1: columns are separated by tabs; use commas"},
        {"arrival_s;input_tokens;output_tokens\n", NULL, "separated by semicolons; use commas"},
        {"arrival_s,input_token,output_tokens\n0,1,1", NULL,
         "r:1: no column has the tokens of the prompt: rename input_token to input_tokens"},
        {"arrival_s,x,input_tokens\n0,1,1", NULL,
         "no column has the tokens of the output: name it output_tokens (columns: arrival_s, x, "
         "input_tokens)"},
        {"x,input_tokens,output_tokens\n0,1,1", NULL, "name it arrival_s, or give --rate"},
        {"arrival_s,timestamp,input_tokens,output_tokens\n", NULL,
         "columns arrival_s and timestamp have the same meaning"},
        {"arrival_s,input_tokens,output_tokens,prefix\n", NULL, "prefix and prefix_tokens"},
        {"arrival_s,input_tokens,output_tokens,first_token_ts\n", NULL, "queued_ts"},
        {HEADER "0,0,1\n", NULL,
         "r:2: input_tokens is 0, but must be a whole number from 1 to 2147483647; --where "
         "'input_tokens!=0' omits"},
        {HEADER "0,1,-1\n", NULL, "r:2: output_tokens is -1, but must be a whole number"},
        {HEADER "0,1,1\n0,,1\n", NULL, "r:3: input_tokens is empty"},
        {HEADER "0,1.5,1\n", NULL, "input_tokens is 1.5"},
        {HEADER "0,2147483648,1\n", NULL, "input_tokens is 2147483648"},
        {HEADER "0,1e999,1\n", NULL, "input_tokens is 1e999"},
        {HEADER "0,a\x01,1\n", NULL, "input_tokens is a\x01, but"},
        {HEADER "nan,1,1\n", NULL, "arrival_s is nan, but must be a time of 0 or more"},
        {HEADER "inf,1,1\n", NULL, "arrival_s is inf"},
        {HEADER "-1,1,1\n", NULL, "arrival_s is -1"},
        {HEADER ",1,1\n", NULL, "arrival_s is empty"},
        {HEADER "2023-13-01 00:00:00,1,1\n", NULL, "arrival_s is 2023-13-01 00:00:00"},
        {HEADER "0,1,1\n2023-12-01 00:00:00,1,1\n", NULL, "must be a number, as in the rows"},
        {HEADER "2023-12-01 00:00:00,1,1\n0,1,1\n", NULL, "must be a date, as in the rows"},
        {HEADER "2,1,1\n\n1.5,1,1\n", NULL,
         "r:4: the request arrives at 1.5 s, but the one before at 2 s; sort the rows"},
        {HEADER "0,1,1\n2e9,1,1\n", NULL, "at most 1e9 s after the first request"},
        {HEADER "0,1\n", NULL, "r:2: the row has 2 fields, but the header has 3"},
        {HEADER "0,1,1,1\n", NULL, "r:2: the row has 4 fields, but the header has 3"},
        {HEADER "0,1,1\n0,\"1,1\n0,1,1\n", NULL, "r:3: a quote has no end"},
        {HEADER "0,\"1\"x,1\n", NULL, "a comma must follow the quoted field 2"},
        {"arrival_s,input_tokens,output_tokens,prefix,prefix_tokens\n0,4,1,1,5\n", NULL,
         "r:2: prefix_tokens is 5, but the prompt has only 4 tokens"},
        {"arrival_s,input_tokens,output_tokens,first_token_s,last_token_s\n0,4,1,3,2\n", NULL,
         "the last token is before the first one"},
        {"arrival_s,input_tokens,output_tokens,first_token_s\n3,4,1,4\n4,4,1,3.5\n", NULL,
         "r:3: first_token_s is 3.5, but must be at least the arrival, 4 s after the start"},
        {"arrival_s,input_tokens,output_tokens,last_token_s\n4,4,1,3.5\n", NULL,
         "r:2: last_token_s is 3.5, but must be at least the arrival"},
        {two_runs, NULL, "r:4: model is b, but a in line 2: the file has several runs"},
        {two_runs, "knd=x", "r:1: no column is named knd, as in --where; did you mean kind?"},
        {two_runs, "kind", "--where 'kind' must be conditions"},
        {two_runs, "a=1,", "must be conditions"},
        {two_runs, "<1", "must be conditions"},
        {two_runs, "tp!1", "must be conditions"},
        {two_runs, "tp<=x", "--where 'tp<=x': <= compares numbers, but the value is 'x'"},
        {two_runs, "tp>", "> compares numbers, but the value is ''"},
        {two_runs, "model>1", "r:2: model is a, but must be a number, because --where compares"},
        {"{\"arrival_s\": 0, \"input_tokens\": 1}\n", NULL, "r:1: no column has the tokens of"},
        {"{\"arrival_s\": 0, \"input_tokens\": 1, \"output_tokens\": 2}\n{\"arrival_s\": 0}\n",
         NULL, "r:2: the row has no tokens of the prompt"},
        {"{\"a\": 0}\n{\"a\" 0}\n", NULL, "r:1: no column has"},
        {"{\"arrival_s\": 0,\n", NULL, "r:1:"},
        {"{\"timestamp\": 0, \"input_length\": 512, \"output_length\": 2, \"hash_ids\": [1, 2]}",
         NULL, "r:1: hash_ids has 2 ids, but the prompt of 512 tokens has at most 1 block of"},
        {"{\"timestamp\": 0, \"input_length\": 512, \"output_length\": 2, \"hash_ids\": [-1]}",
         NULL, "hash_ids must be whole numbers of 0 or more, not -1"},
        {"{\"arrival_s\": 0, \"input_tokens\": 1, \"output_tokens\": 2} x", NULL, "r:1:57:"},
        {"arrival_s,input_tokens,output_tokens,hash_ids\n0,5,1,1 x\n", NULL,
         "r:2: hash_ids is 1 x, but must be whole numbers of 0 or more, separated by spaces"},
        {"arrival_s,input_tokens,output_tokens,hash_ids\n0,5,1,-1\n", NULL, "hash_ids is -1"},
        {"arrival_s,input_tokens,output_tokens,hash_ids,hash_block_tokens\n0,9,1,1 2 3,8\n", NULL,
         "r:2: hash_ids has 3 ids, but the prompt of 9 tokens has at most 2 blocks of 8 tokens"},
        {"{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 2}\n"
         "{\"timestamp\": 0.5, \"input_length\": 5, \"output_length\": 2}",
         NULL, "r:2: timestamp is 0.5, but must be a whole number of ms, as in the rows before"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        syn_error err = {0};
        CHECK_MSG(read_text(bad[i].text, bad[i].where, &err) != SYN_OK, "%s", bad[i].text);
        CHECK_HAS(err.text, bad[i].words);
    }
}

static void unreadable(void) {
    syn_error err = {0};
    request_options how = {.requests = in_folder("none")};
    CHECK_INT(read_all(&how, &err), SYN_E_IO);
    CHECK_HAS(err.text, "none: No such file");
    err = (syn_error){0};
    how.requests = in_folder("");
    CHECK_INT(read_all(&how, &err), SYN_E_IO);
    CHECK_HAS(err.text, "it is a folder");
    static const char nul[] = HEADER "0,1,1\n0,1\0,1\n";
    err = (syn_error){0};
    how.requests = put_file("nul", nul, sizeof nul - 1);
    CHECK_INT(read_all(&how, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "nul:3: the line has a NUL byte");
    static const char gzip[] = "\x1f\x8b\x08\0\0\0", utf16[] = "\xff\xfe"
                                                               "a\0r\0\n\0";
    err = (syn_error){0};
    how.requests = put_file("gzip", gzip, sizeof gzip - 1);
    CHECK_INT(read_all(&how, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "gzip is compressed with gzip");
    err = (syn_error){0};
    how.requests = put_file("utf16", utf16, sizeof utf16 - 1);
    CHECK_INT(read_all(&how, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "utf16 is text in UTF-16");
    err = (syn_error){0};
    how.requests = "sharegpt";
    CHECK_INT(read_all(&how, &err), SYN_E_IO);
    CHECK_HAS(err.text,
              "no file and no workload; workloads: sharegpt-like, azure-code, azure-chat, "
              "summarize, fixed:IN:OUT, uniform:LO-HI:LO-HI, lognormal:MEAN:SD:MEAN:SD");
    char *longest = malloc(REQUEST_LINE_LIMIT + (4 << 20));
    CHECK(longest != NULL);
    memset(longest, 'a', REQUEST_LINE_LIMIT + (4 << 20));
    err = (syn_error){0};
    how.requests = put_file("long", longest, REQUEST_LINE_LIMIT + (4 << 20));
    free(longest);
    CHECK_INT(read_all(&how, &err), SYN_E_FORMAT);
    CHECK_HAS(err.text, "long:1: the line has more than 16777216 bytes");
}

static syn_status read_two(void *how, syn_error *err) {
    return read_all(how, err);
}

static void without_memory(void) {
    request_options how = {.requests = put_text("t", two_runs), .where = "model=b"};
    CHECK(test_without_memory(read_two, &how) > 3);
    how.requests = put_text("m", "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5, "
                                 "\"hash_ids\": [3]}");
    how.where = NULL;
    CHECK(test_without_memory(read_two, &how) > 3);
}

static const test_case cases[] = {
    {"names", names},
    {"csv", csv},
    {"dates", dates},
    {"unix_times", unix_times},
    {"traces", traces},
    {"blocks", blocks},
    {"selection", selection},
    {"options", options},
    {"example", example},
    {"measured", measured},
    {"refused", refused},
    {"unreadable", unreadable},
    {"without_memory", without_memory},
};
TEST_MAIN(cases)
