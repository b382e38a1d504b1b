#include "daemon.h"

void daemon_init(struct daemon *d)
{
	*d = (struct daemon){.storage.root = -1, .storage.lock.handle = STORE_LOCK_NONE};
	d->jobs = (struct jobs){.runtime = &d->runtime,
				.storage = &d->storage,
				.peers = &d->peers,
				.control = &d->control,
				.formers.runtime = &d->runtime};
	d->control = (struct control){.runtime = &d->runtime,
				      .storage = &d->storage,
				      .peers = &d->peers,
				      .jobs = &d->jobs,
				      .dispatch = &d->dispatch,
				      .operators = &d->operators};
	d->observe = (struct observe){.runtime = &d->runtime,
				      .storage = &d->storage,
				      .peers = &d->peers,
				      .jobs = &d->jobs,
				      .control = &d->control};
	d->operators = (struct operators){.runtime = &d->runtime,
					  .peers = &d->peers,
					  .jobs = &d->jobs,
					  .control = &d->control,
					  .observe = &d->observe};
	d->dispatch = (struct dispatch){.runtime = &d->runtime,
					.storage = &d->storage,
					.peers = &d->peers,
					.jobs = &d->jobs,
					.control = &d->control,
					.operators = &d->operators};
	list_init(&d->jobs.list);
	list_init(&d->control.hosts);
	outbox_init(&d->control.outbox);
}
