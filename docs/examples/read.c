/* Lists the tensors of a checkpoint and reads them all, checked.
 *
 *	cc read.c $(pkg-config --cflags --libs ckptreader) -o read && ./read STORE [JOB [STEP|latest|healthy|TAG]] */
#include <ckpt_reader.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(void)
{
	fprintf(stderr, "%s\n", ckpt_reader_error());
	return 1;
}

/* Room for each tensor, and a box that is all of it. */
static ckpt_reader_box *make_boxes(const ckpt_reader *r, size_t n)
{
	ckpt_reader_box *boxes = calloc(n + 1, sizeof(*boxes));
	for (size_t i = 0; boxes && i < n; i++) {
		const ckpt_reader_tensor *t = ckpt_reader_tensor_at(r, i);
		boxes[i].size = sizeof(boxes[i]);
		boxes[i].name = t->name;
		boxes[i].data = malloc(t->bytes + 1);
	}
	return boxes;
}

int main(int argc, char **argv)
{
	ckpt_reader_options o = CKPT_INIT(ckpt_reader_options);
	ckpt_reader *r;
	uint64_t bytes = 0;
	o.store = argc > 1 ? argv[1] : NULL;
	o.job = argc > 2 ? argv[2] : NULL;
	o.which = argc > 3 ? argv[3] : NULL;
	if (ckpt_reader_open(&o, &r))
		return fail();
	size_t n = ckpt_reader_count(r);
	ckpt_reader_box *boxes = make_boxes(r, n);
	int rc = boxes ? ckpt_reader_read(r, boxes, n) : 1; /* all in one call: each piece is read once */
	if (rc)
		fail();
	for (size_t i = 0; boxes && i < n; i++) {
		const ckpt_reader_tensor *t = ckpt_reader_tensor_at(r, i);
		printf("%s: %" PRIu64 " bytes in %d pieces\n", t->name, t->bytes, t->npieces);
		bytes += t->bytes;
		free(boxes[i].data);
	}
	printf("%s: %zu tensors and blobs, %" PRIu64 " bytes\n", ckpt_reader_path(r), n, bytes);
	free(boxes);
	ckpt_reader_close(r);
	return rc ? 1 : 0;
}
