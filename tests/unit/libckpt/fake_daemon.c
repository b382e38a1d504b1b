#include "fake_daemon.h"

#include "base/channel.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { CONNS = 16 };

struct conn {
	int sock; /* -1: unused */
	bool greeted, registered, wants_join, wants_restore;
	uint32_t rank, register_seq, join_seq, restore_seq;
	struct wire_join join;
};

struct memory {
	int fd, fd_read;
	uint8_t *base;
	uint64_t size;
	struct registration reg;
	struct layout layout;
};

struct fake {
	char dir[64], path[96];
	uint32_t world, epoch;
	struct fake_manners manners;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop, alive, dying;
	int wake, listener, doorbell;
	struct conn conns[CONNS];
	struct memory memory[FAKE_WORLD_MAX];
	struct registration regs[FAKE_WORLD_MAX]; /* of REGISTER */
	bool registered[FAKE_WORLD_MAX];
	unsigned welcomed, seen[WIRE_TYPE_END];
	struct wire_hello hellos[FAKE_WORLD_MAX];
	struct wire_join joins[FAKE_WORLD_MAX];
};

static uint64_t soon(void)
{
	return clock_deadline(5 * CLOCK_NS_PER_S);
}

/* ---- arenas ---- */

static void memory_drop(struct memory *m)
{
	if (m->base) {
		munmap(m->base, m->size);
		close(m->fd);
		close(m->fd_read);
	}
	registration_free(&m->reg);
	layout_free(&m->layout);
	*m = (struct memory){0};
}

static void memory_map(struct memory *m, int fd)
{
	char path[64];
	struct stat st;
	m->fd = fd;
	fstat(fd, &st);
	m->size = (uint64_t)st.st_size;
	m->base = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	madvise(m->base, m->size, MADV_DONTFORK);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	m->fd_read = open(path, O_RDONLY | O_CLOEXEC);
}

static struct arena_head *head_of(struct memory *m)
{
	return (struct arena_head *)m->base;
}

static void put_table(struct wbuf *table, const struct registration *reg, const struct layout *layout)
{
	AUTO_WBUF struct wbuf bytes = {0};
	registration_encode(reg, &bytes);
	wbuf_u32(table, (uint32_t)bytes.len);
	wbuf_put(table, bytes.data, bytes.len);
	layout_encode(layout, table);
}

static void memory_make(struct fake *f, uint32_t rank, struct layout *layout)
{
	struct memory *m = &f->memory[rank];
	struct arena_plan plan;
	AUTO_WBUF struct wbuf table = {0};
	put_table(&table, &f->regs[rank], layout);
	arena_plan(table.len, layout->nleaves, layout->slot_size, f->hellos[rank].slots, &plan);
	int fd = memfd_create("fake-arena", MFD_CLOEXEC);
	if (ftruncate(fd, (off_t)plan.size))
		abort();
	memory_map(m, fd);
	struct arena_head *h = head_of(m);
	struct digest digest = digest_bytes(table.data, table.len);
	memcpy(m->base + plan.table_at, table.data, table.len);
	h->magic = ARENA_MAGIC, h->version = ARENA_VERSION, h->nslots = f->hellos[rank].slots;
	h->size = plan.size, h->table_at = plan.table_at, h->table_len = table.len, h->leaves_at = plan.leaves_at;
	h->slots_at = plan.slots_at, h->slot_size = layout->slot_size, h->nleaves = layout->nleaves;
	h->table_low = digest.low, h->table_high = digest.high, h->rank = rank, h->world = f->world;
	snprintf(h->job, sizeof(h->job), "%s", f->hellos[rank].job);
	h->epoch = f->epoch;
	m->layout = *layout;
	*layout = (struct layout){0};
}

static void memory_adopt(struct fake *f, uint32_t rank, int fd)
{
	struct memory *m = &f->memory[rank];
	memory_drop(m);
	memory_map(m, fd);
	struct arena_head *h = head_of(m);
	struct rbuf in = rbuf_of(m->base + h->table_at, h->table_len);
	uint32_t len = rbuf_u32(&in);
	struct err err;
	if (registration_decode(rbuf_take(&in, len), len, &m->reg, &err) ||
	    layout_decode(&in, &m->reg, &m->layout, &err))
		abort();
	/* A daemon knows the epoch again from what comes back. */
	f->epoch = max_u64(f->epoch, h->epoch);
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

static void make_arenas(struct fake *f, struct err *err)
{
	const struct registration *regs[FAKE_WORLD_MAX];
	struct layout layouts[FAKE_WORLD_MAX];
	bool there = true;
	for (uint32_t r = 0; r < f->world; r++) {
		regs[r] = &f->regs[r];
		there &= f->memory[r].base != NULL;
	}
	if (there)
		return;
	err->text[0] = 0;
	if (layout_make(regs, f->world, true, LAYOUT_FILE_MAX, layouts, err))
		return;
	for (uint32_t r = 0; r < f->world; r++)
		memory_make(f, r, &layouts[r]);
}

static void try_arenas(struct fake *f)
{
	struct err err = {0};
	for (uint32_t r = 0; r < f->world; r++)
		if (!f->registered[r])
			return;
	make_arenas(f, &err);
	for (int i = 0; i < CONNS; i++) {
		struct conn *c = &f->conns[i];
		if (c->sock < 0 || !c->register_seq)
			continue;
		struct wire_error e = {.rc = -EINVAL};
		snprintf(e.text, sizeof(e.text), "%s", err.text);
		if (err.text[0])
			answer_error(c, c->register_seq, &e);
		else
			send_arenas(f, c);
	}
}

static void on_register(struct fake *f, struct conn *c, const struct frame *in)
{
	struct err err = {0};
	c->register_seq = in->seq;
	if (f->manners.register_.rc) {
		answer_error(c, in->seq, &f->manners.register_);
		return;
	}
	registration_free(&f->regs[c->rank]);
	if (registration_decode(in->body, in->len, &f->regs[c->rank], &err)) {
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
	if (f->manners.join.rc) {
		answer_error(c, in->seq, &f->manners.join);
		return;
	}
	c->join_seq = in->seq;
	c->wants_join = true;
	try_join(f);
}

static void on_restore(struct fake *f, struct conn *c, const struct frame *in)
{
	unsigned n = 0;
	if (f->manners.restore.rc) {
		answer_error(c, in->seq, &f->manners.restore);
		return;
	}
	c->restore_seq = in->seq;
	c->wants_restore = true;
	for (int i = 0; i < CONNS; i++)
		n += f->conns[i].sock >= 0 && f->conns[i].wants_restore;
	if (n < f->world)
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
		if (f->conns[i].sock >= 0 && f->conns[i].wants_restore)
			answer(&f->conns[i], WIRE_RESTORED, f->conns[i].restore_seq, &body, NULL, 0);
		f->conns[i].wants_restore = false;
	}
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
	strcpy(f->dir, "/tmp/ckpt-fake-XXXXXX");
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
	LOCK_SCOPE(&f->lock);
	struct err err = {0};
	f->epoch = 1;
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

bool fake_rang(struct fake *f)
{
	uint64_t count;
	struct pollfd p = {.fd = f->doorbell, .events = POLLIN};
	return poll(&p, 1, 5000) == 1 && read(f->doorbell, &count, sizeof(count)) == sizeof(count);
}

static void wake_rank(struct memory *m)
{
	atomic_fetch_add(&head_of(m)->wake, 1);
	syscall(SYS_futex, &head_of(m)->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void fake_wake(struct fake *f)
{
	for (uint32_t r = 0; r < f->world; r++)
		wake_rank(&f->memory[r]);
}

void fake_epoch_quietly(struct fake *f, uint32_t epoch)
{
	LOCK_SCOPE(&f->lock);
	f->epoch = epoch;
	for (uint32_t r = 0; r < f->world; r++)
		if (f->memory[r].base)
			atomic_store(&head_of(&f->memory[r])->epoch, epoch);
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
			wake_rank(&f->memory[r]);
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

static void write_status(struct arena_status *e, const struct fake_level *level)
{
	uint32_t seq = atomic_load(&e->seq);
	atomic_store(&e->seq, seq + 1);
	atomic_store(&e->epoch, level->id.epoch);
	atomic_store(&e->step, level->id.step);
	atomic_store(&e->level, level->level);
	atomic_store(&e->error, level->error);
	atomic_store(&e->late_rank, level->late_rank);
	atomic_store(&e->late_phase, level->late_phase);
	atomic_store(&e->seq, seq + 2);
}

/* Its own entry, else an unused one, else the oldest. */
static struct arena_status *status_of(struct memory *m, struct step_id id)
{
	struct arena_status *ring = head_of(m)->status, *oldest = &ring[0];
	for (int i = 0; i < ARENA_STATUS; i++)
		if (ring[i].epoch == id.epoch && ring[i].step == id.step)
			return &ring[i];
	for (int i = 0; i < ARENA_STATUS; i++) {
		if (!ring[i].epoch)
			return &ring[i];
		if (ring[i].step < oldest->step)
			oldest = &ring[i];
	}
	return oldest;
}

void fake_publish(struct fake *f, const struct fake_level *level)
{
	for (uint32_t r = 0; r < f->world; r++) {
		write_status(status_of(&f->memory[r], level->id), level);
		wake_rank(&f->memory[r]);
	}
}

void fake_free(struct fake *f, uint32_t rank, uint32_t slot)
{
	atomic_store(&fake_head(f, rank)->slots[slot].state, SLOT_FREE);
	wake_rank(&f->memory[rank]);
}

struct arena_head *fake_head(struct fake *f, uint32_t rank)
{
	return head_of(&f->memory[rank]);
}

uint8_t *fake_slot(struct fake *f, uint32_t rank, uint32_t slot)
{
	struct arena_head *h = fake_head(f, rank);
	return f->memory[rank].base + h->slots_at + slot * h->slot_size;
}

uint64_t *fake_leaves(struct fake *f, uint32_t rank, uint32_t slot)
{
	struct arena_head *h = fake_head(f, rank);
	return (uint64_t *)(f->memory[rank].base + h->leaves_at) + slot * h->nleaves;
}

const struct layout *fake_layout(struct fake *f, uint32_t rank)
{
	return &f->memory[rank].layout;
}

const struct registration *fake_registration(struct fake *f, uint32_t rank)
{
	return &f->regs[rank];
}

struct wire_hello fake_hello(struct fake *f, uint32_t rank)
{
	LOCK_SCOPE(&f->lock);
	return f->hellos[rank];
}

struct wire_join fake_join(struct fake *f, uint32_t rank)
{
	LOCK_SCOPE(&f->lock);
	return f->joins[rank];
}
