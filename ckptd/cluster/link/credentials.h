/* Credentials: how a daemon proves over TLS 1.3 that it belongs to the cluster, and as which node. One of two:
 *
 *	the cluster key     external PSK with (EC)DHE. The PSK of a connection is derived from the key and both names in their order, caller
 *	                    and callee, so that it proves both, and nothing that one has said is taken when it comes back to it (RFC 9257,
 *	                    4.1). A process that has the key can be any node.
 *	certificates        of a CA of one's own, with the node's name as a DNS name in each. A process that has one can be that node alone.
 *
 * Both are forward secret. No tickets, no early data, no other version, one cipher: TLS_AES_256_GCM_SHA384. */
#ifndef CKPTD_LINK_CREDENTIALS_H
#define CKPTD_LINK_CREDENTIALS_H

#include "cluster/net.h"

#include <openssl/ssl.h>
#include <stdbool.h>

struct credentials;

/* The roster must live as long as they do, and all connections made with them. -EINVAL, -EACCES, -ENOENT, …: the sentence
 * names the file. */
int credentials_new(const struct net_credentials *files, const struct roster *roster, unsigned self,
		    struct credentials **out, struct err *err);
/* Connections that stand stay. NULL is allowed. */
void credentials_free(struct credentials *c);

/* A connection to a node, and one from nobody knows whom. While the cluster's key is changed the node may not have the new one yet: each
 * attempt that has failed is followed by one with the next key. NULL: no memory. */
SSL *credentials_call(struct credentials *c, unsigned node, unsigned attempt);
SSL *credentials_answer(struct credentials *c);

/* Of one that was accepted, once its first message is there: the handshake stops before anything is computed, and goes on
 * when it is called again. Who calls, as it says itself; -ENOENT: it says nothing of the kind, as with certificates. */
int credentials_claimed(SSL *ssl);
/* Whether the other end of a connection that is set up has proved to be this node. */
bool credentials_proved(SSL *ssl, unsigned node);
/* Whether the other end has said something that only the cluster can say, but may have recorded: it is more than a stranger. */
bool credentials_known(SSL *ssl);

#endif
