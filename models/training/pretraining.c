/* Calls the loss function for the model's kind, causal or masked, so that a training loop need not
   distinguish them. */
#include "models/training/pretraining.h"

#include "models/bert.h"
#include "models/causal.h"

unsigned syn_pretraining_heads(const syn_model_config *config) {
    return syn_model_is_causal(config) ? 0 : SYN_BERT_MLM;
}

syn_tensor syn_pretraining_loss(syn_model *model, const syn_pretraining_batch *b) {
    if (syn_model_is_causal(syn_model_get_config(model)))
        return syn_causal_loss_masked(model, b->tokens, b->mask, b->targets, b->weight);
    const syn_tensor hidden = syn_bert_forward(model, b->tokens, b->types, b->mask);
    return syn_bert_mlm_loss(model, hidden, b->targets, b->weight);
}
