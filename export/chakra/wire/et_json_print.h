/* Objects, arrays and values of an execution trace's JSON, as text: without any space, or as
   Python's json.dumps(indent=2) lays out what protobuf's MessageToJson makes. */
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
    bool filled; /* something is in the innermost object or array */
};

void syn__et_print_begin(syn__et_printer *p, char bracket);
void syn__et_print_end(syn__et_printer *p, char bracket);
/* Before an element of an array, and before a member's value: its name in protobuf's JSON spelling
   ("startTimeMicros" for "start_time_micros"). */
void syn__et_print_item(syn__et_printer *p);
void syn__et_print_key(syn__et_printer *p, const char *name);
/* `s` may hold any byte. */
void syn__et_print_text(syn__et_printer *p, syn__str s);
void syn__et_print_scalar(syn__et_printer *p, const syn__et_type *type, uint64_t bits,
                          syn__str data);
/* By name; NULL: the number. */
void syn__et_print_enum(syn__et_printer *p, const char *name, int32_t number);

#ifdef __cplusplus
}
#endif
#endif
