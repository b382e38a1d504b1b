/* What service/service_manager.c and the two kinds of managers share: systemd (service/service_manager_systemd.c, or
 * service/service_manager_none.c where it is built without), and the warden of a system service
 * (service/service_manager_worker.c). */
#ifndef CKPTD_SERVICE_SERVICE_MANAGER_PRIVATE_H
#define CKPTD_SERVICE_SERVICE_MANAGER_PRIVATE_H

#include "service/service_manager.h"

#include <stddef.h>

struct manager_kind {
	/* The next connection at the control socket; -errno. */
	int (*accept)(struct manager *m, int listener);
	bool (*keep)(struct manager *m, const char *name, int fd);
	void (*drop)(struct manager *m, const char *name);
	void (*ready)(struct manager *m, const char *status);
	void (*stopping)(struct manager *m);
	void (*turn)(struct manager *m, uint64_t now);
};

struct passed {
	char *name;
	int fd; /* -1: taken */
};

struct manager {
	const struct manager_kind *kind;
	int socket;
	struct passed *arenas;
	size_t narenas, next;
	uint64_t pause_ns; /* between two keep-alives; 0: none is wanted */
	uint64_t alive_ns; /* when the last one was sent */
	/* of a warden */
	uint64_t connections; /* that it has passed */
	uint64_t leased;      /* bytes that it has promised */
	bool told;            /* it knows how many are in use, also from an earlier incarnation */
	uint64_t write_bandwidth, read_bandwidth, linger_ns;
	uint64_t idle_since; /* 0: not */
};

/* Each fills an empty manager. 1: there is none of this kind. */
int manager_open_systemd(struct manager *m, struct err *err);
int manager_open_warden(struct manager *m, struct err *err);
/* Takes over both. */
int manager_add_passed(struct manager *m, char *name, int fd);

int warden_reserve(struct manager *m, uint64_t bytes, struct err *err);
void warden_used(struct manager *m, uint64_t bytes);

#endif
