/* libFuzzer entry point: answers of etcd, by the first byte: what is taken keeps to its bounds, goes into a mirror and comes out of it
 * again, in order; nothing is told without a sentence where it is refused. */
#include "registry/answer_private.h"
#include "registry/mirror_private.h"
#include "registry/url_private.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDS_MAX = 8, BYTES_MAX = 4096 };

static void must(bool true_of_it)
{
	if (!true_of_it)
		abort();
}

static void check_record(const struct answer_record *r)
{
	must(r->key[0] && strlen(r->key) < REGISTRY_KEY_MAX && r->changed && r->created <= r->changed);
	must(r->gone ? !r->created && !r->value : r->created && r->value && r->len <= REGISTRY_VALUE_MAX);
}

static void check_mirror(const struct mirror *m)
{
	const struct mirror_record *last = NULL;
	size_t n = 0;
	for (const struct mirror_record *r = NULL; (r = mirror_next(m, "", r)); last = r, n++)
		must(mirror_find(m, r->key) == r && (!last || strcmp(last->key, r->key) < 0));
	must(n == m->n && n <= RECORDS_MAX && m->bytes <= BYTES_MAX);
}

static void mirror_all(struct answer_record *records, size_t n)
{
	struct mirror m = mirror_empty(RECORDS_MAX, BYTES_MAX);
	size_t at = 0;
	for (size_t i = 0; i < n; i++) {
		check_record(&records[i]);
		if (records[i].gone)
			mirror_record_free(mirror_remove(&m, records[i].key, records[i].changed));
		else
			mirror_put(&m, &records[i]);
		check_mirror(&m);
	}
	mirror_unmark(&m);
	for (struct mirror_record *r; (r = mirror_sweep(&m, &at));)
		mirror_record_free(r);
	must(m.n == 0 && m.bytes == 0);
	mirror_free(&m);
}

static void read_range(const void *text, size_t len)
{
	struct answer_page page;
	struct err err = {{0}};
	if (answer_range(text, len, "/ckpt/", &page, &err)) {
		must(err.text[0] && !page.records);
		return;
	}
	must(page.revision);
	mirror_all(page.records, page.n);
	answer_page_free(&page);
}

static void read_watch(const void *text, size_t len)
{
	struct answer_message message;
	struct err err = {{0}};
	if (answer_watch(text, len, "/ckpt/", &message, &err)) {
		must(err.text[0] && !message.records);
		return;
	}
	must(memchr(message.words, 0, sizeof(message.words)));
	mirror_all(message.records, message.n);
	answer_message_free(&message);
}

static void read_words(const void *text, size_t len)
{
	static char token[ANSWER_TOKEN_MAX], words[ANSWER_WORDS_MAX];
	struct err err = {{0}};
	uint64_t number;
	bool succeeded;
	must(!answer_txn(text, len, &succeeded, &number, &err) || err.text[0]);
	must(!answer_lease(text, len, 7, &number, &err) || err.text[0]);
	if (!answer_login(text, len, token, &err))
		must(token[0] && !strpbrk(token, "\r\n"));
	must(answer_failure(text, len, 503, words) != FAILURE_NONE && words[0] && memchr(words, 0, sizeof(words)));
}

static void read_url(const void *text, size_t len)
{
	struct url url;
	struct err err = {{0}};
	char *copy = calloc(1, len + 1);
	if (!copy)
		return;
	memcpy(copy, text, len);
	if (url_parse(copy, &url, &err))
		must(err.text[0]);
	else
		must(url.n && url.n <= URL_ENDPOINTS_MAX && url.prefix[0] == '/' &&
		     url.prefix[strlen(url.prefix) - 1] == '/');
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(const void *, size_t) = {read_range, read_watch, read_words, read_url};
	if (size)
		kinds[data[0] % 4](data + 1, size - 1);
	return 0;
}
