#include "checkpoint/part_layout.h"

#include "base/cleanup.h"
#include "checkpoint/node_part.h"

#include <stdlib.h>
#include <string.h>

struct part_layout *part_layout_get(struct part_layout *p)
{
	if (p)
		p->refs++;
	return p;
}

void part_layout_put(struct part_layout *p)
{
	if (!p || --p->refs)
		return;
	for (uint32_t i = 0; p->ranks && i < p->nranks; i++) {
		head_blocks_free(p->ranks[i].heads, p->ranks[i].layout.nfiles);
		layout_free(&p->ranks[i].layout);
	}
	free(p->ranks);
	share_parts_free(&p->parts);
	free(p);
}

const struct part_layout_rank *part_layout_of(const struct part_layout *p, uint32_t i, const struct memory *mem)
{
	bool is = p && i < p->nranks && digest_equal(p->ranks[i].sum, mem->sum);
	return is ? &p->ranks[i] : NULL;
}

static bool is_of(const struct part_layout *p, const struct node_part_rank *ranks, uint32_t n,
		  const struct share_parts *parts)
{
	bool is = p && p->nranks == n && share_parts_equal(&p->parts, parts);
	for (uint32_t i = 0; is && i < n; i++)
		is = part_layout_of(p, i, ranks[i].mem);
	return is;
}

static int take(struct part_layout *p, const struct node_part_rank *ranks)
{
	AUTO_FREE const struct layout **layouts = calloc(p->nranks + 1ull, sizeof(*layouts));
	AUTO_FREE const struct registration **regs = calloc(p->nranks + 1ull, sizeof(*regs));
	AUTO_FREE struct layout *taken = calloc(p->nranks + 1ull, sizeof(*taken));
	if (!layouts || !regs || !taken)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->nranks; i++) {
		layouts[i] = &ranks[i].mem->layout;
		regs[i] = &ranks[i].mem->table->reg;
	}
	int rc = shares_take(layouts, regs, p->nranks, &p->parts, taken);
	for (uint32_t i = 0; !rc && i < p->nranks; i++)
		p->ranks[i] = (struct part_layout_rank){.sum = ranks[i].mem->sum, .layout = taken[i]};
	return rc;
}

static int make(struct part_layout *p, const struct node_part_rank *ranks, struct err *err)
{
	p->ranks = calloc(p->nranks + 1ull, sizeof(*p->ranks));
	int rc = p->ranks ? take(p, ranks) : -ENOMEM;
	if (rc)
		return err_set(err, rc,
			       rc == -EINVAL ? "what this node is told to write is not what its %u ranks hold"
					     : "no memory for the files of %u ranks",
			       p->nranks);
	for (uint32_t i = 0; !rc && i < p->nranks; i++)
		rc = head_blocks_make(&ranks[i].mem->table->reg, &p->ranks[i].layout, &p->ranks[i].heads, err);
	return rc;
}

int part_layout_make(const struct node_part_rank *ranks, uint32_t n, const struct share_parts *parts,
		     struct part_layout **kept, struct err *err)
{
	if (is_of(*kept, ranks, n, parts))
		return 0;
	struct part_layout *p = calloc(1, sizeof(*p));
	if (!p)
		return err_set(err, -ENOMEM, "no memory for the files of %u ranks", n);
	*p = (struct part_layout){.refs = 1, .nranks = n};
	int rc = share_parts_copy(&p->parts, parts);
	if (!rc)
		rc = make(p, ranks, err);
	if (rc) {
		part_layout_put(p);
		return rc;
	}
	part_layout_put(*kept);
	*kept = p;
	return 0;
}
