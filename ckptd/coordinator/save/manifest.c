/* MANIFEST.json of a save, out of what its nodes have prepared. */
#include "coordinator/coordinator_private.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
	const struct manifest_node *x = a, *y = b;
	return strcmp(x->name, y->name);
}

int coord_manifest(const struct coord *c, struct step_id id, const struct peer_part *parts, struct wbuf *out)
{
	struct manifest m = {.id = id, .world = c->world};
	AUTO_FREE struct manifest_node *nodes = calloc(c->nnodes, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	memcpy(m.job, c->job, sizeof(m.job));
	for (uint32_t n = 0; n < c->nnodes; n++) {
		if (!parts[n].node.name[0])
			continue;
		nodes[m.nnodes++] = parts[n].node;
		m.began = parts[n].began > m.began ? parts[n].began : m.began;
		m.bytes += parts[n].bytes;
		m.stored += parts[n].stored;
		m.files += parts[n].files;
	}
	qsort(nodes, m.nnodes, sizeof(*nodes), by_name);
	m.nodes = nodes;
	return manifest_encode(&m, out);
}
