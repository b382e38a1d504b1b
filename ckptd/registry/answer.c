#include "registry/answer_private.h"

#include "base/quoted.h"
#include "registry/json_private.h"
#include "registry/url_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FULL_KEY_MAX = URL_PREFIX_MAX + REGISTRY_KEY_MAX };

static int bad(struct err *err, const char *what)
{
	return err_set(err, -EBADMSG, "it answers with %s that cannot be", what);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void free_records(struct answer_record **records, size_t *n)
{
	for (size_t i = 0; i < *n; i++) {
		free((*records)[i].key);
		free((*records)[i].value);
	}
	free(*records);
	*records = NULL;
	*n = 0;
}

/* The key without the prefix. */
static int read_key(const json_t *kv, const char *prefix, char **out, struct err *err)
{
	size_t len = 0, cut = strlen(prefix);
	void *bytes = NULL;
	int rc = json_bytes(kv, "key", FULL_KEY_MAX - 1, &bytes, &len);
	char *key = bytes;
	if (rc == -ENOMEM)
		return err_set(err, rc, "no memory for a key");
	if (rc == -EMSGSIZE)
		return err_set(err, rc, "a key under %s has more than %d bytes: delete it", prefix, FULL_KEY_MAX - 1);
	if (!rc && (len <= cut || memcmp(key, prefix, cut) != 0 || memchr(key, 0, len)))
		rc = -EBADMSG;
	if (!rc && len - cut >= REGISTRY_KEY_MAX)
		rc = -EMSGSIZE;
	if (!rc) {
		memmove(key, key + cut, len - cut + 1);
		*out = key;
		return 0;
	}
	if (rc == -EMSGSIZE)
		err_set(err, rc, "the key %s has more than %d bytes: delete it", quoted_part(key, len).text,
			REGISTRY_KEY_MAX - 1);
	else
		bad(err, "a key");
	free(bytes);
	return rc;
}

static int read_value(const json_t *kv, struct answer_record *out, struct err *err)
{
	int rc = json_bytes(kv, "value", REGISTRY_VALUE_MAX, &out->value, &out->len);
	if (rc == -EMSGSIZE)
		return err_set(err, rc, "the value of %s has more than %d bytes: delete it", quoted(out->key).text,
			       REGISTRY_VALUE_MAX);
	return rc == -ENOMEM ? err_set(err, rc, "no memory for a value") : rc ? bad(err, "a value") : 0;
}

static int read_record(const json_t *kv, const char *prefix, bool gone, struct answer_record *out, struct err *err)
{
	*out = (struct answer_record){.gone = gone};
	if (!json_is_object(kv))
		return bad(err, "a record");
	int rc = read_key(kv, prefix, &out->key, err);
	if (!rc && !gone)
		rc = read_value(kv, out, err);
	if (!rc && (json_u64(kv, "create_revision", &out->created) || json_u64(kv, "mod_revision", &out->changed) ||
		    json_u64(kv, "lease", &out->lease) || !out->changed || out->created > out->changed ||
		    gone == (out->created != 0)))
		rc = bad(err, "a revision");
	return rc;
}

/* An event of a watch is {"type":"DELETE","kv":{…}}, without the type where it is a put. */
static int read_event(const json_t *event, const char *prefix, struct answer_record *out, struct err *err)
{
	char type[16];
	if (!json_is_object(event) || json_text(event, "type", type, sizeof(type)))
		return bad(err, "an event");
	bool gone = !strcmp(type, "DELETE");
	if (!gone && type[0] && strcmp(type, "PUT") != 0)
		return bad(err, "an event");
	return read_record(json_object_get(event, "kv"), prefix, gone, out, err);
}

static int read_records(const json_t *array, const char *prefix, bool events, struct answer_record **out, size_t *n,
			struct err *err)
{
	size_t all = json_array_size(array);
	int rc = 0;
	*n = 0;
	*out = NULL;
	if (all > ANSWER_EVENTS_MAX)
		return err_set(err, -EMSGSIZE, "it answers with more than %d records at once", ANSWER_EVENTS_MAX);
	if (all && !(*out = calloc(all, sizeof(**out))))
		return err_set(err, -ENOMEM, "no memory for records");
	while (!rc && *n < all) {
		const json_t *item = json_array_get(array, *n);
		struct answer_record *record = &(*out)[(*n)++];
		rc = events ? read_event(item, prefix, record, err) : read_record(item, prefix, false, record, err);
	}
	if (rc)
		free_records(out, n);
	return rc;
}

static int read_header(const json_t *object, uint64_t *cluster, uint64_t *revision)
{
	json_t *header;
	int rc = json_part(object, "header", JSON_OBJECT, &header);
	if (!rc)
		rc = json_u64(header, "cluster_id", cluster);
	return rc ? rc : json_u64(header, "revision", revision);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

int answer_range(const void *text, size_t len, const char *prefix, struct answer_page *out, struct err *err)
{
	json_t *kvs;
	AUTO_JSON json_t *answer = json_read(text, len, err);
	*out = (struct answer_page){0};
	if (!answer)
		return -EBADMSG;
	if (read_header(answer, &out->cluster, &out->revision) || !out->revision ||
	    json_u64(answer, "count", &out->count) || json_flag(answer, "more", &out->more) ||
	    json_part(answer, "kvs", JSON_ARRAY, &kvs))
		return bad(err, "a range");
	int rc = read_records(kvs, prefix, false, &out->records, &out->n, err);
	if (!rc && out->more && !out->n)
		rc = bad(err, "a page without records");
	return rc;
}

void answer_page_free(struct answer_page *page)
{
	free_records(&page->records, &page->n);
}

/* ---- watches ----------------------------------------------------------------------------------------------------- */

static int read_end(const json_t *result, struct answer_message *out)
{
	int rc = json_u64(result, "compact_revision", &out->compacted);
	if (!rc)
		rc = json_text(result, "cancel_reason", out->words, sizeof(out->words));
	if (!rc && !out->words[0])
		snprintf(out->words, sizeof(out->words), "%s",
			 out->compacted ? "what it asked for has been compacted" : "it does not say why");
	return rc;
}

int answer_watch(const void *text, size_t len, const char *prefix, struct answer_message *out, struct err *err)
{
	json_t *result, *events;
	AUTO_JSON json_t *answer = json_read(text, len, err);
	*out = (struct answer_message){0};
	if (!answer)
		return -EBADMSG;
	/* {"error":{"message":…}} in a stream, {"error":…,"message":…} in place of one. */
	const json_t *error = json_object_get(answer, "error");
	if (error) {
		out->cancelled = true;
		return json_text(json_is_object(error) ? error : answer, "message", out->words, sizeof(out->words))
			       ? bad(err, "an error")
			       : 0;
	}
	if (json_part(answer, "result", JSON_OBJECT, &result) || !result)
		return bad(err, "a message");
	if (read_header(result, &out->cluster, &out->revision) || json_flag(result, "created", &out->created) ||
	    json_flag(result, "canceled", &out->cancelled) || json_flag(result, "fragment", &out->fragment) ||
	    json_part(result, "events", JSON_ARRAY, &events) || (out->cancelled && read_end(result, out)))
		return bad(err, "a message");
	return read_records(events, prefix, true, &out->records, &out->n, err);
}

void answer_message_free(struct answer_message *message)
{
	free_records(&message->records, &message->n);
}

/* ---- what is answered with a word -------------------------------------------------------------------------------- */

int answer_txn(const void *text, size_t len, bool *succeeded, uint64_t *revision, struct err *err)
{
	uint64_t cluster;
	AUTO_JSON json_t *answer = json_read(text, len, err);
	if (!answer)
		return -EBADMSG;
	if (read_header(answer, &cluster, revision) || !*revision || json_flag(answer, "succeeded", succeeded))
		return bad(err, "a result");
	return 0;
}

int answer_lease(const void *text, size_t len, uint64_t id, uint64_t *ttl_s, struct err *err)
{
	enum { TTL_MAX = 9000000000 }; /* of etcd */
	json_t *result;
	uint64_t about;
	AUTO_JSON json_t *answer = json_read(text, len, err);
	if (!answer)
		return -EBADMSG;
	if (json_part(answer, "result", JSON_OBJECT, &result))
		return bad(err, "a lease");
	const json_t *lease = result ? result : answer; /* a keepalive is a stream */
	if (json_u64(lease, "ID", &about) || json_u64(lease, "TTL", ttl_s) || about != id || *ttl_s > TTL_MAX)
		return bad(err, "a lease");
	return 0;
}

int answer_login(const void *text, size_t len, char *token, struct err *err)
{
	AUTO_JSON json_t *answer = json_read(text, len, err);
	if (!answer)
		return -EBADMSG;
	if (json_text(answer, "token", token, ANSWER_TOKEN_MAX) || !token[0] || strlen(token) == ANSWER_TOKEN_MAX - 1)
		return bad(err, "a token");
	for (const char *c = token; *c; c++)
		if (*c <= ' ' || *c > '~')
			return bad(err, "a token");
	return 0;
}
