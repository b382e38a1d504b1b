/* Command line of ckptd. Settings and their flags are the table of config/setting.h; here is what surrounds them. */
#ifndef CKPTD_RUNTIME_OPTIONS_H
#define CKPTD_RUNTIME_OPTIONS_H

#include "config/sources.h"

/* Reads configuration files, environment and flags. 0: *sources is complete, the caller's; 1: help or version was printed; -errno: err
 * says where the mistake is and what is allowed. May be called again with the same arguments, to read the files anew. */
int options_parse(int argc, char **argv, struct sources **sources, struct err *err);

#endif
