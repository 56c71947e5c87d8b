/* `syntorch serve`: simulates an LLM server. Requests arrive, a scheduler (tools/serving/) decides
   what each replica computes in its next step, and the time of a step is predicted from the model's
   ops on a machine. The program is in serve_program.c. */
#ifndef TOOLS_SERVE_H
#define TOOLS_SERVE_H

#include "models/causal.h"
#include "syntorch/hardware/hardware.h"
#include "syntorch/mesh.h"
#include "tools/requests/requests.h"
#include "tools/serve/serve_load.h"
#include "tools/serving/serving.h"
#include "tools/serving/serving_metrics.h"

/* ---- Pools: ranks that serve one model (serve_pool.c) ---- */

/* The ranks of a pool: dp replicas of tp ranks. With ep above 1 the replicas share experts and run
   their steps together. */
typedef struct serve_layout {
    int32_t tp, dp, ep;
} serve_layout;

static inline int32_t serve_ranks(const serve_layout *l) {
    return l->tp * l->dp;
}

/* The predicted time of a part of a step, by what limits it. */
typedef struct serve_time {
    double ns;
    double parts[SYN_LIMIT_COUNT];
} serve_time;

/* Adds `times` times another time. */
void serve_time_add(serve_time *t, const serve_time *more, double times);

/* A pool of ranks on one machine. It predicts steps: one rank is recorded on meta once for each
   number of tokens, and attention is predicted from the real lengths. */
typedef struct serve_pool serve_pool;
typedef struct serve_pool_options {
    const syn_model_config *config;
    const syn_hardware *hw;
    serve_layout layout;
    syn_dtype dtype;
    bool f32_activations; /* only weights have this dtype; activations and cache are f32 */
    bool samples;         /* a step also takes the likeliest token of each sequence */
    int64_t block_tokens;
    const char *role; /* "", "prefill" or "decode" */
} serve_pool_options;
/* What *options points to must stay valid. */
syn_status serve_pool_new(serve_pool **out, const serve_pool_options *options,
                          syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void serve_pool_free(serve_pool *p);
const serve_pool_options *serve_pool_get(const serve_pool *p);
/* The plan of the pool's ranks, and how the model of one of them is made. */
const syn_plan *serve_pool_plan(const serve_pool *p);
syn_model_options serve_pool_model(const serve_pool *p, const syn_mesh *mesh);
/* Bytes of a rank's weights, and bytes that one token takes in a rank's KV cache. */
double serve_pool_weight_bytes(const serve_pool *p);
double serve_pool_token_bytes(const serve_pool *p);
/* Peak bytes of the activations of a rank that computes a step of so many tokens and sequences. */
syn_status serve_pool_activation_bytes(serve_pool *p, int64_t tokens, int64_t sequences,
                                       double *bytes, syn_error *err) SYN_MUST_USE;
/* Predicts the step that n replicas compute together; n is 1 unless they share experts. A replica
   without rows computes a dummy token. */
syn_status serve_pool_predict(serve_pool *p, const serving_step *const *steps, int32_t n,
                              serve_time *out, syn_error *err) SYN_MUST_USE;
/* Number of packed steps that were recorded. */
int64_t serve_pool_recorded(const serve_pool *p);

/* What determines the size of a rank's KV cache (serve_memory.c). */
typedef struct serve_memory {
    double share;            /* of the device's memory that the server uses */
    double device_bytes;     /* 0: the machine's */
    double activation_bytes; /* negative: predicted from a step of the largest size */
} serve_memory;
/* Sets *blocks to the number of blocks of a rank's cache, at least 2, with the limits max_seqs and
   max_tokens of *l. draft: NULL, or the pool of the draft model, which is on the same ranks. */
syn_status serve_kv_blocks(serve_pool *p, const serve_pool *draft, const serve_memory *m,
                           const serving_limits *l, int64_t *blocks, syn_error *err) SYN_MUST_USE;

/* ---- The simulation (serve_engine.c) ---- */

/* How arriving requests are divided among replicas: to the one with the lowest 4 * waiting +
   running, as vLLM's load balancer does, or one after the other. */
typedef enum serve_router { SERVE_LEAST, SERVE_ROUND_ROBIN } serve_router;

/* A request in the simulation. */
typedef struct serve_request {
    serving_request q; /* the first member: a serving_request of the engine is a serve_request */
    request given;     /* as it arrived; its blocks are a copy */
    int32_t replica;   /* that generates its tokens */
    int32_t prompt_replica; /* that computes its prompt; the same without disaggregation */
    int32_t hits; /* prompt tokens found in the cache; set when the request leaves a pool */
    double scheduled_ns, first_ns, last_ns;
    double received_ns; /* when the second pool got its cache; below 0: it stayed in the first */
} serve_request;

/* A step that a replica has computed. */
typedef struct serve_step {
    int32_t pool, replica; /* replica: within all pools */
    int64_t number;        /* of the replica's steps, from 0 */
    double start_ns, end_ns;
    const serving_step *rows; /* the requests have advanced already */
    const serve_time *time;   /* of the pool's step */
    int64_t running, waiting; /* requests after the step */
    double cache_usage;
    int64_t output_tokens; /* that the step returned */
} serve_step;

/* A replica after a request has arrived, or after it has scheduled a step. It stays so until the
   next change. */
typedef struct serve_state {
    int32_t pool, replica;
    bool scheduled; /* false: a request has arrived */
    double now_ns;
    int64_t running, waiting;
    int64_t preemptions, hits; /* so far; hits: prompt tokens found in the cache */
    double cache_usage;
} serve_state;

/* Functions that see the simulation. Any may be NULL. */
typedef struct serve_observer {
    syn_status (*step)(void *user, const serve_step *step, syn_error *err);
    syn_status (*changed)(void *user, const serve_state *state, syn_error *err);
    syn_status (*finished)(void *user, const serve_request *r, syn_error *err);
    void *user;
} serve_observer;

typedef struct serve_simulation {
    /* The pools. Two: the first computes prompts, the second all further tokens. */
    serve_pool *pools[2];
    int32_t n_pools;
    serving_limits limits[2]; /* of each pool's replicas */
    const char *requests;     /* name of their file in messages */
    const serving_policy *policy;
    serve_router router;
    double step_ns, sequence_ns; /* time of a step besides its ops, and for each sampled token */
    double acceptance;           /* probability that a draft token is accepted */
    serve_pool *draft;           /* the model that proposes drafts; NULL: they take no time */
    uint64_t seed;
    serve_observer observers[6];
    int32_t n_observers;
    double rate; /* of generated requests, per second: fail if the server is overloaded; 0: never */
} serve_simulation;

/* Sums over all steps of a pool. */
typedef struct serve_totals {
    int64_t steps[2];     /* without and with prompt tokens */
    double busy_ns[2];    /* the same */
    serve_time time[2];   /* the same, by limit */
    int64_t tokens, rows; /* computed tokens, and sequences in steps */
} serve_totals;

typedef struct serve_result {
    serving_metrics metrics;
    serve_totals totals[2];                        /* by pool */
    int64_t preemptions, hits, drafted, accepted;  /* hits: prompt tokens found in the cache */
    int64_t most_running, most_waiting;            /* of all replicas together */
    double most_usage;                             /* of a replica's cache */
    double transferred_bytes, exposed_transfer_ns; /* exposed: the first decode step waits */
    serve_rates rates;
} serve_result;

/* Sets result->rates. Fails if the server is overloaded and finishes fewer requests per second than
   sim->rate, with a message that has the rate that it can serve (serve_load.c). */
syn_status serve_check_load(const serve_simulation *sim, const serve_load *load,
                            serve_result *result, syn_error *err) SYN_MUST_USE;

/* The `key` of serving_limits for the requests of a simulation. */
uint64_t serve_block_key(const serving_request *q, int64_t i, int64_t block_tokens);
/* Runs all requests of the source. result->metrics must be new. */
syn_status serve_simulate(const serve_simulation *sim, request_source *source, serve_result *result,
                          syn_error *err) SYN_MUST_USE;

#endif
