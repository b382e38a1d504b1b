/* Handles that are closed beside the machine, which does not end before they are. */
#include "checkpoint/directory_private.h"

#include "base/log.h"

#include <stdlib.h>

struct closing {
	struct list link;
	struct disk_op op;
	struct directory *directory;
};

static void closed(struct disk_op *op)
{
	struct closing *closing = list_entry(op, struct closing, op);
	struct directory *s = closing->directory;
	list_remove(&closing->link);
	free(closing);
	if (s->state == DIRECTORY_CLOSE_DIR && list_empty(&s->closing))
		directory_set_state(s, DIRECTORY_CLOSE_DIR);
}

void directory_close_handle(struct directory *s, int file)
{
	struct closing *closing = calloc(1, sizeof(*closing));
	if (!closing) {
		log_warn("no memory to close a handle of %s/%s: it stays open", s->job, s->name);
		return;
	}
	closing->directory = s;
	closing->op = (struct disk_op){.kind = DISK_CLOSE, .file = file, .done = closed};
	list_push(&s->closing, &closing->link);
	disk_submit(s->disk, &closing->op);
}

void directory_free_closing(struct directory *s)
{
	for (struct list *node; (node = list_pop(&s->closing));)
		free(list_entry(node, struct closing, link));
}
