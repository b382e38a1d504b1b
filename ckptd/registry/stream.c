/* The stream of a watch: one request that etcd answers for as long as the watch stands, a line of JSON for each message. */
#include "registry/registry_private.h"

#include "base/clock.h"
#include "registry/request_private.h"

#include <string.h>

static size_t on_write(char *data, size_t size, size_t n, void *arg)
{
	struct stream *s = arg;
	if (s->parsed) { /* what came before is done with */
		memmove(s->received.data, s->received.data + s->parsed, s->received.len - s->parsed);
		s->received.len -= s->parsed;
		s->parsed = 0;
	}
	s->full = s->received.len + size * n > ANSWER_BYTES_MAX;
	if (!s->full)
		wbuf_put(&s->received, data, size * n);
	return s->full || s->received.failed ? 0 : size * n;
}

int stream_open(struct registry *r, uint64_t revision)
{
	struct stream *s = &r->stream;
	stream_close(r);
	request_watch(&s->request, r->url.prefix, revision);
	s->endpoint = r->endpoint;
	s->easy = wbuf_finish(&s->request) ? NULL : call_handle(r, "/v3/watch", s->endpoint, &s->headers);
	if (!s->easy)
		return -ENOMEM;
	memcpy(s->token, r->login.token, sizeof(s->token));
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, s->request.data);
	curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->request.len);
	curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, on_write);
	curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, s->detail);
	return curl_multi_add_handle(r->pump.multi, s->easy) == CURLM_OK ? 0 : -ENOMEM;
}

void stream_close(struct registry *r)
{
	struct stream *s = &r->stream;
	if (s->easy) {
		curl_multi_remove_handle(r->pump.multi, s->easy);
		curl_easy_cleanup(s->easy);
	}
	curl_slist_free_all(s->headers);
	wbuf_free(&s->request);
	wbuf_free(&s->received);
	explicit_bzero(s->token, sizeof(s->token));
	*s = (struct stream){0};
}

bool stream_next(struct stream *s, const char **text, size_t *len)
{
	while (s->parsed < s->received.len) {
		const char *from = (const char *)s->received.data + s->parsed;
		const char *end = memchr(from, '\n', s->received.len - s->parsed);
		if (!end && !s->over)
			return false;
		*text = from;
		*len = end ? (size_t)(end - from) : s->received.len - s->parsed;
		s->parsed += *len + (end != NULL);
		if (*len)
			return true;
	}
	return false;
}

bool stream_is_over(struct registry *r, struct err *why)
{
	struct stream *s = &r->stream;
	long status = 0;
	if (!s->easy || !s->over)
		return false;
	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (s->full)
		err_set(why, 0, "%s: a message has more than %d bytes", r->url.endpoints[s->endpoint],
			ANSWER_BYTES_MAX);
	else if (s->code != CURLE_OK)
		call_explain(r, s->endpoint, s->code, s->detail, why);
	else
		err_set(why, 0, "%s: the watch has ended (HTTP status %ld)", r->url.endpoints[s->endpoint], status);
	return true;
}
