#include "cluster/link/key.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char hex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
static const char base64[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
static struct err err;

Test(key, hexadecimal_and_base64_mean_the_same)
{
	struct key_ring a, b;
	cr_assert_eq(key_parse(hex, strlen(hex), &a, &err), 0, "%s", err.text);
	cr_assert_eq(key_parse(base64, strlen(base64), &b, &err), 0, "%s", err.text);
	cr_assert_eq(a.n, 1);
	cr_assert_eq(b.n, 1);
	cr_assert_arr_eq(a.keys[0], b.keys[0], KEY_BYTES);
	for (unsigned i = 0; i < KEY_BYTES; i++)
		cr_assert_eq(a.keys[0][i], i);
}

Test(key, while_it_is_changed_there_are_two)
{
	static const char two[] = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
				  "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
	struct key_ring ring;
	cr_assert_eq(key_parse(two, strlen(two), &ring, &err), 0, "%s", err.text);
	cr_assert_eq(ring.n, 2);
	cr_assert_eq(ring.keys[0][0], 0xff);
	cr_assert_eq(ring.keys[1][0], 0);
	key_wipe(&ring);
	cr_assert_eq(ring.n, 0);
	cr_assert_eq(ring.keys[0][0], 0);
}

Test(key, what_is_no_key_is_refused_and_not_shown)
{
	static const char *const wrong[] = {
		"",
		"secret-word",
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e",
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20",
		"0000000000000000000000000000000000000000000000000000000000000000",
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=x",
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh==",
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\nsecond",
		"ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f "
		"fe0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f "
		"fd0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
	};
	struct key_ring key;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(key_parse(wrong[i], strlen(wrong[i]), &key, &err), -EINVAL, "%s", wrong[i]);
		cr_assert(strstr(err.text, "32 random bytes"));
		cr_assert(!wrong[i][0] || !strstr(err.text, wrong[i]));
	}
}

Test(key, a_file_that_others_can_reach_is_refused)
{
	static const struct {
		mode_t mode;
		int rc;
	} modes[] = {{0600, 0}, {0400, 0}, {0640, -EACCES}, {0604, -EACCES}, {0620, -EACCES}, {0601, -EACCES}};
	char dir[SCRATCH_MAX], path[SCRATCH_MAX + 8];
	struct key_ring key;
	scratch_new(dir);
	snprintf(path, sizeof(path), "%s/key", dir);
	cr_assert_eq(key_read(path, &key, &err), -ENOENT);
	cr_assert(strstr(err.text, path) && strstr(err.text, "/dev/urandom"), "%s", err.text);
	scratch_write(dir, "key", hex, strlen(hex));
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		cr_assert_eq(chmod(path, modes[i].mode), 0);
		cr_assert_eq(key_read(path, &key, &err), modes[i].rc, "%04o: %s", modes[i].mode, err.text);
	}
	if (!geteuid()) {
		cr_assert_eq(chmod(path, 0600), 0);
		cr_assert_eq(chown(path, 4711, 4711), 0);
		cr_assert_eq(key_read(path, &key, &err), -EACCES);
	}
	cr_assert_eq(key_read(dir, &key, &err), -EINVAL);
	scratch_remove(dir);
}
