/* File: configuration files, read with inih.
 *
 *	# a comment; "key = value ; a comment" too
 *	[node]
 *	[job]            every job
 *	[job NAME]       one job; NAME may hold * and ?
 *	[user]           every user of a system service
 *	[user NAME]      one user; NAME may hold * and ?
 *	[user @NAME]     the members of a group
 *
 * A file is checked as a whole before anything of it counts. Unknown sections and keys, values that are not allowed, and
 * keys that stand twice in a section are errors that name file and line. */
#ifndef CKPT_CONFIG_FILE_H
#define CKPT_CONFIG_FILE_H

#include "config/sources.h"

enum { CONFIG_FILE_MAX = 64 << 10 }; /* bytes */

#define CONFIG_SYSTEM "/etc/ckpt/ckpt.conf"

/* Adds what the text says; path is for messages. -EINVAL. After an error `sources` is fit only to be freed. */
int file_parse(struct sources *sources, const char *path, const char *text, size_t len, struct err *err);
/* Adds what a file says. -ENOENT and other errors of reading; -EFBIG. */
int file_read(struct sources *sources, const char *path, struct err *err);
/* The file of `path`, which must be there; NULL: of CKPT_CONFIG; else CONFIG_SYSTEM and then
 * $XDG_CONFIG_HOME/ckpt/ckpt.conf ($HOME/.config/… where that is not set), as far as they are there. */
int file_read_all(struct sources *sources, const char *path, struct err *err);

#endif
