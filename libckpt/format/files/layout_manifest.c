/* What the node's manifest comes to: a job whose manifest readers would refuse is refused when it registers, not at its first
 * save. Upper bounds, close enough to the text that nothing is refused without need. */
#include "format/arena/layout_plan.h"

#include "format/files/manifest.h"

enum {
	HEAD_TEXT = 512,   /* of the document, with its seal */
	TENSOR_TEXT = 64,  /* keys, kind and type */
	FILE_TEXT = 700,   /* two file names, a group, numbers, a digest */
	PIECE_TEXT = 32,   /* keys and the tensor's index */
	ESCAPED_BYTES = 2, /* '"' and '\\' in a name */
};

static uint64_t digits(uint64_t v)
{
	uint64_t n = 1;
	while (v /= 10)
		n++;
	return n;
}

/* With a comma each. */
static uint64_t array_text(const uint64_t *v, uint32_t n)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += digits(v[i]) + 1;
	return sum;
}

void plan_count_tensor(struct plan *plan, const struct entry *entry)
{
	uint64_t name = 0;
	for (const char *p = entry->name; *p; p++)
		name += *p == '"' || *p == '\\' ? ESCAPED_BYTES : 1;
	plan->ntensors++;
	plan->manifest_bytes += TENSOR_TEXT + name + array_text(entry->shape.dim, entry->shape.ndim);
}

void plan_count_files(struct plan *plan, const struct registration *reg, const struct layout *layout)
{
	plan->nfiles += layout->nfiles;
	plan->manifest_bytes += (uint64_t)FILE_TEXT * layout->nfiles;
	for (uint32_t i = 0; i < layout->npieces; i++) {
		const struct region *r = &layout->pieces[i].region;
		uint32_t ndim = reg->entries[layout->pieces[i].entry].shape.ndim;
		uint64_t place = r->kind == REGION_FLAT ? digits(r->start) + digits(r->count)
							: array_text(r->offset, ndim) + array_text(r->extent, ndim);
		plan->manifest_bytes += PIECE_TEXT + place;
	}
}

int plan_check_manifest(const struct plan *plan, struct err *err)
{
	uint64_t bytes = plan->manifest_bytes + HEAD_TEXT;
	if (plan->ntensors > MANIFEST_TENSORS_MAX || plan->nfiles > MANIFEST_FILES_MAX ||
	    bytes > NODE_MANIFEST_BYTES_MAX)
		return err_set(
			err, -E2BIG,
			"the ranks of this node hold %llu tensors in %llu files, whose manifest would take up to %llu "
			"bytes; at most %d tensors, %d files and %d bytes are possible: register larger tensors and "
			"pieces",
			(unsigned long long)plan->ntensors, (unsigned long long)plan->nfiles, (unsigned long long)bytes,
			MANIFEST_TENSORS_MAX, MANIFEST_FILES_MAX, NODE_MANIFEST_BYTES_MAX);
	return 0;
}
