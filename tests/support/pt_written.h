/* Converts a rank of pt_hand.h to an execution trace and shows the trace as text, for comparison
   with a short expected text. */
#ifndef TESTS_PT_WRITTEN_H
#define TESTS_PT_WRITTEN_H

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/write/pt_write.h"
#include "tests/support/pt_hand.h"

/* Reads the next message of a trace into *message and removes it from *rest. Returns false at the
   end. */
bool written_message(syn__str *rest, syn__str *message);

void written_attr(const syn__et_attr *a, char *out, size_t cap);

/* Writes the rank with the profile astra-sim to memory, and stores its messages as text in
   `out`. */
syn_status written(const syn__pt_rank *rank, bool attributes, char *out, size_t cap,
                   syn_error *err);

#endif
