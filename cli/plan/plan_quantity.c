#include "plan/plan_quantity.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	double is;
};

static const struct unit sizes[] = {
	{"", 1},         {"B", 1},        {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},
	{"GB", 1e9},     {"TB", 1e12},    {"PB", 1e15},    {"K", 0x1p10},   {"M", 0x1p20},
	{"G", 0x1p30},   {"T", 0x1p40},   {"P", 0x1p50},   {"KiB", 0x1p10}, {"MiB", 0x1p20},
	{"GiB", 0x1p30}, {"TiB", 0x1p40}, {"PiB", 0x1p50}, {NULL, 0},
};
static const struct unit times[] = {
	{"", 1},          {"ms", 1e-3},          {"s", 1},  {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400},
	{"w", 7 * 86400}, {"y", 365.25 * 86400}, {NULL, 0},
};

static int read(const char *text, const struct unit *units, const char *tail, double least, double most, double *value)
{
	char *end;
	errno = 0;
	if (*text < '0' || *text > '9' || text[1] == 'x' || text[1] == 'X')
		return -EINVAL;
	double v = strtod(text, &end);
	size_t len = strlen(end), cut = strlen(tail);
	if (len >= cut && !strcmp(end + len - cut, tail))
		len -= cut;
	for (const struct unit *u = units; u->name; u++) {
		if (strlen(u->name) != len || memcmp(u->name, end, len) != 0)
			continue;
		*value = v * u->is;
		return errno || !(*value >= least && *value <= most) ? -EINVAL : 0;
	}
	return -EINVAL;
}

int quantity_bytes(const char *text, double *bytes)
{
	return read(text, sizes, "/s", 1, QUANTITY_BYTES_MAX, bytes);
}

int quantity_time(const char *text, double *seconds)
{
	return read(text, times, "", QUANTITY_TIME_MIN, QUANTITY_TIME_MAX, seconds);
}

char *quantity_time_text(double s, char dst[QUANTITY_TEXT_MAX])
{
	static const struct unit shown[] = {{"y", 365.25 * 86400}, {"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
	if (isinf(s)) {
		snprintf(dst, QUANTITY_TEXT_MAX, "never");
		return dst;
	}
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		if (s >= shown[i].is * (shown[i].is > 1 ? 1.5 : 1)) {
			snprintf(dst, QUANTITY_TEXT_MAX, s >= 1e5 * shown[i].is ? "%.2g %s" : "%.1f %s",
				 s / shown[i].is, shown[i].name);
			return dst;
		}
	snprintf(dst, QUANTITY_TEXT_MAX, "%.1f ms", s * 1e3);
	return dst;
}

char *quantity_bytes_text(double b, char dst[QUANTITY_TEXT_MAX])
{
	static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB"};
	size_t i = 0;
	for (; b >= 1000 && i + 1 < sizeof(names) / sizeof(names[0]); i++)
		b /= 1000;
	snprintf(dst, QUANTITY_TEXT_MAX, i ? "%.1f %s" : "%.0f %s", b, names[i]);
	return dst;
}
