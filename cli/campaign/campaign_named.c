/* Who is named as hung in the logs of the nodes goes to the journal as it comes: neither a launcher nor a rank says when. */
#include "campaign/campaign_run.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 14, LINE_MAX_BYTES = 512 };

static char *log_path(const struct campaign *c, uint32_t node, char dst[PATH_MAX])
{
	return campaign_node_path(c, node, c->file.nodes > 1 ? "log" : "run.log", dst);
}

void campaign_skip_logs(struct campaign *c)
{
	char path[PATH_MAX];
	struct stat log;
	for (uint32_t k = 0; k < c->file.nodes; k++)
		c->nodes[k].log_read = stat(log_path(c, k, path), &log) ? 0 : log.st_size;
}

/* Of whom the line says so. NULL: it names nobody. */
static const char *namer(const char *line, unsigned *rank)
{
	int end = 0;
	sscanf(line, "ckpt run: rank %u hangs:%n", rank, &end);
	if (end)
		return "launcher";
	sscanf(line, "[%u] ckpt-train: leaves, to be replaced: what runs on it has not ended%n", rank, &end);
	return end ? "rank" : NULL;
}

static int note_line(struct campaign *c, uint32_t node, const char *text, size_t len, struct err *err)
{
	char line[LINE_MAX_BYTES];
	unsigned rank = 0;
	snprintf(line, sizeof(line), "%.*s", (int)(len < sizeof(line) ? len : sizeof(line) - 1), text);
	const char *by = namer(line, &rank);
	if (!by)
		return 0;
	return journal_put(&c->journal,
			   json_pack("{s:s, s:i, s:s, s:I, s:I}", "event", "named", "node", (int)node, "by", by, "rank",
				     (json_int_t)rank, "wall_ns", (json_int_t)clock_wall()),
			   err);
}

/* The lines of a piece that are whole; *used: how many bytes they are. A line that is longer than a piece names nobody. */
static int note_piece(struct campaign *c, uint32_t node, const char *piece, size_t n, size_t *used, struct err *err)
{
	const char *at = piece, *end;
	int rc = 0;
	while (!rc && (end = memchr(at, '\n', n - (size_t)(at - piece)))) {
		rc = note_line(c, node, at, (size_t)(end - at), err);
		at = end + 1;
	}
	*used = at > piece || n < PIECE_BYTES ? (size_t)(at - piece) : n;
	return rc;
}

static int note_log(struct campaign *c, uint32_t node, struct err *err)
{
	char path[PATH_MAX], piece[PIECE_BYTES];
	AUTO_CLOSE int fd = open(log_path(c, node, path), O_RDONLY | O_CLOEXEC);
	size_t used = 1;
	int rc = 0;
	while (!rc && fd >= 0 && used) {
		ssize_t n = pread(fd, piece, sizeof(piece), c->nodes[node].log_read);
		if (n <= 0)
			return 0;
		rc = note_piece(c, node, piece, (size_t)n, &used, err);
		c->nodes[node].log_read += (off_t)used;
	}
	return rc;
}

int campaign_note_named(struct campaign *c, struct err *err)
{
	int rc = 0;
	for (uint32_t k = 0; !rc && k < c->file.nodes; k++)
		rc = note_log(c, k, err);
	return rc;
}
