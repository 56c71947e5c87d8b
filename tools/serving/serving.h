/* Schedules the requests of an LLM server: which tokens of which requests a replica computes in its
   next step, and which blocks of the KV cache they use. It neither computes nor measures time: the
   simulator (tools/serve/) predicts how long a step takes, and `inference --requests` runs it. A
   policy decides what a step contains. It is one file, such as policy_vllm.c. */
#ifndef TOOLS_SERVING_H
#define TOOLS_SERVING_H

#include "tools/serving/kv_blocks.h"

typedef enum serving_state {
    SERVING_WAITING,
    SERVING_RUNNING,
    SERVING_PREEMPTED, /* waiting again, because its blocks were taken away */
    SERVING_FINISHED
} serving_state;

typedef struct serving_request {
    int64_t id; /* in order of arrival */
    double arrival_ns;
    int32_t prompt, output; /* tokens; output: number of tokens to generate */
    int32_t priority;       /* lower first, with limits.by_priority */
    /* Set by the scheduler, except that a request whose prompt another replica has computed begins
       with computed = prompt and generated = 1. */
    serving_state state;
    int32_t computed;  /* tokens that are in the cache after the steps scheduled so far */
    int32_t generated; /* output tokens that finished steps have returned */
    int32_t in_flight; /* output tokens of steps that have not finished, with async scheduling */
    int32_t drafts;    /* draft tokens to check in the next step */
    int32_t hits;      /* prompt tokens found in the cache; -1: not scheduled yet */
    int32_t preemptions;
    int32_t *blocks;
    size_t n_blocks, cap;
    int32_t keyed;  /* blocks that have a key */
    uint64_t order; /* in which requests were added; preempted requests keep it */
    size_t heap;    /* position among the waiting requests */
} serving_request;

typedef struct serving_limits {
    int64_t max_seqs, max_tokens; /* per step (--max-num-seqs, --max-num-batched-tokens) */
    int64_t max_model_tokens;     /* of a sequence; no more than the cache has */
    int64_t blocks, block_tokens; /* of the KV cache; kv_blocks_new */
    int64_t long_prefill;         /* most prompt tokens of one request per step; 0: any number */
    bool chunked;                 /* a prompt may be divided over several steps */
    bool caching;                 /* prefix caching */
    bool by_priority;             /* instead of first come, first served */
    bool async;                   /* a step is scheduled while the previous one runs */
    bool reserve;                 /* admit a request only if its whole prompt fits into the cache */
    int32_t drafts;               /* draft tokens per step of a request (speculative decoding) */
    bool keep;                    /* finished requests keep their blocks until serving_release */
    /* A number for a request's blocks 0 .. i: equal for equal tokens, and 0 if no other request has
       these tokens. NULL: always 0. */
    uint64_t (*key)(const serving_request *q, int64_t i, int64_t block_tokens);
} serving_limits;

/* The tokens of a request in a step. */
typedef struct serving_row {
    serving_request *request; /* NULL: it has finished while this step was scheduled */
    int32_t queries, keys;    /* new tokens; all tokens after the step */
    int32_t drafts;           /* of the new tokens */
    int32_t accepted;         /* drafts that the step accepts; set before serving_finish */
    bool samples;             /* returns 1 + accepted output tokens */
} serving_row;

typedef struct serving_step {
    serving_row *rows; /* space for max_seqs rows */
    int64_t n, tokens; /* rows; tokens of all rows */
} serving_step;

typedef struct serving_replica serving_replica;

typedef struct serving_policy {
    const char *name, *summary;
    /* Adds rows to an empty step. It calls the functions below "for policies". */
    syn_status (*schedule)(serving_replica *r, serving_step *step, syn_error *err);
} serving_policy;
extern const serving_policy serving_vllm, serving_sglang, serving_static;
/* The policies' names; NULL ends the list. */
const char *serving_policy_name(size_t i);
const serving_policy *serving_policy_at(size_t i);

/* Creates a replica with an empty cache. */
syn_status serving_replica_new(serving_replica **out, const serving_limits *limits,
                               const serving_policy *policy, syn_error *err) SYN_MUST_USE;
/* Frees the replica, but not its requests. NULL is allowed. */
void serving_replica_free(serving_replica *r);
/* Adds an arrived request, which the caller keeps until it has finished. Fails with SYN_E_INVALID
   if the cache or the limits can never hold the request. */
syn_status serving_add(serving_replica *r, serving_request *q, syn_error *err) SYN_MUST_USE;
/* Fills in the next step. step->n is 0 if there is nothing to compute before another request
   arrives, a step finishes or serving_release is called. */
syn_status serving_schedule(serving_replica *r, serving_step *step, syn_error *err) SYN_MUST_USE;
/* Accounts for a step that has been computed. Steps finish in the order in which they were
   scheduled. Requests that are complete become SERVING_FINISHED and leave the replica. */
syn_status serving_finish(serving_replica *r, const serving_step *step,
                          syn_error *err) SYN_MUST_USE;
/* A request of the replica, or NULL; and its removal, when a run ends early. */
serving_request *serving_any(const serving_replica *r);
void serving_remove(serving_replica *r, serving_request *q);
/* Releases the blocks of a request. */
void serving_release(serving_replica *r, serving_request *q);
/* Frees what the scheduler has allocated for a request. */
void serving_request_free(serving_request *q);

const serving_limits *serving_replica_limits(const serving_replica *r);
int64_t serving_running(const serving_replica *r), serving_waiting(const serving_replica *r);
/* Fraction of the cache's blocks that requests use. */
double serving_cache_usage(const serving_replica *r);

/* ---- For policies ---- */

struct serving_replica {
    serving_limits limits;
    const serving_policy *policy;
    kv_blocks *cache;
    serving_request **running; /* in order of admission */
    size_t n_running;
    serving_request **waiting; /* a heap; the next request is waiting[0] */
    size_t n_waiting, waiting_cap;
    uint64_t n_added;
    int64_t steps;   /* in flight */
    double reserved; /* policy_sglang.c: expected fraction of the outputs that will be generated */
    int64_t preemptions, hits; /* so far; hits: prompt tokens found in the cache */
};

/* Whether a is admitted before b: by order of addition, or by priority, arrival and id. */
bool serving_is_before(const serving_replica *r, const serving_request *a,
                       const serving_request *b);
static inline int64_t serving_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
/* The next waiting request, or NULL. */
serving_request *serving_next(const serving_replica *r);
/* Prompt, output and draft tokens of a request that are not computed or in flight. Drafts beyond
   max_model_tokens do not count. */
int64_t serving_left(const serving_replica *r, const serving_request *q);
/* Whether the prompt is not complete or, after a preemption, the prompt and the output. */
bool serving_in_prompt(const serving_replica *r, const serving_request *q);
/* Number of full blocks at the beginning of the waiting request q that are in the cache. *idle is
   the number of these blocks that no request uses. */
int64_t serving_known_blocks(const serving_replica *r, const serving_request *q, int64_t *idle);
/* Whether a step in flight returns the request's last token. */
bool serving_ends(const serving_request *q);
/* Gives a request the blocks for n more tokens. *fits is false if not enough blocks are free. */
syn_status serving_take_blocks(serving_replica *r, serving_request *q, int64_t n, bool *fits,
                               syn_error *err) SYN_MUST_USE;
/* Moves the waiting request q to the running ones. It gets the blocks of its known prefix, and
   blocks for at most n of its remaining tokens. The number of these tokens is stored in *tokens.
   *fits is false if the cache has not enough free blocks; then q is still waiting. */
syn_status serving_admit(serving_replica *r, serving_request *q, int64_t n, int64_t *tokens,
                         bool *fits, syn_error *err) SYN_MUST_USE;
/* Takes the blocks of the running request `index` away and lets it wait again. */
void serving_preempt(serving_replica *r, size_t index);
/* Adds n tokens of a running request to the step. */
void serving_add_row(const serving_replica *r, serving_step *step, serving_request *q, int64_t n);

#endif
