#include "registry/url_private.h"

#include "base/quoted.h"
#include "registry/registry.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PORT_MAX = 65535, NAME_MAX_BYTES = 253, NUMBER_MAX = 47, PORT_DIGITS = 5 };

static const char *const schemes[] = {"etcd://", "etcds://"};

static bool is_letter(char c, const char *more)
{
	return isalnum((unsigned char)c) || (c && strchr(more, c));
}

static bool all_of(const char *text, size_t len, const char *more)
{
	for (size_t i = 0; i < len; i++)
		if (!is_letter(text[i], more))
			return false;
	return len;
}

/* The digits behind a colon, or nothing at all: 0 where that is no port. */
static unsigned parse_port(const char *text, size_t len)
{
	unsigned port = 0;
	if (!len)
		return URL_PORT;
	if (text[0] != ':' || len < 2 || len > PORT_DIGITS + 1)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		port = port * 10 + (unsigned)(text[i] - '0');
	}
	return port <= PORT_MAX ? port : 0;
}

/* Bytes of the host: a name, a numeric address, or one of IPv6 in brackets; 0 where it is none. */
static size_t host_length(const char *text, size_t len)
{
	if (len && text[0] == '[') {
		const char *end = memchr(text, ']', len);
		size_t n = end ? (size_t)(end - text) + 1 : 0;
		return n && n <= NUMBER_MAX && all_of(text + 1, n - 2, ":.") ? n : 0;
	}
	const char *colon = memchr(text, ':', len);
	size_t n = colon ? (size_t)(colon - text) : len;
	return n <= NAME_MAX_BYTES && all_of(text, n, ".-_") && text[0] != '-' ? n : 0;
}

static int parse_endpoint(const char *text, size_t len, struct url *out, struct err *err)
{
	size_t host = host_length(text, len);
	unsigned port = host ? parse_port(text + host, len - host) : 0;
	if (!port)
		return err_set(err, -EINVAL, "%s is no HOST:PORT", quoted_part(text, len).text);
	if (out->n == URL_ENDPOINTS_MAX)
		return err_set(err, -EINVAL, "it names more than %d hosts", URL_ENDPOINTS_MAX);
	snprintf(out->endpoints[out->n], URL_HOST_MAX, "%.*s:%u", (int)host, text, port);
	for (unsigned i = 0; i < out->n; i++)
		if (!strcasecmp(out->endpoints[i], out->endpoints[out->n]))
			return err_set(err, -EINVAL, "it names %s twice", out->endpoints[i]);
	out->n++;
	return 0;
}

static int parse_endpoints(const char *text, size_t len, struct url *out, struct err *err)
{
	int rc = 0;
	for (size_t at = 0; !rc && at <= len;) {
		const char *comma = memchr(text + at, ',', len - at);
		size_t n = comma ? (size_t)(comma - text) - at : len - at;
		rc = parse_endpoint(text + at, n, out, err);
		at += n + 1;
	}
	return rc;
}

/* Everything behind the hosts' slash; a slash at the end does not count. */
static int parse_prefix(const char *text, struct url *out, struct err *err)
{
	size_t len = strlen(text);
	if (len && text[len - 1] == '/')
		len--;
	if (!len)
		return err_set(err, -EINVAL,
			       "it ends without a prefix: add one that is this cluster's alone, such as /ckpt");
	if (len > URL_PREFIX_MAX - 2)
		return err_set(err, -EINVAL, "its prefix has more than %d bytes", URL_PREFIX_MAX - 2);
	if (!all_of(text, len, "/._-") || text[0] == '/' || strstr(text, "//"))
		return err_set(err, -EINVAL, "its prefix %s is not made of A-Z a-z 0-9 . _ - between single slashes",
			       quoted_part(text, len).text);
	snprintf(out->prefix, sizeof(out->prefix), "/%.*s/", (int)len, text);
	return 0;
}

int url_parse(const char *text, struct url *out, struct err *err)
{
	*out = (struct url){.tls = !strncmp(text, schemes[1], strlen(schemes[1]))};
	size_t scheme = strlen(schemes[out->tls]);
	if (strncmp(text, schemes[out->tls], scheme) != 0)
		return err_set(err, -EINVAL, "%s does not begin with etcd:// or etcds://", quoted(text).text);
	const char *hosts = text + scheme, *slash = strchr(hosts, '/');
	size_t len = slash ? (size_t)(slash - hosts) : strlen(hosts);
	int rc = parse_endpoints(hosts, len, out, err);
	if (!rc)
		rc = parse_prefix(slash ? slash + 1 : "", out, err);
	return rc ? err_prefix(err, rc, "%s", shown_path(text).text) : 0;
}

int registry_prefix(const char *url, char out[REGISTRY_PREFIX_MAX], struct err *err)
{
	struct url parsed;
	int rc = url_parse(url, &parsed, err);
	_Static_assert(sizeof(parsed.prefix) <= REGISTRY_PREFIX_MAX, "a prefix fits");
	if (!rc)
		memcpy(out, parsed.prefix, sizeof(parsed.prefix));
	return rc;
}
