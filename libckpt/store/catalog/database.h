/* SQLite on a file of a store. What a store holds is not trusted. A FIFO in the place of the file, or of the journal that
 * SQLite looks for beside it, would be waited for without end, and a device be written to. Here nothing is opened but
 * plain files and directories. */
#ifndef CKPT_STORE_DATABASE_H
#define CKPT_STORE_DATABASE_H

struct sqlite3;

/* As sqlite3_open_v2, for all that SQLite opens in this process from then on. No part of the path may be a symbolic link:
 * where one stands, and where the file is none, SQLITE_CANTOPEN. */
int database_open(const char *path, int flags, struct sqlite3 **out);
/* After SQLITE_CANTOPEN: what is there, or its journal, can never be a database. */
int database_is_odd(struct sqlite3 *db);

#endif
