#include "base/cleanup.h"
#include "client/session/session.h"

/* What lived in the old stage is gone: a daemon that lost its arenas forgot it, as does one whose job has another world. */
void session_stage_replace(ckpt *s, struct stage *stage)
{
	pthread_mutex_lock(&s->save);
	snapshot_put(s->unfenced);
	s->unfenced = NULL;
	while (s->npending)
		snapshot_put(s->pending[--s->npending]);
	pthread_mutex_unlock(&s->save);
	pthread_mutex_lock(&s->stage_lock);
	struct stage *old = s->stage;
	s->stage = stage;
	pthread_mutex_unlock(&s->stage_lock);
	if (old)
		atomic_store(&old->lost, true);
	stage_put(old);
}

/* The service thread greets a daemon that has restarted with all three. */
static void take_place(ckpt *s)
{
	LOCK_SCOPE(&s->service.lock);
	s->settings.rank = s->moved.rank;
	s->settings.world = s->moved.world;
	s->settings.local_world = s->moved.local_world;
}

int session_moved(const ckpt *s, struct err *err)
{
	return err_set(
		err, -EREMCHG,
		"the job goes on with world size %u, this process is rank %u of it: register its pieces anew and "
		"join again",
		s->moved.world, s->moved.rank);
}

void session_move(ckpt *s)
{
	session_stage_replace(s, NULL);
	take_place(s);
	service_greet_again(s, s->moved_on);
	LOCK_SCOPE(&s->save);
	table_free(&s->table);
	table_init(&s->table, s->moved.rank, s->moved.world);
	uint32_t epoch = s->joined.epoch; /* it was in one before: what the next view says */
	wire_joined_free(&s->joined);
	s->joined.epoch = epoch;
	s->view = (ckpt_view){.size = sizeof(s->view)};
	atomic_store(&s->undefined, false);
}
