#include "registry/request_private.h"

#include "registry/base64_private.h"
#include "registry/url_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KEY_ROOM = URL_PREFIX_MAX + REGISTRY_KEY_MAX };

static void put(struct wbuf *w, const char *text)
{
	wbuf_put(w, text, strlen(text));
}

static void put_u64(struct wbuf *w, const char *before, uint64_t n)
{
	char text[32];
	put(w, before);
	snprintf(text, sizeof(text), "\"%" PRIu64 "\"", n);
	put(w, text);
}

static void put_bytes(struct wbuf *w, const char *before, const void *data, size_t len)
{
	put(w, before);
	put(w, "\"");
	base64_put(w, data, len);
	put(w, "\"");
}

static void put_key(struct wbuf *w, const char *before, const char *prefix, const char *key)
{
	char full[KEY_ROOM];
	int len = snprintf(full, sizeof(full), "%s%s", prefix, key);
	if (len < 0 || (size_t)len >= sizeof(full))
		w->failed = true; /* the caller has checked the length */
	else
		put_bytes(w, before, full, (size_t)len);
}

/* "key" and "range_end" of all that begin with the prefix, which ends with a slash; '0' comes after it. */
static void put_all(struct wbuf *w, const char *prefix, const void *from, size_t from_len)
{
	char end[KEY_ROOM];
	size_t len = strlen(prefix);
	memcpy(end, prefix, len);
	end[len - 1]++;
	put_bytes(w, "\"key\":", from ? from : prefix, from ? from_len : len);
	put_bytes(w, ",\"range_end\":", end, len);
}

void request_range(struct wbuf *w, const struct request_range *range)
{
	put(w, "{");
	put_all(w, range->prefix, range->from, range->from_len);
	put_u64(w, ",\"limit\":", range->limit);
	if (range->revision)
		put_u64(w, ",\"revision\":", range->revision);
	if (range->since)
		put_u64(w, ",\"min_mod_revision\":", range->since);
	put(w, range->keys_only ? ",\"keys_only\":true}" : "}");
}

static void put_compare(struct wbuf *w, const char *prefix, const struct registry_compare *compare)
{
	put_key(w, "{\"result\":\"EQUAL\",\"key\":", prefix, compare->key);
	put_u64(w,
		compare->created ? ",\"target\":\"CREATE\",\"create_revision\":"
				 : ",\"target\":\"MOD\",\"mod_revision\":",
		compare->revision);
	put(w, "}");
}

static void put_change(struct wbuf *w, const char *prefix, uint64_t lease, const struct registry_change *change)
{
	if (!change->value) {
		put_key(w, "{\"request_delete_range\":{\"key\":", prefix, change->key);
	} else {
		put_key(w, "{\"request_put\":{\"key\":", prefix, change->key);
		put_bytes(w, ",\"value\":", change->value, change->len);
		if (change->leased)
			put_u64(w, ",\"lease\":", lease);
	}
	put(w, "}}");
}

void request_txn(struct wbuf *w, const char *prefix, uint64_t lease, const struct registry_compare *compare,
		 unsigned ncompare, const struct registry_change *change, unsigned nchange)
{
	put(w, "{\"compare\":[");
	for (unsigned i = 0; i < ncompare; i++) {
		put(w, i ? "," : "");
		put_compare(w, prefix, &compare[i]);
	}
	put(w, "],\"success\":[");
	for (unsigned i = 0; i < nchange; i++) {
		put(w, i ? "," : "");
		put_change(w, prefix, lease, &change[i]);
	}
	put(w, "]}");
}

void request_grant(struct wbuf *w, uint64_t id, uint64_t ttl_s)
{
	put_u64(w, "{\"ID\":", id);
	put_u64(w, ",\"TTL\":", ttl_s);
	put(w, "}");
}

void request_lease(struct wbuf *w, uint64_t id)
{
	put_u64(w, "{\"ID\":", id);
	put(w, "}");
}

void request_watch(struct wbuf *w, const char *prefix, uint64_t revision)
{
	put(w, "{\"create_request\":{");
	put_all(w, prefix, NULL, 0);
	put_u64(w, ",\"start_revision\":", revision);
	put(w, ",\"progress_notify\":true,\"fragment\":true}}");
}

static void put_text(struct wbuf *w, const char *text)
{
	char escaped[8];
	put(w, "\"");
	for (const char *c = text; *c; c++) {
		bool plain = (unsigned char)*c >= ' ' && *c != '"' && *c != '\\';
		snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned char)*c);
		wbuf_put(w, plain ? c : escaped, plain ? 1 : strlen(escaped));
	}
	put(w, "\"");
}

void request_login(struct wbuf *w, const char *user, const char *password)
{
	put(w, "{\"name\":");
	put_text(w, user);
	put(w, ",\"password\":");
	put_text(w, password);
	put(w, "}");
}
