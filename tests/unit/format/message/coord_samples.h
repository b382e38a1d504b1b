/* A message of each type between nodes and the coordinator, with something in each of its fields. */
#ifndef CKPT_TESTS_COORD_SAMPLES_H
#define CKPT_TESTS_COORD_SAMPLES_H

#include "format/message/peer_coord.h"

struct peer_report a_report(enum peer_type type);
struct peer_order an_order(enum peer_type type);

#endif
