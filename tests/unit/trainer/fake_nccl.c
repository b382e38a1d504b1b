#include "fake_nccl.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { KIND_REDUCE_SCATTER = 1, KIND_ALL_GATHER };
/* Looks after which an asynchronous error shows, or an initialisation comes to its end. */
enum { LOOKS = 3 };

static struct fake_nccl *now;

static bool faulty(const struct fake_nccl_rank *r, enum fake_nccl_fault fault)
{
	return r->rank == 0 && now->fault == fault;
}

static int fake_version(int *version)
{
	*version = 22809;
	return NCCL_SUCCESS;
}

static int fake_unique_id(struct nccl_id *id)
{
	pthread_mutex_lock(&now->lock);
	memset(id, ++now->ids, sizeof(*id));
	now->id = *id;
	pthread_mutex_unlock(&now->lock);
	return now->fault == FAKE_NCCL_NO_ID ? NCCL_SYSTEM_ERROR : NCCL_SUCCESS;
}

static int fake_init(void **comm, int world, struct nccl_id id, int rank, struct nccl_config *config)
{
	struct fake_nccl_rank *r = &now->rank[rank];

	if (memcmp(&id, &now->id, sizeof(id)) || config->blocking != 0 || config->magic != NCCL_CONFIG_MAGIC ||
	    faulty(r, FAKE_NCCL_INIT_REFUSED))
		return NCCL_INVALID_ARGUMENT;
	pthread_mutex_lock(&now->lock);
	*r = (struct fake_nccl_rank){.all = now, .rank = rank, .made = true};
	now->world = world;
	pthread_mutex_unlock(&now->lock);
	*comm = r;
	return NCCL_IN_PROGRESS;
}

static int async_error(const struct fake_nccl_rank *r)
{
	if (faulty(r, FAKE_NCCL_INIT_NEVER) || (faulty(r, FAKE_NCCL_NEVER_TAKEN) && r->kind))
		return NCCL_IN_PROGRESS;
	if (r->looks < LOOKS)
		return NCCL_IN_PROGRESS;
	if (faulty(r, FAKE_NCCL_INIT_FAILS))
		return NCCL_REMOTE_ERROR;
	if (faulty(r, FAKE_NCCL_ASYNC_ERROR) && r->kind && r->looks > 2 * LOOKS) /* the call was taken long ago */
		return NCCL_REMOTE_ERROR;
	return NCCL_SUCCESS;
}

static int fake_async_error(void *comm, int *code)
{
	struct fake_nccl_rank *r = comm;

	pthread_mutex_lock(&now->lock);
	r->looks++;
	*code = async_error(r);
	pthread_mutex_unlock(&now->lock);
	return NCCL_SUCCESS;
}

static int fake_abort(void *comm)
{
	struct fake_nccl_rank *r = comm;
	struct fake_nccl *all = r->all;

	pthread_mutex_lock(&all->lock);
	r->busy_at_abort = r->kind != 0;
	r->kind = 0;
	while (all->abort_hangs && !all->release)
		pthread_cond_wait(&all->changed, &all->lock);
	pthread_mutex_unlock(&all->lock);
	nanosleep(&all->abort_takes, NULL);
	pthread_mutex_lock(&all->lock);
	r->aborted = true;
	all->aborts_ended++;
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
	return NCCL_SUCCESS;
}

static bool all_alike(void)
{
	for (int r = 0; r < now->world; r++)
		if (now->rank[r].kind != now->rank[0].kind || now->rank[r].count != now->rank[0].count)
			return false;
	return true;
}

/* Both work in place: a sum is made before it is stored anywhere it is read from. */
static void sum_of(int to, size_t count)
{
	float *receive = now->rank[to].receive;

	for (size_t i = 0; i < count; i++) {
		float sum = 0;

		for (int r = 0; r < now->world; r++)
			sum += now->rank[r].send[(size_t)to * count + i];
		receive[i] = sum;
	}
}

static void run_all(int kind, size_t count)
{
	for (int to = 0; to < now->world; to++) {
		struct fake_nccl_rank *r = &now->rank[to];

		if (kind == KIND_REDUCE_SCATTER)
			sum_of(to, count);
		for (int from = 0; kind == KIND_ALL_GATHER && from < now->world; from++)
			if (from != to)
				memcpy(r->receive + (size_t)from * count, now->rank[from].send, count * sizeof(float));
	}
	for (int r = 0; r < now->world; r++)
		now->rank[r].kind = 0;
}

static int post(struct fake_nccl_rank *r, int kind, const float *send, float *receive, size_t count)
{
	if (faulty(r, FAKE_NCCL_OP_REFUSED))
		return NCCL_INVALID_USAGE;
	pthread_mutex_lock(&now->lock);
	r->kind = kind;
	r->send = send;
	r->receive = receive;
	r->count = count;
	r->looks = 0;
	now->largest = count > now->largest ? count : now->largest;
	if (all_alike() && now->fault < FAKE_NCCL_NEVER_TAKEN)
		run_all(kind, count);
	pthread_mutex_unlock(&now->lock);
	return NCCL_IN_PROGRESS;
}

static int fake_reduce_scatter(const void *send, void *receive, size_t count, int type, int op, void *comm,
			       void *stream)
{
	if (type != NCCL_FLOAT32 || op != NCCL_SUM || (stream && stream != comm))
		return NCCL_INVALID_ARGUMENT;
	return post(comm, KIND_REDUCE_SCATTER, send, receive, count);
}

static int fake_all_gather(const void *send, void *receive, size_t count, int type, void *comm, void *stream)
{
	if (type != NCCL_FLOAT32 || (stream && stream != comm))
		return NCCL_INVALID_ARGUMENT;
	return post(comm, KIND_ALL_GATHER, send, receive, count);
}

static const char *fake_text_of(int code)
{
	return code == NCCL_REMOTE_ERROR ? "remote process exited" : code == NCCL_SUCCESS ? "no error" : "some error";
}

static int query(void *self)
{
	struct fake_nccl_rank *r = self;
	int done;

	pthread_mutex_lock(&now->lock);
	done = faulty(r, FAKE_NCCL_CONTEXT_LOST) ? -EIO : r->kind == 0;
	pthread_mutex_unlock(&now->lock);
	return done;
}

const struct nccl_table *fake_nccl_start(struct fake_nccl *fake)
{
	static const struct nccl_table table = {
		.version = fake_version,
		.unique_id = fake_unique_id,
		.init = fake_init,
		.async_error = fake_async_error,
		.abort = fake_abort,
		.reduce_scatter = fake_reduce_scatter,
		.all_gather = fake_all_gather,
		.text_of = fake_text_of,
	};

	*fake = (struct fake_nccl){.ids = 0};
	pthread_mutex_init(&fake->lock, NULL);
	pthread_cond_init(&fake->changed, NULL);
	now = fake;
	return &table;
}

void fake_nccl_end(struct fake_nccl *fake)
{
	pthread_cond_destroy(&fake->changed);
	pthread_mutex_destroy(&fake->lock);
	now = NULL;
}

struct nccl_stream fake_nccl_stream(struct fake_nccl *fake, int rank)
{
	return (struct nccl_stream){.stream = &fake->rank[rank], .query = query, .self = &fake->rank[rank]};
}

void fake_nccl_release(struct fake_nccl *fake, int aborts)
{
	pthread_mutex_lock(&fake->lock);
	fake->release = true;
	pthread_cond_broadcast(&fake->changed);
	while (fake->aborts_ended < aborts)
		pthread_cond_wait(&fake->changed, &fake->lock);
	pthread_mutex_unlock(&fake->lock);
}
