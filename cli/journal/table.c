/* Tables of causes and how often each struck: CSV without quotes. */
#include "journal/campaign_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LINE_BYTES_MAX = 1024,
	COLUMNS_MAX = 16,
	STOP_MS = 500,
	SLOW_MS = 5,
	DISK_MS = 2000,
	NETWORK_MS = 12000 /* above peer-timeout */
};

bool campaign_cuts(const struct fault_entry *entry)
{
	return entry->target == FAULT_AT_NETWORK || entry->kind == FAULT_REBOOT;
}

bool campaign_loses_node(const struct fault_entry *entry)
{
	return entry->kind == FAULT_KILL_NODE || entry->kind == FAULT_POWER_CUT || entry->kind == FAULT_REBOOT;
}

/* No node is drained of ranks that stay where they are. */
const struct fault_entry *campaign_kind(const char *name, size_t len, const struct campaign_file *file)
{
	const struct fault_entry *entry = fault_find(name, len);
	bool several =
		entry && (entry->kind == FAULT_FLIP_REPLICA || campaign_loses_node(entry) || campaign_cuts(entry));
	if (!entry || (several && file->nodes == 1) || (entry->kind == FAULT_DRAIN && !file->min_ranks))
		return NULL;
	return entry;
}

uint64_t campaign_default_ms(const struct fault_entry *entry)
{
	if (campaign_cuts(entry))
		return NETWORK_MS;
	if (entry->target == FAULT_AT_STORE || entry->kind == FAULT_CLOCK_JUMP)
		return DISK_MS;
	return entry->kind == FAULT_SLOW ? SLOW_MS : STOP_MS;
}

/* Where each column is that is read; -1: it is not there. fault: the one that counts on so many nodes. */
struct columns {
	int cause, count, percent, fault;
};

static int split(char *text, char *cells[COLUMNS_MAX])
{
	int n = 0;
	text[strcspn(text, "\r\n")] = '\0';
	for (char *cell; n < COLUMNS_MAX && (cell = strsep(&text, ","));)
		cells[n++] = cell;
	return n;
}

static int find(char *const *cells, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(cells[i], name))
			return i;
	return -1;
}

static int take_head(char *const *cells, int n, uint32_t nodes, struct columns *c, const char *path, struct err *err)
{
	int of_nodes = nodes > 1 ? find(cells, n, "fault-of-nodes") : -1;
	*c = (struct columns){.cause = find(cells, n, "cause"),
			      .count = find(cells, n, "count"),
			      .percent = find(cells, n, "percent"),
			      .fault = of_nodes >= 0 ? of_nodes : find(cells, n, "fault")};
	if (c->cause >= 0 && c->fault >= 0 && (c->count >= 0) != (c->percent >= 0))
		return 0;
	return err_set(err, -EINVAL, "%s: the columns cause, fault, and count or percent are wanted", path);
}

static int take_row(struct campaign_file *file, char *const *cells, int n, const struct columns *c, uint64_t total,
		    const char *path, struct err *err)
{
	int of = c->count >= 0 ? c->count : c->percent;
	if (c->cause >= n || c->fault >= n || of >= n)
		return err_set(err, -EINVAL, "%s: a row has %d cells, too few", path, n);
	char *end;
	double amount = strtod(cells[of], &end);
	if (*end || end == cells[of] || !(amount >= 0 && amount <= CAMPAIGN_FAULTS_MAX))
		return err_set(err, -EINVAL, "%s: \"%.20s\" is no amount", path, cells[of]);
	uint64_t times = (uint64_t)(c->count >= 0 ? amount : amount / 100 * (double)total + 0.5);
	struct campaign_fault f = {.rank = UINT32_MAX,
				   .node = UINT32_MAX,
				   .entry = campaign_kind(cells[c->fault], strlen(cells[c->fault]), file)};
	if (!f.entry && strcmp(cells[c->fault], "-") != 0)
		return err_set(err, -EINVAL, "%s: there is no fault \"%.20s\" on %s", path, cells[c->fault],
			       file->nodes > 1 ? "nodes of this machine" : "one node");
	if (!f.entry) {
		file->left_out += times;
		return 0;
	}
	snprintf(f.cause, sizeof(f.cause), "%.*s", (int)sizeof(f.cause) - 1, cells[c->cause]);
	int rc = 0;
	for (uint64_t i = 0; !rc && i < times; i++)
		rc = campaign_file_add(file, &f, false, err);
	return rc;
}

int campaign_table_read(struct campaign_file *file, const char *path, uint64_t total, struct err *err)
{
	char text[LINE_BYTES_MAX], *cells[COLUMNS_MAX];
	struct columns c = {-1, -1, -1, -1};
	bool head = false;
	FILE *f = fopen(path, "re");
	int rc = f ? 0 : -errno;
	if (rc)
		return err_set(err, rc, "%s: %s", path, err_name(rc));
	while (!rc && fgets(text, sizeof(text), f)) {
		if (*text == '#' || *text == '\n')
			continue;
		int n = split(text, cells);
		rc = head ? take_row(file, cells, n, &c, total, path, err)
			  : take_head(cells, n, file->nodes, &c, path, err);
		head = true;
	}
	fclose(f);
	return !rc && !head ? err_set(err, -EINVAL, "%s: it is empty", path) : rc;
}
