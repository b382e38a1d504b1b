#include "lines.h"

#include "ledger.h"

#include <stdio.h>
#include <string.h>

/* "12:34:56.789 warn ckptd: text", as log.h writes it: the time is ours, and who it is is said by the caller. */
static const char *parse(const char *line, enum log_level *level)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	const char *word = strchr(line, ' '), *text = strstr(line, ": ");
	*level = LOG_INFO;
	for (enum log_level i = LOG_ERROR; word && text && i <= LOG_DEBUG; i++) {
		size_t n = strlen(names[i]);
		if (strncmp(word + 1, names[i], n) != 0 || word[1 + n] != ' ' || text < word)
			continue;
		*level = i;
		return text + 2;
	}
	return line;
}

static void say_line(struct lines *l, uint64_t now, lines_fn *say, void *arg)
{
	char note[64];
	enum log_level level;
	l->text[l->len] = '\0';
	const char *text = parse(l->text, &level);
	l->len = 0;
	if (!*text)
		return;
	if (!ledger_pace(&l->paid_ns, now, LINES_PER_S, LINES_BURST)) {
		l->lost++;
		return;
	}
	if (l->lost) {
		snprintf(note, sizeof(note), "%lu lines were too many and are lost", (unsigned long)l->lost);
		say(arg, LOG_WARN, note);
	}
	l->lost = 0;
	say(arg, level, text);
}

void lines_feed(struct lines *l, const char *data, size_t len, uint64_t now, lines_fn *say, void *arg)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)data[i];
		if (c == '\n')
			say_line(l, now, say, arg);
		else if (l->len + 1 < sizeof(l->text))
			l->text[l->len++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
}
