/* Finds the name that a user probably meant. */
#ifndef SYNTORCH_NEAREST_H
#define SYNTORCH_NEAREST_H

#ifdef __cplusplus
extern "C" {
#endif

/* Start with {NULL, 0} and call syn__nearest_try for every known name. Names with too many wrong
   characters for a typo are ignored. */
typedef struct syn__nearest {
    const char *name; /* the nearest name so far; NULL: no name is near enough */
    int distance;     /* number of edits from the typed name */
} syn__nearest;

void syn__nearest_try(syn__nearest *nearest, const char *typed, const char *name);

#ifdef __cplusplus
}
#endif
#endif
