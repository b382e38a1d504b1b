#include "change/removal.h"

#include "frame/amount.h"

#include "base/clock.h"
#include "store/manage/trash.h"

#define LOCK_WAIT (5 * CLOCK_NS_PER_S)
#define DURATION_MAX (100ull * 365 * 86400000) /* ms: a hundred years */

int removal_lock(struct cli *cli, int *lock)
{
	struct err err = {0};
	*lock = -1;
	int code = cli_repo(cli);
	if (code)
		return code;
	*lock = trash_lock(cli->repo, clock_deadline(LOCK_WAIT), &err);
	return *lock < 0 ? cli_fail(cli, exit_code_of(*lock), "%s", err.text) : EXIT_OK;
}

void removal_unlock(struct cli *cli, int lock)
{
	if (lock >= 0)
		disk_close_file(cli->repo->disk, lock);
}

int removal_duration(const struct cli *cli, const char *option, uint64_t absent, uint64_t *ns)
{
	static const struct setting duration = {.type = SETTING_DURATION, .max = DURATION_MAX, .needs_unit = true};
	int code = amount_read(cli, option, &duration, absent / CLOCK_NS_PER_MS, ns);
	*ns *= CLOCK_NS_PER_MS;
	return code;
}
