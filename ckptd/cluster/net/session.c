#include "cluster/net/session.h"

#include "base/bytes.h"

#include <assert.h>
#include <endian.h>
#include <sodium.h>
#include <string.h>

#define MAGIC 0x314e4b43u /* "CKN1" */

/* Head of a frame: u32 magic, u16 kind, u16 body length, u32 sender, u64 number. Then the body, then the tag over both. */
struct head {
	uint32_t magic;
	uint16_t kind, len;
	uint32_t sender;
	uint64_t number;
};

/* Who, when, and which of the two directions: from this the keys are made. */
struct proof {
	const char *caller, *callee;
	uint64_t caller_incarnation, callee_incarnation;
	const uint8_t *caller_nonce, *callee_nonce;
};

void session_self_init(struct session_self *self)
{
	crypto_kdf_derive_from_key(self->hello_key, KEY_BYTES, 1, "ckpthelo", self->cluster_key);
}

void session_init(struct session *s, const struct session_self *self, const char *name, uint32_t index)
{
	*s = (struct session){.self = self, .name = name, .index = index};
}

/* ---- sealing ----------------------------------------------------------------------------------------------------- */

static void write_head(uint8_t *dst, const struct head *h)
{
	uint32_t magic = htole32(h->magic), sender = htole32(h->sender);
	uint16_t kind = htole16(h->kind), len = htole16(h->len);
	uint64_t number = htole64(h->number);
	memcpy(dst, &magic, 4);
	memcpy(dst + 4, &kind, 2);
	memcpy(dst + 6, &len, 2);
	memcpy(dst + 8, &sender, 4);
	memcpy(dst + 12, &number, 8);
}

static bool read_head(const void *frame, size_t len, struct head *h)
{
	struct rbuf r = rbuf_of(frame, len);
	h->magic = rbuf_u32(&r);
	h->kind = rbuf_u16(&r);
	h->len = rbuf_u16(&r);
	h->sender = rbuf_u32(&r);
	h->number = rbuf_u64(&r);
	return !r.failed && h->magic == MAGIC && h->kind && h->kind < SESSION_KIND_END &&
	       len == SESSION_HEAD + (size_t)h->len + SESSION_TAG;
}

static void seal(struct session_frame *out, struct head head, const uint8_t key[KEY_BYTES], const void *body,
		 size_t len)
{
	assert(len <= SESSION_BODY_MAX);
	head.magic = MAGIC;
	head.len = (uint16_t)len;
	write_head(out->bytes, &head);
	if (len)
		memcpy(out->bytes + SESSION_HEAD, body, len);
	out->len = SESSION_HEAD + len + SESSION_TAG;
	crypto_generichash(out->bytes + SESSION_HEAD + len, SESSION_TAG, out->bytes, SESSION_HEAD + len, key,
			   KEY_BYTES);
}

static bool genuine(const uint8_t *frame, size_t len, const uint8_t key[KEY_BYTES])
{
	uint8_t tag[SESSION_TAG];
	crypto_generichash(tag, SESSION_TAG, frame, len - SESSION_TAG, key, KEY_BYTES);
	return !sodium_memcmp(tag, frame + len - SESSION_TAG, SESSION_TAG);
}

static void hash_text(crypto_generichash_state *state, const char *text)
{
	uint16_t len = htole16((uint16_t)strlen(text));
	crypto_generichash_update(state, (const uint8_t *)&len, sizeof(len));
	crypto_generichash_update(state, (const uint8_t *)text, strlen(text));
}

static void hash_number(crypto_generichash_state *state, uint64_t n)
{
	n = htole64(n);
	crypto_generichash_update(state, (const uint8_t *)&n, sizeof(n));
}

static void derive(const struct session_self *self, const struct proof *p, bool caller, struct session_keys *keys)
{
	uint8_t master[crypto_kdf_KEYBYTES];
	crypto_generichash_state state;
	crypto_generichash_init(&state, self->cluster_key, KEY_BYTES, sizeof(master));
	hash_text(&state, "ckpt session 1");
	hash_text(&state, p->caller);
	hash_text(&state, p->callee);
	hash_number(&state, p->caller_incarnation);
	hash_number(&state, p->callee_incarnation);
	crypto_generichash_update(&state, p->caller_nonce, SESSION_NONCE);
	crypto_generichash_update(&state, p->callee_nonce, SESSION_NONCE);
	crypto_generichash_final(&state, master, sizeof(master));
	*keys = (struct session_keys){.sent = 0};
	crypto_kdf_derive_from_key(caller ? keys->send : keys->take, KEY_BYTES, 1, "ckptpeer", master);
	crypto_kdf_derive_from_key(caller ? keys->take : keys->send, KEY_BYTES, 2, "ckptpeer", master);
	sodium_memzero(master, sizeof(master));
	sodium_memzero(&state, sizeof(state));
}

/* ---- bodies of the handshake: written into a frame's worth of memory --------------------------------------------- */

struct body {
	uint8_t bytes[SESSION_BODY_MAX];
	size_t len;
};

static void put(struct body *b, const void *data, size_t len)
{
	assert(len <= sizeof(b->bytes) - b->len);
	memcpy(b->bytes + b->len, data, len);
	b->len += len;
}

static void put_text(struct body *b, const char *text)
{
	uint16_t len = htole16((uint16_t)strlen(text));
	put(b, &len, sizeof(len));
	put(b, text, strlen(text));
}

static void put_word(struct body *b, uint32_t n)
{
	n = htole32(n);
	put(b, &n, sizeof(n));
}

static void put_number(struct body *b, uint64_t n)
{
	n = htole64(n);
	put(b, &n, sizeof(n));
}

static void put_address(struct body *b, const struct session_address *address)
{
	put(b, &address->len, 1);
	put(b, address->bytes, address->len);
}

static void get_address(struct rbuf *r, struct session_address *address)
{
	address->len = rbuf_u8(r);
	if (address->len > SESSION_ADDRESS_MAX)
		r->failed = true;
	else
		rbuf_get(r, address->bytes, address->len);
}

/* Both names, in the order sender, receiver. */
static bool get_names(struct rbuf *r, const struct session *s)
{
	char from[NAME_NODE_MAX], to[NAME_NODE_MAX];
	rbuf_str(r, from, sizeof(from));
	rbuf_str(r, to, sizeof(to));
	return !r->failed && !strcmp(from, s->name) && !strcmp(to, s->self->name);
}

void session_call(struct session *s, struct session_frame *out)
{
	struct body b = {.len = 0};
	struct head head = {.kind = SESSION_HELLO, .sender = s->self->index, .number = ++s->attempts};
	randombytes_buf(s->nonce, SESSION_NONCE);
	s->calling = true;
	put_text(&b, s->self->name);
	put_text(&b, s->name);
	put(&b, s->self->roster, SESSION_ROSTER);
	put_number(&b, s->self->incarnation);
	put(&b, s->nonce, SESSION_NONCE);
	put_word(&b, SESSION_PROTOCOL);
	seal(out, head, s->self->hello_key, b.bytes, b.len);
}

void session_seal(struct session *s, enum session_kind kind, const void *body, size_t len, struct session_frame *out)
{
	assert(s->up);
	struct head head = {.kind = (uint16_t)kind, .sender = s->self->index, .number = ++s->keys.sent};
	seal(out, head, s->keys.send, body, len);
}

void session_end(struct session *s)
{
	s->up = s->calling = s->answered = false;
	sodium_memzero(&s->keys, sizeof(s->keys));
	sodium_memzero(&s->half, sizeof(s->half));
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

int session_sender(const void *frame, size_t len, uint32_t *index)
{
	struct head head;
	if (!read_head(frame, len, &head))
		return -EBADMSG;
	*index = head.sender;
	return 0;
}

static void answer(struct session *s, uint64_t incarnation, const uint8_t *nonce, struct session_frame *reply)
{
	struct body b = {.len = 0};
	uint8_t own[SESSION_NONCE];
	randombytes_buf(own, sizeof(own));
	struct proof proof = {s->name, s->self->name, incarnation, s->self->incarnation, nonce, own};
	derive(s->self, &proof, false, &s->half);
	s->answered = true;
	put_text(&b, s->self->name);
	put_text(&b, s->name);
	put_number(&b, s->self->incarnation);
	put(&b, own, sizeof(own));
	put(&b, nonce, SESSION_NONCE);
	put_address(&b, &s->self->address);
	struct head head = {.kind = SESSION_CHALLENGE, .sender = s->self->index};
	seal(reply, head, s->half.send, b.bytes, b.len);
}

static enum session_news take_hello(struct session *s, const struct head *head, const uint8_t *frame, size_t len,
				    struct session_frame *reply)
{
	struct rbuf r = rbuf_of(frame + SESSION_HEAD, head->len);
	uint8_t roster[SESSION_ROSTER], nonce[SESSION_NONCE];
	if (!genuine(frame, len, s->self->hello_key) || !get_names(&r, s))
		return SESSION_REFUSED;
	rbuf_get(&r, roster, sizeof(roster));
	uint64_t incarnation = rbuf_u64(&r);
	rbuf_get(&r, nonce, sizeof(nonce));
	if (r.failed)
		return SESSION_REFUSED;
	s->protocol = rbuf_left(&r) ? rbuf_u32(&r) : 1; /* the first did not say it; later ones may say more */
	if (s->protocol != SESSION_PROTOCOL || rbuf_finish(&r))
		return SESSION_REFUSED;
	s->other_roster = sodium_memcmp(roster, s->self->roster, SESSION_ROSTER);
	if (s->other_roster)
		return SESSION_REFUSED;
	if (incarnation == s->heard_incarnation && head->number <= s->heard_attempt)
		return SESSION_REFUSED; /* was answered: a replay */
	if (s->calling && s->self->index < s->index)
		return SESSION_IGNORED;
	s->heard_incarnation = incarnation;
	s->heard_attempt = head->number;
	s->calling = false;
	answer(s, incarnation, nonce, reply);
	return SESSION_ANSWERED;
}

static enum session_news open_session(struct session *s, const struct session_keys *keys,
				      const struct session_address *address)
{
	s->keys = *keys;
	s->address = *address;
	s->up = true;
	s->calling = s->answered = false;
	sodium_memzero(&s->half, sizeof(s->half));
	return SESSION_OPENED;
}

static enum session_news take_challenge(struct session *s, const struct head *head, const uint8_t *frame, size_t len,
					struct session_frame *reply)
{
	struct rbuf r = rbuf_of(frame + SESSION_HEAD, head->len);
	struct session_address address;
	struct session_keys keys;
	uint8_t theirs[SESSION_NONCE], ours[SESSION_NONCE];
	if (!s->calling || head->number || !get_names(&r, s))
		return SESSION_REFUSED;
	uint64_t incarnation = rbuf_u64(&r);
	rbuf_get(&r, theirs, sizeof(theirs));
	rbuf_get(&r, ours, sizeof(ours));
	get_address(&r, &address);
	if (rbuf_finish(&r) || sodium_memcmp(ours, s->nonce, SESSION_NONCE))
		return SESSION_REFUSED;
	struct proof proof = {s->self->name, s->name, s->self->incarnation, incarnation, ours, theirs};
	derive(s->self, &proof, true, &keys);
	enum session_news news = SESSION_REFUSED;
	if (genuine(frame, len, keys.take)) {
		struct body b = {.len = 0};
		news = open_session(s, &keys, &address);
		put_address(&b, &s->self->address);
		session_seal(s, SESSION_CONFIRM, b.bytes, b.len, reply);
	}
	sodium_memzero(&keys, sizeof(keys));
	return news;
}

static enum session_news take_confirm(struct session *s, const struct head *head, const uint8_t *frame, size_t len)
{
	struct rbuf r = rbuf_of(frame + SESSION_HEAD, head->len);
	struct session_address address;
	if (!s->answered || head->number != 1 || !genuine(frame, len, s->half.take))
		return SESSION_REFUSED;
	get_address(&r, &address);
	if (rbuf_finish(&r))
		return SESSION_REFUSED;
	s->half.taken = 1;
	struct session_keys keys = s->half;
	enum session_news news = open_session(s, &keys, &address);
	sodium_memzero(&keys, sizeof(keys));
	return news;
}

static enum session_news take_sealed(struct session *s, const struct head *head, const uint8_t *frame, size_t len,
				     struct session_taken *taken)
{
	if (!s->up || head->number != s->keys.taken + 1 || !genuine(frame, len, s->keys.take))
		return SESSION_REFUSED;
	s->keys.taken++;
	*taken = (struct session_taken){(enum session_kind)head->kind, frame + SESSION_HEAD, head->len};
	return SESSION_TAKEN;
}

enum session_news session_take(struct session *s, const void *frame, size_t len, struct session_taken *taken,
			       struct session_frame *reply)
{
	struct head head;
	enum session_news news = SESSION_REFUSED;
	reply->len = 0;
	bool ok = read_head(frame, len, &head) && head.sender == s->index;
	if (ok && head.kind == SESSION_HELLO)
		news = take_hello(s, &head, frame, len, reply);
	else if (ok && head.kind == SESSION_CHALLENGE)
		news = take_challenge(s, &head, frame, len, reply);
	else if (ok && head.kind == SESSION_CONFIRM)
		news = take_confirm(s, &head, frame, len);
	else if (ok)
		news = take_sealed(s, &head, frame, len, taken);
	s->refused += news == SESSION_REFUSED;
	return news;
}
