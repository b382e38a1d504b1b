#include "registry/url_private.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct url url;
static struct err err;

Test(url, hosts_and_a_prefix)
{
	cr_assert_eq(url_parse("etcd://10.0.0.7:2379,etcd-1.example:4001/ckpt", &url, &err), 0, "%s", err.text);
	cr_assert(!url.tls);
	cr_assert_eq(url.n, 2u);
	cr_assert_str_eq(url.endpoints[0], "10.0.0.7:2379");
	cr_assert_str_eq(url.endpoints[1], "etcd-1.example:4001");
	cr_assert_str_eq(url.prefix, "/ckpt/");
}

Test(url, the_port_may_be_left_out)
{
	cr_assert_eq(url_parse("etcds://a,[fe80::1]:7,[::1]/x/y/", &url, &err), 0, "%s", err.text);
	cr_assert(url.tls);
	cr_assert_eq(url.n, 3u);
	cr_assert_str_eq(url.endpoints[0], "a:2379");
	cr_assert_str_eq(url.endpoints[1], "[fe80::1]:7");
	cr_assert_str_eq(url.endpoints[2], "[::1]:2379");
	cr_assert_str_eq(url.prefix, "/x/y/");
}

Test(url, what_is_wrong_is_said)
{
	static const struct {
		const char *text, *said;
	} wrong[] = {
		{"", "does not begin with etcd://"},
		{"http://a/b", "does not begin with etcd://"},
		{"etcd:/a/b", "does not begin with etcd://"},
		{"etcd://a", "ends without a prefix"},
		{"etcd://a/", "ends without a prefix"},
		{"etcd:///b", "\"\" is no HOST:PORT"},
		{"etcd://a,/b", "\"\" is no HOST:PORT"},
		{"etcd://,a/b", "\"\" is no HOST:PORT"},
		{"etcd://a:0/b", "\"a:0\" is no HOST:PORT"},
		{"etcd://a:/b", "\"a:\" is no HOST:PORT"},
		{"etcd://a:65536/b", "is no HOST:PORT"},
		{"etcd://a:999999/b", "is no HOST:PORT"},
		{"etcd://a:2379x/b", "is no HOST:PORT"},
		{"etcd://user@a/b", "is no HOST:PORT"},
		{"etcd://-a/b", "is no HOST:PORT"},
		{"etcd://a b/b", "is no HOST:PORT"},
		{"etcd://[::1/b", "is no HOST:PORT"},
		{"etcd://[]/b", "is no HOST:PORT"},
		{"etcd://[::1]7/b", "is no HOST:PORT"},
		{"etcd://a:1,b,a:1/b", "it names a:1 twice"},
		{"etcd://a,A:2379/b", "it names a:2379 twice"},
		{"etcd://a//b", "between single slashes"},
		{"etcd://a/b//c", "between single slashes"},
		{"etcd://a/b?c", "is not made of"},
		{"etcd://a/b\n", "is not made of"},
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_assert_eq(url_parse(wrong[i].text, &url, &err), -EINVAL, "%s is taken", wrong[i].text);
		cr_assert(strstr(err.text, wrong[i].said), "%s: %s", wrong[i].text, err.text);
	}
}

Test(url, it_is_bounded)
{
	char text[4096] = "etcd://", prefix[256], host[300];
	for (unsigned i = 0; i < URL_ENDPOINTS_MAX; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sh%u", i ? "," : "", i);
	size_t hosts = strlen(text);
	snprintf(text + hosts, sizeof(text) - hosts, "/x");
	cr_assert_eq(url_parse(text, &url, &err), 0, "%s", err.text);
	snprintf(text + hosts, sizeof(text) - hosts, ",more/x");
	cr_assert_eq(url_parse(text, &url, &err), -EINVAL);
	cr_assert(strstr(err.text, "more than 16 hosts"), "%s", err.text);

	memset(prefix, 'p', sizeof(prefix));
	snprintf(text, sizeof(text), "etcd://a/%.*s", URL_PREFIX_MAX - 2, prefix);
	cr_assert_eq(url_parse(text, &url, &err), 0, "%s", err.text);
	cr_assert_eq(strlen(url.prefix), (size_t)URL_PREFIX_MAX);
	snprintf(text, sizeof(text), "etcd://a/%.*s", URL_PREFIX_MAX - 1, prefix);
	cr_assert_eq(url_parse(text, &url, &err), -EINVAL);

	memset(host, 'h', sizeof(host));
	snprintf(text, sizeof(text), "etcd://%.253s:65535/x", host);
	cr_assert_eq(url_parse(text, &url, &err), 0, "%s", err.text);
	cr_assert_eq(strlen(url.endpoints[0]), 253u + 6);
	snprintf(text, sizeof(text), "etcd://%.254s/x", host);
	cr_assert_eq(url_parse(text, &url, &err), -EINVAL);
	memset(host, ':', sizeof(host));
	snprintf(text, sizeof(text), "etcd://[%.298s]/x", host);
	cr_assert_eq(url_parse(text, &url, &err), -EINVAL, "%s", url.endpoints[0]);
}
