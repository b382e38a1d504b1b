/* Every error that ckpt.h lists with a function, beside those of wrong arguments (test_arguments.c): that it has a sentence which a person can use,
 * and that what the daemon says of it is not lost on the way. tests/tidy/test_arguments.py finds what is missing. */
#include "ranks.h"
#include "refusals.h"

#include "base/cleanup.h"
#include "client/session/session.h"
#include "format/arena/schedule.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct ranks c;
static ckpt *s; /* of rank 0 of 1 */
static char why[512];

static void open_one(void)
{
	ranks_open(&c, 1, NULL);
	s = c.s[0];
}

static void join_one(void)
{
	ranks_up(&c, 1, NULL);
	s = c.s[0];
}

static void close_all(void)
{
	ranks_down(&c);
}

TestSuite(errors, .init = open_one, .fini = close_all);
TestSuite(errors_joined, .init = join_one, .fini = close_all);

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static int open_at(const char *socket)
{
	ckpt *none = s;
	ckpt_options o = {.size = sizeof(o), .socket = socket, .world = 1, .timeout_ms = 60};
	int rc = ckpt_open(&o, &none, why, sizeof(why));
	cr_assert_null(none);
	return rc;
}

/* What the daemon answers. */
static int open_answered(int rc, const char *text)
{
	struct fake_manners manners = {.hello.rc = rc};
	snprintf(manners.hello.text, sizeof(manners.hello.text), "%s", text);
	fake_manners(c.f, &manners);
	return open_at(fake_socket(c.f));
}

static int open_of_another_protocol(void)
{
	fake_manners(c.f, &(struct fake_manners){.protocol = 9});
	return open_at(fake_socket(c.f));
}

static int open_forbidden(void)
{
	uid_t root = geteuid();
	cr_assert_eq(chmod(fake_socket(c.f), 0), 0);
	cr_assert_eq(root ? 0 : seteuid(65534), 0);
	int rc = open_at(fake_socket(c.f));
	cr_assert_eq(root ? 0 : seteuid(root), 0);
	return rc;
}

static int open_without_descriptors(void)
{
	struct rlimit usual;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
	struct rlimit none = {.rlim_cur = 3, .rlim_max = usual.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	int rc = open_at(fake_socket(c.f));
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
	return rc;
}

Test(errors, of_open)
{
	REFUSES_IN_WHY(open_at("/tmp/ckpt-nobody-here.sock"), -ENOTCONN, "no daemon listens at /tmp/ckpt-nobody-here");
	REFUSES_IN_WHY(open_of_another_protocol(), -EPROTONOSUPPORT, "protocol 9");
	REFUSES_IN_WHY(open_answered(-EBUSY, "rank 0 is held by process 77"), -EBUSY, "held by process 77");
	REFUSES_IN_WHY(open_answered(-EOPNOTSUPP, "this daemon is in no cluster"), -EOPNOTSUPP, "in no cluster");
	REFUSES_IN_WHY(open_forbidden(), -EACCES, "belongs to another user");
	REFUSES_IN_WHY(open_without_descriptors(), -EMFILE, "no file descriptor left");
}

/* The sentence goes to stderr, as a line of the log. */
static int close_logged(void)
{
	AUTO_CLOSE int log = memfd_create("stderr", MFD_CLOEXEC), usual = dup(STDERR_FILENO);
	cr_assert(log >= 0 && usual >= 0 && dup2(log, STDERR_FILENO) >= 0);
	int rc = ckpt_close(s);
	c.s[0] = NULL;
	cr_assert_geq(dup2(usual, STDERR_FILENO), 0);
	cr_assert_geq(pread(log, why, sizeof(why) - 1, 0), 0);
	why[strcspn(why, "\n")] = 0;
	return rc;
}

Test(errors_joined, of_close_in_an_epoch_that_others_began)
{
	ranks_save(&c, 7, CKPT_STORAGE);
	fake_epoch(c.f, 2, "rank 1 was replaced");
	REFUSES_IN_WHY(close_logged(), -ESTALE, "step 7");
}

Test(errors_joined, of_close_before_a_save_is_durable)
{
	ranks_save(&c, 7, CKPT_STORAGE);
	s->settings.timeout_ms = 50;
	REFUSES_IN_WHY(close_logged(), -ETIMEDOUT, "step 7: not durable");
}

static int close_in_a_child(void)
{
	int out[2], status;
	cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		int rc = ckpt_close(s);
		const char *text = ckpt_error(s);
		_exit(write(out[1], text, strlen(text) + 1) < 0 ? 0 : -rc);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_gt(read(out[0], why, sizeof(why)), 0);
	close(out[0]);
	close(out[1]);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : 0;
}

Test(errors_joined, of_close_in_a_child)
{
	REFUSES_IN_WHY(close_in_a_child(), -ECHILD, "parent");
}

/* ---- registration and join --------------------------------------------------------------------------------------- */

static float data[64];

static int put(const char *name, uint64_t elements, int npieces, const ckpt_piece *pieces)
{
	ckpt_tensor t = {.size = sizeof(t),
			 .name = name,
			 .dtype = CKPT_F32,
			 .ndim = 1,
			 .shape = &elements,
			 .npieces = npieces,
			 .pieces = pieces,
			 .device = CKPT_HOST};
	return ckpt_register_tensor(s, &t);
}

Test(errors, of_registering_too_much)
{
	char name[16];
	for (int i = 0; i < 1048576; i++) {
		snprintf(name, sizeof(name), "%d", i);
		cr_assert_eq(ckpt_register_blob(s, name, CKPT_SCOPE_JOB, data, 4), 0);
	}
	REFUSES(ckpt_register_blob(s, "b", CKPT_SCOPE_JOB, data, 4), -E2BIG, "at most 1048576 tensors and blobs");
	REFUSES(ckpt_register_sized_blob(s, "b", CKPT_SCOPE_JOB, 4), -E2BIG, "at most 1048576 tensors and blobs");
	REFUSES(put("w", 64, 1, &(ckpt_piece){.data = data}), -E2BIG, "at most 1048576 tensors and blobs");
}

Test(errors, of_join_with_pieces_that_overlap)
{
	cr_assert_eq(put("w", 8, 2, (ckpt_piece[]){{.data = data, .count = 5}, {.data = data, .start = 4, .count = 4}}),
		     0);
	REFUSES(ckpt_join(s, NULL, 0, NULL, -1), -EEXIST, "\"w\": pieces 0 and 1 overlap");
}

Test(errors, of_join_with_a_part_that_nobody_holds)
{
	cr_assert_eq(put("w", 8, 1, &(ckpt_piece){.data = data, .count = 5}), 0);
	REFUSES(ckpt_join(s, NULL, 0, NULL, -1), -ENODATA, "tensor \"w\"");
}

Test(errors, of_join_with_more_bytes_than_can_be)
{
	cr_assert_eq(put("w", 1ull << 58, 1, &(ckpt_piece){.data = data}), 0);
	cr_assert_eq(put("v", 1ull << 58, 1, &(ckpt_piece){.data = data}), 0);
	REFUSES(ckpt_join(s, NULL, 0, NULL, -1), -EOVERFLOW, "2^60 bytes");
}

static int open_no_gpu(int ordinal, struct device **out, struct err *err)
{
	(void)out;
	return ordinal == DEVICE_HOST ? 0 : err_set(err, -ENODEV, "there is no GPU %d", ordinal);
}

static void close_no_gpu(struct device *dev)
{
	(void)dev;
}

Test(errors, of_join_with_a_device_that_is_not_there)
{
	static const struct device_ops absent = {.name = "absent", .open = open_no_gpu, .close = close_no_gpu};
	s->layers.cuda = &absent;
	cr_assert_eq(ckpt_register_device_blob(s, "b", CKPT_SCOPE_RANK, data, 4, 3), 0);
	REFUSES(ckpt_join(s, NULL, 0, NULL, -1), -ENODEV, "no GPU 3");
}

static int join_answered(int rc, const char *text)
{
	struct fake_manners manners = {.register_.rc = rc};
	snprintf(manners.register_.text, sizeof(manners.register_.text), "%s", text);
	fake_manners(c.f, &manners);
	return ckpt_join(s, NULL, 0, NULL, 100);
}

Test(errors, of_join_by_the_daemon)
{
	REFUSES(join_answered(-ENOMEM, "3 slots of 4 GiB do not fit 8 GiB"), -ENOMEM, "do not fit");
	REFUSES(join_answered(-EAGAIN, "step 5 is still being written"), -EAGAIN, "still being written");
	REFUSES(join_answered(-E2BIG, "the tables have too many pieces"), -E2BIG, "too many pieces");
	fake_manners(c.f, &(struct fake_manners){.silent = true});
	REFUSES(ckpt_join(s, NULL, 0, NULL, 30), -ETIMEDOUT, "within 30 ms");
}

Test(errors, of_join_with_another_world)
{
	close_all();
	ranks_up(&c, 2, NULL);
	s = c.s[1];
	cr_assert_eq(ckpt_close(c.s[0]), 0);
	c.s[0] = NULL;
	fake_epoch(c.f, 2, "rank 0 is lost for good");
	fake_shrink(c.f, 1);
	REFUSES(ckpt_join(s, NULL, 0, NULL, -1), -EREMCHG, "world size 1, this process is rank 0");
}

/* ---- saves ------------------------------------------------------------------------------------------------------- */

Test(errors_joined, of_begin_and_of_waiting_for_a_slot)
{
	ckpt_snapshot *snap;
	for (uint64_t step = 100; step < 103; step++)
		ranks_save(&c, step, CKPT_MEMORY);
	REFUSES(ckpt_begin(s, 103, CKPT_MEMORY, NULL, &snap), -EBUSY, "step 101 (not seen");
	REFUSES(ckpt_wait_slot(s, 20), -ETIMEDOUT, "step 101 (not seen");
}

Test(errors_joined, of_begin_after_a_restore_that_failed_half_way)
{
	ckpt_snapshot *snap;
	ranks_save(&c, 50, CKPT_MEMORY);
	uint32_t slot = ranks_slot(&c, 0, 50);
	fake_slot(c.f, 0, slot)[5] ^= 1;
	fake_manners(c.f, &(struct fake_manners){
				  .restored = {.step = 50, .epoch = 1, .source = WIRE_FROM_MEMORY, .slots = {slot}}});
	REFUSES(ckpt_restore(s, 50, NULL, NULL, -1), -EBADMSG, "step 50");
	REFUSES(ckpt_begin(s, 60, CKPT_MEMORY, NULL, &snap), -EPERM, "restore");
}

Test(errors_joined, of_a_fence_behind_the_next_save)
{
	ckpt_snapshot *first, *second;
	cr_assert_eq(ckpt_begin(s, 1, CKPT_MEMORY, NULL, &first), 0);
	cr_assert_eq(ckpt_begin(s, 2, CKPT_MEMORY, NULL, &second), 0);
	REFUSES(ckpt_fence(first, NULL), -ECANCELED, "step 1: ");
	ckpt_snapshot_free(first);
	ckpt_snapshot_free(second);
}

static const struct device_ops *host;
static int fence_answer;

/* The host's, whose answer is another one. */
static int fence_and_fail(struct plan *plan, uint32_t group, void *stream, uint64_t deadline, uint64_t *bad_leaf,
			  struct err *err)
{
	int rc = host->plan_fence(plan, group, stream, deadline, bad_leaf, err);
	*bad_leaf = 0;
	return !rc && fence_answer ? err_set(err, fence_answer, "the device failed") : rc;
}

static int fence_of_a_capture(uint64_t step, int answer)
{
	ckpt_snapshot *snap;
	fence_answer = answer;
	cr_assert_eq(ckpt_begin(s, step, CKPT_MEMORY, NULL, &snap), 0, "%s", ckpt_error(s));
	int rc = ckpt_fence(snap, NULL);
	fence_answer = 0;
	ckpt_snapshot_free(snap);
	return rc;
}

Test(errors, of_a_fence_whose_capture_fails)
{
	static struct device_ops failing;
	host = s->layers.host;
	failing = *host;
	failing.plan_fence = fence_and_fail;
	s->layers.host = &failing;
	ranks_register(&c);
	ranks_join(&c);
	REFUSES(fence_of_a_capture(1, -EIO), -EIO, "step 1: the device failed");
	REFUSES(fence_of_a_capture(2, -EBADMSG), -EBADMSG,
		"step 2: the state was changed while it was captured: tensor ");
	REFUSES(fence_of_a_capture(3, -ETIMEDOUT), -ETIMEDOUT, "step 3: not captured after ");
}

/* What ends a save to storage, as the daemon tells. */
static int wait_ended(int rc, const char *text)
{
	static uint64_t step;
	ckpt_snapshot *snap;
	cr_assert_eq(ckpt_begin(s, ++step, CKPT_STORAGE, NULL, &snap), 0, "%s", ckpt_error(s));
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	fake_event(c.f, (struct step_id){step, 1}, rc, text);
	fake_publish(c.f, &(struct fake_level){.id = {step, 1}, .level = LEVEL_CAPTURED, .error = rc});
	int said = ckpt_wait(snap, CKPT_DURABLE, 5000);
	fake_free(c.f, 0, ranks_slot(&c, 0, step));
	ckpt_snapshot_free(snap);
	return said;
}

Test(errors_joined, of_waiting)
{
	REFUSES(wait_ended(-EIO, "cannot write /store/x"), -EIO, "cannot write /store/x");
	REFUSES(wait_ended(-ENOSPC, "no space in /store"), -ENOSPC, "no space in /store");
	REFUSES(wait_ended(-EBADMSG, "rank 0: leaf 3 is torn"), -EBADMSG, "leaf 3 is torn");
	REFUSES(wait_ended(-EUCLEAN, "replicas of w differ: rank 1"), -EUCLEAN, "replicas of w differ");
	REFUSES(wait_ended(-ECANCELED, "step 9 took its place"), -ECANCELED, "step 9 took its place");
	REFUSES(wait_ended(-EALREADY, "saved again in epoch 2"), -EALREADY, "saved again in epoch 2");
	REFUSES(wait_ended(-EOPNOTSUPP, "passed over by persist-every"), -EOPNOTSUPP, "persist-every");
	REFUSES(wait_ended(-EBUSY, "refused by save-policy"), -EBUSY, "save-policy");
}

Test(errors_joined, of_waiting_for_what_does_not_come)
{
	ckpt_snapshot *snap;
	cr_assert_eq(ckpt_begin(s, 1, CKPT_STORAGE, NULL, &snap), 0);
	cr_assert_eq(ckpt_fence(snap, NULL), 0);
	REFUSES(ckpt_wait(snap, CKPT_DURABLE, 20), -ETIMEDOUT, "step 1: not durable after 20 ms: waiting for");
	fake_epoch(c.f, 2, "rank 1 died");
	REFUSES(ckpt_wait(snap, CKPT_DURABLE, 5000), -ESTALE, "epoch 2 has begun");
	ckpt_snapshot_free(snap);
}

Test(errors_joined, of_asking_what_is_due)
{
	struct arena_head *head = fake_head(c.f, 0);
	struct schedule next = {0};
	s->settings.timeout_ms = 30;
	REFUSES(ckpt_due(s, 5), -EOPNOTSUPP, "the daemon is older than this call: decide by step");
	atomic_store(&head->schedules_kept, 1);
	REFUSES(ckpt_due(s, 5), -ETIMEDOUT, "step 5: nothing is decided yet");
	next = schedule_next(&next, 1, 5, 16, 0, 0);
	schedule_put(head, &next);
	REFUSES(ckpt_due(s, 5), -EOPNOTSUPP, "interval is not auto");
	for (unsigned i = 0; i < ARENA_SCHEDULES; i++) {
		next = schedule_next(&next, 1, next.until, 16, 4, 8);
		schedule_put(head, &next);
	}
	REFUSES(ckpt_due(s, 5), -ERANGE, "step 5: what was due then is not kept any more");
}

/* ---- restores and marks ------------------------------------------------------------------------------------------ */

static int restore_answered(int rc, const char *text)
{
	struct fake_manners manners = {.restore.rc = rc};
	snprintf(manners.restore.text, sizeof(manners.restore.text), "%s", text);
	fake_manners(c.f, &manners);
	return ckpt_restore(s, CKPT_LATEST, NULL, NULL, -1);
}

Test(errors_joined, of_restores)
{
	REFUSES(restore_answered(-ENOENT, "there is no checkpoint"), -ENOENT, "there is no checkpoint");
	REFUSES(restore_answered(-ENODATA, "none of step 7"), -ENODATA, "none of step 7");
	REFUSES(restore_answered(-EINVAL, "tensor w: wants F32"), -EINVAL, "tensor w: wants F32");
	REFUSES(restore_answered(-EPROTONOSUPPORT, "of format 9"), -EPROTONOSUPPORT, "of format 9");
	REFUSES(restore_answered(-EBADMSG, "no intact copy is left"), -EBADMSG, "no intact copy is left");
	REFUSES(restore_answered(-EIO, "the store cannot be read"), -EIO, "the store cannot be read");
}

Test(errors_joined, of_a_mark_without_a_daemon)
{
	fake_die(c.f);
	REFUSES(ckpt_mark(s, 1, 1, CKPT_HEALTHY, NULL, 1000), -ENOTCONN, "daemon");
	fake_live(c.f);
}
