#include "format/message/peer_parts.h"
#include "format/tensor/fields.h"

#include <string.h>

/* ---- a node's part ------------------------------------------------------------------------------------------------- */

const struct field peer_part_fields[] = {
	FIELD_NAME_OF(struct peer_part, node.name),
	FIELD_NAME_OF(struct peer_part, node.file),
	FIELD_U64_OF(struct peer_part, node.size),
	FIELD_DIGEST_OF(struct peer_part, node.digest),
	FIELD_U32_OF(struct peer_part, began),
	FIELD_U64_OF(struct peer_part, bytes),
	FIELD_U64_OF(struct peer_part, stored),
	FIELD_U64_OF(struct peer_part, files),
	{0},
};

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

FIELD_CODEC_OF_TYPE(share_parts, struct share_parts, share_parts_put, share_parts_get);

const struct field peer_spill_fields[] = {
	FIELD_U32_OF(struct peer_spill, owner),
	FIELD_U8_OF(struct peer_spill, phase),
	FIELD_ID_OF(struct peer_spill, as),
	FIELD_U64_OF(struct peer_spill, maker),
	FIELD_CODEC_OF(struct peer_spill, parts, share_parts_codec),
	FIELD_PART_OF(struct peer_spill, bring, peer_restore_fetch_fields),
	{0},
};

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

static void spilled_put(struct wbuf *out, const struct peer_spilled *m)
{
	wbuf_u32(out, m->owner);
	wbuf_u8(out, (uint8_t)m->phase);
	put_id(out, m->as);
	if (m->phase == PEER_SPILL_GATHER)
		shares_put(out, &m->shares);
	else if (m->phase == PEER_SPILL_WRITE)
		fields_put(out, peer_part_fields, &m->part);
	wbuf_u32(out, (uint32_t)m->rc);
	wbuf_str(out, m->text);
}

static void spilled_get(struct rbuf *r, struct peer_spilled *m)
{
	m->owner = rbuf_u32(r);
	m->phase = rbuf_u8(r);
	m->as = get_id(r);
	if (m->phase == PEER_SPILL_GATHER)
		shares_get(r, &m->shares);
	else if (m->phase == PEER_SPILL_WRITE)
		fields_get(r, peer_part_fields, &m->part);
	m->rc = (int32_t)rbuf_u32(r);
	get_text(r, m->text, sizeof(m->text));
}

FIELD_CODEC_OF_TYPE(spilled, struct peer_spilled, spilled_put, spilled_get);
const struct field peer_spilled_fields[] = {{.kind = FIELD_CODEC, .codec = &spilled_codec}, {0}};

int peer_spilled_check(const struct peer_spilled *m, struct err *err)
{
	int rc = check(PEER_SPILLED, m->owner, m->phase, m->as, err);
	if (!rc && m->phase == PEER_SPILL_WRITE)
		rc = peer_part_check(PEER_SPILLED, &m->part, err);
	if (!rc && (m->phase == PEER_SPILL_FAILED) != (m->rc != 0))
		rc = peer_bad(PEER_SPILLED, err, "code", (uint32_t)m->rc);
	return rc ? rc : peer_check_rc(PEER_SPILLED, m->rc, err);
}
