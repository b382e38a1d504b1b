#include "amount.h"

#include "output.h"

#include "config/value.h"

int amount_read(const struct cli *cli, const char *option, const struct setting *kind, uint64_t absent, uint64_t *n)
{
	const char *text = cli_text(cli, option);
	struct value value = {0};
	struct err err = {0};
	*n = absent;
	if (!text)
		return EXIT_OK;
	if (value_parse(kind, text, &value, &err) < 0)
		return cli_fail(cli, EXIT_USAGE, "--%s: %s", option, err.text);
	*n = value.number;
	return EXIT_OK;
}
