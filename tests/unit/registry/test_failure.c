#include "registry/answer_private.h"

#include <criterion/criterion.h>
#include <string.h>

static char words[ANSWER_WORDS_MAX];

static enum failure means(const char *text, long status)
{
	return answer_failure(text, strlen(text), status, words);
}

/* As etcd 3.4 and 3.5 write them. */
static const struct {
	const char *text;
	long status;
	enum failure means;
} table[] = {
	{"{\"error\":\"etcdserver: no leader\",\"message\":\"etcdserver: no leader\",\"code\":14}", 503,
	 FAILURE_ELSEWHERE},
	{"{\"error\":\"e\",\"message\":\"etcdserver: too many requests\",\"code\":8}", 429, FAILURE_ELSEWHERE},
	{"{\"error\":\"e\",\"message\":\"etcdserver: mvcc: required revision is a future revision\",\"code\":11}", 400,
	 FAILURE_ELSEWHERE},
	{"{\"error\":\"e\",\"message\":\"etcdserver: mvcc: required revision has been compacted\",\"code\":11}", 400,
	 FAILURE_COMPACTED},
	{"{\"error\":\"e\",\"message\":\"etcdserver: invalid auth token\",\"code\":16}", 401, FAILURE_TOKEN},
	{"{\"error\":\"e\",\"message\":\"etcdserver: revision of auth store is old\",\"code\":3}", 400, FAILURE_TOKEN},
	{"{\"error\":\"e\",\"message\":\"etcdserver: requested lease not found\",\"code\":5}", 404, FAILURE_LEASE},
	{"{\"error\":\"e\",\"message\":\"etcdserver: permission denied\",\"code\":7}", 403, FAILURE_DENIED},
	{"{\"error\":\"e\",\"message\":\"etcdserver: user name is empty\",\"code\":3}", 400, FAILURE_DENIED},
	{"{\"error\":\"e\",\"message\":\"etcdserver: authentication failed, invalid user ID or password\",\"code\":3}",
	 400, FAILURE_DENIED},
	{"{\"error\":\"e\",\"message\":\"etcdserver: mvcc: database space exceeded\",\"code\":8}", 429, FAILURE_FULL},
	{"{\"error\":\"e\",\"message\":\"etcdserver: request is too large\",\"code\":3}", 400, FAILURE_REQUEST},
	{"{\"error\":\"e\",\"message\":\"a word that nobody knows\",\"code\":3}", 400, FAILURE_REQUEST},
	{"{\"error\":\"e\",\"message\":\"etcdserver: request timed out\",\"code\":14}", 503, FAILURE_UNKNOWN},
	{"{\"error\":\"e\",\"message\":\"etcdserver: request timed out, possibly due to previous leader failure\"}",
	 503, FAILURE_UNKNOWN},
	{"{\"error\":\"e\",\"message\":\"etcdserver: leader changed\",\"code\":14}", 503, FAILURE_UNKNOWN},
	{"{\"error\":\"e\",\"message\":\"etcdserver: server stopped\",\"code\":14}", 503, FAILURE_UNKNOWN},
	{"{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\"}}", 503,
	 FAILURE_ELSEWHERE},
	{"<html>bad gateway</html>", 502, FAILURE_UNKNOWN},
	{"", 500, FAILURE_UNKNOWN},
	{"", 400, FAILURE_REQUEST},
	{"CommonName of client sending a request against gateway will be ignored\n", 400, FAILURE_REQUEST},
	{"[]", 503, FAILURE_UNKNOWN},
	{"{\"error\":{\"message\":7},\"message\":7}", 503, FAILURE_UNKNOWN},
};

Test(failure, what_etcd_says_has_one_meaning)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		cr_assert_eq(means(table[i].text, table[i].status), table[i].means, "%s", table[i].text);
}

Test(failure, its_words_are_kept)
{
	means(table[0].text, 503);
	cr_assert_str_eq(words, "etcdserver: no leader");
	means("", 502);
	cr_assert_str_eq(words, "it answers with HTTP status 502");
	means("CommonName of client will be ignored\nmore", 400);
	cr_assert_str_eq(words, "it answers with HTTP status 400: CommonName of client will be ignored");
	means("\x1b[2J", 502);
	cr_assert_str_eq(words, "it answers with HTTP status 502");
	means("404 page not found\n", 404);
	cr_assert(strstr(words, "etcd 3.4 or later is needed"), "%s", words);
}

Test(failure, long_words_are_cut)
{
	char text[2048] = "{\"message\":\"";
	memset(text + strlen(text), 'w', 1000);
	memcpy(text + 1012, "\"}", 3);
	cr_assert_eq(means(text, 503), FAILURE_UNKNOWN);
	cr_assert_eq(strlen(words), ANSWER_WORDS_MAX - 1u);
}
