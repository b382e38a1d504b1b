#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

#include <string.h>

/* ---- a node's part ------------------------------------------------------------------------------------------------- */

void peer_part_put(struct wbuf *out, const struct peer_part *m)
{
	wbuf_str(out, m->node.name);
	wbuf_str(out, m->node.file);
	wbuf_u64(out, m->node.size);
	put_digest(out, m->node.digest);
	wbuf_u32(out, m->began);
	wbuf_u64(out, m->bytes);
	wbuf_u64(out, m->stored);
	wbuf_u64(out, m->files);
}

void peer_part_get(struct rbuf *r, struct peer_part *m)
{
	rbuf_str(r, m->node.name, sizeof(m->node.name));
	rbuf_str(r, m->node.file, sizeof(m->node.file));
	m->node.size = rbuf_u64(r);
	m->node.digest = get_digest(r);
	m->began = rbuf_u32(r);
	m->bytes = rbuf_u64(r);
	m->stored = rbuf_u64(r);
	m->files = rbuf_u64(r);
}

/* What will stand in MANIFEST.json, and lead to a file. */
int peer_part_check(uint16_t type, const struct peer_part *m, struct err *err)
{
	char file[NAME_FILE_MAX];
	if (name_check("node", m->node.name, sizeof(m->node.name), err))
		return err_prefix(err, -EBADMSG, "%s message", peer_coord_name(type));
	name_node(m->node.name, file);
	if (strcmp(file, m->node.file) != 0)
		return err_set(err, -EBADMSG, "%s message with another file than that of node %s",
			       peer_coord_name(type), m->node.name);
	if (!m->node.size || m->node.size > NODE_MANIFEST_BYTES_MAX)
		return peer_bad(type, err, "a node manifest of size", m->node.size);
	return m->files > MANIFEST_FILES_MAX ? peer_bad(type, err, "files", m->files) : 0;
}

/* ---- spill -------------------------------------------------------------------------------------------------------- */

void peer_spill_put(struct wbuf *out, const struct peer_spill *m)
{
	wbuf_u32(out, m->owner);
	wbuf_u8(out, (uint8_t)m->phase);
	put_id(out, m->as);
	wbuf_u64(out, m->maker);
	share_parts_put(out, &m->parts);
	peer_restore_fetch_put(out, &m->bring);
}

void peer_spill_get(struct rbuf *r, struct peer_spill *m)
{
	m->owner = rbuf_u32(r);
	m->phase = rbuf_u8(r);
	m->as = get_id(r);
	m->maker = rbuf_u64(r);
	share_parts_get(r, &m->parts);
	peer_restore_fetch_get(r, &m->bring);
}

static int check(uint16_t type, uint32_t owner, enum peer_spill_phase phase, struct step_id as, struct err *err)
{
	if (owner >= RANK_MAX)
		return peer_bad(type, err, "node", owner);
	if (phase < PEER_SPILL_GATHER || phase > PEER_SPILL_FAILED)
		return peer_bad(type, err, "phase", phase);
	return peer_check_id(type, as, false, err);
}

int peer_spill_check(const struct peer_spill *m, struct err *err)
{
	int rc = check(PEER_SPILL, m->owner, m->phase, m->as, err);
	if (!rc && m->phase == PEER_SPILL_FAILED)
		rc = peer_bad(PEER_SPILL, err, "phase", m->phase);
	if (!rc && m->phase == PEER_SPILL_GATHER && !m->bring.nholders)
		rc = peer_bad(PEER_SPILL, err, "holders", 0);
	return rc ? rc : peer_restore_fetch_check(PEER_SPILL, &m->bring, err);
}

void peer_spilled_put(struct wbuf *out, const struct peer_spilled *m)
{
	wbuf_u32(out, m->owner);
	wbuf_u8(out, (uint8_t)m->phase);
	put_id(out, m->as);
	if (m->phase == PEER_SPILL_GATHER)
		shares_put(out, &m->shares);
	else if (m->phase == PEER_SPILL_WRITE)
		peer_part_put(out, &m->part);
	wbuf_u32(out, (uint32_t)m->rc);
	wbuf_str(out, m->text);
}

void peer_spilled_get(struct rbuf *r, struct peer_spilled *m)
{
	m->owner = rbuf_u32(r);
	m->phase = rbuf_u8(r);
	m->as = get_id(r);
	if (m->phase == PEER_SPILL_GATHER)
		shares_get(r, &m->shares);
	else if (m->phase == PEER_SPILL_WRITE)
		peer_part_get(r, &m->part);
	m->rc = (int32_t)rbuf_u32(r);
	get_text(r, m->text, sizeof(m->text));
}

int peer_spilled_check(const struct peer_spilled *m, struct err *err)
{
	int rc = check(PEER_SPILLED, m->owner, m->phase, m->as, err);
	if (!rc && m->phase == PEER_SPILL_WRITE)
		rc = peer_part_check(PEER_SPILLED, &m->part, err);
	if (!rc && (m->phase == PEER_SPILL_FAILED) != (m->rc != 0))
		rc = peer_bad(PEER_SPILLED, err, "code", (uint32_t)m->rc);
	return rc ? rc : peer_check_rc(PEER_SPILLED, m->rc, err);
}
