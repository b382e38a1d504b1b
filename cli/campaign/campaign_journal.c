#include "campaign/campaign_journal.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 1 << 14 };

int journal_open(const char *path, struct campaign_journal *journal, struct err *err)
{
	journal->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (journal->fd >= 0)
		return 0;
	int rc = -errno;
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

int journal_read(const char *path, int (*fn)(void *arg, const json_t *line), void *arg, struct err *err)
{
	AUTO_FREE char *text = malloc(LINE_BYTES_MAX);
	FILE *f = fopen(path, "re");
	int rc = f ? 0 : -errno;
	if (rc)
		return err_set(err, rc, "%s: %s", path, err_name(rc));
	while (!rc && text && fgets(text, LINE_BYTES_MAX, f) && strchr(text, '\n')) {
		json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
		rc = line ? fn(arg, line) : err_set(err, -EBADMSG, "%s: a line is no JSON", path);
		json_decref(line);
	}
	fclose(f);
	return rc;
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
