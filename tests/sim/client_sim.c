/* Clients of the simulator: what the daemon sends is kept until the rank looks. */
#include "runtime/client.h"

#include "base/cleanup.h"
#include "base/list.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

enum { KEPT_MAX = 64 };

struct message {
	struct list link;
	uint16_t type;
	uint32_t seq;
	uint64_t len;
	uint8_t body[];
};

struct client {
	struct list messages;
	unsigned n;
	struct message *taken;
	struct rank *rank; /* that the session was moved to; NULL: it was not */
	bool detached;     /* by the daemon: the connection has ended */
};

struct client *client_new(void)
{
	struct client *client = calloc(1, sizeof(*client));
	SIM_CHECK(client, "memory");
	list_init(&client->messages);
	return client;
}

void client_clear(struct client *client)
{
	for (struct list *node; (node = list_pop(&client->messages));)
		free(list_entry(node, struct message, link));
	client->n = 0;
	client->rank = NULL;
	client->detached = false;
}

void client_free(struct client *client)
{
	if (!client)
		return;
	client_clear(client);
	free(client->taken);
	free(client);
}

void client_send(struct client *client, uint16_t type, uint32_t seq, const struct wbuf *body, const int *fds, int nfds)
{
	(void)fds;
	(void)nfds;
	if (!client)
		return;
	SIM_CHECK(!body->failed, "%s could not be encoded", wire_name(type));
	struct message *m = malloc(sizeof(*m) + body->len);
	SIM_CHECK(m, "memory");
	*m = (struct message){.type = type, .seq = seq, .len = body->len};
	if (body->len)
		memcpy(m->body, body->data, body->len);
	if (client->n == KEPT_MAX) {
		free(list_entry(list_pop(&client->messages), struct message, link));
		client->n--;
	}
	list_push(&client->messages, &m->link);
	client->n++;
}

void client_error(struct client *client, uint32_t seq, int rc, const char *fmt, ...)
{
	AUTO_WBUF struct wbuf body = {0};
	struct wire_error m = {.rc = rc};
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(m.text, sizeof(m.text), fmt, ap);
	va_end(ap);
	SIM_CHECK(!wire_error_encode(&m, &body), "ERROR could not be encoded");
	client_send(client, WIRE_ERROR, seq, &body, NULL, 0);
}

/* The test sees to its clients itself. */
void client_detach(struct client *client)
{
	if (!client)
		return;
	client_clear(client);
	client->detached = true;
}

void client_kill(const struct client *client)
{
	(void)client;
}

void client_move(struct client *client, struct rank *rank)
{
	client->rank = rank;
}

bool client_moved(struct client *client, struct rank **rank)
{
	bool moved = client->rank || client->detached;
	if (moved)
		*rank = client->rank;
	client->rank = NULL;
	client->detached = false;
	return moved;
}

uint16_t client_first(const struct client *client, uint16_t a, uint16_t b)
{
	list_for(node, &client->messages) {
		uint16_t type = list_entry(node, struct message, link)->type;
		if (type == a || type == b)
			return type;
	}
	return 0;
}

bool client_take(struct client *client, uint16_t type, uint32_t *seq, const void **body, uint64_t *len)
{
	list_for(node, &client->messages) {
		struct message *m = list_entry(node, struct message, link);
		if (m->type != type)
			continue;
		list_remove(node);
		client->n--;
		free(client->taken);
		client->taken = m;
		*seq = m->seq;
		*body = m->body;
		*len = m->len;
		return true;
	}
	return false;
}
