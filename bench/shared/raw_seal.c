#include "raw_seal.h"

#include "format/tensor/digest.h"
#include "raw.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TAG = 16, RECORD_MAX = 64 << 10, BUFFER_MAX = 256 << 10 };

/* One run; the child has it by the fork. */
static struct {
	struct seal_shape shape;
	size_t len;
	bool verified;
	int door;
} run;

static const uint8_t key[32] = "a bench's: nothing of it matters";
static volatile uint64_t sum; /* so that digests are made */

static uint8_t *buffer(void)
{
	uint8_t *bytes = malloc(BUFFER_MAX + TAG * (BUFFER_MAX / 4096));
	if (!bytes)
		raw_die("a buffer", ENOMEM);
	return bytes;
}

static EVP_CIPHER_CTX *cipher(bool seals)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	if (!ctx || EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, NULL, seals) != 1)
		raw_die("AES-256-GCM", ENOMEM);
	return ctx;
}

static void begin(EVP_CIPHER_CTX *ctx, size_t at)
{
	uint8_t nonce[12] = {0};
	memcpy(nonce, &at, sizeof(at));
	if (EVP_CipherInit_ex(ctx, NULL, NULL, NULL, nonce, -1) != 1)
		raw_die("a nonce", EIO);
}

static void seal(EVP_CIPHER_CTX *ctx, size_t at, uint8_t *out)
{
	int n, last, len = (int)run.shape.record;
	begin(ctx, at);
	if (EVP_EncryptUpdate(ctx, out, &n, raw_from + at, len) != 1 || EVP_EncryptFinal_ex(ctx, out + n, &last) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, out + len) != 1)
		raw_die("a record", EIO);
}

static void unseal(EVP_CIPHER_CTX *ctx, size_t at, uint8_t *in)
{
	int n, last, len = (int)run.shape.record;
	uint8_t *out = run.shape.copied ? in : raw_to + at;
	begin(ctx, at);
	if (EVP_DecryptUpdate(ctx, out, &n, in, len) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG, in + len) != 1 ||
	    EVP_DecryptFinal_ex(ctx, out + n, &last) != 1)
		raw_die("a record that was received", EIO);
	if (run.shape.copied)
		memcpy(raw_to + at, in, run.shape.record);
	if (run.verified)
		sum += digest_leaf(raw_to + at, run.shape.record);
}

/* Bytes of a buffer's records that begin at `at`. */
static size_t filled(size_t at)
{
	size_t left = run.len - at;
	return left < run.shape.buffer ? left : run.shape.buffer;
}

static size_t sealed_size(size_t len)
{
	return len + len / run.shape.record * TAG;
}

static void receiver(int out)
{
	EVP_CIPHER_CTX *ctx = cipher(false);
	uint8_t *in = buffer();
	int fd = accept(run.door, NULL, NULL);
	raw_tell(out, &(struct raw_hello){.address.len = 0}, raw_to);
	for (size_t at = 0, n; at < run.len; at += n) {
		n = filled(at);
		if (recv(fd, in, sealed_size(n), MSG_WAITALL) != (ssize_t)sealed_size(n))
			_exit(1);
		for (size_t i = 0; i < n; i += run.shape.record)
			unseal(ctx, at + i, in + sealed_size(i));
	}
	if (write(fd, "", 1) != 1)
		_exit(1);
	pause();
}

static void send_all(int fd, const uint8_t *bytes, size_t len)
{
	for (ssize_t n; len; bytes += n, len -= (size_t)n)
		if ((n = send(fd, bytes, len, MSG_NOSIGNAL)) <= 0)
			raw_die("a connection", errno);
}

/* The two ends of a connection, of which the door's is to be accepted. */
static int connection(void)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(here);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	run.door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(run.door, (struct sockaddr *)&here, len) || listen(run.door, 1) ||
	    getsockname(run.door, (struct sockaddr *)&here, &len) || connect(fd, (struct sockaddr *)&here, len))
		raw_die("a connection", errno);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

double raw_seal_run(const struct seal_shape *shape, size_t len, bool verified)
{
	int in, fd;
	char done;
	EVP_CIPHER_CTX *ctx = cipher(true);
	uint8_t *out = buffer();
	run.shape = *shape;
	run.len = len;
	run.verified = verified;
	fd = connection();
	pid_t pid = raw_start(receiver, &in);
	raw_hear(in);
	raw_begin();
	for (size_t at = 0, n; at < len; at += n) {
		n = filled(at);
		for (size_t i = 0; i < n; i += shape->record)
			seal(ctx, at + i, out + sealed_size(i));
		send_all(fd, out, sealed_size(n));
	}
	if (recv(fd, &done, 1, 0) != 1)
		raw_die("the bare loop that seals", ECONNRESET);
	double speed = raw_speed(len);
	raw_end(pid, in);
	close(fd);
	close(run.door);
	free(out);
	EVP_CIPHER_CTX_free(ctx);
	raw_compare("the bare loop that seals", raw_to, len);
	return speed;
}

struct seal_shape raw_seal_best(bool verified)
{
	static const size_t records[] = {16 << 10, 64 << 10}, buffers[] = {64 << 10, 128 << 10, 256 << 10};
	struct seal_shape best = {0};
	double most = 0;
	for (unsigned i = 0; i < 12; i++) {
		struct seal_shape shape = {records[i % 2], buffers[i / 2 % 3], i < 6};
		double one = raw_seal_run(&shape, raw_size / 4, verified),
		       two = raw_seal_run(&shape, raw_size / 4, verified), speed = one > two ? one : two;
		printf("sealing: records of %zu KiB, buffers of %zu KiB, %s: %.2f GB/s\n", shape.record >> 10,
		       shape.buffer >> 10, shape.copied ? "opened in place" : "opened to their place", speed);
		if (speed > most) {
			most = speed;
			best = shape;
		}
	}
	return best;
}
