/* Speculative decoding: how many drafts are accepted, and the time in which a draft model proposes
   them. */
#ifndef TOOLS_SERVE_DRAFTS_H
#define TOOLS_SERVE_DRAFTS_H

#include "tools/serve/serve.h"

/* Decides how many drafts of each sequence of a replica's step are accepted: those before the first
   rejected one. *draws: random numbers that the replica has used. */
void serve_accept_drafts(const serve_simulation *sim, int32_t replica, uint64_t *draws,
                         serving_step *step, serve_result *result);
/* Adds the time in which the draft model proposes tokens for the next step. It computes the new
   tokens of the step, and then, one after the other, all drafts but the first. rows: space for a
   row of each sequence. */
syn_status serve_add_drafting(const serve_simulation *sim, const serving_step *step,
                              serving_row *rows, serve_time *t, syn_error *err) SYN_MUST_USE;

#endif
