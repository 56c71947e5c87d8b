/* Converts a rank of pt_hand.h to an execution trace and shows it as text. */
#ifndef TESTS_PT_WRITTEN_H
#define TESTS_PT_WRITTEN_H

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/write/pt_write.h"
#include "tests/support/pt_hand.h"

/* Reads the next message of a trace; false at its end. */
bool written_message(syn__str *rest, syn__str *message);

void written_attr(const syn__et_attr *a, char *out, size_t cap);

/* Writes the rank with profile astra-sim to memory and shows the messages as text. */
syn_status written(const syn__pt_rank *rank, bool attributes, char *out, size_t cap,
                   syn_error *err);

#endif
