/* Divides the layers of a model into the virtual stages of a pipeline: evenly, by numbers of
   layers, or by a layout as in Megatron-LM. Separate from the executor (pipeline.h), because a
   program checks the division before it creates a model. */
#ifndef SYNTORCH_TRAINING_DIVISION_H
#define SYNTORCH_TRAINING_DIVISION_H

#include "models/model.h"
#include "models/training/schedule.h"

SYN_API_BEGIN

/* At most one of `layers`, `layout` and the two flags may be given; if all are 0, all virtual
 * stages have the same number of layers. */
typedef struct syn_layer_division {
    const char *layers; /* the number of layers of each virtual stage, such as "7,8,8,7"; 0 is
                           allowed. NULL: not given */
    /* Megatron-LM's pipeline_model_parallel_layout, such as "Et|(tt|)*30mL"; NULL: not given. E is
       the embedding, t a layer, m a layer for multi-token prediction (syn_model_part.mtp), which
       must be in the last virtual stage, and L the final norm, the head and the loss. "|" begins
       the next virtual stage; x*N and (...)*N repeat; commas are ignored. */
    const char *layout;
    /* Count the embedding, or norm, head and loss, as a layer, so that the first or the last
       virtual stage gets one layer fewer (account_for_embedding_in_pipeline_split and
       account_for_loss_in_pipeline_split). */
    bool count_embedding, count_loss;
    int64_t mtp; /* layers for multi-token prediction, if there is no layout; they are in the last
                    virtual stage and not counted */
} syn_layer_division;

/* Computes the parts of all virtual stages: parts[v] for v < syn_schedule_virtual_stages(shape).
   The first one has the embedding, the last one the head. division NULL: evenly. Fails with
   SYN_E_INVALID if the layers cannot be divided evenly, or the division does not fit the shape or
   the model. */
syn_status syn_pipeline_parts(syn_model_part *parts, const syn_model_config *config,
                              const syn_schedule_shape *shape, const syn_layer_division *division,
                              syn_error *err) SYN_MUST_USE;
/* Computes only the part of a chunk of a stage. */
syn_status syn_pipeline_part(syn_model_part *out, const syn_model_config *config,
                             const syn_schedule_shape *shape, const syn_layer_division *division,
                             int32_t stage, int32_t chunk, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
