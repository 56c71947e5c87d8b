/* Prints the JSON of an execution trace: objects, arrays and values, either without whitespace or
   in the layout of Python's json.dumps(indent=2) on the output of protobuf's MessageToJson. */
#ifndef EXPORT_ET_JSON_PRINT_H
#define EXPORT_ET_JSON_PRINT_H

#include "export/chakra/wire/et_node.h"

#ifdef __cplusplus
extern "C" {
#endif

struct syn__et_printer {
    syn_sink *sink;
    bool python;
    /* private */
    int depth;
    bool filled; /* the innermost object or array is not empty */
};

void syn__et_print_begin(syn__et_printer *p, char bracket);
void syn__et_print_end(syn__et_printer *p, char bracket);
/* Call syn__et_print_item before an element of an array, and syn__et_print_key before the value of
   a member. The key is written in protobuf's JSON spelling: "startTimeMicros" for
   "start_time_micros". */
void syn__et_print_item(syn__et_printer *p);
void syn__et_print_key(syn__et_printer *p, const char *name);
/* Prints a string, which may contain any byte. */
void syn__et_print_text(syn__et_printer *p, syn__str s);
void syn__et_print_scalar(syn__et_printer *p, const syn__et_type *type, uint64_t bits,
                          syn__str data);
/* Prints the name of an enum's value or, if `name` is NULL, its number. */
void syn__et_print_enum(syn__et_printer *p, const char *name, int32_t number);

#ifdef __cplusplus
}
#endif
#endif
