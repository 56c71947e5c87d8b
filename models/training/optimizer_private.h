/* Internal. The trainer's interface to the optimizer: steps that read the loss together with the
 * gradient norm. */
#ifndef MODELS_OPTIMIZER_PRIVATE_H
#define MODELS_OPTIMIZER_PRIVATE_H

#include "models/training/optimizer.h"

/* Like syn_optimizer_step, but also reads the loss, an f32 scalar, so that the host waits for the
 * device only once. *value: the loss, 0 on meta. Unless `unchecked`, a loss that is not finite is a
 * failure, like gradients that are not finite. */
syn_status syn__optimizer_step(syn_optimizer *o, double learning_rate, syn_tensor loss,
                               float *value, syn_error *err) SYN_MUST_USE;
/* The norm of the last step's gradients; 0 if the step did not read it. */
double syn__optimizer_looked(const syn_optimizer *o);

/* syn__optimizer_step in two calls, for asynchronous devices; requires clipping or `unchecked`.
 * syn__optimizer_step_ahead queues the step and does not wait. The caller passes its *asked to
 * syn__optimizer_settle, which waits for the step and returns loss and norm. If one of these is not
 * finite, settle fails. If the message is empty, the caller must compute the gradients again and
 * get the message from syn__optimizer_fail_nonfinite. A step with gradients that are not finite
 * changes nothing. A step whose loss alone is not finite has updated the parameters. No other step
 * may come between the two calls. */
syn_status syn__optimizer_step_ahead(syn_optimizer *o, double learning_rate, syn_tensor loss,
                                     int *asked, syn_error *err) SYN_MUST_USE;
syn_status syn__optimizer_settle(syn_optimizer *o, int asked, float *loss, double *norm,
                                 syn_error *err) SYN_MUST_USE;
/* Always fails, with a message that names the gradient that is not finite. Counts as part of the
 * next step. */
syn_status syn__optimizer_fail_nonfinite(syn_optimizer *o, syn_error *err) SYN_MUST_USE;

#endif
