#include "collective/nccl_comm.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"
#include "common/errand.h"
#include "common/shard.h"

/* Between two looks at what is under way: little against a collective, and the cancel descriptor wakes at once. */
enum { LOOK_NS = 50000 };

struct nccl_comm {
	const struct nccl_table *table;
	struct nccl_stream stream;
	void *handle; /* NULL: not made */
	int rank, world, cancel_fd;
	struct errand_waiting waiting;
	bool connecting; /* no collective, in which it matters who comes */
	int failure;     /* -errno of the first failure */
	char error[NCCL_WHY_SIZE];
};

static int fail(struct nccl_comm *c, int rc, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int fail(struct nccl_comm *c, int rc, const char *format, ...)
{
	va_list arguments;

	if (c->failure)
		return c->failure;
	c->failure = rc;
	va_start(arguments, format);
	vsnprintf(c->error, sizeof(c->error), format, arguments);
	va_end(arguments);
	return rc;
}

static int fail_code(struct nccl_comm *c, const char *doing, int code)
{
	return fail(c, -EIO, "%s: NCCL: %s", doing, c->table->text_of(code));
}

/* Sleeps until it is worth looking again. */
static int pause_for(struct nccl_comm *c, const char *doing, int64_t deadline)
{
	struct pollfd cancel = {c->cancel_fd, POLLIN, 0};
	struct timespec look = {0, LOOK_NS};
	int n;

	if (c->connecting && c->waiting.waiting)
		c->waiting.waiting(c->waiting.self);
	n = ppoll(&cancel, 1, &look, NULL);

	if (n < 0 && errno != EINTR)
		return fail(c, -errno, "%s: poll: %s", doing, strerror(errno));
	if (n > 0)
		return fail(c, -ECANCELED, "%s: canceled", doing);
	if (monotonic_ns() >= deadline)
		return fail(c, -ETIMEDOUT, "timed out in %s", doing);
	return 0;
}

/* Until NCCL has taken what was asked of it; on the device it may still be under way. */
static int await_taken(struct nccl_comm *c, const char *doing, int code, int64_t deadline)
{
	int rc = 0;

	while (rc == 0 && code == NCCL_IN_PROGRESS) {
		int asked = c->table->async_error(c->handle, &code);

		if (asked != NCCL_SUCCESS)
			code = asked;
		if (code == NCCL_IN_PROGRESS)
			rc = pause_for(c, doing, deadline);
	}
	if (rc < 0)
		return rc;
	return code == NCCL_SUCCESS ? 0 : fail_code(c, doing, code);
}

/* Until the device is done. */
static int await_device(struct nccl_comm *c, const char *doing, int64_t deadline)
{
	int rc = 0;

	while (rc == 0) {
		int code = NCCL_SUCCESS, done = c->stream.query(c->stream.self);

		if (done < 0)
			return fail(c, -ENOTRECOVERABLE, "%s: the device's context is lost: %s", doing,
				    strerror(-done));
		if (c->table->async_error(c->handle, &code) != NCCL_SUCCESS ||
		    (code != NCCL_SUCCESS && code != NCCL_IN_PROGRESS))
			return fail_code(c, doing, code == NCCL_SUCCESS ? NCCL_INTERNAL_ERROR : code);
		if (done)
			return 0;
		rc = pause_for(c, doing, deadline);
	}
	return rc;
}

int nccl_comm_create(const struct nccl_table *table, const struct nccl_stream *stream, struct nccl_comm **comm)
{
	struct nccl_comm *c = calloc(1, sizeof(*c));

	*comm = c;
	if (!c)
		return -ENOMEM;
	c->table = table;
	c->stream = *stream;
	return 0;
}

int nccl_comm_connect(struct nccl_comm *c, const struct nccl_group *group, int64_t deadline)
{
	struct nccl_config config = {.size = sizeof(config),
				     .magic = NCCL_CONFIG_MAGIC,
				     .version = NCCL_CONFIG_VERSION,
				     .blocking = 0,
				     .cga_cluster_size = NCCL_UNDEFINED,
				     .min_ctas = NCCL_UNDEFINED,
				     .max_ctas = NCCL_UNDEFINED,
				     .split_share = NCCL_UNDEFINED};
	int code;

	if (c->failure)
		return c->failure;
	if (c->handle || group->world < 1 || group->rank < 0 || group->rank >= group->world)
		return -EINVAL;
	c->rank = group->rank;
	c->world = group->world;
	c->cancel_fd = group->cancel_fd;
	c->waiting = group->waiting;
	code = c->table->init(&c->handle, c->world, group->id, c->rank, &config);
	if (!c->handle)
		return fail_code(c, "connecting", code == NCCL_SUCCESS ? NCCL_INTERNAL_ERROR : code);
	c->connecting = true;
	code = await_taken(c, "connecting", code, deadline);
	c->connecting = false;
	return code;
}

/* Both collectives: begun by `code`, complete when the device is done. */
static int complete(struct nccl_comm *c, const char *name, size_t count, int code, int64_t deadline)
{
	char doing[64];
	int rc;

	snprintf(doing, sizeof(doing), "%s of %zu bytes", name, count * sizeof(float));
	rc = await_taken(c, doing, code, deadline);
	return rc < 0 ? rc : await_device(c, doing, deadline);
}

static bool usable(const struct nccl_comm *c)
{
	return !c->failure && c->handle;
}

int nccl_comm_reduce_scatter(struct nccl_comm *c, float *data, size_t count, int64_t deadline)
{
	size_t shard;

	if (!usable(c))
		return c->failure ? c->failure : -ENOTCONN;
	shard = shard_range(count, 0, c->world).end;
	return complete(c, "reduce_scatter", count,
			c->table->reduce_scatter(data, data + (size_t)c->rank * shard, shard, NCCL_FLOAT32, NCCL_SUM,
						 c->handle, c->stream.stream),
			deadline);
}

int nccl_comm_all_gather(struct nccl_comm *c, float *data, size_t count, int64_t deadline)
{
	size_t shard;

	if (!usable(c))
		return c->failure ? c->failure : -ENOTCONN;
	shard = shard_range(count, 0, c->world).end;
	return complete(c, "all_gather", count,
			c->table->all_gather(data + (size_t)c->rank * shard, data, shard, NCCL_FLOAT32, c->handle,
					     c->stream.stream),
			deadline);
}

const char *nccl_comm_error(const struct nccl_comm *c)
{
	return c->error;
}

static void abort_comm(void *argument)
{
	const struct nccl_comm *c = argument;

	c->table->abort(c->handle); /* whatever it says, the communicator is gone */
}

int nccl_comm_free(struct nccl_comm *c, int64_t deadline)
{
	int rc = 0;

	if (c && c->handle)
		rc = errand_run_while(abort_comm, c, deadline, c->waiting.waiting ? &c->waiting : NULL, free);
	if (rc != -ETIMEDOUT) /* otherwise the abort still uses it, and frees it if it comes back */
		free(c);
	return rc < 0 ? -ENOTRECOVERABLE : 0;
}
