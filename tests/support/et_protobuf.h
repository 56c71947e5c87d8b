/* Execution traces against protobuf-c's own pack and unpack, which share nothing with our reader
   and writer but the schema. */
#ifndef TESTS_ET_PROTOBUF_H
#define TESTS_ET_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether protobuf-c reads every message of an .et's content, and our reader and writer make the
   same bytes of it as its unpack and pack. *canonical: those are also the bytes that it read. */
bool et_same_as_protobuf(const char *data, size_t bytes, bool *canonical);

/* The bytes of a metadata or node message of random content, by protobuf-c: every field of the
   schema, whatever it holds. Valid until the next call. */
size_t et_random_message(uint64_t *state, bool is_meta, const char **out);

#endif
