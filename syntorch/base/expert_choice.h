/* How many experts of a mixture have tokens, and how many parts of them a token reaches, if routers
   choose experts at random. */
#ifndef SYNTORCH_EXPERT_CHOICE_H
#define SYNTORCH_EXPERT_CHOICE_H

#include "syntorch/base/types.h"

SYN_API_BEGIN

/* A token uses k of `experts` experts. They are divided into `groups` groups of consecutive
   experts, and all k are from top_groups of these groups, as in DeepSeek-V3. 1, 1: from all. */
typedef struct syn_expert_choice {
    int64_t experts, k, groups, top_groups;
} syn_expert_choice;

/* The experts are divided evenly among `parts` ranks or nodes, in order. Returns the probability
   that a token uses at least one expert of a part, if all choices are equally likely. `parts` times
   this is the mean number of parts that a token reaches: with 256 experts, k = 8 and 8 parts, it is
   5.29. parts divides groups, or groups divides parts. */
double syn_expert_reach(const syn_expert_choice *choice, int64_t parts);

/* The mean number of `experts` experts to which rows are assigned, if each of the rows is assigned
   to a random one: experts (1 - (1 - 1 / experts)^rows), rounded to an integer. */
int64_t syn_experts_used(int64_t experts, int64_t rows);

SYN_API_END
#endif
