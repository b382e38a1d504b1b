#include "config/value.h"

#include "base/address.h"
#include "base/quoted.h"
#include "format/tensor/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t size;
};

/* From the largest down: the first that divides a number is the one that it is shown in. */
static const struct unit sizes[] = {{"T", 1ull << 40}, {"G", 1ull << 30}, {"M", 1ull << 20},
				    {"K", 1ull << 10}, {"", 1},           {NULL}};
static const struct unit times[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000},
				    {"ms", 1},       {"", 1},        {NULL}};
static const struct unit counts[] = {{"", 1}, {NULL}};

static const struct unit *units_of(const struct setting *setting)
{
	return setting->type == SETTING_BYTES ? sizes : setting->type == SETTING_DURATION ? times : counts;
}

static bool is_number(const struct setting *setting)
{
	return setting->type == SETTING_BYTES || setting->type == SETTING_DURATION || setting->type == SETTING_COUNT;
}

static bool is_text(const struct setting *setting)
{
	return setting->type == SETTING_PATH || setting->type == SETTING_NAME || setting->type == SETTING_ADDRESS ||
	       setting->type == SETTING_URL || setting->type == SETTING_NODE;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static char *print_number(const struct setting *setting, uint64_t n, char *dst, size_t size)
{
	const struct unit *u = units_of(setting);
	while (n % u->size || (!n && u->size > 1))
		u++;
	snprintf(dst, size, "%lu%s", (unsigned long)(n / u->size), n ? u->name : "");
	return dst;
}

static void allowed_number(const struct setting *setting, char *dst, size_t size)
{
	static const char *const kinds[] = {[SETTING_BYTES] = "a size such as 8G or 512M",
					    [SETTING_DURATION] = "a time such as 500ms, 30s, 5m, 2h or 7d",
					    [SETTING_COUNT] = "a number"};
	char min[32], max[32];
	int at = snprintf(dst, size, "%s%s", kinds[setting->type], setting->needs_unit ? ", with its unit" : "");
	if (setting->min && at < (int)size)
		at += snprintf(dst + at, size - (size_t)at, ", at least %s",
			       print_number(setting, setting->min, min, sizeof(min)));
	if (setting->max != UINT64_MAX && at < (int)size)
		at += snprintf(dst + at, size - (size_t)at, ", at most %s",
			       print_number(setting, setting->max, max, sizeof(max)));
	if (setting->zero && at < (int)size)
		snprintf(dst + at, size - (size_t)at, ", or 0");
}

static void allowed_choice(const struct setting *setting, char *dst, size_t size)
{
	int at = snprintf(dst, size, "one of");
	for (const char *const *c = setting->choices; *c && at < (int)size; c++)
		at += snprintf(dst + at, size - (size_t)at, "%s %s", c == setting->choices ? "" : ",", *c);
}

char *value_allowed(const struct setting *setting, char *dst, size_t size)
{
	if (is_number(setting))
		allowed_number(setting, dst, size);
	else if (setting->type == SETTING_CHOICE)
		allowed_choice(setting, dst, size);
	else if (setting->type == SETTING_BOOL)
		snprintf(dst, size, "yes or no");
	else if (setting->type == SETTING_PATH)
		snprintf(dst, size, "a path of 1 to %lu bytes", (unsigned long)setting->max);
	else if (setting->type == SETTING_URL)
		snprintf(dst, size, "a URL such as etcd://host:2379,host:2379/prefix or etcds://host:2379/prefix");
	else if (setting->type == SETTING_NODE)
		snprintf(dst, size, "an address such as 10.0.0.7:7470, with labels such as rack=r1 behind it");
	else if (setting->type == SETTING_ADDRESS)
		snprintf(dst, size, "a numeric address with a port, such as 127.0.0.1:9470 or [::1]:9470, or off");
	else
		snprintf(dst, size, "1 to %lu of A-Z a-z 0-9 _ . - not starting with . or -",
			 (unsigned long)setting->max);
	return dst;
}

char *value_print(const struct setting *setting, const struct value *value, char *dst, size_t size)
{
	if (is_number(setting))
		return print_number(setting, value->number, dst, size);
	if (setting->type == SETTING_CHOICE)
		snprintf(dst, size, "%s", setting->choices[value->number]);
	else if (setting->type == SETTING_BOOL)
		snprintf(dst, size, "%s", value->number ? "yes" : "no");
	else
		snprintf(dst, size, "%s", value->text ? value->text : "none");
	return dst;
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

#define MILLION 1000000

/* The digits behind a point, if there is one. False: none, or more than six. */
static bool parse_millionths(char **at, uint64_t *millionths)
{
	uint64_t each = MILLION;
	*millionths = 0;
	if (**at != '.')
		return true;
	for (++*at; **at >= '0' && **at <= '9' && each > 1; ++*at) {
		each /= 10;
		*millionths += each * (uint64_t)(**at - '0');
	}
	return each < MILLION;
}

static int parse_number(const struct setting *setting, const char *text, uint64_t *out)
{
	char *end;
	uint64_t part;
	errno = 0;
	unsigned long v = strtoul(text, &end, 10);
	if (errno || end == text || text[0] < '0' || text[0] > '9' || !parse_millionths(&end, &part))
		return -EINVAL;
	const struct unit *u = units_of(setting);
	while (u->name && strcmp(u->name, end) != 0)
		u++;
	if (setting->needs_unit && !*end && (v || part))
		return -EINVAL;
	if (!u->name || v > UINT64_MAX / u->size || part * u->size % MILLION)
		return -EINVAL;
	if (__builtin_add_overflow(v * u->size, part * u->size / MILLION, out))
		return -EINVAL;
	if (!*out && setting->zero)
		return 0;
	return *out < setting->min || *out > setting->max ? -EINVAL : 0;
}

static int parse_choice(const char *const *choices, const char *text, uint64_t *out)
{
	for (*out = 0; choices[*out]; ++*out)
		if (!strcmp(choices[*out], text))
			return 0;
	return -EINVAL;
}

static int parse_text(const struct setting *setting, const char *text)
{
	size_t len = strlen(text);
	if (!len || len > setting->max)
		return -EINVAL;
	union address address;
	if (setting->type == SETTING_ADDRESS)
		return strcmp(text, "off") != 0 ? address_parse(text, &address) : 0;
	if (setting->type == SETTING_URL)
		return strncmp(text, "etcd://", 7) != 0 && strncmp(text, "etcds://", 8) != 0 ? -EINVAL : 0;
	return setting->type == SETTING_NAME ? name_check("name", text, setting->max + 1, NULL) : 0;
}

int value_parse(const struct setting *setting, const char *text, struct value *out, struct err *err)
{
	static const char *const bools[] = {"no", "yes", NULL};
	char allowed[256];
	int rc;
	*out = (struct value){0};
	if (is_number(setting))
		rc = parse_number(setting, text, &out->number);
	else if (setting->type == SETTING_CHOICE)
		rc = parse_choice(setting->choices, text, &out->number);
	else if (setting->type == SETTING_BOOL)
		rc = parse_choice(bools, text, &out->number);
	else
		rc = parse_text(setting, text);
	if (rc)
		return err_set(err, -EINVAL, "%s is not allowed: expected %s", quoted(text).text,
			       value_allowed(setting, allowed, sizeof(allowed)));
	if (is_text(setting))
		out->text = text;
	return 0;
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

void value_store(const struct setting *setting, const struct value *value, void *base)
{
	void *field = (char *)base + setting->offset;
	if (is_text(setting))
		*(const char **)field = value->text;
	else if (setting->type == SETTING_BOOL)
		*(bool *)field = value->number != 0;
	else
		*(uint64_t *)field = value->number;
}

struct value value_load(const struct setting *setting, const void *base)
{
	const void *field = (const char *)base + setting->offset;
	if (is_text(setting))
		return (struct value){.text = *(const char *const *)field};
	if (setting->type == SETTING_BOOL)
		return (struct value){.number = *(const bool *)field};
	return (struct value){.number = *(const uint64_t *)field};
}

bool value_equal(const struct setting *setting, const struct value *a, const struct value *b)
{
	if (!is_text(setting))
		return a->number == b->number;
	return a->text && b->text ? !strcmp(a->text, b->text) : a->text == b->text;
}
