/* What the commands say. stdout: tables or one JSON document {"schema":1,"command":…}. stderr: messages. Colour only on a terminal
 * and without NO_COLOR. */
#ifndef CKPT_CLI_OUTPUT_H
#define CKPT_CLI_OUTPUT_H

#include "frame/command.h"

#include <jansson.h>
#include <stddef.h>

enum { JSON_SCHEMA = 1 };

/* "ckpt list: text" on stderr, always. Returns code. */
int cli_fail(const struct cli *cli, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A remark on stderr, silenced by --quiet. */
void cli_note(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* To be called first: without memory for JSON the program ends with a message and EXIT_FAILED, rather than print half a document. */
void json_prepare(void);
/* What somebody has said, for a program on which processes depend. NULL: it is no JSON, or there is no memory for it. */
json_t *json_try(const char *text, size_t len);
/* A new document with "schema" and "command". */
json_t *json_document(const struct cli *cli);
/* Names in a store may be any UTF-8 that a JSON string can hold; what is not becomes "?" per byte. */
json_t *json_text(const char *text);
/* Prints the document as one line and gives it up. */
void json_emit(json_t *document);

enum tone { TONE_PLAIN, TONE_GOOD, TONE_WARN, TONE_BAD, TONE_DIM, TONE_HEAD };

/* A table: cells are collected, columns are as wide as their widest cell, but for a few that are much wider: these stick out. */
struct table;
enum align { ALIGN_LEFT, ALIGN_RIGHT };
struct column {
	const char *title;
	enum align align;
};
struct table *table_new(const struct column *columns, int ncolumns);
/* Adds the next cell, row by row; the text is copied, control characters in it become "?". */
void table_cell(struct table *t, enum tone tone, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Prints on stdout and frees. */
void table_print(struct table *t);
void table_free(struct table *t);

/* printf on stdout with a tone. Control characters in the result become "?" (but not newlines). */
void out(enum tone tone, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Control characters become "?": what a store says must not drive the terminal. Returns dst. */
char *text_plain(char *dst, size_t size, const char *text);

/* "2 min ago"; "in the future" for a clock that went back. Returns dst. */
char *text_age(char *dst, size_t size, uint64_t wall_ns);
/* "350 ms", "1.5 s", "12 min", "3.1 h". Returns dst. */
char *text_duration(char *dst, size_t size, uint64_t ns);
/* ISO 8601, UTC, seconds. Returns dst. */
char *text_time(char *dst, size_t size, uint64_t wall_ns);

/* What files hold, and what they take where that is something else: "1.5 GiB", "1.5 GiB in 1.2 GiB". Returns dst. */
char *text_sizes(char *dst, size_t size, uint64_t held, uint64_t stored);

/* Flushes stdout. A reader that went away (broken pipe) has what it wanted: `code` stays. Other failures: EXIT_FAILED with
 * a message. */
int out_finish(const struct cli *cli, int code);

#endif
