/* The way to the first node, which coordinates all jobs that are spread over nodes, comes and goes. */
#ifndef CKPTD_DISPATCH_COORDINATOR_LINK_H
#define CKPTD_DISPATCH_COORDINATOR_LINK_H

struct daemon;

void coordinator_link_up(struct daemon *daemon);
void coordinator_link_down(struct daemon *daemon);

#endif
