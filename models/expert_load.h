/* How routers distribute tokens among experts in runs without data, where no router runs. */
#ifndef MODELS_EXPERT_LOAD_H
#define MODELS_EXPERT_LOAD_H

#include "models/config.h"

SYN_API_BEGIN

/* The relative loads of the experts of each layer with experts, in the order of the layers. */
typedef struct syn_expert_load {
    double *weights; /* rows x experts; NULL: all experts have the same load */
    int64_t rows;    /* number of layers with loads of their own; layer i has those of i % rows */
    int64_t experts;
} syn_expert_load;

/* Reads `text`: "balanced"; "zipf:S,SEED", where the i-th busiest expert of a layer has the load
   i^-S, and SEED decides which experts these are in each layer; or the name of a CSV file, which
   has a line with the weights of all experts for each layer with experts, or one line for all
   layers. mtp: number of layers for multi-token prediction. Free *out with syn_expert_load_free. */
syn_status syn_expert_load_read(syn_expert_load *out, const char *text,
                                const syn_model_config *config, int64_t mtp,
                                syn_error *err) SYN_MUST_USE;
void syn_expert_load_free(syn_expert_load *load);
/* Writes the number of rows that `tokens` tokens of a rank have for each expert of a layer. The
   layer's number counts layers with experts. The tokens use k experts each, so no expert has more
   than `tokens` rows, and all have k * tokens. Needs weights. */
void syn_expert_load_rows(const syn_expert_load *load, int64_t layer, int64_t tokens, int64_t k,
                          int64_t *rows);
/* Number of layers with experts among the first n. */
int64_t syn_model_expert_layers(const syn_model_config *config, int64_t n);

SYN_API_END
#endif
