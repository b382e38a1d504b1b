#include "cluster/net/key.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

enum { KEY_FILE_MAX = 256 };

#define HOW_TO "make one with: (umask 077; head -c 32 /dev/urandom | base64 > FILE)"

int key_parse(const char *text, size_t len, uint8_t key[KEY_BYTES], struct err *err)
{
	uint8_t raw[KEY_FILE_MAX];
	size_t n = 0;
	const char *end = NULL;
	while (len && isspace((unsigned char)text[len - 1]))
		len--;
	while (len && isspace((unsigned char)*text))
		text++, len--;
	bool hex = !sodium_hex2bin(raw, sizeof(raw), text, len, NULL, &n, &end) && end == text + len;
	bool ok = hex ||
		  (!sodium_base642bin(raw, sizeof(raw), text, len, NULL, &n, &end, sodium_base64_VARIANT_ORIGINAL) &&
		   end == text + len);
	ok = ok && n == KEY_BYTES && !sodium_is_zero(raw, n);
	if (ok)
		memcpy(key, raw, KEY_BYTES);
	sodium_memzero(raw, sizeof(raw));
	if (ok)
		return 0;
	return err_set(err, -EINVAL, "it is not %d random bytes in hexadecimal or base64; " HOW_TO, KEY_BYTES);
}

static int check_owner(int fd, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "%s", err_name(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "it is not a file");
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, -EACCES, "it belongs to user %u, who could change it: chown it to user %u or root",
			       st.st_uid, geteuid());
	if (st.st_mode & 077)
		return err_set(err, -EACCES, "its mode is %04o, so that others can reach it: chmod 600 it",
			       st.st_mode & 07777);
	return 0;
}

int key_read(const char *path, uint8_t key[KEY_BYTES], struct err *err)
{
	char text[KEY_FILE_MAX];
	ssize_t n = 0;
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc = fd < 0 ? err_set(err, -errno, "%s; " HOW_TO, err_name(errno)) : check_owner(fd, err);
	if (!rc && (n = read(fd, text, sizeof(text))) < 0)
		rc = err_set(err, -errno, "%s", err_name(errno));
	if (!rc)
		rc = key_parse(text, (size_t)n, key, err);
	sodium_memzero(text, sizeof(text));
	return rc ? err_prefix(err, rc, "cluster key %s", path) : 0;
}
