#include "registry/request_private.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

static struct wbuf body;

/* The text so far; it must be JSON, and is begun anew. */
static const char *text(void)
{
	static char out[8192];
	json_error_t error;
	cr_assert_eq(wbuf_finish(&body), 0);
	cr_assert_lt(body.len, sizeof(out));
	memcpy(out, body.data, body.len);
	out[body.len] = 0;
	wbuf_free(&body);
	json_t *json = json_loads(out, JSON_REJECT_DUPLICATES, &error);
	cr_assert(json, "%s: %s", error.text, out);
	json_decref(json);
	return out;
}

Test(request, a_range_is_all_under_the_prefix)
{
	request_range(&body, &(struct request_range){.prefix = "/a/", .limit = 7});
	cr_assert_str_eq(text(), "{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\",\"limit\":\"7\"}");
}

Test(request, a_later_page_of_what_was_changed)
{
	request_range(&body, &(struct request_range){"/a/", "/a/k\0", 5, 7, 9, 5, true});
	cr_assert_str_eq(text(), "{\"key\":\"L2EvawA=\",\"range_end\":\"L2Ew\",\"limit\":\"7\",\"revision\":\"9\","
				 "\"min_mod_revision\":\"5\",\"keys_only\":true}");
}

Test(request, a_transaction)
{
	static const struct registry_compare compare[] = {{"k", true, 0}, {"l", false, UINT64_MAX}};
	static const struct registry_change change[] = {{"k", "v", 1, true}, {"l", "", 0, false}, {"m", NULL, 0, true}};
	request_txn(&body, "/a/", 77, compare, 2, change, 3);
	cr_assert_str_eq(text(),
			 "{\"compare\":[{\"result\":\"EQUAL\",\"key\":\"L2Evaw==\",\"target\":\"CREATE\",\"create_"
			 "revision\":\"0\"},"
			 "{\"result\":\"EQUAL\",\"key\":\"L2EvbA==\",\"target\":\"MOD\",\"mod_revision\":"
			 "\"18446744073709551615\"}],"
			 "\"success\":[{\"request_put\":{\"key\":\"L2Evaw==\",\"value\":\"dg==\",\"lease\":\"77\"}},"
			 "{\"request_put\":{\"key\":\"L2EvbA==\",\"value\":\"\"}},{\"request_delete_range\":{\"key\":"
			 "\"L2EvbQ==\"}}]}");
	request_txn(&body, "/a/", 0, NULL, 0, NULL, 0);
	cr_assert_str_eq(text(), "{\"compare\":[],\"success\":[]}");
}

Test(request, a_key_that_is_too_long_makes_none)
{
	char key[REGISTRY_KEY_MAX + 256];
	memset(key, 'k', sizeof(key));
	key[sizeof(key) - 1] = 0;
	request_txn(&body, "/a/", 0, NULL, 0, &(struct registry_change){key, NULL, 0, false}, 1);
	cr_assert_eq(wbuf_finish(&body), -ENOMEM);
	wbuf_free(&body);
}

Test(request, leases_and_watches)
{
	request_grant(&body, 5, 2);
	cr_assert_str_eq(text(), "{\"ID\":\"5\",\"TTL\":\"2\"}");
	request_lease(&body, INT64_MAX);
	cr_assert_str_eq(text(), "{\"ID\":\"9223372036854775807\"}");
	request_watch(&body, "/a/", 12);
	cr_assert_str_eq(text(),
			 "{\"create_request\":{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\",\"start_revision\":\"12\","
			 "\"progress_notify\":true,\"fragment\":true}}");
}

Test(request, a_password_may_have_any_letters)
{
	request_login(&body, "ann", "a\"b\\c\td\x7f\xc3\xbc");
	cr_assert_str_eq(text(), "{\"name\":\"ann\",\"password\":\"a\\u0022b\\u005cc\\u0009d\x7f\xc3\xbc\"}");
}
