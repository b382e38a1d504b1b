#include "format/names.h"

#include <stdio.h>
#include <string.h>

/* A refused name as a message may show it: at most 60 bytes, anything but printable ASCII as '?'. */
struct shown {
	char text[64];
};

static struct shown shown(const char *name)
{
	struct shown s = {0};
	size_t i = 0;
	for (; name[i] && i < 60; i++)
		s.text[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
	if (name[i])
		memcpy(s.text + i, "...", 4);
	return s;
}

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
		return err_set(err, -EINVAL, "%s name \"%s\" is longer than %zu bytes; choose a shorter one", what,
			       shown(name).text, max - 1);
	if (name[0] == '.' || name[0] == '-')
		return err_set(err, -EINVAL, "%s name \"%s\" starts with '%c'; start it with a letter, digit or _",
			       what, shown(name).text, name[0]);
	for (size_t i = 0; i < n; i++)
		if (!plain(name[i]))
			return err_set(err, -EINVAL, "%s name \"%s\": byte %zu is not one of A-Z a-z 0-9 _ . -", what,
				       shown(name).text, i);
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
		return err_set(err, -EINVAL, "group name \"%s\" ends like the part of a group; choose another ending",
			       name);
	return 0;
}

/* Bytes of the UTF-8 sequence at s and its code point; 0 when it is not well-formed (also overlong, surrogates, above
 * U+10FFFF). A NUL is never a continuation byte, so it reads no further than the terminator. */
static size_t utf8_next(const unsigned char *s, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
	if (n < 2) {
		*code = s[0];
		return n;
	}
	*code = s[0] & (0x7f >> n);
	for (size_t i = 1; i < n; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff) ? 0 : n;
}

int name_check_tensor(const char *name, struct err *err)
{
	size_t len = strnlen(name, NAME_TENSOR_MAX);
	if (len == 0)
		return err_set(err, -EINVAL, "tensor name is empty; give 1 to %d bytes", NAME_TENSOR_MAX - 1);
	if (len == NAME_TENSOR_MAX)
		return err_set(err, -EINVAL, "tensor name \"%s\" is longer than %d bytes; choose a shorter one",
			       shown(name).text, NAME_TENSOR_MAX - 1);
	if (!strcmp(name, "__metadata__"))
		return err_set(err, -EINVAL,
			       "tensor name \"__metadata__\" is reserved by safetensors; choose another one");
	for (size_t i = 0; i < len;) {
		uint32_t code;
		size_t n = utf8_next((const unsigned char *)name + i, &code);
		if (n == 0)
			return err_set(err, -EINVAL, "tensor name \"%s\": byte %zu is not UTF-8", shown(name).text, i);
		if (code < 0x20 || (code >= 0x7f && code < 0xa0))
			return err_set(err, -EINVAL, "tensor name \"%s\": byte %zu is a control character",
				       shown(name).text, i);
		i += n;
	}
	return 0;
}

static int taken(const char *name, struct err *err)
{
	return err_set(err, -EINVAL, "tag name \"%s\" already means a checkpoint; choose another one", name);
}

int name_check_tag(const char *name, struct err *err)
{
	int rc = name_check("tag", name, NAME_TAG_MAX, err);
	if (rc < 0)
		return rc;
	if (name[0] >= '0' && name[0] <= '9')
		return err_set(err, -EINVAL, "tag name \"%s\" begins like a step; start it with a letter or _", name);
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
