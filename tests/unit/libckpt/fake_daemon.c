#include "fake_private.h"

#include "format/arena/job_blobs.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static uint64_t soon(void)
{
	return clock_deadline(60 * CLOCK_NS_PER_S);
}

/* ---- answers ---- */

static void answer(const struct conn *c, enum wire_type type, uint32_t seq, const struct wbuf *body, const int *fds,
		   int n)
{
	channel_send(c->sock, type, seq, body ? body->data : NULL, body ? body->len : 0, fds, n, soon());
}

static void answer_error(const struct conn *c, uint32_t seq, const struct wire_error *e)
{
	AUTO_WBUF struct wbuf body = {0};
	wire_error_encode(e, &body);
	answer(c, WIRE_ERROR, seq, &body, NULL, 0);
}

static void on_hello(struct fake *f, struct conn *c, const struct frame *in)
{
	struct wire_hello hello;
	struct err err = {0};
	struct fake_manners *manners = &f->manners;
	int rc = wire_hello_decode(in->body, in->len, &hello, &err);
	if (rc) {
		struct wire_error e = {.rc = rc};
		snprintf(e.text, sizeof(e.text), "%s", err.text);
		answer_error(c, in->seq, &e);
		return;
	}
	if (manners->hello.rc) {
		answer_error(c, in->seq, &manners->hello);
		if (manners->hello_times && !--manners->hello_times)
			manners->hello.rc = 0;
		return;
	}
	c->greeted = true;
	c->rank = hello.rank;
	f->hellos[hello.rank] = hello;
	struct wire_welcome w = {.protocol = manners->protocol ? manners->protocol : WIRE_PROTOCOL,
				 .epoch = f->epoch,
				 .node = "fake",
				 .version = "fake-1",
				 .storage = !manners->no_storage,
				 .peers = manners->peers};
	AUTO_WBUF struct wbuf body = {0};
	wire_welcome_encode(&w, &body);
	answer(c, WIRE_WELCOME, in->seq, &body, NULL, 0);
	f->welcomed++;
}

static void send_arenas(struct fake *f, struct conn *c)
{
	struct wire_arena m = {.nlocal = f->world};
	int fds[FAKE_WORLD_MAX + 1] = {f->doorbell};
	for (uint32_t r = 0; r < f->world; r++) {
		m.ranks[r] = r;
		m.size[r] = f->memory[r].size;
		fds[r + 1] = r == c->rank ? f->memory[r].fd : f->memory[r].fd_read;
	}
	AUTO_WBUF struct wbuf body = {0};
	wire_arena_encode(&m, &body);
	answer(c, WIRE_ARENA, c->register_seq, &body, fds, (int)f->world + 1);
	c->register_seq = 0;
}

static int make_arenas(struct fake *f, struct err *err)
{
	const struct registration *regs[FAKE_WORLD_MAX];
	struct layout layouts[FAKE_WORLD_MAX];
	bool there = true;
	for (uint32_t r = 0; r < f->world; r++) {
		regs[r] = &f->regs[r];
		there &= f->memory[r].base != NULL;
	}
	if (there)
		return 0;
	int rc = registrations_share_blobs(regs, f->world, err);
	if (!rc)
		rc = layout_make(regs, f->world, true, LAYOUT_FILE_MAX, layouts, err);
	for (uint32_t r = 0; !rc && r < f->world; r++)
		memory_make(f, r, &layouts[r]);
	return rc;
}

static void try_arenas(struct fake *f)
{
	struct err err = {0};
	for (uint32_t r = 0; r < f->world; r++)
		if (!f->registered[r] || f->manners.hold_register)
			return;
	int rc = make_arenas(f, &err);
	for (int i = 0; i < CONNS; i++) {
		struct conn *c = &f->conns[i];
		if (c->sock < 0 || !c->register_seq)
			continue;
		struct wire_error e = {.rc = rc};
		snprintf(e.text, sizeof(e.text), "%s", err.text);
		if (rc)
			answer_error(c, c->register_seq, &e);
		else
			send_arenas(f, c);
	}
}

static bool tell_moved(const struct fake *f, struct conn *c, uint32_t seq)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_moved m = {.rank = c->rank, .world = f->world, .local_world = f->world};
	if (!c->moved)
		return false;
	c->moved = false;
	wire_moved_encode(&m, &body);
	answer(c, WIRE_MOVED, seq, &body, NULL, 0);
	return true;
}

static void on_register(struct fake *f, struct conn *c, const struct frame *in)
{
	if (tell_moved(f, c, in->seq))
		return;
	struct err err = {0};
	c->register_seq = in->seq;
	if (f->manners.register_.rc) {
		answer_error(c, in->seq, &f->manners.register_);
		return;
	}
	registration_free(&f->regs[c->rank]);
	/* The first four bytes are the deadline. */
	if (in->len < 4 || registration_decode(in->body + 4, in->len - 4, &f->regs[c->rank], &err)) {
		fprintf(stderr, "the library sent a table that does not decode: %s\n", err.text);
		abort();
	}
	f->registered[c->rank] = true;
	try_arenas(f);
}

static void try_join(struct fake *f)
{
	unsigned n = 0;
	static uint8_t addresses[FAKE_WORLD_MAX * WIRE_ADDRESS_MAX];
	uint32_t lens[FAKE_WORLD_MAX] = {0};
	for (int i = 0; i < CONNS; i++) {
		struct conn *c = &f->conns[i];
		if (c->sock < 0 || !c->wants_join)
			continue;
		n++;
		lens[c->rank] = c->join.address_len;
		memcpy(addresses + c->rank * WIRE_ADDRESS_MAX, c->join.address, WIRE_ADDRESS_MAX);
	}
	if (n < f->world || f->manners.hold_join)
		return;
	struct wire_joined m = {.epoch = f->epoch, .world = f->world, .address_len = lens, .addresses = addresses};
	AUTO_WBUF struct wbuf body = {0};
	wire_joined_encode(&m, &body);
	for (int i = 0; i < CONNS; i++) {
		struct conn *c = &f->conns[i];
		if (c->sock >= 0 && c->wants_join)
			answer(c, WIRE_JOINED, c->join_seq, &body, NULL, 0);
		c->wants_join = false;
	}
}

static void on_join(struct fake *f, struct conn *c, const struct frame *in)
{
	if (wire_join_decode(in->body, in->len, &c->join, NULL))
		abort();
	f->joins[c->rank] = c->join;
	if (tell_moved(f, c, in->seq))
		return;
	if (f->manners.join.rc) {
		answer_error(c, in->seq, &f->manners.join);
		return;
	}
	c->join_seq = in->seq;
	c->wants_join = true;
	try_join(f);
}

static void try_restore(struct fake *f)
{
	unsigned n = 0;
	for (int i = 0; i < CONNS; i++)
		n += f->conns[i].sock >= 0 && f->conns[i].wants_restore;
	if (n < f->world || f->manners.hold_restore)
		return;
	struct wire_restored m = f->manners.restored;
	for (uint32_t r = 0; !f->manners.restored.nlocal && r < f->world; r++) {
		m.ranks[r] = r;
		m.slots[r] = f->manners.restored.slots[0];
	}
	m.nlocal = f->world;
	AUTO_WBUF struct wbuf body = {0};
	wire_restored_encode(&m, &body);
	for (int i = 0; i < CONNS; i++) {
		struct conn *c = &f->conns[i];
		if (c->sock >= 0 && c->wants_restore && f->manners.restore.rc)
			answer_error(c, c->restore_seq, &f->manners.restore);
		else if (c->sock >= 0 && c->wants_restore)
			answer(c, WIRE_RESTORED, c->restore_seq, &body, NULL, 0);
		c->wants_restore = false;
	}
}

static void on_restore(struct fake *f, struct conn *c, const struct frame *in)
{
	if (f->manners.restore.rc && !f->manners.hold_restore) {
		answer_error(c, in->seq, &f->manners.restore);
		return;
	}
	c->restore_seq = in->seq;
	c->wants_restore = true;
	try_restore(f);
}

static void on_return(struct fake *f, struct frame *in)
{
	struct wire_arena_of m;
	int fd = frame_take_fd(in, 0);
	if (wire_arena_of_decode(in->body, in->len, &m, NULL) || fd < 0)
		abort();
	if (f->manners.forget)
		close(fd);
	else
		memory_adopt(f, m.rank, fd);
}

static void dispatch(struct fake *f, struct conn *c, struct frame *in)
{
	f->seen[in->type < WIRE_TYPE_END ? in->type : 0]++;
	if (f->manners.silent)
		return;
	if (in->type == WIRE_HELLO)
		on_hello(f, c, in);
	else if (in->type == WIRE_REGISTER)
		on_register(f, c, in);
	else if (in->type == WIRE_JOIN)
		on_join(f, c, in);
	else if (in->type == WIRE_RESTORE)
		on_restore(f, c, in);
	else if (in->type == WIRE_RETURN)
		on_return(f, in);
	else if (in->type == WIRE_BYE)
		answer(c, WIRE_BYE, in->seq, NULL, NULL, 0);
}

/* ---- the thread ---- */

static void hang_up(struct conn *c)
{
	if (c->sock >= 0)
		close(c->sock);
	*c = (struct conn){.sock = -1};
}

static void welcome_connection(struct fake *f)
{
	int sock = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
	for (int i = 0; sock >= 0 && i < CONNS; i++) {
		if (f->conns[i].sock >= 0)
			continue;
		f->conns[i] = (struct conn){.sock = sock};
		return;
	}
	cleanup_close(&sock);
}

static void drop_all(struct fake *f)
{
	cleanup_close(&f->listener);
	cleanup_close(&f->doorbell);
	f->listener = f->doorbell = -1;
	for (int i = 0; i < CONNS; i++)
		hang_up(&f->conns[i]);
	for (uint32_t r = 0; r < f->world; r++) {
		memory_drop(&f->memory[r]);
		registration_free(&f->regs[r]);
		f->registered[r] = false;
	}
}

static void *serve(void *arg)
{
	struct fake *f = arg;
	static struct frame in;
	pthread_mutex_lock(&f->lock);
	while (!f->stop) {
		struct pollfd fds[CONNS + 2] = {{.fd = f->wake, .events = POLLIN},
						{.fd = f->listener, .events = POLLIN}};
		for (int i = 0; i < CONNS; i++)
			fds[i + 2] = (struct pollfd){.fd = f->conns[i].sock, .events = POLLIN};
		pthread_mutex_unlock(&f->lock);
		poll(fds, CONNS + 2, -1);
		pthread_mutex_lock(&f->lock);
		uint64_t count;
		ssize_t ignored = read(f->wake, &count, sizeof(count));
		(void)ignored;
		if (f->dying) {
			drop_all(f);
			f->dying = f->alive = false;
			pthread_cond_broadcast(&f->changed);
		}
		if (!f->alive)
			continue;
		if (fds[1].revents && fds[1].fd == f->listener)
			welcome_connection(f);
		for (int i = 0; i < CONNS; i++) {
			struct conn *c = &f->conns[i];
			if (c->sock < 0 || c->sock != fds[i + 2].fd || !fds[i + 2].revents)
				continue;
			int rc = channel_recv(c->sock, &in, 0);
			if (!rc) {
				dispatch(f, c, &in);
				frame_free(&in);
			} else if (rc != -EAGAIN) {
				hang_up(c);
			}
		}
		pthread_cond_broadcast(&f->changed);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

static void nudge(struct fake *f)
{
	uint64_t one = 1;
	ssize_t ignored = write(f->wake, &one, sizeof(one));
	(void)ignored;
}

struct fake *fake_start(uint32_t world)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct err err = {0};
	f->world = world;
	f->epoch = 1;
	snprintf(f->dir, sizeof(f->dir), "/tmp/ckpt-fake-XXXXXX");
	if (!mkdtemp(f->dir))
		abort();
	snprintf(f->path, sizeof(f->path), "%s/ckptd.sock", f->dir);
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	for (int i = 0; i < CONNS; i++)
		f->conns[i].sock = -1;
	f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->listener = channel_listen(f->path, &err);
	cr_assert_geq(f->listener, 0, "%s", err.text);
	f->alive = true;
	pthread_create(&f->thread, NULL, serve, f);
	return f;
}

void fake_stop(struct fake *f)
{
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	nudge(f);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	drop_all(f);
	close(f->wake);
	unlink(f->path);
	rmdir(f->dir);
	free(f);
}

const char *fake_socket(const struct fake *f)
{
	return f->path;
}

void fake_manners(struct fake *f, const struct fake_manners *manners)
{
	LOCK_SCOPE(&f->lock);
	f->manners = *manners;
}

void fake_let_join(struct fake *f)
{
	LOCK_SCOPE(&f->lock);
	f->manners.hold_join = false;
	try_join(f);
}

void fake_let_register(struct fake *f)
{
	LOCK_SCOPE(&f->lock);
	f->manners.hold_register = false;
	try_arenas(f);
}

void fake_let_restore(struct fake *f)
{
	LOCK_SCOPE(&f->lock);
	f->manners.hold_restore = false;
	try_restore(f);
}

void fake_die(struct fake *f)
{
	LOCK_SCOPE(&f->lock);
	f->dying = true;
	nudge(f);
	/* By the thread itself: while it polls a socket, closing it here would leave it open. */
	while (f->dying)
		pthread_cond_wait(&f->changed, &f->lock);
}

void fake_live(struct fake *f)
{
	fake_live_in(f, 1);
}

void fake_live_in(struct fake *f, uint32_t epoch)
{
	LOCK_SCOPE(&f->lock);
	struct err err = {0};
	f->epoch = epoch;
	f->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->listener = channel_listen(f->path, &err);
	cr_assert_geq(f->listener, 0, "%s", err.text);
	f->alive = true;
	nudge(f);
}

static void await(struct fake *f, const unsigned *count, unsigned n, const char *what)
{
	LOCK_SCOPE(&f->lock);
	uint64_t deadline = soon();
	struct timespec until = {.tv_sec = (time_t)(deadline / CLOCK_NS_PER_S),
				 .tv_nsec = (long)(deadline % CLOCK_NS_PER_S)};
	while (*count < n)
		if (pthread_cond_clockwait(&f->changed, &f->lock, CLOCK_MONOTONIC, &until))
			break;
	cr_assert_geq(*count, n, "%u of %u %s", *count, n, what);
}

void fake_await_hellos(struct fake *f, unsigned n)
{
	await(f, &f->welcomed, n, "welcomes");
}

void fake_await(struct fake *f, enum wire_type type, unsigned n)
{
	await(f, &f->seen[type], n, wire_name(type));
}

unsigned fake_count(struct fake *f, enum wire_type type)
{
	LOCK_SCOPE(&f->lock);
	return f->seen[type];
}

static void tell_all(struct fake *f, enum wire_type type, const struct wbuf *body)
{
	LOCK_SCOPE(&f->lock);
	for (int i = 0; i < CONNS; i++)
		if (f->conns[i].sock >= 0)
			answer(&f->conns[i], type, 0, body, NULL, 0);
}

void fake_epoch(struct fake *f, uint32_t epoch, const char *reason)
{
	struct wire_epoch m = {.epoch = epoch};
	AUTO_WBUF struct wbuf body = {0};
	snprintf(m.reason, sizeof(m.reason), "%s", reason);
	wire_epoch_encode(&m, &body);
	fake_epoch_quietly(f, epoch);
	for (uint32_t r = 0; r < f->world; r++)
		if (f->memory[r].base)
			memory_wake(&f->memory[r]);
	tell_all(f, WIRE_EPOCH, &body);
}

void fake_event(struct fake *f, struct step_id id, int rc, const char *text)
{
	struct wire_event m = {.id = id, .rc = rc};
	AUTO_WBUF struct wbuf body = {0};
	snprintf(m.text, sizeof(m.text), "%s", text);
	wire_event_encode(&m, &body);
	tell_all(f, WIRE_EVENT, &body);
}
