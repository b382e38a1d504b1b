#include "process/left_memory.h"

#include "base/cleanup.h"
#include "base/number.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define ARENA "/memfd:ckpt:"
#define FILES "/dev/shm/"

enum { LINE_MAX_BYTES = 512, PATH_BYTES = 300, BOOT_BYTES = 40 };

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* ---- what is mapped ------------------------------------------------------------------------------------------------ */

/* Of a line of /proc/PID/maps. False: it is none that others may have, too. */
static bool read_line(const char *line, struct left_segment *out)
{
	unsigned major_, minor_;
	unsigned long ino;
	char perms[5] = "";
	*out = (struct left_segment){.dev = 0};
	if (sscanf(line, "%*s %4s %*s %x:%x %lu %127[^\n]", perms, &major_, &minor_, &ino, out->name) != 5)
		return false;
	out->dev = makedev(major_, minor_);
	out->ino = ino;
	char *deleted = strstr(out->name, " (deleted)");
	if (deleted)
		*deleted = '\0';
	return perms[1] == 'w' && perms[3] == 's' && (begins(out->name, ARENA) || begins(out->name, FILES));
}

static bool next_mapped(FILE *maps, struct left_segment *out)
{
	char line[LINE_MAX_BYTES];
	while (fgets(line, sizeof(line), maps))
		if (read_line(line, out))
			return true;
	return false;
}

static FILE *open_maps(pid_t pid)
{
	char path[PATH_BYTES];
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	return fopen(path, "re");
}

static const struct left_segment *known(const struct left_memory *all, dev_t dev, ino_t ino)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->of[i].dev == dev && all->of[i].ino == ino)
			return &all->of[i];
	return NULL;
}

static int keep(struct left_memory *all, const struct left_segment *one)
{
	if (known(all, one->dev, one->ino))
		return 0;
	if (all->n == all->room) {
		size_t room = all->room ? 2 * all->room : 16;
		struct left_segment *more = realloc(all->of, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		all->of = more;
		all->room = room;
	}
	all->of[all->n++] = *one;
	return 0;
}

int left_memory_note(struct left_memory *all, pid_t pid)
{
	struct left_segment one;
	FILE *maps = open_maps(pid);
	int rc = 0;
	while (maps && !rc && next_mapped(maps, &one))
		rc = keep(all, &one);
	if (maps)
		fclose(maps);
	return rc;
}

/* ---- for another process ------------------------------------------------------------------------------------------- */

/* The numbers of inodes are those of another machine when it was started anew. */
static int read_boot(char boot[BOOT_BYTES])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	bool known_ = f && fscanf(f, "%39s", boot) == 1;
	if (f)
		fclose(f);
	return known_ ? 0 : -EIO;
}

int left_memory_append(const struct left_memory *all, size_t from, const char *path)
{
	char boot[BOOT_BYTES];
	int rc = read_boot(boot);
	FILE *f = rc ? NULL : fopen(path, "ae");
	if (!f)
		return rc ? rc : -errno;
	for (size_t i = from; i < all->n; i++)
		fprintf(f, "%s %x:%x %lu %s\n", boot, major(all->of[i].dev), minor(all->of[i].dev),
			(unsigned long)all->of[i].ino, all->of[i].name);
	rc = ferror(f) ? -EIO : 0;
	return fclose(f) && !rc ? -errno : rc;
}

int left_memory_read(struct left_memory *all, const char *path)
{
	char boot[BOOT_BYTES], of[BOOT_BYTES], line[LINE_MAX_BYTES];
	struct left_segment one;
	unsigned major_, minor_;
	unsigned long ino;
	int rc = read_boot(boot);
	FILE *f = rc ? NULL : fopen(path, "re");
	if (!f)
		return rc ? rc : errno == ENOENT ? 0 : -errno;
	while (!rc && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%39s %x:%x %lu %127[^\n]", of, &major_, &minor_, &ino, one.name) != 5 ||
		    strcmp(of, boot) != 0)
			continue;
		one.dev = makedev(major_, minor_);
		one.ino = ino;
		rc = keep(all, &one);
	}
	fclose(f);
	return rc;
}

void left_memory_free(struct left_memory *all)
{
	free(all->of);
	*all = (struct left_memory){.n = 0};
}

/* ---- what is left -------------------------------------------------------------------------------------------------- */

static const struct left_segment *mapped_by(const struct left_memory *all, pid_t pid)
{
	const struct left_segment *found = NULL;
	struct left_segment one;
	FILE *maps = open_maps(pid);
	while (maps && !found && next_mapped(maps, &one))
		found = known(all, one.dev, one.ino);
	if (maps)
		fclose(maps);
	return found;
}

static const struct left_segment *opened_by(const struct left_memory *all, pid_t pid)
{
	const struct left_segment *found = NULL;
	char path[PATH_BYTES];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	for (struct dirent *e; dir && !found && (e = readdir(dir));)
		if (!fstatat(dirfd(dir), e->d_name, &st, 0))
			found = known(all, st.st_dev, st.st_ino);
	return found;
}

static bool find_file(const struct left_memory *all, char text[LEFT_MEMORY_TEXT_MAX])
{
	struct stat st;
	for (size_t i = 0; i < all->n; i++) {
		const struct left_segment *one = &all->of[i];
		if (!begins(one->name, FILES) || stat(one->name, &st) || st.st_ino != one->ino || st.st_dev != one->dev)
			continue;
		snprintf(text, LEFT_MEMORY_TEXT_MAX, "the shared memory %s is left behind", one->name);
		return true;
	}
	return false;
}

static bool find_holder(const struct left_memory *all, char text[LEFT_MEMORY_TEXT_MAX])
{
	const struct left_segment *found = NULL;
	AUTO_CLOSEDIR DIR *dir = opendir("/proc");
	for (struct dirent *e; dir && !found && (e = readdir(dir));) {
		uint64_t pid;
		if (!number_parse(e->d_name, INT_MAX, &pid))
			continue;
		found = mapped_by(all, (pid_t)pid);
		found = found ? found : opened_by(all, (pid_t)pid);
		if (found)
			snprintf(text, LEFT_MEMORY_TEXT_MAX, "process %u has the shared memory %s still", (unsigned)pid,
				 found->name);
	}
	return found;
}

bool left_memory_find(const struct left_memory *all, char text[LEFT_MEMORY_TEXT_MAX])
{
	return all->n && (find_file(all, text) || find_holder(all, text));
}
