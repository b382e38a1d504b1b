#include "format/files/safetensors_view.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct safetensors_views views;
static struct err err;

static int read_text(const char *json)
{
	static uint8_t head[4096];
	size_t n = strlen(json);
	cr_assert_lt(n, sizeof(head) - 8);
	memcpy(head + 8, json, n);
	err = (struct err){0};
	return safetensors_views_read(head, n + 8, &views, &err);
}

static int read_pieces(const char *key, const char *value)
{
	static char json[4096];
	snprintf(json, sizeof(json), "{\"w\":{\"x\":[1]},\"__metadata__\":{\"format\":\"pt\",\"%s\":\"%s\"}}", key,
		 value);
	return read_text(json);
}

Test(safetensors_view, ours_say_it_all)
{
	cr_assert_eq(read_pieces("ckpt.pieces",
				 "{\\\"w\\\":{\\\"tensor\\\":\\\"t\\\",\\\"shape\\\":[4,2],\\\"offset\\\":[1,0]},"
				 "\\\"v\\\":{\\\"tensor\\\":\\\"t\\\",\\\"shape\\\":[4,2],\\\"start\\\":5}}"),
		     0, "%s", err.text);
	const struct safetensors_view *w = safetensors_view_find(&views, "w"), *v = safetensors_view_find(&views, "v");
	cr_assert(w && v && views.n == 2);
	cr_assert_str_eq(w->tensor, "t");
	cr_assert(w->has_shape && !w->flat && w->offset.ndim == 2 && w->offset.dim[0] == 1 && w->shape.dim[1] == 2);
	cr_assert(v->flat && v->start == 5);
	cr_assert_null(safetensors_view_find(&views, "u"));
	safetensors_views_free(&views);
}

Test(safetensors_view, those_of_pytorch_lack_the_shape)
{
	cr_assert_eq(read_pieces("DCP_SHARDING_INFO", "{\\\"w\\\":{\\\"saved_offsets\\\":[2]}}"), 0, "%s", err.text);
	const struct safetensors_view *w = safetensors_view_find(&views, "w");
	cr_assert(w && !w->has_shape && !w->flat && w->offset.dim[0] == 2);
	cr_assert_str_eq(w->tensor, "w");
	safetensors_views_free(&views);
}

Test(safetensors_view, those_of_pytorch_may_have_it)
{
	cr_assert_eq(read_pieces("DCP_SHARDING_INFO", "{\\\"w#1\\\":{\\\"saved_offsets\\\":[2,0],\\\"global_shape\\\":["
						      "8,3],\\\"logical_fqn\\\":\\\"w\\\"}}"),
		     0, "%s", err.text);
	const struct safetensors_view *w = safetensors_view_find(&views, "w#1");
	cr_assert(w && w->has_shape && w->shape.ndim == 2 && w->shape.dim[0] == 8 && w->offset.dim[0] == 2);
	cr_assert_str_eq(w->tensor, "w");
	safetensors_views_free(&views);
	cr_assert_eq(read_pieces("DCP_SHARDING_INFO", "{\\\"w\\\":{\\\"saved_offsets\\\":[2],"
						      "\\\"global_shape\\\":[9223372036854775807,9]}}"),
		     -EBADMSG);
}

Test(safetensors_view, files_without_metadata_have_none)
{
	cr_assert_eq(read_text("{}"), 0);
	cr_assert_eq(views.n, 0);
	cr_assert_eq(read_text("{\"__metadata__\":{\"format\":\"pt\"},\"w\":{}}"), 0);
	cr_assert_eq(views.n, 0);
	cr_assert_null(safetensors_view_find(&views, "w"));
}

Test(safetensors_view, nonsense_is_refused_and_leaves_nothing)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{",
		"{\\\"w\\\":3}",
		"{\\\"w\\\":{}}",
		"{\\\"w\\\":{\\\"tensor\\\":\\\"t\\\",\\\"shape\\\":[1]}}",
		"{\\\"w\\\":{\\\"tensor\\\":\\\"t\\\",\\\"shape\\\":[1],\\\"offset\\\":[0],\\\"start\\\":0}}",
		"{\\\"w\\\":{\\\"tensor\\\":\\\"t\\\",\\\"shape\\\":[9223372036854775807,9],\\\"offset\\\":[0,0]}}",
		"{\\\"w\\\":{\\\"tensor\\\":\\\"t\\\",\\\"shape\\\":[1,1,1,1,1,1,1,1,1],\\\"offset\\\":[0]}}",
		"{\\\"w\\\":{\\\"tensor\\\":\\\"t\\\",\\\"shape\\\":[-1],\\\"offset\\\":[0]}}",
		"{\\\"w\\\":{\\\"tensor\\\":\\\"t\\\",\\\"tensor\\\":\\\"t\\\",\\\"shape\\\":[1],\\\"offset\\\":[0]}}",
		"{\\\"w\\\":{\\\"tensor\\\":\\\"t\\\",\\\"shape\\\":[1],\\\"offset\\\":[0]},\\\"w\\\":{\\\"tensor\\\":"
		"\\\"t\\\",\\\"shape\\\":[1],"
		"\\\"offset\\\":[0]}}",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(read_pieces("ckpt.pieces", bad[i]), -EBADMSG, "%s", bad[i]);
		cr_expect(err.text[0] && !views.n && !views.list, "%s", bad[i]);
	}
	cr_expect_eq(read_text("{\"__metadata__\":{\"ckpt.pieces\":\"{}\""), -EBADMSG);
	cr_expect_eq(read_text("x"), -EBADMSG);
	cr_expect_eq(safetensors_views_read("abc", 3, &views, &err), 0);
}
