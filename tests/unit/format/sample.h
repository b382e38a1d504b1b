/* Valid documents of random shape, for property tests. Everything that sample_* makes is freed by the same room's free. */
#ifndef TESTS_UNIT_FORMAT_SAMPLE_H
#define TESTS_UNIT_FORMAT_SAMPLE_H

#include "format/files/manifest.h"
#include "format/files/sidecar.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static inline uint64_t sample_random(uint64_t *seed)
{
	uint64_t z = (*seed += 0x9e3779b97f4a7c15ull);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint64_t sample_below(uint64_t *seed, uint64_t n)
{
	return sample_random(seed) % n;
}

/* A box or a flat range, now and then empty. */
static inline struct region sample_region(uint64_t *seed, const struct shape *shape)
{
	uint64_t volume;
	cr_assert_eq(shape_volume(shape, &volume), 0);
	if (sample_below(seed, 2)) {
		uint64_t start = sample_below(seed, volume + 1);
		return region_flat(start, sample_below(seed, volume - start + 1));
	}
	struct region r = region_whole(shape);
	for (uint32_t d = 0; d < shape->ndim; d++) {
		r.offset[d] = sample_below(seed, shape->dim[d] + 1);
		r.extent[d] = sample_below(seed, shape->dim[d] - r.offset[d] + 1);
	}
	return r;
}

static inline void sample_tensor(uint64_t *seed, uint32_t i, struct manifest_tensor *t)
{
	static const char *const odd[] = {"w", "layers.0.\"quoted\"", "back\\slash", "größe/重み", "a b"};
	char name[64];
	snprintf(name, sizeof(name), "%s.%u", odd[sample_below(seed, 5)], i);
	t->name = strdup(name);
	t->kind = (enum entry_kind)(ENTRY_TENSOR + sample_below(seed, 3));
	t->dtype = t->kind == ENTRY_TENSOR ? (enum dtype)(1 + sample_below(seed, DTYPE_END - 1)) : DTYPE_U8;
	t->shape.ndim = t->kind == ENTRY_TENSOR ? (uint32_t)sample_below(seed, 4) : 1;
	for (uint32_t d = 0; d < t->shape.ndim; d++)
		t->shape.dim[d] = sample_below(seed, 300);
}

static inline void sample_file(uint64_t *seed, const struct node_manifest *m, struct manifest_file *f)
{
	uint64_t nleaves = 0;
	name_data(f->rank, m->world, f->group, f->part, f->name);
	name_sidecar(f->rank, m->world, f->group, f->part, f->sidecar_name);
	f->data_at = LAYOUT_ALIGN * (1 + sample_below(seed, 3));
	f->size = f->data_at;
	f->npieces = m->ntensors ? (uint32_t)sample_below(seed, 6) : 0;
	f->pieces = f->npieces ? calloc(f->npieces, sizeof(*f->pieces)) : NULL;
	for (uint32_t i = 0; i < f->npieces; i++) {
		struct manifest_piece *p = &f->pieces[i];
		p->tensor = (uint32_t)sample_below(seed, m->ntensors);
		const struct manifest_tensor *t = &m->tensors[p->tensor];
		p->region = sample_region(seed, &t->shape);
		p->at = f->size - f->data_at;
		p->bytes = region_volume(&t->shape, &p->region) * dtype_size(t->dtype);
		f->size += p->bytes;
		nleaves += leaf_count(p->bytes);
	}
	f->sidecar_size = sidecar_size(f->npieces, nleaves);
	f->sidecar = (struct digest){sample_random(seed), sample_random(seed)};
}

/* Node `node` of a job of `nodes` nodes with two ranks each. */
static inline void sample_node(uint64_t *seed, uint32_t node, uint32_t nodes, struct node_manifest *m)
{
	*m = (struct node_manifest){.job = "gpt", .id = {1000, 3}, .world = 2 * nodes};
	snprintf(m->node, sizeof(m->node), "n%u", node);
	m->began = (uint32_t)sample_below(seed, 3);
	m->ntensors = (uint32_t)sample_below(seed, 6);
	m->tensors = m->ntensors ? calloc(m->ntensors, sizeof(*m->tensors)) : NULL;
	for (uint32_t i = 0; i < m->ntensors; i++)
		sample_tensor(seed, i, &m->tensors[i]);
	m->nfiles = 6;
	m->files = calloc(m->nfiles, sizeof(*m->files));
	for (uint32_t i = 0; i < m->nfiles; i++) {
		struct manifest_file *f = &m->files[i];
		f->rank = 2 * node + i % 2;
		f->part = i / 4;
		snprintf(f->group, sizeof(f->group), "%s", i / 2 % 2 ? "optimizer" : "params");
		sample_file(seed, m, f);
	}
}

static inline void sample_text(const struct node_manifest *m, struct wbuf *out)
{
	*out = (struct wbuf){0};
	cr_assert_eq(node_manifest_encode(m, out), 0);
}

/* Fills w with `body`, an object without its closing brace, and its seal. */
static inline void sample_sealed(const char *body, struct wbuf *out)
{
	*out = (struct wbuf){0};
	wbuf_put(out, body, strlen(body));
	seal_append(out);
	cr_assert_eq(wbuf_finish(out), 0);
}

/* `text` with the first `from` replaced by `to`; freed by the caller. */
static inline char *sample_replace(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	cr_assert_not_null(at, "the sample has no %s", from);
	char *result;
	cr_assert_geq(asprintf(&result, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)), 0);
	return result;
}

#endif
