#include "journal/journal.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 1 << 14, NOTED_MAX = 1 << 16 /* of a kind, by who reads it */ };

/* A line that was cut in the middle is none: the next one must not go on in it. */
static int drop_cut_line(int fd)
{
	char tail[LINE_BYTES_MAX];
	off_t size = lseek(fd, 0, SEEK_END), from = size > LINE_BYTES_MAX ? size - LINE_BYTES_MAX : 0;
	ssize_t n = size < 0 ? -1 : pread(fd, tail, (size_t)(size - from), from);
	if (n < 0)
		return -errno;
	const char *end = memrchr(tail, '\n', (size_t)n);
	off_t whole = end ? from + (end + 1 - tail) : from;
	return whole == size || !ftruncate(fd, whole) ? 0 : -errno;
}

int journal_open(const char *path, struct campaign_journal *journal, struct err *err)
{
	journal->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
	int rc = journal->fd < 0 ? -errno : drop_cut_line(journal->fd);
	if (!rc)
		return 0;
	journal_close(journal);
	return err_set(err, rc, "%s: %s", path, err_name(rc));
}

void journal_close(struct campaign_journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = -1;
}

int journal_put(struct campaign_journal *journal, json_t *line, struct err *err)
{
	AUTO_FREE char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
	char whole[LINE_BYTES_MAX];
	json_decref(line);
	int n = text ? snprintf(whole, sizeof(whole), "%s\n", text) : -1;
	if (n < 0 || n >= (int)sizeof(whole))
		return err_set(err, -ENOMEM, "no memory for a line of the journal");
	if (write(journal->fd, whole, (size_t)n) == n && fsync(journal->fd) == 0)
		return 0;
	int rc = errno ? -errno : -EIO;
	return err_set(err, rc, "the journal cannot be written: %s", err_name(rc));
}

/* cut: lines in which their writer was killed are passed over, wherever they stand. */
static int read_lines(const char *path, bool cut, int (*fn)(void *arg, const json_t *line), void *arg, struct err *err)
{
	AUTO_FREE char *text = NULL;
	size_t room = 0, number = 0;
	int rc = 0;
	FILE *f = fopen(path, "re");
	if (!f)
		return err_set(err, -errno, "%s: %s", path, err_name(-errno));
	for (ssize_t n; !rc && (n = getline(&text, &room, f)) > 0 && text[n - 1] == '\n';) {
		json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
		number++;
		if (line)
			rc = fn(arg, line);
		else if (!cut || text[0] != '{')
			rc = err_set(err, -EBADMSG, "%s: line %zu is no JSON", path, number);
		json_decref(line);
	}
	if (!rc && !feof(f) && ferror(f))
		rc = err_set(err, -EIO, "%s cannot be read behind line %zu", path, number);
	fclose(f);
	return rc;
}

int journal_read(const char *path, int (*fn)(void *arg, const json_t *line), void *arg, struct err *err)
{
	return read_lines(path, false, fn, arg, err);
}

int journal_read_spans(const char *path, int (*fn)(void *arg, const json_t *line), void *arg, struct err *err)
{
	return read_lines(path, true, fn, arg, err);
}

bool journal_is(const json_t *line, const char *event)
{
	const char *is = json_string_value(json_object_get(line, "event"));
	return is && !strcmp(is, event);
}

uint64_t journal_number(const json_t *line, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(line, key));
}

uint32_t journal_nodes(const json_t *line)
{
	uint64_t n = journal_number(line, "nodes");
	return n >= 1 && n <= CAMPAIGN_NODES_MAX ? (uint32_t)n : 1;
}

void *journal_grown(void *list, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return list;
	size_t more = *room ? 2 * *room : 64;
	void *now = more <= NOTED_MAX ? realloc(list, more * size) : NULL;
	if (now)
		*room = more;
	return now;
}
