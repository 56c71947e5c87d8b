/* A row of a file of requests: which columns mean what, which rows are selected, and the request
   that a row describes. The readers of CSV and of JSON lines fill the cells. */
#ifndef TOOLS_REQUEST_ROW_H
#define TOOLS_REQUEST_ROW_H

#include "tools/requests/request_lines.h"
#include "tools/requests/requests.h"

enum {
    REQUEST_COLUMNS = 256, /* the largest number of columns */
    REQUEST_NAME = 64,     /* bytes of a column's name that are compared, with a NUL */
    REQUEST_CONDITIONS = 16,
    REQUEST_RUN_COLUMNS = 7
};

typedef enum request_field {
    REQUEST_ARRIVAL_S,
    REQUEST_ARRIVAL_MS,
    REQUEST_TIMESTAMP, /* in JSON: ms or s, see request_row */
    REQUEST_ARRIVAL_NS,
    REQUEST_PROMPT,
    REQUEST_OUTPUT,
    REQUEST_PRIORITY,
    REQUEST_PREFIX,
    REQUEST_PREFIX_TOKENS,
    REQUEST_FIRST_S,
    REQUEST_LAST_S,
    REQUEST_QUEUED_TS, /* times of vLLM's events have another start than the arrivals */
    REQUEST_FIRST_TS,
    REQUEST_LAST_TS,
    REQUEST_CHAT_ID,
    REQUEST_HASH_IDS, /* CSV; the reader of JSON fills `blocks` */
    REQUEST_HASH_BLOCK,
    REQUEST_FIELDS /* another column */
} request_field;

typedef struct request_column {
    char name[REQUEST_NAME];
    request_field field;
    uint32_t conditions; /* bit i: condition i is about this column */
    int32_t run;         /* index in the columns that describe a run; -1: none of them */
} request_column;

typedef enum request_relation {
    REQUEST_IS,
    REQUEST_IS_NOT,
    REQUEST_BELOW, /* this one and those after it compare numbers */
    REQUEST_AT_MOST,
    REQUEST_ABOVE,
    REQUEST_AT_LEAST
} request_relation;

typedef struct request_condition {
    syn__str column, value;
    request_relation relation;
    double number; /* the value, if numbers are compared */
} request_condition;

typedef struct request_row {
    const char *name; /* of the file */
    int64_t line;     /* of the row */
    bool is_json;
    bool needs_arrival;   /* false: arrivals are generated */
    const char *arrivals; /* --arrivals, or NULL */
    int32_t n;
    request_column columns[REQUEST_COLUMNS];
    syn__str cells[REQUEST_COLUMNS]; /* empty: no value */
    /* Ids of the prompt's blocks. */
    uint64_t *blocks;
    size_t n_blocks, blocks_cap;
    bool has_ids; /* the file has a column of them */

    request_condition conditions[REQUEST_CONDITIONS];
    int32_t n_conditions;
    uint32_t met_columns; /* conditions whose column exists */
    /* The first selected row: its line and its cells, NUL-terminated. */
    int64_t first_line;
    int32_t n_first;
    char **first_names, **first_values;
    const char *first_run[REQUEST_RUN_COLUMNS];
    bool by_date;
    int64_t first_day; /* arrivals are relative to this day, if by_date, and to first_ns */
    double first_ns, first_queued_ns;
    double last_ns; /* arrival of the previous request */
    int32_t block_tokens;
    /* The first selected row decides what a JSON `timestamp` is: a whole number of ms, as in
       Mooncake's traces, or seconds, as in those of Qwen-Bailian, which have a chat_id. */
    bool stamp_in_s, has_chat_id;
} request_row;

/* `where` may be NULL. Call request_row_free even if it fails. */
syn_status request_row_init(request_row *row, const char *name, const char *where,
                            syn_error *err) SYN_MUST_USE;
/* Sets the name of column i, and what it means. */
void request_row_name(request_row *row, int32_t i, syn__str name);
/* Fails if the row lacks a column of a request, if two columns have the same meaning, or if there
   is no column of a condition. */
syn_status request_row_check(const request_row *row, syn_error *err) SYN_MUST_USE;
/* Sets *out to the row's request, or *selected to false. Fails if the request belongs to another
   run than the first one. */
syn_status request_row_take(request_row *row, request *out, bool *selected,
                            syn_error *err) SYN_MUST_USE;
/* See requests_value. */
const char *request_row_value(const request_row *row, const char *column);
void request_row_free(request_row *row);

/* Fails with the message after "file:line: ". */
syn_status request_row_fail(const request_row *row, syn_error *err, const char *fmt, ...)
    SYN_PRINTF(3, 4);

/* Reads a number and multiplies it by 10^power, correctly rounded unless the text has an exponent.
   Returns false if the text is not a finite number. */
bool request_decimal(syn__str text, int power, double *out);
/* Reads a date such as 2023-11-16 18:15:46.6805900 or 2024-05-10T00:00:00.009930+00:00: the days
   since 1970-01-01, and the time of the day, both in UTC. Seconds may be missing. Returns false if
   the text is no date, or a day that the calendar lacks. */
bool request_date(syn__str text, int64_t *day, double *ns);

#endif
