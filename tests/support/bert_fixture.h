/* Reads the fixtures tiny_bert.json, full_bert.json and full_gpt2.json of tests/reference, which
   contain batches of inputs with HuggingFace's results. README.md there describes their keys. */
#ifndef TESTS_BERT_FIXTURE_H
#define TESTS_BERT_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

typedef struct bfix_numbers {
    double *v;
    int n;
} bfix_numbers;

/* The logits of one position. Large vocabularies are stored as a selection of logits, the top 10,
   and sums. */
typedef struct bfix_word {
    bfix_numbers row, position, margin, stride, logits, top_ids, top_logits, min, sum,
        sum_of_squares;
} bfix_word;

typedef struct bfix_batch {
    /* Folders of tests/reference with this batch's weights; "" ends the list. */
    char checkpoints[4][32];
    bfix_numbers tokens, mask, types, hidden, pooled, nsp, mlm_ids, mlm_some, greedy;
    bfix_word words[4];
    int n_words;
} bfix_batch;

enum { BFIX_BATCHES = 3 };
typedef struct bfix {
    bfix_batch batches[BFIX_BATCHES];
    int n_batches;
    double *lists[256]; /* all allocations, for bfix_free */
    int n_lists;
} bfix;

/* Reads a file of tests/reference, in which first_key is the first key of each batch. If the file
   is not as expected, prints a message and returns false. Call bfix_free in both cases. */
bool bfix_open(bfix *f, const char *file, const char *first_key);

void bfix_free(bfix *f);

/* Number of sequences in the batch. */
int64_t bfix_rows(const bfix_batch *b);

/* Number of tokens per sequence. */
int64_t bfix_columns(const bfix_batch *b);

#endif
