/* Internal. Sends the KV caches of computed prompts to the ranks that generate their tokens
 * (disaggregated serving). A message has the keys and values of one layer. It is sent as soon as
 * the layer has appended them, so that it overlaps with the layers that follow. For contexts
 * without data, which trace such steps. */
#ifndef MODELS_CACHE_TRANSFER_H
#define MODELS_CACHE_TRANSFER_H

#include "models/family_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of ops that only move a cache from or to its messages. Servers transfer the blocks of
 * the cache in place: to them, these ops are views. */
#define SYN__CACHE_COPY "transferred"

/* The keys and values of some heads of a prompt. Their message has n_heads * tokens * (width of a
 * key and a value) elements; with latent attention, the only head is the latents. */
typedef struct syn__cache_part {
    int32_t peer, tag;           /* tag: of the first layer; layer i has the tag + i */
    int64_t first_head, n_heads; /* of the sending rank's cache */
    int64_t tokens;
    int32_t prompt; /* received parts: their heads are joined if these numbers are equal */
} syn__cache_part;

/* What a rank sends and receives in a step. Parts of the same prompt follow each other, in the
 * order of their heads. */
typedef struct syn__cache_transfer {
    const syn__cache_part *sent, *received;
    int64_t n_sent, n_received;
    syn_tensor *packed, *messages; /* (layers, n_sent) and (layers, n_received), for the functions
                                    * below */
} syn__cache_transfer;

/* Posts the receives of the model's next packed step. *transfer is used until syn__caches_send. */
void syn__caches_post(syn_model *m, syn__cache_transfer *transfer);
/* Appends what layer i received to its caches. Called before the layer appends its own tokens. */
void syn__caches_take(syn_model *m, int64_t i);
/* Copies what layer i sends into one tensor per message. Called after the layer has appended its
 * keys and values. */
void syn__caches_pack(syn_model *m, int64_t i);
/* Sends the messages of all layers after the step. */
void syn__caches_send(syn_model *m);

#ifdef __cplusplus
}
#endif
#endif
