#include "frame/amount.h"

#include "frame/output.h"

#include "config/value.h"

#include <stdio.h>
#include <string.h>

static int parse(const struct cli *cli, const char *option, const struct setting *kind, const char *text, uint64_t *n)
{
	struct value value = {0};
	struct err err = {0};
	if (value_parse(kind, text, &value, &err) < 0)
		return cli_fail(cli, EXIT_USAGE, "--%s: %s", option, err.text);
	*n = value.number;
	return EXIT_OK;
}

int amount_read(const struct cli *cli, const char *option, const struct setting *kind, uint64_t absent, uint64_t *n)
{
	const char *text = cli_text(cli, option);
	*n = absent;
	return text ? parse(cli, option, kind, text, n) : EXIT_OK;
}

int amount_time(const struct cli *cli, const char *option, enum amount_unit unit, uint64_t absent, uint64_t min,
		uint64_t max, uint64_t *n)
{
	const struct setting kind = {.type = SETTING_DURATION, .min = min * unit, .max = max * unit};
	const char *text = cli_text(cli, option);
	char seconds[32];
	*n = absent;
	if (!text)
		return EXIT_OK;
	bool alone = strspn(text, "0123456789") == strlen(text) && strlen(text) + 2 < sizeof(seconds);
	snprintf(seconds, sizeof(seconds), "%.28s%s", alone ? text : "", unit == AMOUNT_S ? "s" : "ms");
	int code = parse(cli, option, &kind, alone ? seconds : text, n);
	if (!code && *n % unit)
		code = cli_fail(cli, EXIT_USAGE, "--%s %s: whole seconds are wanted", option, text);
	*n /= unit;
	return code;
}
