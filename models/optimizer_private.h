/* A step of the optimizer as the trainer asks for it. */
#ifndef MODELS_OPTIMIZER_PRIVATE_H
#define MODELS_OPTIMIZER_PRIVATE_H

#include "models/optimizer.h"

/* syn_optimizer_step, whose one wait for the device also reads the loss, a number of f32; *value: 0
   on meta. Unless unchecked, one that is not finite fails as gradients do. */
syn_status syn__optimizer_step(syn_optimizer *o, double learning_rate, syn_tensor loss,
                               float *value, syn_error *err) SYN_MUST_USE;

#endif
