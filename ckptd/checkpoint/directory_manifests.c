/* Before MANIFEST.json is written: what it vouches for is looked at in the very directory in which it is going to stand. Node manifests
 * that are somewhere else, because the directory was another one when they were written, are not found there. */
#include "checkpoint/directory_private.h"

#include "base/clock.h"

#include <stdlib.h>

enum { LOOK_BYTES = 64 << 20 /* read at a time, unless one is larger */ };

/* One node manifest: opened, read, closed. */
struct directory_look {
	struct directory *directory;
	const struct manifest_node *node; /* NULL: free */
	char *text;
	int file, rc;
	struct disk_op op;
};

static void start(struct directory *s);

static void submit(struct directory_look *l, struct disk_op op)
{
	l->op = op;
	disk_submit(l->directory->disk, &l->op);
}

static void finish(struct directory_look *l)
{
	struct directory *s = l->directory;
	if (l->rc && !s->rc) {
		s->rc = l->rc;
		err_set(&s->err, l->rc, "%s of %s/%s is not there as node %s has reported it: %s", l->node->file,
			s->job, s->name, l->node->name, err_name(l->rc));
	}
	s->progress_ns = clock_now();
	s->looking--;
	s->look_bytes -= l->node->size + 1;
	free(l->text);
	l->text = NULL;
	l->node = NULL;
	start(s);
}

static void is_closed(struct disk_op *op)
{
	finish(list_entry(op, struct directory_look, op));
}

static void is_read(struct disk_op *op)
{
	struct directory_look *l = list_entry(op, struct directory_look, op);
	if (op->result < 0)
		l->rc = (int)op->result;
	else if ((uint64_t)op->result != l->node->size ||
		 !digest_equal(digest_bytes(l->text, l->node->size), l->node->digest))
		l->rc = -EBADMSG;
	submit(l, (struct disk_op){.kind = DISK_CLOSE, .file = l->file, .done = is_closed});
}

static void is_open(struct disk_op *op)
{
	struct directory_look *l = list_entry(op, struct directory_look, op);
	if (op->result < 0) {
		l->rc = (int)op->result;
		finish(l);
		return;
	}
	l->file = (int)op->result;
	submit(l,
	       (struct disk_op){
		       .kind = DISK_READ, .file = l->file, .buf = l->text, .len = l->node->size + 1, .done = is_read});
}

static struct directory_look *free_look(struct directory *s)
{
	for (uint32_t i = 0; i < DIRECTORY_LOOKS; i++)
		if (!s->looks[i].node)
			return &s->looks[i];
	return NULL;
}

static bool begin(struct directory *s, struct directory_look *l, const struct manifest_node *node)
{
	char *text = malloc(node->size + 1);
	if (!text) {
		directory_fail(s, -ENOMEM, node->file);
		return false;
	}
	*l = (struct directory_look){.directory = s, .node = node, .text = text};
	s->looking++;
	s->look_bytes += node->size + 1;
	submit(l, (struct disk_op){.kind = DISK_OPEN, .dir = s->dir, .name = node->file, .done = is_open});
	return true;
}

static void start(struct directory *s)
{
	while (!s->rc && s->looked < s->expected.nnodes) {
		const struct manifest_node *node = &s->expected.nodes[s->looked];
		struct directory_look *l = free_look(s);
		if (!l || (s->looking && s->look_bytes + node->size > LOOK_BYTES))
			break;
		if (begin(s, l, node))
			s->looked++;
	}
	if (s->looking)
		return;
	int rc = !s->rc && s->found ? directory_compare_found(s) : s->rc;
	if (rc || s->found)
		directory_advance(s, rc);
	else
		directory_compare(s);
}

void directory_look(struct directory *s)
{
	s->looks = calloc(DIRECTORY_LOOKS, sizeof(*s->looks));
	if (s->looks)
		start(s);
	else
		directory_advance(s, -ENOMEM);
}

void directory_free_looks(struct directory *s)
{
	for (uint32_t i = 0; s->looks && i < DIRECTORY_LOOKS; i++)
		free(s->looks[i].text);
	free(s->looks);
}
