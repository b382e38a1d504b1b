/* HTML whose text is never markup: names and messages come from files that anybody may have written. */
#ifndef CKPT_CLI_MARKUP_H
#define CKPT_CLI_MARKUP_H

#include <stdio.h>

enum { MARKUP_TEXT_MAX = 2048 };

/* printf of text: what has a meaning in HTML is escaped, in attributes too; control characters become "?". */
void markup_text(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Markup itself. Only numbers, and words of this program, may be put in. */
void markup(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A cell of a table; number: set to the right. */
void markup_cell(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void markup_number(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "1.5 s"; NAN: a dash. */
void markup_ms(FILE *f, double ms);
/* A table that scrolls by itself, by keyboard too; columns end with NULL, those that begin with '>' are numbers. Rows follow, then
 * markup_table_end. */
void markup_table(FILE *f, const char *caption, const char *const *columns);
void markup_table_end(FILE *f);

#endif
