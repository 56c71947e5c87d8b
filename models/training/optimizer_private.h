/* A step of the optimizer as the trainer asks for it. */
#ifndef MODELS_OPTIMIZER_PRIVATE_H
#define MODELS_OPTIMIZER_PRIVATE_H

#include "models/training/optimizer.h"

/* syn_optimizer_step, whose one wait for the device also reads the loss, a number of f32; *value: 0
   on meta. Unless unchecked, one that is not finite fails as gradients do. */
syn_status syn__optimizer_step(syn_optimizer *o, double learning_rate, syn_tensor loss,
                               float *value, syn_error *err) SYN_MUST_USE;
/* The norm of the last step's gradients, 0 if it did not look at it. */
double syn__optimizer_looked(const syn_optimizer *o);

/* The same in two calls, where the gradients are clipped or unchecked. The first waits for nothing:
   *asked is for the second, syn__optimizer_settle, which gives loss and norm. Where they are not
   finite that fails with a sentence, empty if syn__optimizer_blame knows more once the gradients
   are there again; the device has then left all as it was, as if the step had not been (but for
   gradients that are finite beside a loss that is not). No other step is between the two. */
syn_status syn__optimizer_step_ahead(syn_optimizer *o, double learning_rate, syn_tensor loss,
                                     int *asked, syn_error *err) SYN_MUST_USE;
syn_status syn__optimizer_settle(syn_optimizer *o, int asked, float *loss, double *norm,
                                 syn_error *err) SYN_MUST_USE;
/* Fails: which of the gradients that are there is not finite, for the step to come. */
syn_status syn__optimizer_blame(syn_optimizer *o, syn_error *err) SYN_MUST_USE;

#endif
