/* Files of a test: those that it writes, in a folder of their own, and those that it is given. What
   cannot be written or read ends the program. */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include "syntorch/base/status.h"

/* The path of `name` ("": none) in this run's folder, which is made when first asked for and
   removed with all it holds when the program ends. The last eight paths of a thread are valid. */
const char *in_folder(const char *name);

/* Writes a file of the folder; its path. */
const char *put_file(const char *name, const void *data, size_t bytes);
const char *put_text(const char *name, const char *text);
/* Removes all that is in it; how many names there were. test_run does before each case. */
int clear_folder(void);
/* Makes a folder in it, or empties one; its path. */
const char *put_folder(const char *name);

bool path_exists(const char *path);
/* Names in a folder that do not begin with a dot; -1: it cannot be read. */
int count_entries(const char *path);
/* The folder and all below it, or the file; nothing if it is not there. */
void remove_all(const char *path);

/* All of a file, for free(), with a zero behind it; NULL if there is none. */
char *file_bytes(const char *path, size_t *bytes);
/* The first 64 KiB as a text; "" if there is none. Valid until the next call. */
const char *file_text(const char *path);

/* Paths below the sources, below tests/reference, and below the data that only some machines have
   (which SYN_SHARED_DATA names). Valid as in_folder's. */
const char *source_path(const char *fmt, ...) SYN_PRINTF(1, 2);
const char *reference_path(const char *fmt, ...) SYN_PRINTF(1, 2);
const char *shared_path(const char *fmt, ...) SYN_PRINTF(1, 2);
bool have_shared_data(void);
#endif
