/* The trainer's interface to the optimizer: steps that read the loss together with the gradient
 * norm. Internal. */
#ifndef MODELS_OPTIMIZER_PRIVATE_H
#define MODELS_OPTIMIZER_PRIVATE_H

#include "models/training/optimizer.h"

/* Like syn_optimizer_step, but reads the loss, an f32 scalar, in the same wait for the device.
 * *value: the loss, 0 on meta. Unless unchecked, a non-finite loss fails like gradients do. */
syn_status syn__optimizer_step(syn_optimizer *o, double learning_rate, syn_tensor loss,
                               float *value, syn_error *err) SYN_MUST_USE;
/* The norm of the last step's gradients; 0 if the step did not read it. */
double syn__optimizer_looked(const syn_optimizer *o);

/* The same in two calls, for asynchronous devices; requires clipping or `unchecked`. The first call
 * queues the step and waits for nothing. Its *asked is passed to the second, syn__optimizer_settle,
 * which returns loss and norm. If these are not finite, settle fails with a message, which is empty
 * if the caller should get it from syn__optimizer_blame once the gradients have been computed
 * again. The device has then changed nothing, as if there had been no step; only if the gradients
 * are finite and the loss is not, the update was made. No other step may come between the two
 * calls. */
syn_status syn__optimizer_step_ahead(syn_optimizer *o, double learning_rate, syn_tensor loss,
                                     int *asked, syn_error *err) SYN_MUST_USE;
syn_status syn__optimizer_settle(syn_optimizer *o, int asked, float *loss, double *norm,
                                 syn_error *err) SYN_MUST_USE;
/* Always fails, with a message that names the gradient that is not finite. Counts as part of the
 * next step. */
syn_status syn__optimizer_blame(syn_optimizer *o, syn_error *err) SYN_MUST_USE;

#endif
