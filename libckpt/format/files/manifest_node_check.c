/* What must be unique in a node manifest. */
#include "format/files/manifest_private.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A string that stands twice in names, which are sorted; NULL: none. */
static const char *find_twice(const char **names, size_t n)
{
	qsort(names, n, sizeof(*names), by_text);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(names[i - 1], names[i]))
			return names[i];
	return NULL;
}

static int by_part(const void *a, const void *b)
{
	const struct manifest_file *x = *(struct manifest_file *const *)a, *y = *(struct manifest_file *const *)b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	return strcmp(x->group, y->group);
}

static int check_names(const struct node_manifest *m, const void **room, struct err *err)
{
	const char **names = (const char **)room;
	for (uint32_t i = 0; i < m->ntensors; i++)
		names[i] = m->tensors[i].name;
	const char *twice = find_twice(names, m->ntensors);
	if (twice)
		return err_set(err, -EBADMSG, "%s: tensors: \"%s\" stands twice", NODE_FORMAT, twice);
	for (uint32_t i = 0; i < m->nfiles; i++) {
		names[2 * i] = m->files[i].name;
		names[2 * i + 1] = m->files[i].sidecar_name;
	}
	twice = find_twice(names, 2 * (size_t)m->nfiles);
	if (twice)
		return err_set(err, -EBADMSG, "%s: files: \"%s\" stands twice", NODE_FORMAT, twice);
	return 0;
}

static int check_parts(const struct node_manifest *m, const void **room, struct err *err)
{
	struct manifest_file **files = (struct manifest_file **)room;
	for (uint32_t i = 0; i < m->nfiles; i++)
		files[i] = &m->files[i];
	qsort(files, m->nfiles, sizeof(*files), by_part);
	for (uint32_t i = 1; i < m->nfiles; i++)
		if (!by_part(&files[i - 1], &files[i]))
			return err_set(err, -EBADMSG,
				       "%s: files: rank %u, group \"%s\", part %u stands twice: %s and %s", NODE_FORMAT,
				       files[i]->rank, files[i]->group, files[i]->part, files[i - 1]->name,
				       files[i]->name);
	return 0;
}

int manifest_node_check(const struct node_manifest *m, struct err *err)
{
	size_t n = 2 * (size_t)m->nfiles > m->ntensors ? 2 * (size_t)m->nfiles : m->ntensors;
	const void **room = calloc(n + 1, sizeof(*room));
	if (!room)
		return err_set(err, -ENOMEM, "%s: no memory for %zu names", NODE_FORMAT, n);
	int rc = check_names(m, room, err);
	if (!rc)
		rc = check_parts(m, room, err);
	free(room);
	return rc;
}
