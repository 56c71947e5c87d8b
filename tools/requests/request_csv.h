/* Requests in CSV (RFC 4180) and in JSON lines. */
#ifndef TOOLS_REQUEST_CSV_H
#define TOOLS_REQUEST_CSV_H

#include "tools/requests/request_row.h"

/* Splits the current line of CSV, whose quotes may continue in the following lines, into cells.
   header: they are the names of the columns. */
syn_status request_csv_split(request_row *row, request_lines *lines, syn__str text, bool header,
                             syn_error *err) SYN_MUST_USE;
/* Sets the columns and cells of a row to the members of an object. `scratch` holds the cells; they
   are valid until the next call. */
syn_status request_json_split(request_row *row, syn__str text, syn__buf *scratch,
                              syn_error *err) SYN_MUST_USE;

#endif
