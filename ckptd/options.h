/* Command line and environment of ckptd. */
#ifndef CKPTD_OPTIONS_H
#define CKPTD_OPTIONS_H

#include "base/err.h"
#include "daemon.h"

/* 0: *config is complete; 1: help or version was printed; -EINVAL: err says which option and what it takes. */
int options_parse(int argc, char **argv, struct config *config, struct err *err);

#endif
