#include "change/import.h"

#include "base/cleanup.h"
#include "format/document/json_in.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char suffix[] = ".safetensors", packed[] = ".ckptz", index_name[] = "model.safetensors.index.json",
		  single[] = "model.safetensors";
enum { SUFFIX_LEN = sizeof(suffix) - 1, PACKED_LEN = sizeof(packed) - 1, INDEX_MAX = 256 << 20 };

/* ---- bytes */

static int read_at(int fd, const char *name, uint64_t from, void *data, uint64_t len, struct err *err)
{
	uint8_t *p = data;
	while (len) {
		ssize_t n = pread(fd, p, len, (off_t)from);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, "reading %s at byte %" PRIu64 ": %s", name, from, err_name(errno));
		if (!n)
			return err_set(err, -EBADMSG, "%s ends at byte %" PRIu64 ": was it changed meanwhile?", name,
				       from);
		p += n;
		from += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* Links are followed: in the caches of Hugging Face all files are links. */
static int open_file(int dir, const char *name, uint64_t *size, struct err *err)
{
	struct stat st;
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot open %s: %s", name, err_name(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s is not a file", name);
	*size = (uint64_t)st.st_size;
	return steal_fd(&fd);
}

static int read_headers(struct import_file *f, int fd, enum import_format format, struct err *err)
{
	uint8_t word[8];
	uint64_t len;
	if (f->size < sizeof(word))
		return err_set(err, -EBADMSG, "%s has %" PRIu64 " bytes: truncated?", f->name, f->size);
	int rc = read_at(fd, f->name, 0, word, sizeof(word), err);
	if (!rc)
		rc = safetensors_header_size(word, f->size, &len, err);
	if (rc < 0)
		return err_prefix(err, rc, "%s", f->name);
	AUTO_FREE uint8_t *head = malloc(len);
	if (!head)
		return err_set(err, -ENOMEM, "%s: no memory for a header of %" PRIu64 " bytes", f->name, len);
	rc = read_at(fd, f->name, 0, head, len, err);
	if (rc < 0)
		return rc;
	rc = safetensors_parse(head, len, f->size, &f->st, err);
	if (!rc && format != IMPORT_HF)
		rc = safetensors_views_read(head, len, &f->views, err);
	return rc < 0 ? err_prefix(err, rc, "%s", f->name) : 0;
}

/* ---- names */

static bool all_digits(const char *text, size_t n)
{
	return strspn(text, "0123456789") >= n;
}

/* "params.safetensors", "params-00001-of-00003.safetensors", "rank-00000-of-00008.params.part-0001.safetensors" are of the group
 * "params"; what is none's name is of "params", too. */
static void group_of(const char *name, char group[NAME_GROUP_MAX])
{
	char text[IMPORT_NAME_MAX];
	snprintf(text, sizeof(text), "%.*s", (int)(strlen(name) - SUFFIX_LEN), name);
	char *start = text;
	size_t n = strlen(text);
	if (!strncmp(text, "rank-", 5) && all_digits(text + 5, 5) && n > 20 && !strncmp(text + 10, "-of-", 4))
		start = strchr(text, '.') ? strchr(text, '.') + 1 : text;
	n = strlen(start);
	if (n > 15 && all_digits(start + n - 5, 5) && !strncmp(start + n - 9, "-of-", 4) &&
	    all_digits(start + n - 14, 5) && start[n - 15] == '-')
		start[n - 15] = 0;
	else if (n > 10 && all_digits(start + n - 4, 4) && !strncmp(start + n - 10, ".part-", 6))
		start[n - 10] = 0;
	const char *found = name_check_group(start, NULL) < 0 ? "params" : start;
	memcpy(group, found, strlen(found) + 1); /* checked: below NAME_GROUP_MAX */
}

static int add_file(struct import_files *files, const char *name, struct err *err)
{
	if (files->n == IMPORT_FILES_MAX)
		return err_set(err, -E2BIG, "more than %d files", IMPORT_FILES_MAX);
	if (strlen(name) >= IMPORT_NAME_MAX || strchr(name, '/') || strlen(name) <= SUFFIX_LEN || name[0] == '.')
		return err_set(err, -EBADMSG, "%s names \"%.64s\", which is no file of this directory", index_name,
			       name);
	if (!(files->n & (files->n - 1))) {
		size_t cap = files->n ? 2 * (size_t)files->n : 1;
		struct import_file *grown = reallocarray(files->list, cap, sizeof(*grown));
		if (!grown)
			return err_set(err, -ENOMEM, "no memory for %zu files", cap);
		files->list = grown;
	}
	struct import_file *f = &files->list[files->n++];
	*f = (struct import_file){.fd = -1};
	memcpy(f->name, name, strlen(name) + 1);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct import_file *)a)->name, ((const struct import_file *)b)->name);
}

static int list_all(struct import_files *files, struct err *err)
{
	AUTO_CLOSE int fd = openat(files->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	int rc = 0;
	if (!stream)
		return err_set(err, -errno, "cannot list the directory: %s", err_name(errno));
	steal_fd(&fd);
	for (struct dirent *e; !rc && (e = readdir(stream));) {
		size_t n = strlen(e->d_name);
		if (e->d_name[0] != '.' && n > SUFFIX_LEN && !strcmp(e->d_name + n - SUFFIX_LEN, suffix))
			rc = add_file(files, e->d_name, err);
		else if (n > PACKED_LEN &&
			 !strcmp(e->d_name + n - PACKED_LEN, packed)) /* its tensors would be missing */
			rc = err_set(err, -EBADMSG,
				     "%s is packed, and is not read here: \"ckpt export\" makes files of it",
				     e->d_name);
	}
	if (!rc && files->n)
		qsort(files->list, files->n, sizeof(*files->list), by_name);
	return rc;
}

/* ---- the index of a model in several files */

struct mapped {
	char *tensor, *file;
};

struct map {
	struct mapped *list;
	uint32_t n;
};

static void map_free(struct map *map)
{
	for (uint32_t i = 0; i < map->n; i++) {
		free(map->list[i].tensor);
		free(map->list[i].file);
	}
	free(map->list);
}

static void read_map(struct jin *in, struct map *map)
{
	char tensor[JIN_KEY_MAX], file[IMPORT_NAME_MAX];
	jin_object(in);
	while (jin_any_member(in, tensor)) {
		jin_string(in, file, sizeof(file));
		map->list = jin_grow(in, map->list, map->n, sizeof(*map->list));
		if (in->rc)
			return;
		map->list[map->n++] = (struct mapped){strdup(tensor), strdup(file)};
		if (!map->list[map->n - 1].tensor || !map->list[map->n - 1].file)
			in->rc = err_set(in->err, -ENOMEM, "no memory for an index");
	}
}

static int read_index(int dir, struct map *map, struct err *err)
{
	static const char *const keys[] = {"weight_map", NULL};
	uint64_t size;
	uint32_t seen = 0;
	AUTO_CLOSE int fd = open_file(dir, index_name, &size, err);
	if (fd < 0)
		return fd;
	if (size > INDEX_MAX)
		return err_set(err, -EBADMSG, "%s has %" PRIu64 " bytes, at most %d are read", index_name, size,
			       INDEX_MAX);
	AUTO_FREE char *text = malloc(size + 1);
	if (!text)
		return err_set(err, -ENOMEM, "no memory for %s", index_name);
	int rc = read_at(fd, index_name, 0, text, size, err);
	if (rc < 0)
		return rc;
	struct jin in;
	jin_open(&in, text, size, index_name, err);
	jin_object(&in);
	while (jin_member(&in, keys, &seen) >= 0)
		read_map(&in, map);
	jin_require(&in, keys, seen, 1);
	return jin_close(&in);
}

static int by_file(const void *a, const void *b)
{
	const struct mapped *x = a, *y = b;
	int order = strcmp(x->file, y->file);
	return order ? order : strcmp(x->tensor, y->tensor);
}

static int list_mapped(struct import_files *files, struct map *map, struct err *err)
{
	int rc = 0;
	if (map->n)
		qsort(map->list, map->n, sizeof(*map->list), by_file);
	for (uint32_t i = 0; i < map->n && !rc; i++)
		if (!i || strcmp(map->list[i].file, map->list[i - 1].file) != 0)
			rc = add_file(files, map->list[i].file, err);
	return rc;
}

static bool has_entry(const struct safetensors *st, const char *name)
{
	for (uint32_t i = 0; i < st->nentries; i++)
		if (!strcmp(st->entries[i].name, name))
			return true;
	return false;
}

/* What the index promises must be there: a download may have been cut short. Both are counted first, so that the search is only made
 * when something is wrong. */
static int check_mapped(const struct import_files *files, const struct map *map, struct err *err)
{
	uint32_t i = 0;
	for (uint32_t f = 0; f < files->n; f++) {
		uint32_t end = i;
		while (end < map->n && !strcmp(map->list[end].file, files->list[f].name))
			end++;
		for (; i < end; i++)
			if (!has_entry(&files->list[f].st, map->list[i].tensor))
				return err_set(err, -EBADMSG, "%s says that %s is in %s, which lacks it", index_name,
					       map->list[i].tensor, map->list[i].file);
	}
	return 0;
}

/* ---- open */

static int read_files(struct import_files *files, enum import_format format, const char *group, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < files->n && !rc; i++) {
		struct import_file *f = &files->list[i];
		AUTO_CLOSE int fd = open_file(files->dir, f->name, &f->size, err);
		if (fd < 0)
			return fd;
		rc = read_headers(f, fd, format, err);
		if (group)
			snprintf(f->group, sizeof(f->group), "%s", group);
		else if (format == IMPORT_SAFETENSORS)
			group_of(f->name, f->group);
		else
			snprintf(f->group, sizeof(f->group), "params");
	}
	return rc;
}

static int open_listed(struct import_files *files, enum import_format format, const char *group, struct err *err)
{
	struct map map = {0};
	bool hf = format == IMPORT_HF, mapped = hf && !faccessat(files->dir, index_name, F_OK, 0);
	int rc = mapped ? read_index(files->dir, &map, err) : 0;
	if (!rc && mapped)
		rc = list_mapped(files, &map, err);
	else if (!rc && hf && !faccessat(files->dir, single, F_OK, 0))
		rc = add_file(files, single, err);
	else if (!rc)
		rc = list_all(files, err);
	if (!rc && !files->n)
		rc = err_set(err, -ENOENT, "there is no %s file", suffix);
	if (!rc)
		rc = read_files(files, format, group, err);
	if (!rc)
		rc = check_mapped(files, &map, err);
	map_free(&map);
	return rc;
}

int import_files_open(const char *path, enum import_format format, const char *group, struct import_files *files,
		      struct err *err)
{
	*files = (struct import_files){.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	if (files->dir < 0)
		return err_set(err, -errno, "cannot open %s: %s", path, err_name(errno));
	int rc = open_listed(files, format, group, err);
	if (rc < 0) {
		err_prefix(err, rc, "%s", path);
		import_files_close(files);
	}
	return rc;
}

void import_files_close(struct import_files *files)
{
	for (uint32_t i = 0; i < files->n; i++) {
		if (files->list[i].fd >= 0)
			close(files->list[i].fd);
		safetensors_free(&files->list[i].st);
		safetensors_views_free(&files->list[i].views);
	}
	free(files->list);
	if (files->dir >= 0)
		close(files->dir);
	*files = (struct import_files){.dir = -1};
}

/* Opens the file, closing that which was opened IMPORT_OPEN_MAX files ago. */
static int reopen(struct import_files *files, uint32_t index, struct err *err)
{
	struct import_file *f = &files->list[index];
	uint64_t size;
	int fd = open_file(files->dir, f->name, &size, err);
	if (fd < 0)
		return fd;
	uint32_t slot = files->nopen++ % IMPORT_OPEN_MAX;
	if (files->nopen > IMPORT_OPEN_MAX)
		close(steal_fd(&files->list[files->open[slot]].fd));
	files->open[slot] = index;
	f->fd = fd;
	return size == f->size ? 0 : err_set(err, -EBADMSG, "%s was changed meanwhile", f->name);
}

int import_files_read(struct import_files *files, uint32_t file, uint64_t from, void *data, uint64_t len,
		      struct err *err)
{
	struct import_file *f = &files->list[file];
	int rc = f->fd < 0 ? reopen(files, file, err) : 0;
	return rc < 0 ? rc : read_at(f->fd, f->name, f->st.data_at + from, data, len, err);
}
