#include "frame/output.h"

#include "base/bytes.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CELL_MAX = 1024, COLUMN_MAX = 64 };

/* ---- messages */

int cli_fail(const struct cli *cli, int code, const char *fmt, ...)
{
	char text[CELL_MAX], plain[CELL_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "ckpt%s%s: %s\n", cli->command ? " " : "", cli->command ? cli->command->name : "",
		text_plain(plain, sizeof(plain), text));
	return code;
}

void cli_note(const struct cli *cli, const char *fmt, ...)
{
	if (cli->quiet)
		return;
	char text[CELL_MAX], plain[CELL_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s\n", text_plain(plain, sizeof(plain), text));
}

/* Keeps printable bytes; UTF-8 sequences pass, except C1 controls (0xc2 0x80…0x9f), which some terminals obey. */
static char plain_byte(const char *text, size_t at)
{
	unsigned char c = (unsigned char)text[at], next = (unsigned char)text[at + 1];
	unsigned char before = at ? (unsigned char)text[at - 1] : 0;
	bool c1 = (c == 0xc2 && next >= 0x80 && next < 0xa0) || (before == 0xc2 && c >= 0x80 && c < 0xa0);
	return c < 0x20 || c == 0x7f || c1 ? '?' : (char)c;
}

char *text_plain(char *dst, size_t size, const char *text)
{
	size_t n = 0;
	for (; text[n] && n + 1 < size; n++)
		dst[n] = plain_byte(text, n);
	dst[n] = 0;
	return dst;
}

/* ---- JSON */

static void *need(void *value)
{
	if (!value) {
		fputs("ckpt: out of memory\n", stderr);
		_exit(EXIT_FAILED);
	}
	return value;
}

static void *json_memory(size_t size)
{
	return need(malloc(size));
}

void json_prepare(void)
{
	json_set_alloc_funcs(json_memory, free);
}

json_t *json_try(const char *text, size_t len)
{
	json_set_alloc_funcs(malloc, free);
	json_t *doc = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	json_prepare();
	return doc;
}

json_t *json_document(const struct cli *cli)
{
	return need(json_pack("{s:i, s:s}", "schema", JSON_SCHEMA, "command", cli->command->name));
}

json_t *json_text(const char *text)
{
	json_t *value = json_string(text);
	if (value)
		return value;
	char *copy = strdup(text);
	for (char *p = copy; p && *p; p++) {
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	}
	value = copy ? json_string(copy) : NULL;
	free(copy);
	return need(value);
}

void json_emit(json_t *document)
{
	json_dumpf(document, stdout, JSON_COMPACT);
	fputc('\n', stdout);
	json_decref(document);
}

/* ---- colour */

static bool colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb");
}

static const char *tone_on(enum tone tone, bool coloured)
{
	static const char *const codes[] = {
		[TONE_PLAIN] = "",       [TONE_GOOD] = "\033[32m", [TONE_WARN] = "\033[33m",
		[TONE_BAD] = "\033[31m", [TONE_DIM] = "\033[2m",   [TONE_HEAD] = "\033[1m",
	};
	return coloured ? codes[tone] : "";
}

static const char *tone_off(enum tone tone, bool coloured)
{
	return *tone_on(tone, coloured) ? "\033[0m" : "";
}

void out(enum tone tone, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	need(n < 0 ? NULL : text);
	for (size_t i = 0; text[i]; i++)
		text[i] = text[i] == '\n' ? '\n' : plain_byte(text, i);
	bool coloured = colour();
	printf("%s%s%s", tone_on(tone, coloured), text, tone_off(tone, coloured));
	free(text);
}

/* ---- tables */

/* Thousands of rows are usual: the texts of all cells lie one behind the other, and what is printed is not formatted again. */
struct cell {
	size_t at; /* of its text */
	int width;
	enum tone tone;
};

struct table {
	const struct column *columns;
	int ncolumns;
	bool coloured;
	size_t ncells, cap;
	struct cell *cells;
	size_t len, room;
	char *texts;
};

struct table *table_new(const struct column *columns, int ncolumns)
{
	struct table *t = calloc(1, sizeof(*t));
	need(t);
	*t = (struct table){.columns = columns, .ncolumns = ncolumns, .coloured = colour()};
	return t;
}

/* Columns on a terminal, near enough: UTF-8 continuation bytes take none. */
static int width(const char *text)
{
	int n = 0;
	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static size_t add_text(struct table *t, const char *text)
{
	size_t at = t->len, len = strlen(text) + 1;
	if (t->room - t->len < len) {
		t->room = t->room ? t->room * 2 : 4 * CELL_MAX;
		t->texts = realloc(t->texts, t->room);
		need(t->texts);
	}
	memcpy(t->texts + at, text, len);
	t->len += len;
	return at;
}

void table_cell(struct table *t, enum tone tone, const char *fmt, ...)
{
	char text[CELL_MAX], plain[CELL_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (t->ncells == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 64;
		t->cells = reallocarray(t->cells, t->cap, sizeof(*t->cells));
		need(t->cells);
	}
	text_plain(plain, sizeof(plain), text);
	t->cells[t->ncells++] = (struct cell){.at = add_text(t, plain), .width = width(plain), .tone = tone};
}

static void put_pad(int n)
{
	static const char blanks[] = "                                ";
	for (; n > 0; n -= (int)sizeof(blanks) - 1)
		fwrite(blanks, 1, (size_t)n < sizeof(blanks) ? (size_t)n : sizeof(blanks) - 1, stdout);
}

static void put_toned(const struct table *t, const char *text, enum tone tone)
{
	if (t->coloured)
		fputs(tone_on(tone, true), stdout);
	fputs(text, stdout);
	if (t->coloured)
		fputs(tone_off(tone, true), stdout);
}

static void print_cell(const struct table *t, int column, int pad, const char *text, enum tone tone)
{
	bool last = column + 1 == t->ncolumns, right = t->columns[column].align == ALIGN_RIGHT;
	if (right)
		put_pad(pad);
	put_toned(t, text, tone);
	if (!right && !last)
		put_pad(pad);
	fputs(last ? "\n" : "  ", stdout);
}

/* Of the cells that are not wider than `most`; *wider counts the others. */
static int widest(const struct table *t, int column, int most, size_t *wider)
{
	int wide = width(t->columns[column].title);
	*wider = 0;
	for (size_t i = (size_t)column; i < t->ncells; i += (size_t)t->ncolumns) {
		bool fits = t->cells[i].width <= most;
		wide = fits && t->cells[i].width > wide ? t->cells[i].width : wide;
		*wider += !fits;
	}
	return wide;
}

/* A few long texts stick out of their column rather than make every row wide. */
static int column_width(const struct table *t, int column)
{
	size_t wider, rows = t->ncells / (size_t)t->ncolumns;
	int wide = widest(t, column, COLUMN_MAX, &wider);
	if (wider > rows / 2 || t->columns[column].align == ALIGN_RIGHT)
		wide = widest(t, column, CELL_MAX, &wider);
	return wide;
}

void table_print(struct table *t)
{
	int wide[32];
	for (int c = 0; c < t->ncolumns; c++)
		wide[c] = column_width(t, c);
	for (int c = 0; c < t->ncolumns; c++)
		print_cell(t, c, wide[c] - width(t->columns[c].title), t->columns[c].title, TONE_HEAD);
	for (size_t i = 0; i < t->ncells; i++) {
		int c = (int)(i % (size_t)t->ncolumns);
		print_cell(t, c, wide[c] - t->cells[i].width, t->texts + t->cells[i].at, t->cells[i].tone);
	}
	table_free(t);
}

void table_free(struct table *t)
{
	free(t->texts);
	free(t->cells);
	free(t);
}

/* ---- times */

char *text_age(char *dst, size_t size, uint64_t wall_ns)
{
	uint64_t now = clock_wall();
	if (wall_ns > now + 60 * CLOCK_NS_PER_S) {
		snprintf(dst, size, "in the future");
		return dst;
	}
	uint64_t s = wall_ns > now ? 0 : (now - wall_ns) / CLOCK_NS_PER_S;
	if (s < 120)
		snprintf(dst, size, "%" PRIu64 " s ago", s);
	else if (s < 2 * 3600)
		snprintf(dst, size, "%" PRIu64 " min ago", s / 60);
	else if (s < 2 * 86400)
		snprintf(dst, size, "%" PRIu64 " h ago", s / 3600);
	else
		snprintf(dst, size, "%" PRIu64 " days ago", s / 86400);
	return dst;
}

char *text_duration(char *dst, size_t size, uint64_t ns)
{
	double s = (double)ns / CLOCK_NS_PER_S;
	if (s < 1)
		snprintf(dst, size, "%.3g ms", s * 1000);
	else if (s < 120)
		snprintf(dst, size, "%.3g s", s);
	else if (s < 7200)
		snprintf(dst, size, "%.0f min", s / 60);
	else
		snprintf(dst, size, "%.1f h", s / 3600);
	return dst;
}

char *text_time(char *dst, size_t size, uint64_t wall_ns)
{
	time_t s = (time_t)(wall_ns / CLOCK_NS_PER_S);
	struct tm tm;
	if (!gmtime_r(&s, &tm) || !strftime(dst, size, "%Y-%m-%dT%H:%M:%SZ", &tm))
		snprintf(dst, size, "?");
	return dst;
}

char *text_sizes(char *dst, size_t size, uint64_t held, uint64_t stored)
{
	char a[16], b[16];
	bytes_human(a, sizeof(a), held);
	if (held == stored)
		snprintf(dst, size, "%s", a);
	else
		snprintf(dst, size, "%s in %s", a, bytes_human(b, sizeof(b), stored));
	return dst;
}

int out_finish(const struct cli *cli, int code)
{
	int failed = fflush(stdout) || ferror(stdout) ? errno : 0;
	if (!failed || failed == EPIPE)
		return code;
	return cli_fail(cli, EXIT_FAILED, "writing to stdout: %s", err_name(failed));
}
