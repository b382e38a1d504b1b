#include "format/tensor/names.h"

#include "base/quoted.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static bool plain(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
	       c == '-';
}

int name_check(const char *what, const char *name, size_t max, struct err *err)
{
	size_t n = strnlen(name, max);
	if (n == 0)
		return err_set(err, -EINVAL, "%s name is empty; give 1 to %zu of A-Z a-z 0-9 _ . -", what, max - 1);
	if (n == max)
		return err_set(err, -EINVAL, "%s name %s is longer than %zu bytes; choose a shorter one", what,
			       quoted(name).text, max - 1);
	if (name[0] == '.' || name[0] == '-')
		return err_set(err, -EINVAL, "%s name %s starts with '%c'; start it with a letter, digit or _", what,
			       quoted(name).text, name[0]);
	for (size_t i = 0; i < n; i++)
		if (!plain(name[i]))
			return err_set(err, -EINVAL, "%s name %s: byte %zu is not one of A-Z a-z 0-9 _ . -", what,
				       quoted(name).text, i);
	return 0;
}

int name_check_group(const char *name, struct err *err)
{
	int rc = name_check("group", name, NAME_GROUP_MAX, err);
	if (rc < 0)
		return rc;
	static const char part[] = ".part-";
	enum { PART_LEN = sizeof(part) - 1 };
	size_t n = strlen(name);
	if (n >= PART_LEN + 4 && !memcmp(name + n - PART_LEN - 4, part, PART_LEN) &&
	    strspn(name + n - 4, "0123456789") == 4)
		return err_set(err, -EINVAL, "group name %s ends like the part of a group; choose another ending",
			       name);
	return 0;
}

/* The name of a tensor or blob, at most max - 1 bytes. */
static int check_entry(const char *what, const char *name, size_t max, struct err *err)
{
	size_t len = strnlen(name, max);
	if (len == 0)
		return err_set(err, -EINVAL, "%s name is empty; give 1 to %zu bytes", what, max - 1);
	if (len == max)
		return err_set(err, -EINVAL, "%s name %s is longer than %zu bytes; choose a shorter one", what,
			       quoted(name).text, max - 1);
	if (!strcmp(name, "__metadata__"))
		return err_set(err, -EINVAL, "%s name \"__metadata__\" is reserved by safetensors; choose another one",
			       what);
	for (size_t i = 0; i < len;) {
		size_t n = utf8_sequence(name + i, len - i);
		const unsigned char *at = (const unsigned char *)name + i;
		if (n == 0)
			return err_set(err, -EINVAL, "%s name %s: byte %zu is not UTF-8", what, quoted(name).text, i);
		if ((n == 1 && (at[0] < 0x20 || at[0] == 0x7f)) || (n == 2 && at[0] == 0xc2 && at[1] < 0xa0))
			return err_set(err, -EINVAL, "%s name %s: byte %zu is a control character", what,
				       quoted(name).text, i);
		i += n;
	}
	return 0;
}

int name_check_tensor(const char *name, struct err *err)
{
	return check_entry("tensor", name, NAME_TENSOR_MAX, err);
}

int name_check_blob(const char *name, bool of_rank, struct err *err)
{
	return check_entry("blob", name, of_rank ? NAME_TENSOR_MAX - NAME_RANK_SUFFIX : NAME_TENSOR_MAX, err);
}

static int taken(const char *name, struct err *err)
{
	return err_set(err, -EINVAL, "tag name %s already means a checkpoint; choose another one", name);
}

int name_check_tag(const char *name, struct err *err)
{
	int rc = name_check("tag", name, NAME_TAG_MAX, err);
	if (rc < 0)
		return rc;
	if (name[0] >= '0' && name[0] <= '9')
		return err_set(err, -EINVAL, "tag name %s begins like a step; start it with a letter or _", name);
	if (!strncmp(name, "step-", 5) || !strcmp(name, "latest"))
		return taken(name, err);
	return 0;
}

int name_check_new_tag(const char *name, struct err *err)
{
	int rc = name_check_tag(name, err);
	return rc || strcmp(name, "healthy") != 0 ? rc : taken(name, err);
}

int name_check_file(const char *name, struct err *err)
{
	return name_check("file", name, NAME_FILE_MAX, err);
}

int step_compare(struct step_id a, struct step_id b)
{
	if (a.epoch != b.epoch)
		return a.epoch < b.epoch ? -1 : 1;
	return a.step < b.step ? -1 : a.step > b.step;
}

void name_dir(struct step_id id, char dst[NAME_DIR_MAX])
{
	snprintf(dst, NAME_DIR_MAX, "step-%012llu.e%04u", (unsigned long long)id.step, id.epoch);
}

void name_work(struct step_id id, uint64_t maker, char dst[NAME_WORK_MAX])
{
	char name[NAME_DIR_MAX];
	name_dir(id, name);
	snprintf(dst, NAME_WORK_MAX, NAME_WORK_PREFIX "%s-%llx", name, (unsigned long long)maker);
}

/* Reads the digits at *text and steps over them; at most 12, so that nothing overflows. */
static uint64_t read_digits(const char **text)
{
	uint64_t v = 0;
	for (int i = 0; i < 12 && **text >= '0' && **text <= '9'; i++)
		v = v * 10 + (uint64_t)(*(*text)++ - '0');
	return v;
}

int name_parse_dir(const char *name, struct step_id *id)
{
	if (strncmp(name, "step-", 5))
		return -EINVAL;
	const char *at = name + 5;
	uint64_t step = read_digits(&at);
	if (strncmp(at, ".e", 2))
		return -EINVAL;
	at += 2;
	uint64_t epoch = read_digits(&at);
	if (epoch > UINT32_MAX)
		return -EINVAL;
	/* What is canonical is what name_dir writes: this also refuses signs, missing or superfluous zeros and tails. */
	struct step_id parsed = {.step = step, .epoch = (uint32_t)epoch};
	char canonical[NAME_DIR_MAX];
	name_dir(parsed, canonical);
	if (strcmp(name, canonical))
		return -EINVAL;
	*id = parsed;
	return 0;
}

static void name_piece_file(uint32_t rank, uint32_t world, const char *group, uint32_t part, const char *suffix,
			    char dst[NAME_FILE_MAX])
{
	char tail[32] = "";
	if (part)
		snprintf(tail, sizeof(tail), ".part-%04u", part);
	snprintf(dst, NAME_FILE_MAX, "rank-%05u-of-%05u.%s%s.%s", rank, world, group, tail, suffix);
}

void name_data(uint32_t rank, uint32_t world, const char *group, uint32_t part, char dst[NAME_FILE_MAX])
{
	name_piece_file(rank, world, group, part, "safetensors", dst);
}

void name_packed(uint32_t rank, uint32_t world, const char *group, uint32_t part, char dst[NAME_FILE_MAX])
{
	name_piece_file(rank, world, group, part, "ckptz", dst);
}

void name_sidecar(uint32_t rank, uint32_t world, const char *group, uint32_t part, char dst[NAME_FILE_MAX])
{
	name_piece_file(rank, world, group, part, "xxh", dst);
}

void name_node(const char *node, char dst[NAME_FILE_MAX])
{
	snprintf(dst, NAME_FILE_MAX, "node-%s.json", node);
}

void name_notice(const char *node, char dst[NAME_FILE_MAX])
{
	snprintf(dst, NAME_FILE_MAX, "node-%s.packed.safetensors", node);
}

static const char tag_prefix[] = "tag-", tag_suffix[] = ".json";

void name_tag(const char *tag, char dst[NAME_FILE_MAX])
{
	snprintf(dst, NAME_FILE_MAX, "%s%s%s", tag_prefix, tag, tag_suffix);
}

int name_parse_tag(const char *file, char tag[NAME_TAG_MAX])
{
	enum { PREFIX = sizeof(tag_prefix) - 1, SUFFIX = sizeof(tag_suffix) - 1 };
	size_t n = strlen(file);
	if (n <= PREFIX + SUFFIX || n - PREFIX - SUFFIX >= NAME_TAG_MAX || strncmp(file, tag_prefix, PREFIX) != 0 ||
	    strcmp(file + n - SUFFIX, tag_suffix) != 0)
		return -EINVAL;
	char name[NAME_TAG_MAX] = "";
	memcpy(name, file + PREFIX, n - PREFIX - SUFFIX);
	if (name_check_tag(name, NULL) < 0)
		return -EINVAL;
	memcpy(tag, name, sizeof(name));
	return 0;
}
