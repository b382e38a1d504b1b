#include "report/report_read.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 1 << 16, FILE_BYTES_MAX = 1 << 30 };

/* Whatever stands in the folder, reading it ends, and does not leave the folder. -errno in *rc. */
static FILE *open_file(const struct report *r, const char *name, char path[PATH_MAX], int *rc)
{
	struct stat st;
	snprintf(path, PATH_MAX, "%s/%s", r->folder, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st))
		*rc = -errno;
	else
		*rc = !S_ISREG(st.st_mode) ? -EINVAL : st.st_size > FILE_BYTES_MAX ? -EFBIG : 0;
	FILE *f = *rc ? NULL : fdopen(fd, "r");
	if (!*rc && !f)
		*rc = -errno;
	if (!f && fd >= 0)
		close(fd);
	return f;
}

/* Without its end; of one that is too long only the length is right. False: the file is over, or ends within a line. */
static bool next_line(FILE *f, char text[LINE_BYTES_MAX], size_t *len)
{
	int c;
	*len = 0;
	while ((c = getc_unlocked(f)) != EOF && c != '\n') {
		if (*len < LINE_BYTES_MAX)
			text[*len] = (char)c;
		++*len;
	}
	return c == '\n';
}

/* Each line that is whole. text NULL: it is longer than any that is written, or no text. */
static int each_line(struct report *r, const char *name, int (*fn)(struct report *r, char *text), struct err *err)
{
	char path[PATH_MAX];
	AUTO_FREE char *text = malloc(LINE_BYTES_MAX);
	int rc = text ? 0 : -ENOMEM;
	FILE *f = rc ? NULL : open_file(r, name, path, &rc);
	if (!f)
		return err_set(err, rc, "%s/%s: %s", r->folder, name, err_name(rc));
	for (size_t len; !rc && next_line(f, text, &len);) {
		bool good = len < LINE_BYTES_MAX && !memchr(text, '\0', len);
		if (good)
			text[len] = '\0';
		rc = fn(r, good ? text : NULL);
	}
	if (!rc && ferror(f))
		rc = -EIO;
	fclose(f);
	return rc ? err_set(err, rc, "%s: %s", path, rc == -ENOMEM ? "it holds too much for a report" : err_name(rc))
		  : 0;
}

static int take(struct report *r, const char *text, int (*fn)(struct report *r, const json_t *line))
{
	json_t *line = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	int rc = line ? fn(r, line) : 0;
	r->unreadable += !line;
	json_decref(line);
	return rc;
}

static int take_journal(struct report *r, char *text)
{
	return take(r, text, report_take_journal);
}

static int take_train(struct report *r, char *text)
{
	return take(r, text, report_take_train);
}

static int take_span(struct report *r, char *text)
{
	return take(r, text, report_take_span);
}

/* "ckpt run: rank 1 hangs: …": other lines of that log are for people. */
static int take_hang(struct report *r, char *text)
{
	unsigned rank = 0;
	int n = 0;
	if (!text || sscanf(text, "ckpt run: rank %u hangs: %n", &rank, &n) != 1 || !n)
		return 0;
	struct report_hang *h = REPORT_MORE(r->hangs, NOTED_MAX);
	if (!h)
		return -ENOMEM;
	h->rank = rank;
	json_t *clean = json_pack("{s:o}", "text", json_text(text + strlen("ckpt run: ")));
	line_copy(h->text, sizeof(h->text), clean, "text");
	json_decref(clean);
	return 0;
}

/* Lines are written when a save has ended. */
static int by_begin(const void *a, const void *b)
{
	uint64_t x = ((const struct report_save *)a)->begun, y = ((const struct report_save *)b)->begun;
	return x < y ? -1 : x > y;
}

/* Beside the journal each may be missing. The span log's older part is before the newer one. */
static int read_files(struct report *r, struct err *err)
{
	const struct {
		const char *name;
		int (*fn)(struct report *r, char *text);
	} files[] = {{"spans.1", take_span}, {"spans", take_span}, {r->nodes > 1 ? "log" : "run.log", take_hang}};
	char name[REPORT_NAME_MAX];
	int rc = each_line(r, "train.jsonl", take_train, err);
	for (uint32_t node = 0; (!rc || rc == -ENOENT) && node < r->nodes; node++)
		for (size_t i = 0; (!rc || rc == -ENOENT) && i < sizeof(files) / sizeof(files[0]); i++)
			rc = each_line(r, report_node_file(r, node, files[i].name, name), files[i].fn, err);
	return rc == -ENOENT ? 0 : rc;
}

char *report_node_file(const struct report *r, uint32_t node, const char *name, char dst[REPORT_NAME_MAX])
{
	if (r->nodes > 1)
		snprintf(dst, REPORT_NAME_MAX, "node-%u.%s", node, name);
	else
		snprintf(dst, REPORT_NAME_MAX, "%s", name);
	return dst;
}

int report_read(const char *folder, struct report *r, struct err *err)
{
	*r = (struct report){.exit_code = -1, .nodes = 1, .step_ms = NAN};
	if (snprintf(r->folder, sizeof(r->folder), "%s", folder) >= (int)sizeof(r->folder))
		return err_set(err, -ENAMETOOLONG, "%s: %s", folder, err_name(-ENAMETOOLONG));
	int rc = each_line(r, "journal", take_journal, err);
	if (!rc && !r->ranks)
		return err_set(err, -EBADMSG, "%s/journal: it does not begin as the journal of a campaign does",
			       folder);
	if (!rc)
		rc = read_files(r, err);
	if (rc)
		return rc;
	r->begin = r->segments.n ? r->segments.at[0].started : r->last;
	report_settle_epochs(r);
	if (r->saves.n)
		qsort(r->saves.at, r->saves.n, sizeof(*r->saves.at), by_begin);
	return 0;
}

void report_free(struct report *r)
{
	free(r->segments.at);
	free(r->faults.at);
	free(r->recoveries.at);
	free(r->order.at);
	free(r->entries.at);
	free(r->stalls.at);
	free(r->saves.at);
	free(r->daemon.at);
	free(r->slow.at);
	free(r->spikes.at);
	free(r->hangs.at);
	free(r->causes.at);
	free(r->intervals.at);
	json_decref(r->invariants);
}
