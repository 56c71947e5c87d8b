/* Internal functions that contexts use on communicators (comm/). */
#ifndef SYNTORCH_COMMUNICATOR_PRIVATE_H
#define SYNTORCH_COMMUNICATOR_PRIVATE_H

#include "syntorch/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each context is a user of its communicator (see syn_comm_ops: hold). Both functions may be called
   from any thread; comm may be NULL. */
void syn__comm_hold(syn_comm *comm);
void syn__comm_release(syn_comm *comm);
/* Fails if the communicator is closed, because state that its ranks shared may no longer exist. */
syn_status syn__comm_check_open(const syn_comm *comm, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
