/* Rebind: a registered piece has another address. The table says so at once; the plans of a slot follow when the slot is captured to next
 * (capture_plans_follow), so that what was begun before goes on where it began. */
#include "base/cleanup.h"
#include "base/quoted.h"
#include "client/session/session.h"

static int find_entry(ckpt *s, const char *name, int piece, const void *data, uint32_t *out, struct err *err)
{
	if (!name)
		return err_set(err, -EINVAL, "the name is NULL");
	int64_t at = table_find_own(&s->table, name);
	if (at < 0)
		return err_set(err, -ENOENT, "nothing is registered as %s", quoted(name).text);
	const struct entry *e = &s->table.reg.entries[at];
	if (s->table.held[at].own)
		return err_set(err, -EINVAL, "%s is a blob of changing size: the library has its memory",
			       quoted(name).text);
	if (piece < 0 || (uint32_t)piece >= e->npieces)
		return err_set(err, -ERANGE, "%s has %u pieces here: there is no piece %d", quoted(name).text,
			       e->npieces, piece);
	if (!data && region_volume(&e->shape, &e->pieces[piece]))
		return err_set(err, -EINVAL, "piece %d of %s: its data is NULL", piece, quoted(name).text);
	*out = (uint32_t)at;
	return 0;
}

int ckpt_rebind(ckpt *s, const char *name, int piece, void *data)
{
	struct err err = {0};
	uint32_t entry = 0;
	int rc = session_check(s, &err);
	if (!rc)
		rc = find_entry(s, name, piece, data, &entry, &err);
	if (rc)
		return session_fail(s, rc, &err);
	LOCK_SCOPE(&s->save); /* a begin reads the table */
	table_move(&s->table, entry, (uint32_t)piece, data);
	return 0;
}
