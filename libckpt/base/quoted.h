/* A name of unknown origin as a message may show it. */
#ifndef CKPT_BASE_QUOTED_H
#define CKPT_BASE_QUOTED_H

#include <stddef.h>

enum { QUOTED_TEXT_MAX = 96, SHOWN_PATH_MAX = 256 };

struct quoted {
	char text[QUOTED_TEXT_MAX + 16];
};

/* In double quotes. Control characters, quotes, backslashes and what is not UTF-8 are escaped ("\n", "\x1b"), so that it stays on its line.
 * What is longer than QUOTED_TEXT_MAX bytes ends in "..." behind the quotes. NULL is the word NULL without quotes.
 * For arguments of a call: quoted(name).text lives as long as the call. */
struct quoted quoted(const char *name);
/* The first len bytes of it, or up to a NUL. */
struct quoted quoted_part(const char *name, size_t len);

struct shown_path {
	char text[SHOWN_PATH_MAX + 16];
};

/* A path: the same, but without the quotes, and up to SHOWN_PATH_MAX bytes of it. */
struct shown_path shown_path(const char *path);

#endif
