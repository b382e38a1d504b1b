/* A name of unknown origin as a message may show it. */
#ifndef CKPT_BASE_QUOTED_H
#define CKPT_BASE_QUOTED_H

enum { QUOTED_TEXT_MAX = 96 };

struct quoted {
	char text[QUOTED_TEXT_MAX + 16];
};

/* In double quotes. Control characters, quotes, backslashes and what is not UTF-8 are escaped ("\n", "\x1b"), so that it stays on its line.
 * What is longer than QUOTED_TEXT_MAX bytes ends in "..." behind the quotes. NULL is the word NULL without quotes.
 * For arguments of a call: quoted(name).text lives as long as the call. */
struct quoted quoted(const char *name);

#endif
