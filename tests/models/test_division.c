/* Tests how layers are divided into virtual stages: evenly, with counted embedding and loss, by
   numbers, and by layouts. */
#include "models/training/division.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { MOST_PARTS = 64, TEXT = 256 };

typedef struct trial {
    int32_t stages, chunks;
    int64_t layers;
    syn_layer_division division;
    const char *says; /* the layers of each virtual stage, or a part of the error message */
} trial;

static syn_status divide(const trial *c, syn_model_part *parts, syn_error *err) {
    const syn_schedule_shape shape = {.schedule = SYN_SCHEDULE_INTERLEAVED,
                                      .stages = c->stages,
                                      .chunks = c->chunks,
                                      .microbatches = 1};
    syn_model_config config = small_gpt;
    config.n_layer = c->layers;
    return syn_pipeline_parts(parts, &config, &shape, &c->division, err);
}

static void check_divided(const trial *c) {
    const int n = c->stages * c->chunks;
    syn_model_part parts[MOST_PARTS];
    syn_error err = {0};
    char text[TEXT] = "";
    int64_t first = 0;
    CHECK_OK(divide(c, parts, &err), err);
    for (int i = 0; i < n; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%lld", i ? "," : "",
                 (long long)parts[i].n_layers);
        CHECK_INT(parts[i].first_layer, first);
        CHECK(parts[i].embed == (i == 0) && parts[i].head == (i == n - 1));
        first += parts[i].n_layers;
    }
    CHECK_STR(text, c->says);
    CHECK_INT(first, c->layers);
    for (int i = 0; i < n; i++)
        CHECK_INT(parts[i].mtp,
                  i == n - 1 && c->division.layout && strchr(c->division.layout, 'm'));
}

static void check_refused(const trial *c) {
    syn_model_part parts[MOST_PARTS];
    syn_error err = {0};
    CHECK_INT(divide(c, parts, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, c->says);
}

/* Counted by hand from the rules of Megatron-LM core/transformer/transformer_block.py,
   get_num_layers_to_build: embedding and loss are added to the layers before they are divided, and
   subtracted again in the first and the last virtual stage. */
static void test_counted(void) {
    static const trial cases[] = {
        {1, 1, 5, {.layers = NULL}, "5"},
        {4, 1, 8, {.layers = NULL}, "2,2,2,2"},
        {2, 4, 16, {.layers = NULL}, "2,2,2,2,2,2,2,2"},
        {4, 1, 7, {.count_embedding = true}, "1,2,2,2"},
        {4, 1, 7, {.count_loss = true}, "2,2,2,1"},
        {4, 1, 30, {.count_embedding = true, .count_loss = true}, "7,8,8,7"},
        {2, 2, 6, {.count_embedding = true, .count_loss = true}, "1,2,2,1"},
        {4, 1, 3, {.count_embedding = true}, "0,1,1,1"},
        {1, 1, 3, {.count_embedding = true, .count_loss = true}, "3"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) check_divided(&cases[i]);
}

static void test_numbers(void) {
    static const trial cases[] = {
        {4, 1, 30, {.layers = "7,8,8,7"}, "7,8,8,7"},
        {2, 2, 6, {.layers = "0,06,0,0"}, "0,6,0,0"},
        {1, 1, 6, {.layers = "6"}, "6"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) check_divided(&cases[i]);
}

/* The first three are examples of Megatron-LM: of its user guide ("Custom
   Pipeline Model Parallel Layout", which has the table of stages), of the comments of
   parse_str_to_list in core/transformer/pipeline_parallel_layer_layout.py, and the layout of
   DeepSeek-V3. The others are counted by hand from the rules in these comments: first each (...)*N
   is repeated, then each x*N. */
static void test_layouts(void) {
    static const trial cases[] = {
        {16,
         2,
         61,
         {.layout = "Et*3|(tt|)*29,|mL"},
         "3,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,0,0"},
        {31,
         1,
         61,
         {.layout = "Ettt|(tt|)*29,mL"},
         "3,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,0"},
        {8,
         4,
         61,
         {.layout = "Et|(tt|)*30mL"},
         "1,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,0"},
        {8, 1, 8, {.layout = "E|t*3|(t|)*5L"}, "0,3,1,1,1,1,1,0"},
        {4, 2, 8, {.layout = "E|t*3|(t|)*5L"}, "0,3,1,1,1,1,1,0"},
        {5, 1, 10, {.layout = "Et(t|tt|t)*2tL"}, "2,2,2,2,2"},
        {3, 1, 6, {.layout = "E(t)*3|,(|t)*1,tt,L"}, "3,0,3"},
        {2, 1, 6, {.layout = "E(t*2)*2|t*2L"}, "4,2"},
        {4, 1, 2, {.layout = "Et|*3tL"}, "1,0,0,1"},
        {2, 1, 3, {.layout = "E,t,t,(t)*0,|,t*1,L"}, "2,1"},
        {2, 1, 12, {.layout = "E|t*12L"}, "0,12"},
        {1, 1, 4, {.layout = "EttttL"}, "4"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) check_divided(&cases[i]);
}

static void test_refusals(void) {
    static const trial cases[] = {
        {3, 1, 8, {.layers = NULL}, "the 8 layers of small cannot be divided evenly into 3"},
        {4, 1, 8, {.count_embedding = true}, "the 8 layers and the embedding of"},
        {4, 1, 8, {.count_loss = true}, "the 8 layers and the loss of"},
        {4,
         2,
         8,
         {.count_embedding = true, .count_loss = true},
         "the 8 layers, the embedding and the loss of"},
        {2, 1, 8, {.layers = "4,5"}, "'4,5' has 9 layers in total, but small has 8"},
        {2, 1, 8, {.layers = "4,2,2"}, "'4,2,2' has 3 numbers, but there are 2 virtual stages"},
        {2, 2, 8, {.layers = "4,4"}, "there are 4 virtual stages (pp 2 x vp 2)"},
        {2, 1, 8, {.layers = ""}, "character 1 should end a number"},
        {2, 1, 8, {.layers = "4,,4"}, "character 3 should end a number"},
        {2, 1, 8, {.layers = "4, 4"}, "character 3 should end a number"},
        {2, 1, 8, {.layers = "4,4,"}, "character 5 should end a number"},
        {2, 1, 8, {.layers = "12,-4"}, "character 4 should end a number"},
        {2, 1, 8, {.layers = "99999999999999999999,4"}, "character 21 should end a number"},
        {2, 1, 8, {.layers = "4,4", .count_loss = true}, "give one"},
        {2, 1, 8, {.layers = "4,4", .layout = "Et*4|t*4L"}, "give one"},
        {2,
         1,
         4,
         {.layout = "Ett|tL"},
         "'Ett|tL' has 3 layers, but small has 4: the last one is "
         "at character 5"},
        {2,
         1,
         4,
         {.layout = "Ett|tttL"},
         "has 5 layers, but small has 4: the first one too many "
         "is at character 7"},
        {2,
         1,
         4,
         {.layout = "E|(t)*9L"},
         "has 9 layers, but small has 4: the first one too many "
         "is at character 4"},
        {2, 1, 4, {.layout = "E|L"}, "has 0 layers, but small has 4"},
        {2,
         1,
         4,
         {.layout = "Ett|t|tL"},
         "has 3 virtual stages, not 2 (pp 2 x vp 1): stage 3 begins at character 7"},
        {2, 2, 4, {.layout = "Ett|t|tL"}, "not 4 (pp 2 x vp 2): stage 3 begins at character 7"},
        {2, 1, 4, {.layout = "EttttL"}, "has 1 virtual stages"},
        {2, 1, 4, {.layout = ""}, "must begin with E, the embedding, before character 1"},
        {2, 1, 4, {.layout = "|Ett|ttL"}, "must begin with E"},
        {2, 1, 4, {.layout = "Ett|tt"}, "must end with L, the loss, after character 6"},
        {2, 1, 4, {.layout = "Ett|ttL|"}, "must end with L, the loss, after character 8"},
        {2, 1, 4, {.layout = "Ett|EttL"}, "only at the beginning, not at character 5"},
        {2, 1, 4, {.layout = "EttL|ttL"}, "only at the end, not at character 4"},
        {2, 1, 4, {.layout = "E*2tt|ttL"}, "only at the beginning, not at character 1"},
        {2, 1, 4, {.layout = "Ett|tmtL"}, "before L, unlike the t at character 7"},
        {2, 1, 4, {.layout = "Ettm|ttL"}, "before L, unlike the m at character 4"},
        {2,
         1,
         4,
         {.layout = "Ett|xttL"},
         "character 5 is none of E (embedding), t (layer), m (layer"},
        {2, 1, 4, {.layout = "Ett| ttL"}, "character 5 is none of"},
        {2, 1, 4, {.layout = "Et*2*2|L"}, "character 5 is none of"},
        {2, 1, 4, {.layout = "*2"}, "character 1 is none of"},
        {2, 1, 4, {.layout = "Et*|ttL"}, "the * at character 3 needs a number"},
        {2, 1, 4, {.layout = "Et*-1|ttL"}, "the * at character 3 needs a number"},
        {2, 1, 4, {.layout = "E(tt|ttL"}, "the ( at character 2 is not closed"},
        {2, 1, 4, {.layout = "Ett)*2|L"}, "character 4 is none of"},
        {2, 1, 4, {.layout = "E(tt)|ttL"}, "the ) at character 5 needs a number of repetitions"},
        {2, 1, 4, {.layout = "E((t)*2)*2|L"}, "the ( at character 3 is inside other parentheses"},
        {2, 1, 4, {.layout = "E(t*9999999)*9999999|L"}, "has more than 1048576 layers and stages"},
        {2, 1, 4, {.layout = "Et*99999999999999999999999|L"}, "has more than 1048576"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) check_refused(&cases[i]);
}

/* The part of one chunk is that of all parts. */
static void test_one_part(void) {
    const syn_schedule_shape shape = {SYN_SCHEDULE_INTERLEAVED, 2, 2, 2, 0};
    const syn_layer_division division = {.layers = "1,2,3,4"};
    syn_model_config config = small_gpt;
    syn_error err = {0};
    syn_model_part part;
    config.n_layer = 10;
    CHECK_OK(syn_pipeline_part(&part, &config, &shape, &division, 0, 1, &err), err);
    CHECK(part.first_layer == 3 && part.n_layers == 3 && !part.embed && !part.head);
    CHECK_INT(syn_pipeline_part(&part, &config, &shape, NULL, 0, 1, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "cannot be divided evenly into 4 virtual stages (pp 2 x vp 2)");
}

static const test_case cases[] = {
    {"counted", test_counted},   {"numbers", test_numbers},   {"layouts", test_layouts},
    {"refusals", test_refusals}, {"one part", test_one_part},
};
TEST_MAIN(cases)
