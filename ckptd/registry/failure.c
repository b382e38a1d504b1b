/* What etcd's refusals mean. Its codes are gRPC's, and one code stands for what must be told apart: so the words decide, too. */
#include "registry/answer_private.h"
#include "registry/json_private.h"

#include <stdio.h>
#include <string.h>

/* In etcd's api/v3rpc/rpctypes/error.go, each behind "etcdserver: "; part of them, as what is around them differs between versions. */
static const struct {
	const char *words;
	enum failure means;
} table[] = {
	{"no leader", FAILURE_ELSEWHERE},
	{"too many requests", FAILURE_ELSEWHERE},
	{"not capable", FAILURE_ELSEWHERE},
	{"rpc not supported for learner", FAILURE_ELSEWHERE},
	{"future revision", FAILURE_ELSEWHERE},
	{"invalid auth token", FAILURE_TOKEN},
	{"revision of auth store is old", FAILURE_TOKEN},
	{"requested lease not found", FAILURE_LEASE},
	{"has been compacted", FAILURE_COMPACTED},
	{"permission denied", FAILURE_DENIED},
	{"authentication failed", FAILURE_DENIED},
	{"user name is empty", FAILURE_DENIED},
	{"user name not found", FAILURE_DENIED},
	{"database space exceeded", FAILURE_FULL},
	{"request is too large", FAILURE_REQUEST},
	{"too many operations", FAILURE_REQUEST},
	{"duplicate key given", FAILURE_REQUEST},
};

enum failure answer_words_mean(const char *words)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strstr(words, table[i].words))
			return table[i].means;
	return FAILURE_UNKNOWN;
}

/* What is no JSON comes from whoever stands before etcd's gateway: one line of it is worth telling. */
static void tell_status(const char *text, size_t len, long status, char *words)
{
	enum { NOT_FOUND = 404, LINE_MAX_BYTES = 160 };
	size_t n = 0;
	while (n < len && n < LINE_MAX_BYTES && text[n] >= ' ' && text[n] <= '~')
		n++;
	snprintf(words, ANSWER_WORDS_MAX, "it answers with HTTP status %ld%s%.*s", status, n ? ": " : "", (int)n, text);
	if (status == NOT_FOUND)
		snprintf(words, ANSWER_WORDS_MAX, "it does not know of /v3: etcd 3.4 or later is needed");
}

enum failure answer_failure(const void *text, size_t len, long status, char *words)
{
	enum { BAD_REQUEST = 400 };
	struct err ignored;
	AUTO_JSON json_t *answer = json_read(text, len, &ignored);
	enum failure failure = FAILURE_UNKNOWN;
	/* A unary call fails with {"error":"words",…}, a stream with {"error":{"message":"words",…}}. */
	const json_t *error = json_object_get(answer, "error");
	if (answer && !json_text(json_is_object(error) ? error : answer, "message", words, ANSWER_WORDS_MAX) &&
	    words[0])
		failure = answer_words_mean(words);
	else
		tell_status(text, len, status, words);
	return failure == FAILURE_UNKNOWN && status == BAD_REQUEST ? FAILURE_REQUEST : failure;
}
