/* Folders of files: paths, removing, writing them to the disk, and moving what is complete to where
   it is read. */
#ifndef TOOLS_FOLDERS_H
#define TOOLS_FOLDERS_H

#include "syntorch/base/status.h"

enum { FOLDER_PATH_BYTES = 4400 };

/* "folder/name" */
syn_status folder_path(char path[FOLDER_PATH_BYTES], syn_error *err, const char *folder,
                       const char *name) SYN_MUST_USE;
/* A folder, and no link to one, whose files are elsewhere. */
bool folder_is(const char *path);
/* Whether files can be named by adding to the prefix: it does not end in a folder's name ("out/",
   "out/..") and is not empty. */
bool folder_is_prefix(const char *prefix);
/* Whether both are names of one folder. */
bool folder_same(const char *a, const char *b);
/* Removes the folder and all below it, through no link; no error if it is not there. Else the file
   or link. */
void folder_remove(const char *folder);
/* Makes the folder anew: whatever has its name goes, so that nothing of it remains. */
syn_status folder_make_empty(const char *folder, syn_error *err) SYN_MUST_USE;
/* Whether a file can be written is found out before the work that it is for: opens and discards
   it. Pipes and devices are not opened; NULL: there is none. */
syn_status folder_check_output(const char *path, syn_error *err) SYN_MUST_USE;
/* The same of files whose names begin with `prefix`, or "folder/", which may have to be made. */
syn_status folder_check_prefix(const char *prefix, syn_error *err) SYN_MUST_USE;
/* A file or folder is on the disk. */
syn_status folder_sync_path(const char *path, syn_error *err) SYN_MUST_USE;
/* All files of a folder, and the folder, are on the disk. */
syn_status folder_sync(const char *folder, syn_error *err) SYN_MUST_USE;
/* Moves all files of a folder into another, in place of those of their names, and removes the
   first. */
syn_status folder_move_files(const char *from, const char *to, syn_error *err) SYN_MUST_USE;

#endif
