/* Shared memory that outlives its processes: what the ranks of a job have mapped is noted while they live, and looked for
 * when all of them should have ended. Of memory without a name (memfd) somebody has to hold a descriptor or a mapping; a
 * file in /dev/shm stays by itself. */
#ifndef CKPT_CLI_LEFT_MEMORY_H
#define CKPT_CLI_LEFT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LEFT_MEMORY_NAME_MAX = 128, LEFT_MEMORY_TEXT_MAX = 256 };

struct left_memory {
	struct left_segment {
		dev_t dev;
		ino_t ino;
		char name[LEFT_MEMORY_NAME_MAX]; /* "/memfd:ckpt:gpt", or a path in /dev/shm */
	} * of;
	size_t n, room;
};

/* What the process has mapped, to share and to write: arenas, and files in /dev/shm. Of a process that has gone nothing. -ENOMEM. */
int left_memory_note(struct left_memory *all, pid_t pid);
/* For another process on this machine: what was noted from the from-th on is put behind what the file has, and is read from it. That of
 * before a restart of the machine is none of it. A file that is missing has nothing. 0 or -errno. */
int left_memory_append(const struct left_memory *all, size_t from, const char *path);
int left_memory_read(struct left_memory *all, const char *path);
/* Some of it is still there; text says what, and who has it. */
bool left_memory_find(const struct left_memory *all, char text[LEFT_MEMORY_TEXT_MAX]);
void left_memory_free(struct left_memory *all);

#endif
