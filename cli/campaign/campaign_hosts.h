/* A campaign on hosts: node-K is the K-th of --nodes. Its ckptd and its `ckpt run` are there, each behind a remote shell,
 * and its socket, node-K.s, is the end of a bridge. All hosts share the folder. What is left out is what breaks the
 * network: nobody has made that. */
#ifndef CKPT_CLI_CAMPAIGN_HOSTS_H
#define CKPT_CLI_CAMPAIGN_HOSTS_H

#include "campaign/campaign_run.h"

/* As many as the file has nodes; leaves out what cannot be caused there, and says so by name. An exit code. */
int campaign_hosts_accept(struct campaign *c);
/* Each can be a node; the journal has who they are. An exit code. */
int campaign_hosts_note(struct campaign *c);
/* Makes train.jsonl, and looks whether nothing of the campaign is left there; else the journal and the user are told. An exit code. */
int campaign_hosts_end(struct campaign *c);
/* campaign_gather.c: train.jsonl, of those that the hosts have written. */
int campaign_hosts_gather(const struct campaign *c, struct err *err);

/* The socket of the node on its host gets an end here. */
int campaign_hosts_bridge(struct campaign *c, uint32_t node, struct err *err);
/* "ckpt run", or of hosts "the remote shell of gpu1, which has ckpt run,": whose status is that of the job. Returns dst. */
char *campaign_hosts_who(const struct campaign *c, char *dst, size_t size);
/* So often that nobody there believes to be alone. */
void campaign_hosts_beat(struct campaign *c);
/* A fault at a daemon's process is caused on its host. */
int campaign_hosts_fault(struct campaign *c, uint32_t node, const struct fault_request *q, struct fault_result *result,
			 struct err *err);

#endif
