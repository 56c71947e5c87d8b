/* Execution traces written of a rank made by hand, as text. */
#ifndef TESTS_PT_WRITTEN_H
#define TESTS_PT_WRITTEN_H

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/write/pt_write.h"
#include "tests/support/pt_hand.h"

/* The next message of a trace; false at its end. */
bool written_message(syn__str *rest, syn__str *message);

void written_attr(const syn__et_attr *a, char *out, size_t cap);

/* Writes the rank for a simulator into memory and shows it as text. */
syn_status written(const syn__pt_rank *rank, bool attributes, char *out, size_t cap,
                   syn_error *err);

#endif
