/* Reads tiny_bert.json, full_bert.json and full_gpt2.json (tests/reference/README.md): batches with
   HuggingFace's results. */
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

/* Logits of one position. */
typedef struct bfix_word {
    bfix_numbers row, position, margin, stride, logits, top_ids, top_logits, min, sum,
        sum_of_squares;
} bfix_word;

typedef struct bfix_batch {
    char checkpoints[4][32]; /* folders with these weights, ended by "" */
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

int64_t bfix_rows(const bfix_batch *b);

int64_t bfix_columns(const bfix_batch *b);

#endif
