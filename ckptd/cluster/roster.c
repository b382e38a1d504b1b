#include "cluster/roster.h"

#include "base/cleanup.h"
#include "base/number.h"
#include "base/quoted.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the parser stands. */
struct source {
	const char *path;
	unsigned line;
	struct err *err;
};

#define WRONG(s, ...) err_prefix_line(s, err_set((s)->err, -EINVAL, __VA_ARGS__))

static int err_prefix_line(const struct source *s, int rc)
{
	return err_prefix(s->err, rc, "%s:%u", s->path, s->line);
}

/* The next word of a line that ends at `end`, cut out in place; NULL: no more. */
static char *next_word(char **at, const char *end)
{
	while (*at < end && strchr(" \t\r", **at))
		++*at;
	if (*at >= end || **at == '#')
		return NULL;
	char *word = *at;
	while (*at < end && !strchr(" \t\r", **at))
		++*at;
	if (*at < end)
		*(*at)++ = 0;
	return word;
}

static bool is_host_name(const char *host)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
	size_t n = strlen(host);
	/* What is all digits and dots is an address with a mistake. */
	return n && host[0] != '.' && host[0] != '-' && strspn(host, letters) == n && strspn(host, "0123456789.") != n;
}

/* An address is kept as inet_ntop writes it, so that two spellings of one are found. */
static bool take_host(const char *host, bool bracketed, char dst[ROSTER_HOST_MAX])
{
	struct in6_addr address;
	int family = bracketed ? AF_INET6 : AF_INET;
	if (inet_pton(family, host, &address) == 1)
		return inet_ntop(family, &address, dst, ROSTER_HOST_MAX);
	if (bracketed || !is_host_name(host))
		return false;
	memcpy(dst, host, strlen(host) + 1);
	return true;
}

static int take_address(const struct source *s, const char *text, struct roster_node *node)
{
	char host[ROSTER_HOST_MAX];
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;
	bool bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
	const char *begin = text + bracketed;
	n -= bracketed ? 2 : 0;
	uint64_t port = 0;
	if (!n || n >= sizeof(host) || !number_parse(colon + 1, UINT16_MAX, &port) || !port)
		return WRONG(s, "%s is not HOST:PORT, with a port from 1 to 65535", quoted(text).text);
	memcpy(host, begin, n);
	host[n] = 0;
	if (!take_host(host, bracketed, node->host))
		return WRONG(s, "%s is neither an address (10.0.0.1:7470, [fd00::1]:7470) nor a host name",
			     quoted(text).text);
	node->port = (uint16_t)port;
	return 0;
}

static int take_label(const struct source *s, const char *what, const char *value, char dst[ROSTER_LABEL_MAX])
{
	if (dst[0])
		return WRONG(s, "%s stands twice", what);
	int rc = name_check(what, value, ROSTER_LABEL_MAX, s->err);
	if (rc)
		return err_prefix_line(s, rc);
	snprintf(dst, ROSTER_LABEL_MAX, "%s", value);
	return 0;
}

static int take_word(const struct source *s, const char *word, struct roster_node *node)
{
	if (!strncmp(word, "rack=", 5))
		return take_label(s, "rack", word + 5, node->rack);
	if (!strncmp(word, "switch=", 7))
		return take_label(s, "switch", word + 7, node->switch_name);
	if (!strcmp(word, "spare"))
		return WRONG(
			s,
			"spare is no word of a roster: take it out, and start ckpt run with --spare on node %s, or "
			"with --spares %s",
			node->name, node->name);
	return WRONG(s, "%s is not known: after the address come rack=NAME and switch=NAME", quoted(word).text);
}

/* 1: a node; 0: an empty line. */
static int take_line(const struct source *s, char *at, const char *end, struct roster_node *node)
{
	char *name = next_word(&at, end);
	if (!name)
		return 0;
	*node = (struct roster_node){.line = s->line};
	int rc = name_check("node", name, NAME_NODE_MAX, s->err);
	if (rc)
		return err_prefix_line(s, rc);
	snprintf(node->name, sizeof(node->name), "%s", name);
	const char *address = next_word(&at, end);
	if (!address)
		return WRONG(s, "node %s has no address: expected NAME HOST:PORT", name);
	rc = take_address(s, address, node);
	for (const char *word; !rc && (word = next_word(&at, end));)
		rc = take_word(s, word, node);
	return rc ? rc : 1;
}

static int add_node(struct roster *r, unsigned *room, const struct roster_node *node)
{
	if (r->n == *room) {
		unsigned more = *room ? 2 * *room : 16;
		struct roster_node *nodes = realloc(r->nodes, more * sizeof(*nodes));
		if (!nodes)
			return -ENOMEM;
		r->nodes = nodes;
		*room = more;
	}
	r->nodes[r->n++] = *node;
	return 0;
}

static int take_lines(struct source *s, char *text, size_t len, struct roster *r)
{
	unsigned room = 0;
	for (char *at = text, *end; at < text + len; at = end + 1) {
		struct roster_node node;
		end = memchr(at, '\n', (size_t)(text + len - at));
		end = end ? end : text + len;
		s->line++;
		if (memchr(at, 0, (size_t)(end - at)))
			return WRONG(s, "a NUL byte: is this a text file?");
		*end = 0;
		int rc = take_line(s, at, end, &node);
		if (rc < 0)
			return rc;
		if (rc && r->n == ROSTER_NODES_MAX)
			return err_set(s->err, -E2BIG, "%s:%u: more than %d nodes", s->path, s->line, ROSTER_NODES_MAX);
		if (rc && add_node(r, &room, &node))
			return err_set(s->err, -ENOMEM, "%s: no memory for the nodes", s->path);
	}
	return r->n ? 0 : err_set(s->err, -EINVAL, "%s: names no node", s->path);
}

/* ---- what must not stand twice */

static int compare_names(const void *a, const void *b)
{
	const struct roster_node *const *x = a, *const *y = b;
	int order = strcmp((*x)->name, (*y)->name);
	return order ? order : (*x)->line < (*y)->line ? -1 : 1;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct roster_node *const *x = a, *const *y = b;
	int order = strcasecmp((*x)->host, (*y)->host);
	if (!order)
		order = (*x)->port - (*y)->port;
	return order ? order : (*x)->line < (*y)->line ? -1 : 1;
}

static bool same_address(const struct roster_node *a, const struct roster_node *b)
{
	return a->port == b->port && !strcasecmp(a->host, b->host);
}

static int check_twice(struct source *s, const struct roster *r)
{
	AUTO_FREE const struct roster_node **order = calloc(r->n, sizeof(*order));
	if (!order)
		return err_set(s->err, -ENOMEM, "%s: no memory for the nodes", s->path);
	for (unsigned i = 0; i < r->n; i++)
		order[i] = &r->nodes[i];
	qsort(order, r->n, sizeof(*order), compare_names);
	for (unsigned i = 1; i < r->n; i++) {
		s->line = order[i]->line;
		if (!strcmp(order[i - 1]->name, order[i]->name))
			return WRONG(s, "node %s stands on line %u, too", order[i]->name, order[i - 1]->line);
	}
	qsort(order, r->n, sizeof(*order), compare_addresses);
	for (unsigned i = 1; i < r->n; i++) {
		s->line = order[i]->line;
		if (same_address(order[i - 1], order[i]))
			return WRONG(s, "node %s has the address of node %s on line %u", order[i]->name,
				     order[i - 1]->name, order[i - 1]->line);
	}
	return 0;
}

int roster_parse(const char *path, const char *text, size_t len, struct roster **out, struct err *err)
{
	struct source s = {.path = path, .err = err};
	struct roster *r = calloc(1, sizeof(*r));
	AUTO_FREE char *copy = malloc(len + 1);
	if (!r || !copy) {
		free(r);
		return err_set(err, -ENOMEM, "%s: no memory for the nodes", path);
	}
	memcpy(copy, text, len);
	int rc = take_lines(&s, copy, len, r);
	if (!rc)
		rc = check_twice(&s, r);
	r->max = r->n;
	if (rc)
		roster_free(r);
	else
		*out = r;
	return rc;
}

void roster_free(struct roster *roster)
{
	if (!roster)
		return;
	free(roster->nodes);
	free(roster);
}

int roster_find(const struct roster *roster, const char *name)
{
	for (unsigned i = 0; i < roster->n; i++)
		if (roster->nodes[i].port && !strcmp(roster->nodes[i].name, name))
			return (int)i;
	return -ENOENT;
}

int roster_read(const char *path, struct roster **out, struct err *err)
{
	struct stat st;
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot read the roster %s: %s", path, err_name(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "the roster %s is not a file", path);
	if (st.st_size > ROSTER_FILE_MAX)
		return err_set(err, -EFBIG, "the roster %s has %lld bytes: at most %d", path, (long long)st.st_size,
			       ROSTER_FILE_MAX);
	size_t len = 0, size = (size_t)st.st_size;
	AUTO_FREE char *text = malloc(size + 1);
	if (!text)
		return err_set(err, -ENOMEM, "no memory to read the roster %s", path);
	for (ssize_t n = 1; n && len < size; len += (size_t)n) {
		n = read(fd, text + len, size - len);
		if (n < 0)
			return err_set(err, -errno, "cannot read the roster %s: %s", path, err_name(errno));
	}
	return roster_parse(path, text, len, out, err);
}

/* ---- open ones ----------------------------------------------------------------------------------------------------- */

static struct roster *make(unsigned max)
{
	struct roster *r = calloc(1, sizeof(*r));
	struct roster_node *nodes = r ? calloc(max, sizeof(*nodes)) : NULL; /* pages that nobody touches cost nothing */
	if (!nodes) {
		free(r);
		return NULL;
	}
	*r = (struct roster){.nodes = nodes, .max = max};
	return r;
}

struct roster *roster_new(void)
{
	struct roster *r = make(ROSTER_MEMBERS_MAX);
	if (r)
		r->open = true;
	return r;
}

struct roster *roster_copy(const struct roster *roster)
{
	struct roster *r = make(roster->max);
	if (!r)
		return NULL;
	memcpy(r->nodes, roster->nodes, roster->n * sizeof(*r->nodes));
	r->n = roster->n;
	r->open = roster->open;
	return r;
}

void roster_put(struct roster *roster, unsigned number, const struct roster_node *node)
{
	if (number >= roster->max)
		return;
	roster->nodes[number] = *node;
	if (number >= roster->n)
		roster->n = number + 1;
}

bool roster_has(const struct roster *roster, unsigned node)
{
	return node < roster->n && roster->nodes[node].port;
}

unsigned roster_first(const struct roster *roster)
{
	for (unsigned i = 0; i < roster->n; i++)
		if (roster_has(roster, i))
			return i;
	return NO_NODE;
}

unsigned roster_room(const struct roster *roster)
{
	unsigned room = 2 * roster->n < ROSTER_ROOM_MIN ? ROSTER_ROOM_MIN : 2 * roster->n;
	return !roster->open ? roster->n : room < roster->max ? room : roster->max;
}

char *roster_print(const struct roster_node *node, char *dst, size_t size)
{
	bool brackets = strchr(node->host, ':');
	snprintf(dst, size, "%s%s%s:%u%s%s%s%s", brackets ? "[" : "", node->host, brackets ? "]" : "", node->port,
		 *node->rack ? " rack=" : "", node->rack, *node->switch_name ? " switch=" : "", node->switch_name);
	return dst;
}
