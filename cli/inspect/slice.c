#include "inspect/slice.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- notation */

static void skip_blanks(const char **p)
{
	while (isblank((unsigned char)**p))
		(*p)++;
}

/* An index that may count from the end; `absent` when there is none. -EINVAL, -ERANGE. */
static int parse_index(const char **p, uint64_t dim, uint64_t absent, uint64_t *index)
{
	skip_blanks(p);
	const char *start = *p;
	bool back = *start == '-';
	start += back;
	*index = absent;
	if (!isdigit((unsigned char)*start))
		return back ? -EINVAL : 0;
	char *end;
	errno = 0;
	unsigned long long value = strtoull(start, &end, 10);
	if (errno || value > dim)
		return -ERANGE;
	*p = end;
	skip_blanks(p);
	*index = back ? dim - value : value;
	return 0;
}

/* What is wrong with dimension d. */
static int refuse(int rc, const char *text, uint32_t d, const struct shape *shape, struct err *err)
{
	char shown[256];
	shape_text(shape, shown, sizeof(shown));
	if (rc == -ENOTSUP)
		return err_set(err, -EINVAL,
			       "--slice %s: dimension %u has a step, and only neighbours can be had: 1:9, not 1:9:2",
			       text, d);
	if (rc == -ERANGE)
		return err_set(err, rc, "--slice %s: dimension %u leaves a tensor of shape %s", text, d, shown);
	return err_set(
		err, rc,
		"--slice %s: dimension %u cannot be read: 3, 2:5, :5, 2: or : are meant, for a tensor of shape %s",
		text, d, shown);
}

/* One dimension: "3", "2:5", ":", "-4:". -ENOTSUP: "1:9:2". */
static int parse_part(const char **p, uint64_t dim, uint64_t *from, uint64_t *to, bool *single)
{
	int rc = parse_index(p, dim, UINT64_MAX, from);
	if (rc)
		return rc;
	*single = **p != ':';
	if (*single) {
		if (*from == UINT64_MAX)
			return -EINVAL;
		*to = *from + 1;
		return *from < dim ? 0 : -ERANGE;
	}
	*from = *from == UINT64_MAX ? 0 : *from;
	(*p)++;
	rc = parse_index(p, dim, dim, to);
	if (!rc && **p == ':')
		return -ENOTSUP;
	return rc ? rc : *from <= *to ? 0 : -ERANGE;
}

int slice_parse(const char *text, const struct shape *shape, struct slice *slice, struct err *err)
{
	char shown[256];
	const char *p = text ? text : "";
	uint32_t d = 0;
	bool more = text != NULL;
	*slice = (struct slice){.box = region_whole(shape)};
	shape_text(shape, shown, sizeof(shown));
	for (; d < shape->ndim && more; d++) {
		uint64_t from, to;
		bool single;
		int rc = parse_part(&p, shape->dim[d], &from, &to, &single);
		if (rc)
			return refuse(rc, text, d, shape, err);
		slice->box.offset[d] = from;
		slice->box.extent[d] = to - from;
		if (!single)
			slice->shape.dim[slice->shape.ndim++] = to - from;
		more = *p == ',';
		p += more;
	}
	if (more || *p)
		return err_set(err, -EINVAL, "--slice %s: \"%s\" is too much for a tensor of shape %s", text, p, shown);
	for (; d < shape->ndim; d++)
		slice->shape.dim[slice->shape.ndim++] = shape->dim[d];
	return 0;
}
