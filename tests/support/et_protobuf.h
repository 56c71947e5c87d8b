/* Compares our reader and writer of execution traces with protobuf-c's unpack and pack. The two
   implementations share only the schema. */
#ifndef TESTS_ET_PROTOBUF_H
#define TESTS_ET_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether protobuf-c can read every message of an .et file's content, and our reader and writer
   produce the same bytes from it as protobuf-c's unpack and pack. Sets *canonical to whether these
   bytes also equal the input. */
bool et_same_as_protobuf(const char *data, size_t bytes, bool *canonical);

/* Creates a metadata or node message with random content in any field of the schema. *out points to
   its bytes, written by protobuf-c and valid until the next call. Returns their number. */
size_t et_random_message(uint64_t *state, bool is_meta, const char **out);

#endif
