#include "reader_store.h"

#include "store/manage/tags.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

char reader_root[SCRATCH_MAX];
struct store_spec reader_newest;

static struct store_spec make(uint64_t step, uint32_t epoch)
{
	struct err err = {0};
	struct store_spec spec = {.root = reader_root,
				  .id = {step, epoch},
				  .world = 4,
				  .nodes = 2,
				  .rows = 64,
				  .cols = 48,
				  .seed = step,
				  .partial = step == 40};
	cr_assert_eq(store_make(&spec, &err), 0, "%s", err.text);
	return spec;
}

void reader_store_make(void)
{
	struct err err = {0};
	struct repo repo;
	const struct tag best = {.job = "main", .id = {20, 1}, .name = "best"};
	unsetenv("CKPT_REPO");
	unsetenv("CKPT_JOB");
	scratch_new(reader_root);
	make(10, 1);
	const struct store_spec healthy = make(20, 1);
	cr_assert_eq(store_put_mark(&healthy, false, "", &err), 0);
	cr_assert_eq(store_mark_pin(&healthy, "", &err), 0);
	reader_newest = make(30, 2);
	make(40, 2);
	cr_assert_eq(repo_open(reader_root, &repo, &err), 0, "%s", err.text);
	cr_assert_eq(tag_put(&repo, &best, false, &err), 0, "%s", err.text);
	repo_close(&repo);
}

void reader_store_drop(void)
{
	scratch_remove(reader_root);
}

ckpt_reader *reader_open(const char *which)
{
	ckpt_reader_options o = CKPT_INIT(ckpt_reader_options);
	ckpt_reader *r = NULL;
	o.store = reader_root;
	o.which = which;
	o.threads = 2;
	cr_assert_eq(ckpt_reader_open(&o, &r), 0, "%s", ckpt_reader_error());
	return r;
}

int reader_refused(const ckpt_reader_options *opts)
{
	ckpt_reader *r = (ckpt_reader *)reader_root;
	int rc = ckpt_reader_open(opts, &r);
	cr_assert_null(r);
	return rc;
}

void *reader_due(const ckpt_reader *r, const ckpt_reader_tensor *t)
{
	struct shape shape = {.ndim = (uint32_t)t->ndim};
	memcpy(shape.dim, t->shape, (size_t)t->ndim * sizeof(*t->shape));
	struct region whole = region_whole(&shape);
	void *data = malloc(t->bytes + 1);
	store_fill(ckpt_reader_info(r)->step, t->name, (enum dtype)t->dtype, &shape, &whole, data);
	return data;
}
