#include "registry/answer_private.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER                                                                                                         \
	"\"header\":{\"cluster_id\":\"13455796455940752355\",\"member_id\":\"7\",\"revision\":\"9\",\"raft_term\":"    \
	"\"2\"}"
#define KV(more)                                                                                                       \
	"{\"key\":\"L2NrcHQvYQ==\",\"create_revision\":\"2\",\"mod_revision\":\"3\",\"version\":\"1\"," more           \
	"\"value\":\"aGVsbG8=\"}"

static struct answer_page page;
static struct answer_message message;
static struct err err;

static int range(const char *text)
{
	return answer_range(text, strlen(text), "/ckpt/", &page, &err);
}

static int watch(const char *text)
{
	return answer_watch(text, strlen(text), "/ckpt/", &message, &err);
}

Test(answer, an_empty_range)
{
	cr_assert_eq(range("{" HEADER "}"), 0, "%s", err.text);
	cr_assert_eq(page.cluster, 13455796455940752355ull);
	cr_assert_eq(page.revision, 9u);
	cr_assert_eq(page.n, 0u);
	cr_assert_eq(page.count, 0u);
	cr_assert(!page.more);
	answer_page_free(&page);
}

Test(answer, records)
{
	cr_assert_eq(range("{" HEADER ",\"kvs\":[" KV("\"lease\":\"77\",") "],\"more\":true,\"count\":\"41\"}"), 0,
		     "%s", err.text);
	cr_assert_eq(page.n, 1u);
	cr_assert_eq(page.count, 41u);
	cr_assert(page.more);
	const struct answer_record *r = &page.records[0];
	cr_assert_str_eq(r->key, "a");
	cr_assert_eq(r->len, 5u);
	cr_assert_str_eq(r->value, "hello");
	cr_assert_eq(r->created, 2u);
	cr_assert_eq(r->changed, 3u);
	cr_assert_eq(r->lease, 77u);
	answer_page_free(&page);
}

Test(answer, a_record_without_a_value)
{
	cr_assert_eq(range("{" HEADER ",\"kvs\":[{\"key\":\"L2NrcHQvYQ==\",\"create_revision\":2,\"mod_revision\":"
			   "\"2\"}],\"count\":1}"),
		     0);
	cr_assert_eq(page.records[0].len, 0u);
	cr_assert_not_null(page.records[0].value);
	answer_page_free(&page);
}

Test(answer, ranges_that_cannot_be)
{
	static const char *const wrong[] = {
		"",
		"{",
		"[]",
		"null",
		"{}",
		"{" HEADER "} x",
		"{" HEADER "," HEADER "}",
		"{\"header\":7}",
		"{\"header\":{\"revision\":\"0\"}}",
		"{\"header\":{\"revision\":\"-1\"}}",
		"{\"header\":{\"revision\":\"\"}}",
		"{\"header\":{\"revision\":\"1x\"}}",
		"{\"header\":{\"revision\":\" 1\"}}",
		"{\"header\":{\"revision\":\"18446744073709551616\"}}",
		"{\"header\":{\"revision\":1.5}}",
		"{\"header\":{\"revision\":-1}}",
		"{" HEADER ",\"more\":1}",
		"{" HEADER ",\"more\":true}",
		"{" HEADER ",\"count\":true}",
		"{" HEADER ",\"kvs\":{}}",
		"{" HEADER ",\"kvs\":[7]}",
		"{" HEADER ",\"kvs\":[{}]}",
		"{" HEADER ",\"kvs\":[" KV("\"lease\":\"x\",") "]}",
		"{" HEADER ",\"kvs\":[" KV("\"key\":\"L2NrcHQvYQ==\",") "]}",
		/* under another prefix; the prefix itself; with a NUL; not base64; no revision; created after it was changed */
		"{" HEADER ",\"kvs\":[{\"key\":\"L290aGVyL2E=\",\"create_revision\":\"2\",\"mod_revision\":\"2\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"L2NrcHQv\",\"create_revision\":\"2\",\"mod_revision\":\"2\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"L2NrcHQvYQBi\",\"create_revision\":\"2\",\"mod_revision\":\"2\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"L2NrcHQvYQ\",\"create_revision\":\"2\",\"mod_revision\":\"2\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":7,\"create_revision\":\"2\",\"mod_revision\":\"2\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"L2NrcHQvYQ==\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"L2NrcHQvYQ==\",\"mod_revision\":\"2\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"L2NrcHQvYQ==\",\"create_revision\":\"3\",\"mod_revision\":\"2\"}]}",
		"{" HEADER ",\"kvs\":[{\"key\":\"L2NrcHQvYQ==\",\"create_revision\":\"2\",\"mod_revision\":\"2\","
		"\"value\":\"?\"}]}",
		/* what is wrong comes after a record that is right */
		"{" HEADER ",\"kvs\":[" KV("") ",7]}",
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		err.text[0] = 0;
		cr_assert_eq(range(wrong[i]), -EBADMSG, "%s is taken", wrong[i]);
		cr_assert(strncmp(err.text, "it answers ", 11) == 0, "%s: %s", wrong[i], err.text);
		cr_assert_null(page.records);
	}
	cr_assert_eq(answer_range("{" HEADER "}\0", sizeof("{" HEADER "}"), "/ckpt/", &page, &err), -EBADMSG);
}

/* A record whose key and value are so long, in base64 "A…": NULs would not do for a key. */
static char *long_record(size_t key, size_t value)
{
	size_t room = 512 + 2 * (key + value);
	char *text = malloc(room);
	int at = snprintf(text, room,
			  "{%s,\"kvs\":[{\"create_revision\":\"1\",\"mod_revision\":\"1\",\"key\":\"L2NrcHQv", HEADER);
	memset(text + at, 'a', key / 3 * 4);
	at += (int)(key / 3 * 4);
	at += snprintf(text + at, room - (size_t)at, "\",\"value\":\"");
	memset(text + at, 'A', value / 3 * 4);
	at += (int)(value / 3 * 4);
	snprintf(text + at, room - (size_t)at, "%s\"}]}", value % 3 == 1 ? "AA==" : value % 3 == 2 ? "AAA=" : "");
	return text;
}

static int range_of(size_t key, size_t value)
{
	char *text = long_record(key, value);
	int rc = range(text);
	free(text);
	return rc;
}

Test(answer, keys_and_values_are_bounded)
{
	cr_assert_eq(range_of(255, REGISTRY_VALUE_MAX), 0, "%s", err.text);
	cr_assert_eq(page.records[0].len, (size_t)REGISTRY_VALUE_MAX);
	answer_page_free(&page);
	cr_assert_eq(range_of(3, REGISTRY_VALUE_MAX + 1), -EMSGSIZE);
	cr_assert(strstr(err.text, "the value of") && strstr(err.text, "delete it"), "%s", err.text);
	cr_assert_eq(range_of(3, 2 * REGISTRY_VALUE_MAX), -EMSGSIZE);
	cr_assert_eq(range_of(258, 3), -EMSGSIZE);
	cr_assert(strstr(err.text, "more than 255 bytes: delete it"), "%s", err.text);
	cr_assert_eq(range_of(3000, 3), -EMSGSIZE);
}

Test(answer, as_are_the_records_at_once)
{
	size_t n = ANSWER_EVENTS_MAX + 1, at;
	char *text = malloc(512 + 3 * n);
	at = (size_t)snprintf(text, 512, "{%s,\"kvs\":[", HEADER);
	for (size_t i = 0; i < n; i++)
		memcpy(text + at + 3 * i, "{},", 3);
	memcpy(text + at + 3 * n - 1, "]}", 3);
	cr_assert_eq(range(text), -EMSGSIZE);
	free(text);
}

Test(answer, messages_of_a_watch)
{
	cr_assert_eq(watch("{\"result\":{" HEADER ",\"created\":true}}"), 0, "%s", err.text);
	cr_assert(message.created && !message.cancelled && !message.fragment);
	cr_assert_eq(message.n, 0u);
	answer_message_free(&message);

	cr_assert_eq(watch("{\"result\":{" HEADER ",\"fragment\":true,\"events\":[{\"kv\":" KV(
			     "") "},"
				 "{\"type\":\"DELETE\",\"kv\":{\"key\":\"L2NrcHQvYg==\",\"mod_revision\":\"4\"}}]}}"),
		     0, "%s", err.text);
	cr_assert(message.fragment);
	cr_assert_eq(message.n, 2u);
	cr_assert(!message.records[0].gone && message.records[1].gone);
	cr_assert_str_eq(message.records[1].key, "b");
	cr_assert_eq(message.records[1].changed, 4u);
	answer_message_free(&message);
}

Test(answer, a_watch_that_has_ended)
{
	cr_assert_eq(watch("{\"result\":{" HEADER ",\"canceled\":true,\"compact_revision\":\"3\"}}"), 0, "%s",
		     err.text);
	cr_assert(message.cancelled);
	cr_assert_eq(message.compacted, 3u);
	cr_assert_str_eq(message.words, "what it asked for has been compacted");

	cr_assert_eq(watch("{\"result\":{" HEADER
			   ",\"created\":true,\"canceled\":true,\"cancel_reason\":\"etcdserver: permission denied\"}}"),
		     0, "%s", err.text);
	cr_assert(message.cancelled);
	cr_assert_eq(answer_words_mean(message.words), FAILURE_DENIED);

	cr_assert_eq(watch("{\"error\":{\"grpc_code\":14,\"message\":\"etcdserver: no leader\"}}"), 0, "%s", err.text);
	cr_assert(message.cancelled);
	cr_assert_str_eq(message.words, "etcdserver: no leader");

	cr_assert_eq(watch("{\"error\":\"etcdserver: no leader\",\"message\":\"etcdserver: no leader\",\"code\":14}"),
		     0);
	cr_assert(message.cancelled);
}

Test(answer, messages_that_cannot_be)
{
	static const char *const wrong[] = {
		"{}",
		"{\"result\":7}",
		"{\"error\":{\"message\":7}}",
		"{\"result\":{\"header\":{\"revision\":true}}}",
		"{\"result\":{" HEADER ",\"created\":\"yes\"}}",
		"{\"result\":{" HEADER ",\"events\":{}}}",
		"{\"result\":{" HEADER ",\"events\":[{}]}}",
		"{\"result\":{" HEADER ",\"events\":[{\"type\":\"SWAP\",\"kv\":" KV("") "}]}}",
		"{\"result\":{" HEADER ",\"events\":[{\"type\":7,\"kv\":" KV("") "}]}}",
		"{\"result\":{" HEADER ",\"events\":[{\"kv\":7}]}}",
		"{\"result\":{" HEADER ",\"events\":[{\"type\":\"DELETE\",\"kv\":" KV("") "}]}}",
		"{\"result\":{" HEADER ",\"canceled\":true,\"compact_revision\":{}}}",
		"{\"result\":{" HEADER ",\"canceled\":true,\"cancel_reason\":7}}",
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert_eq(watch(wrong[i]), -EBADMSG, "%s is taken", wrong[i]);
}

Test(answer, a_failed_transaction_does_not_say_so)
{
	bool succeeded = true;
	uint64_t revision;
	static const char failed[] = "{" HEADER "}", applied[] = "{" HEADER ",\"succeeded\":true,\"responses\":[{}]}";
	cr_assert_eq(answer_txn(failed, strlen(failed), &succeeded, &revision, &err), 0);
	cr_assert(!succeeded);
	cr_assert_eq(revision, 9u);
	cr_assert_eq(answer_txn(applied, strlen(applied), &succeeded, &revision, &err), 0);
	cr_assert(succeeded);
	static const char *const wrong[] = {"{}", "", "{\"succeeded\":true}", "{" HEADER ",\"succeeded\":1}"};
	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(answer_txn(wrong[i], strlen(wrong[i]), &succeeded, &revision, &err), -EBADMSG);
}

static int lease(const char *text, uint64_t *ttl)
{
	return answer_lease(text, strlen(text), 7, ttl, &err);
}

Test(answer, leases)
{
	uint64_t ttl;
	cr_assert_eq(lease("{" HEADER ",\"ID\":\"7\",\"TTL\":\"5\"}", &ttl), 0, "%s", err.text);
	cr_assert_eq(ttl, 5u);
	cr_assert_eq(lease("{\"result\":{" HEADER ",\"ID\":\"7\",\"TTL\":\"2\"}}\n", &ttl), 0, "%s", err.text);
	cr_assert_eq(ttl, 2u);
	cr_assert_eq(lease("{\"result\":{" HEADER ",\"ID\":\"7\"}}", &ttl), 0, "%s", err.text); /* it has ended */
	cr_assert_eq(ttl, 0u);
	cr_assert_eq(lease("{" HEADER ",\"ID\":\"8\",\"TTL\":\"5\"}", &ttl), -EBADMSG);
	cr_assert_eq(lease("{" HEADER ",\"TTL\":\"5\"}", &ttl), -EBADMSG);
	cr_assert_eq(lease("{" HEADER ",\"ID\":\"7\",\"TTL\":\"-1\"}", &ttl), -EBADMSG);
	cr_assert_eq(lease("{" HEADER ",\"ID\":\"7\",\"TTL\":\"18446744073709551615\"}", &ttl), -EBADMSG);
	cr_assert_eq(lease("{\"result\":7}", &ttl), -EBADMSG);
}

static char token[ANSWER_TOKEN_MAX];

static int login(const char *value)
{
	char text[2 * ANSWER_TOKEN_MAX];
	snprintf(text, sizeof(text), "{%s,\"token\":\"%s\"}", HEADER, value);
	return answer_login(text, strlen(text), token, &err);
}

Test(answer, a_token_may_stand_in_a_header)
{
	char big[ANSWER_TOKEN_MAX];
	cr_assert_eq(login("abc.7"), 0, "%s", err.text);
	cr_assert_str_eq(token, "abc.7");
	cr_assert_eq(login(""), -EBADMSG);
	cr_assert_eq(login("a b"), -EBADMSG);
	cr_assert_eq(login("a\\r\\nX: y"), -EBADMSG);
	cr_assert_eq(login("\xc3\xbc"), -EBADMSG);
	memset(big, 't', sizeof(big));
	big[sizeof(big) - 1] = 0;
	cr_assert_eq(login(big), -EBADMSG);
	big[sizeof(big) - 2] = 0;
	cr_assert_eq(login(big), 0);
}
