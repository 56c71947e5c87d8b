/* Calls the loss function for the model's kind, causal or masked, so that a training loop need not
   distinguish them. */
#include "models/training/pretraining.h"

#include "models/bert.h"
#include "models/causal.h"

unsigned syn_pretraining_heads(const syn_model_config *config) {
    return syn_model_is_causal(config) ? 0 : SYN_BERT_MLM;
}

syn_tensor syn_pretraining_stage(syn_model *model, syn_tensor x, const syn_pretraining_batch *b) {
    const bool first = !x.id;
    if (first) x = b->tokens;
    if (syn_model_is_causal(syn_model_get_config(model)))
        return syn_causal_stage_mtp(model, x, b->tokens, b->mask, b->targets, b->weight);
    x = syn_bert_forward(model, x, first ? b->types : SYN_BERT_NO_TYPES, b->mask);
    return syn_model_get_part(model)->head ? syn_bert_mlm_loss(model, x, b->targets, b->weight) : x;
}

syn_tensor syn_pretraining_loss(syn_model *model, const syn_pretraining_batch *b) {
    return syn_pretraining_stage(model, (syn_tensor){0}, b);
}
