/* Failures of nodes in the store: .lemons in its root, of all of them; where there is no registry. */
#include "control/lemon/set_aside_private.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/repeat.h"
#include "checkpoint/room.h"
#include "cluster/room.h"
#include "control/control.h"
#include "format/document/json_in.h"
#include "format/document/json_out.h"
#include "runtime/room.h"
#include "store/read/repo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS (CLOCK_NS_PER_S / 2)

/* Of nodes that have failed: a store may belong to somebody else, and be made to fill the memory. */
enum { NODES_MAX = 2048 };

/* Operators who wait until it is written. */
struct waits {
	struct waits *next;
	void (*done)(void *arg, int rc, const char *why);
	void *arg;
};

struct set_aside_file {
	struct work work;
	struct control *control;
	const char *store;
	bool busy, dirty;
	uint64_t retry_ns;
	struct waits *waits;
	struct repeat unwritten;
	/* the worker's */
	struct wbuf text;
	struct waits *served;
	int rc;
	struct err err;
};

static void answer(struct waits **all, int rc, const char *why)
{
	for (struct waits *w; (w = *all);) {
		*all = w->next;
		w->done(w->arg, rc, why);
		free(w);
	}
}

static void encode(const struct control *control, struct wbuf *out)
{
	unsigned n = 0;
	jout_raw(out, "{\"schema\":1,\"nodes\":[");
	for (const struct set_aside *s = control->set_aside; s && n < NODES_MAX; s = s->next) {
		if (!s->lemon.n)
			continue;
		jout_raw(out, n++ ? ",\n" : "\n");
		lemon_put(&s->lemon, out);
	}
	jout_raw(out, "]}\n");
}

static void run(struct work *work)
{
	struct set_aside_file *f = list_entry(work, struct set_aside_file, work);
	struct repo repo;
	f->rc = repo_open(f->store, &repo, &f->err);
	if (f->rc)
		return;
	f->rc = disk_put_file(repo.disk, repo.root, REPO_LEMONS, f->text.data, f->text.len, true, &f->err);
	repo_close(&repo);
}

static void written(struct work *work)
{
	struct set_aside_file *f = list_entry(work, struct set_aside_file, work);
	f->busy = false;
	wbuf_free(&f->text);
	if (f->rc) {
		f->dirty = true;
		f->retry_ns = clock_deadline(RETRY_NS);
		if (repeat_due(&f->unwritten, f->err.text, clock_now()))
			log_warn("how often nodes have failed cannot be written: %s", f->err.text);
	} else {
		f->unwritten = (struct repeat){0};
	}
	answer(&f->served, f->rc, f->err.text);
}

static void write_file(struct set_aside_file *f)
{
	f->text = (struct wbuf){0};
	f->err = (struct err){{0}};
	f->rc = err_set(&f->err, -ECANCELED, "this daemon ends"); /* unless it is run */
	f->dirty = false;
	encode(f->control, &f->text);
	if (wbuf_finish(&f->text)) {
		wbuf_free(&f->text);
		f->dirty = true;
		f->retry_ns = clock_deadline(RETRY_NS);
		return;
	}
	f->served = f->waits;
	f->waits = NULL;
	f->busy = true;
	pool_submit(f->control->runtime->pool, &f->work);
}

static int read_all(struct control *control, const void *text, size_t len, struct err *err)
{
	static const char *const keys[] = {"schema", "nodes", NULL};
	struct lemon is;
	struct set_aside *s;
	struct jin in;
	uint32_t seen = 0;
	unsigned n = 0;
	jin_open(&in, text, len, REPO_LEMONS, err);
	jin_object(&in);
	for (int k; (k = jin_member(&in, keys, &seen)) >= 0;) {
		if (k == 0)
			jin_u64(&in, 1);
		else
			for (jin_array(&in); jin_element(&in);) {
				if (n++ == NODES_MAX)
					jin_fail(&in, "it has more than %d nodes", NODES_MAX);
				if (!lemon_read(&in, &is) && (s = set_aside_get(control, is.name)))
					s->lemon = is;
			}
	}
	jin_require(&in, keys, seen, 3);
	return jin_close(&in);
}

void set_aside_load(struct control *control)
{
	AUTO_FREE void *text = NULL;
	struct err err = {{0}};
	size_t len = 0;
	struct set_aside_file *f = calloc(1, sizeof(*f));
	if (!f)
		return; /* as without a store */
	*f = (struct set_aside_file){
		.control = control, .store = control->runtime->config.store, .work = {.run = run, .done = written}};
	control->set_aside_file = f;
	int rc = disk_read_file(control->storage->disk, control->storage->root, REPO_LEMONS,
				(uint64_t)LEMON_BYTES_MAX * NODES_MAX, &text, &len, &err);
	if (!rc)
		rc = read_all(control, text, len, &err);
	if (rc && rc != -ENOENT)
		log_warn("how often nodes have failed before is not known: %s", err.text);
}

void set_aside_tick_file(struct control *control, uint64_t now)
{
	struct set_aside_file *f = control->set_aside_file;
	for (struct set_aside *s = control->set_aside; f && s; s = s->next) {
		f->dirty |= s->dirty;
		s->dirty = false;
	}
	if (f && f->dirty && !f->busy && now >= f->retry_ns && !control->runtime->stopping)
		write_file(f);
}

bool set_aside_at_work(const struct control *control)
{
	return control->set_aside_file && control->set_aside_file->busy;
}

/* Operators are gone by now. */
void set_aside_close(struct control *control)
{
	struct set_aside_file *f = control->set_aside_file;
	if (f)
		answer(&f->waits, -ESHUTDOWN, "this daemon ends");
	free(f);
	control->set_aside_file = NULL;
}

int set_aside_clear_file(struct control *control, struct set_aside *s, void (*done)(void *arg, int rc, const char *why),
			 void *arg, struct err *err)
{
	struct set_aside_file *f = control->set_aside_file;
	struct waits *w = f ? calloc(1, sizeof(*w)) : NULL;
	if (f && !w)
		return err_set(err, -ENOMEM, "no memory");
	set_aside_forget(control, s);
	if (!f) {
		done(arg, 0, "");
		return 0;
	}
	*w = (struct waits){.next = f->waits, .done = done, .arg = arg};
	f->waits = w;
	f->dirty = true;
	return 0;
}
