#include "cluster/link/credentials.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "cluster/link/key.h"
#include "cluster/link/vault.h"
#include "cluster/roster.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CIPHER "TLS_AES_256_GCM_SHA384"
static const unsigned char cipher_number[] = {0x13, 0x02};
/* To OpenSSL a PSK is a session that is resumed, and that must be of this use of it. */
static const unsigned char context[] = {'c', 'k', 'p', 't'};

enum {
	NOBODY = ROSTER_NODES_MAX,
	PSK_BYTES = 48,
	KEY_NAME_BYTES = 8,
	IDENTITY_MAX = 32 + 2 * KEY_NAME_BYTES + 2 * NAME_NODE_MAX,
	CHAIN_MAX = 24 << 10, /* bytes of the other's certificates; OpenSSL buys them before it has seen one */
	PSK_HEADS = 4,        /* the lengths of all identities, and of the first */
	IDENTITIES_MAX = 2,   /* that are looked for in a call: who belongs to the cluster has one */
};

struct credentials {
	SSL_CTX *ctx;
	const struct roster *roster;
	unsigned self;
	struct key_ring *ring;                            /* in pages of its own (vault.h); NULL: certificates */
	char key_names[KEYS_MAX][2 * KEY_NAME_BYTES + 1]; /* which say which key is meant, without telling it */
};

/* Of a connection: who its other end says it is, and whether it could not say so without the cluster's key. */
struct claim {
	const struct credentials *by;
	unsigned node;
	int claimed; /* by a caller that has not proved it */
	bool met, known;
	unsigned identities;         /* that its caller has claimed */
	unsigned key;                /* of ours, with which we call */
	char identity[IDENTITY_MAX]; /* of a PSK that we use */
};

static int claim_index, owner_index;

/* ---- what is derived from a key ---------------------------------------------------------------------------------- */

static bool derive(const uint8_t key[KEY_BYTES], const char *text, uint8_t out[PSK_BYTES])
{
	size_t n = 0;
	return EVP_Q_mac(NULL, "HMAC", NULL, "SHA384", NULL, key, KEY_BYTES, (const unsigned char *)text, strlen(text),
			 out, PSK_BYTES, &n) &&
	       n == PSK_BYTES;
}

static bool name_key(const uint8_t key[KEY_BYTES], char name[2 * KEY_NAME_BYTES + 1])
{
	uint8_t mac[PSK_BYTES];
	if (!derive(key, "ckpt key name", mac))
		return false;
	for (unsigned i = 0; i < KEY_NAME_BYTES; i++)
		snprintf(name + 2 * i, 3, "%02x", mac[i]);
	return true;
}

/* Names have no blanks: no two pairs of nodes have the same. */
static bool make_identity(const char *key_name, const char *caller, const char *callee, char out[IDENTITY_MAX])
{
	return snprintf(out, IDENTITY_MAX, "ckpt1 %s %s %s", key_name, caller, callee) < IDENTITY_MAX;
}

/* The identity has both ends' names: its PSK is theirs alone, and of this direction. */
static SSL_SESSION *make_psk(SSL *ssl, const uint8_t key[KEY_BYTES], const char *identity)
{
	uint8_t psk[PSK_BYTES];
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_number);
	SSL_SESSION *session = SSL_SESSION_new();
	bool ok = session && cipher && derive(key, identity, psk) &&
		  SSL_SESSION_set1_master_key(session, psk, sizeof(psk)) &&
		  SSL_SESSION_set1_id_context(session, context, sizeof(context)) &&
		  SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
	OPENSSL_cleanse(psk, sizeof(psk));
	if (ok)
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static int use_psk(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *idlen, SSL_SESSION **out)
{
	const struct claim *claim = SSL_get_ex_data(ssl, claim_index);
	(void)md; /* there is one cipher */
	*out = make_psk(ssl, claim->by->ring->keys[claim->key], claim->identity);
	*id = (const unsigned char *)claim->identity;
	*idlen = strlen(claim->identity);
	return *out != NULL;
}

/* The third word of an identity that is not proved: a node of the roster, or -ENOENT. */
static int find_caller(const struct credentials *c, const unsigned char *identity, size_t len)
{
	char text[IDENTITY_MAX], caller[NAME_NODE_MAX];
	if (len >= sizeof(text) || memchr(identity, 0, len))
		return -ENOENT;
	memcpy(text, identity, len);
	text[len] = 0;
	if (sscanf(text, "ckpt1 %*s %63s", caller) != 1)
		return -ENOENT;
	return roster_find(c->roster, caller);
}

/* What is not found is not our cluster's: the handshake fails. A stranger may claim thousands of identities in one call: looking for one is cheap,
 * and for more than a few is not done. */
static int find_psk(SSL *ssl, const unsigned char *identity, size_t len, SSL_SESSION **out)
{
	struct claim *claim = SSL_get_ex_data(ssl, claim_index);
	const struct credentials *c = claim->by;
	const struct roster_node *nodes = c->roster->nodes;
	char want[IDENTITY_MAX];
	*out = NULL;
	if (++claim->identities > IDENTITIES_MAX)
		return 0;
	int caller = find_caller(c, identity, len);
	for (unsigned k = 0; caller >= 0 && !*out && k < c->ring->n; k++)
		if (make_identity(c->key_names[k], nodes[caller].name, nodes[c->self].name, want) &&
		    strlen(want) == len && !memcmp(want, identity, len))
			*out = make_psk(ssl, c->ring->keys[k], want);
	if (*out)
		claim->node = (unsigned)caller;
	return 1;
}

/* The first of its identities (RFC 8446, 4.2.11). */
static int claimed_by(const struct credentials *c, SSL *ssl)
{
	const unsigned char *offered;
	size_t len;
	if (!c->ring || !SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk, &offered, &len) || len < PSK_HEADS)
		return -ENOENT;
	size_t identity = (size_t)offered[2] << 8 | offered[3];
	return identity <= len - PSK_HEADS ? find_caller(c, offered + PSK_HEADS, identity) : -ENOENT;
}

static int meet_caller(SSL *ssl, int *alert, void *arg)
{
	struct claim *claim = SSL_get_ex_data(ssl, claim_index);
	(void)alert, (void)arg;
	if (claim->met)
		return SSL_CLIENT_HELLO_SUCCESS;
	claim->met = true;
	claim->claimed = claimed_by(claim->by, ssl);
	return claim->claimed < 0 ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_RETRY;
}

/* After the handshake's first message a PSK that was found is one whose binder was right. */
static void note_progress(const SSL *ssl, int where, int value)
{
	struct claim *claim = SSL_get_ex_data(ssl, claim_index);
	(void)value;
	if (claim && where == SSL_CB_ACCEPT_LOOP && SSL_get_state(ssl) == TLS_ST_SW_SRVR_HELLO)
		claim->known = true;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void free_claim(void *parent, void *claim, CRYPTO_EX_DATA *ad, int index, long argl, void *argp)
{
	(void)parent, (void)ad, (void)index, (void)argl, (void)argp;
	free(claim);
}

static void free_owner(void *parent, void *owner, CRYPTO_EX_DATA *ad, int index, long argl, void *argp)
{
	struct credentials *c = owner;
	(void)parent, (void)ad, (void)index, (void)argl, (void)argp;
	if (!c)
		return;
	if (c->ring)
		vault_give_back(c->ring, sizeof(*c->ring));
	free(c);
}

static void make_indices(void)
{
	if (owner_index)
		return;
	owner_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_owner);
	claim_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_claim);
}

/* The last thing that OpenSSL complained of, and forgets. */
static int fail(struct err *err, int rc, const char *what, const char *path)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	ERR_clear_error();
	return err_set(err, rc, "%s %s: %s", what, path, reason ? reason : "OpenSSL does not say why");
}

static int load_old(struct credentials *c, const char *path, struct err *err)
{
	struct key_ring *old = vault_pages(sizeof(*old));
	if (!old)
		return err_set(err, -ENOMEM, "no memory for the old cluster key");
	int rc = key_read(path, old, err);
	if (!rc)
		key_add(c->ring, old);
	vault_give_back(old, sizeof(*old));
	return rc;
}

static int load_keys(struct credentials *c, const struct net_credentials *files, struct err *err)
{
	c->ring = vault_pages(sizeof(*c->ring));
	if (!c->ring)
		return err_set(err, -ENOMEM, "no memory for the cluster key");
	int rc = key_read(files->key, c->ring, err);
	if (!rc && files->key_old)
		rc = load_old(c, files->key_old, err);
	for (unsigned i = 0; !rc && i < c->ring->n; i++)
		if (!name_key(c->ring->keys[i], c->key_names[i]))
			rc = fail(err, -EIO, "cluster key", files->key);
	SSL_CTX_set_psk_use_session_callback(c->ctx, use_psk);
	SSL_CTX_set_psk_find_session_callback(c->ctx, find_psk);
	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL); /* a certificate in place of the PSK is nobody's */
	return rc;
}

/* OpenSSL opens what it is given, and would wait for somebody who writes into a FIFO. */
static int check_file(const char *what, const char *path, struct err *err)
{
	struct stat st;
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "%s %s: %s", what, path, err_name(errno));
	return S_ISREG(st.st_mode) ? 0 : err_set(err, -EINVAL, "%s %s: it is not a file", what, path);
}

static int check_secret(const char *path, struct err *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc = fd < 0 ? err_set(err, -errno, "%s", err_name(errno)) : secret_file_check(fd, err);
	return rc ? err_prefix(err, rc, "cluster-cert-key %s", path) : 0;
}

static int load_certificates(struct credentials *c, const struct net_credentials *files, struct err *err)
{
	int rc = check_secret(files->cert_key, err);
	if (!rc)
		rc = check_file("cluster-cert", files->cert, err);
	if (!rc)
		rc = check_file("cluster-ca", files->ca, err);
	if (rc)
		return rc;
	if (SSL_CTX_use_certificate_chain_file(c->ctx, files->cert) != 1)
		return fail(err, -EINVAL, "cluster-cert", files->cert);
	if (SSL_CTX_use_PrivateKey_file(c->ctx, files->cert_key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(c->ctx) != 1)
		return fail(err, -EINVAL, "cluster-cert-key", files->cert_key);
	if (SSL_CTX_load_verify_file(c->ctx, files->ca) != 1)
		return fail(err, -EINVAL, "cluster-ca", files->ca);
	const char *name = c->roster->nodes[c->self].name;
	if (X509_check_host(SSL_CTX_get0_certificate(c->ctx), name, 0, X509_CHECK_FLAG_NO_WILDCARDS, NULL) != 1)
		return err_set(err, -EINVAL,
			       "cluster-cert %s is not for node %s: the node's name is to be a DNS name in it",
			       files->cert, name);
	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

static bool configure(SSL_CTX *ctx)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	/* Else one read goes on for as long as messages of TLS's own come. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_max_cert_list(ctx, CHAIN_MAX);
	SSL_CTX_set_info_callback(ctx, note_progress);
	SSL_CTX_set_client_hello_cb(ctx, meet_caller, NULL);
	return SSL_CTX_set_session_id_context(ctx, context, sizeof(context)) &&
	       SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) && SSL_CTX_set_ciphersuites(ctx, CIPHER) &&
	       SSL_CTX_set_num_tickets(ctx, 0);
}

int credentials_new(const struct net_credentials *files, const struct roster *roster, unsigned self,
		    struct credentials **out, struct err *err)
{
	if (!vault_open())
		log_debug("OpenSSL was in use before: its memory is as any other");
	make_indices();
	struct credentials *c = calloc(1, sizeof(*c));
	SSL_CTX *ctx = c ? SSL_CTX_new(TLS_method()) : NULL;
	if (!ctx || !SSL_CTX_set_ex_data(ctx, owner_index, c)) {
		SSL_CTX_free(ctx);
		free(c);
		return err_set(err, -ENOMEM, "OpenSSL does not start: no memory");
	}
	*c = (struct credentials){.ctx = ctx, .roster = roster, .self = self};
	int rc = configure(ctx) ? 0 : fail(err, -ENOSYS, "OpenSSL cannot do", CIPHER);
	if (!rc)
		rc = files->key ? load_keys(c, files, err) : load_certificates(c, files, err);
	if (rc)
		credentials_free(c);
	else
		*out = c;
	return rc;
}

void credentials_free(struct credentials *c)
{
	if (c)
		SSL_CTX_free(c->ctx); /* and with the last connection the rest */
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static SSL *new_connection(struct credentials *c, struct claim **out)
{
	SSL *ssl = SSL_new(c->ctx);
	struct claim *claim = ssl ? calloc(1, sizeof(*claim)) : NULL;
	if (claim && SSL_set_ex_data(ssl, claim_index, claim)) {
		*claim = (struct claim){.by = c, .node = NOBODY, .claimed = -ENOENT};
		*out = claim;
		return ssl;
	}
	free(claim);
	SSL_free(ssl);
	return NULL;
}

SSL *credentials_call(struct credentials *c, unsigned node, unsigned attempt)
{
	struct claim *claim;
	const char *self = c->roster->nodes[c->self].name, *other = c->roster->nodes[node].name;
	SSL *ssl = new_connection(c, &claim);
	if (!ssl)
		return NULL;
	claim->node = node;
	claim->key = c->ring ? attempt % c->ring->n : 0;
	SSL_set_connect_state(ssl);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_WILDCARDS);
	if (c->ring ? make_identity(c->key_names[claim->key], self, other, claim->identity) : SSL_set1_host(ssl, other))
		return ssl;
	SSL_free(ssl);
	return NULL;
}

SSL *credentials_answer(struct credentials *c)
{
	struct claim *claim;
	SSL *ssl = new_connection(c, &claim);
	if (ssl)
		SSL_set_accept_state(ssl);
	return ssl;
}

int credentials_claimed(SSL *ssl)
{
	const struct claim *claim = SSL_get_ex_data(ssl, claim_index);
	return claim->claimed;
}

bool credentials_proved(SSL *ssl, unsigned node)
{
	const struct claim *claim = SSL_get_ex_data(ssl, claim_index);
	const struct credentials *c = claim->by;
	if (!SSL_is_init_finished(ssl) || node >= c->roster->n || node == c->self)
		return false;
	if (c->ring)
		return SSL_session_reused(ssl) && claim->node == node;
	X509 *cert = SSL_get0_peer_certificate(ssl);
	return cert && SSL_get_verify_result(ssl) == X509_V_OK &&
	       X509_check_host(cert, c->roster->nodes[node].name, 0, X509_CHECK_FLAG_NO_WILDCARDS, NULL) == 1;
}

bool credentials_known(SSL *ssl)
{
	const struct claim *claim = SSL_get_ex_data(ssl, claim_index);
	return claim->known;
}
