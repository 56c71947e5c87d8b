/* Files of a test: a temporary folder for files that the test writes, and paths of files that it
   reads. A failure to write or read ends the program. */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include "syntorch/base/status.h"

/* The path of `name` in this run's folder ("": the path of the folder). The folder is created on
   first use, and removed with its contents when the program ends. The last eight paths returned to
   a thread stay valid. */
const char *in_folder(const char *name);

/* Write a file to the folder and return its path. */
const char *put_file(const char *name, const void *data, size_t bytes);
const char *put_text(const char *name, const char *text);
/* Empties the folder and returns the number of entries it had. test_run calls it before each
   case. */
int clear_folder(void);
/* Creates or empties a subfolder and returns its path. */
const char *put_folder(const char *name);

bool path_exists(const char *path);
/* Number of names in a folder that do not begin with a dot; -1 if the folder cannot be read. */
int count_entries(const char *path);
/* Removes a file, or a folder with its contents. Does nothing if the path does not exist. */
void remove_all(const char *path);

/* The contents of a file with a zero at the end; NULL if there is no file. The caller frees them
   with free(). */
char *file_bytes(const char *path, size_t *bytes);
/* The first 64 KiB of a file as text; "" if there is no file. Valid until the next call. */
const char *file_text(const char *path);

/* Paths in the source folder, in tests/reference, and in the folder of shared data
   (SYN_SHARED_DATA), which only some machines have. They stay valid as long as those of
   in_folder. */
const char *source_path(const char *fmt, ...) SYN_PRINTF(1, 2);
const char *reference_path(const char *fmt, ...) SYN_PRINTF(1, 2);
const char *shared_path(const char *fmt, ...) SYN_PRINTF(1, 2);
bool have_shared_data(void);
#endif
