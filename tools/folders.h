/* File system helpers for outputs: paths, removing folders, flushing to disk, and moving complete
   files to their final folder. */
#ifndef TOOLS_FOLDERS_H
#define TOOLS_FOLDERS_H

#include "syntorch/base/status.h"

enum { FOLDER_PATH_BYTES = 4400 };

/* Writes "folder/name" to path. */
syn_status folder_path(char path[FOLDER_PATH_BYTES], syn_error *err, const char *folder,
                       const char *name) SYN_MUST_USE;
/* Whether path is a folder. False for a symbolic link to a folder, because the files are
   elsewhere. */
bool folder_is(const char *path);
/* Whether file names can be made by appending to `prefix`: it must not be empty or end in a
   folder's name ("out/", "out/.."). */
bool folder_is_prefix(const char *prefix);
/* Whether both paths name the same folder. */
bool folder_same(const char *a, const char *b);
/* Removes a folder with everything in it, or a file, or a symbolic link. Does not follow symbolic
   links. Does nothing if `folder` does not exist. */
void folder_remove(const char *folder);
/* Creates an empty folder. Removes an existing folder or file of that name first. */
syn_status folder_make_empty(const char *folder, syn_error *err) SYN_MUST_USE;
/* Checks before a long computation whether its output file can be written: creates a file and
   discards it. Does not open pipes and devices. path NULL: there is no output. */
syn_status folder_check_output(const char *path, syn_error *err) SYN_MUST_USE;
/* The same check for files whose names begin with `prefix`, which may be "folder/". The folder need
   not exist yet. */
syn_status folder_check_prefix(const char *prefix, syn_error *err) SYN_MUST_USE;
/* Flushes a file or folder to disk. */
syn_status folder_sync_path(const char *path, syn_error *err) SYN_MUST_USE;
/* Flushes all files of a folder, and the folder itself, to disk. */
syn_status folder_sync(const char *folder, syn_error *err) SYN_MUST_USE;
/* Moves all files of the folder `from` to the folder `to`, replacing files with the same names, and
   removes `from`. */
syn_status folder_move_files(const char *from, const char *to, syn_error *err) SYN_MUST_USE;

#endif
