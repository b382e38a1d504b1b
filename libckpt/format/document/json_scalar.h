/* What the two halves of the JSON reader share. Private to them. */
#ifndef CKPT_FORMAT_JSON_SCALAR_H
#define CKPT_FORMAT_JSON_SCALAR_H

#include "format/document/json_in.h"

/* The next byte after white space, 0 at the end of the text. */
static inline char jin_peek(struct jin *in)
{
	while (in->pos < in->len) {
		char c = in->text[in->pos];
		if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
			return c;
		in->pos++;
	}
	return 0;
}

/* Goes past c if it is next. */
static inline bool jin_accept(struct jin *in, char c)
{
	if (in->rc || jin_peek(in) != c)
		return false;
	in->pos++;
	return true;
}

/* true, false or null; a number. false: none stands here. */
bool jin_skip_word(struct jin *in);
bool jin_skip_number(struct jin *in);

#endif
