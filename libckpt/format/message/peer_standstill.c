/* Parts of messages between nodes that say where ranks are which give no heartbeat. */
#include "format/message/peer_parts.h"

#include "format/tensor/dtype.h"
#include "format/tensor/fields.h"

static const struct field suspect_fields[] = {
	FIELD_U32_OF(struct suspect, rank),
	FIELD_BOOL_OF(struct suspect, stopped),
	FIELD_U64_OF(struct suspect, is.beat_ns),
	FIELD_U64_OF(struct suspect, is.step),
	FIELD_BOOL_OF(struct suspect, is.in_collective),
	FIELD_U64_OF(struct suspect, is.collective),
	FIELD_U64_OF(struct suspect, is.bytes),
	FIELD_TEXT_OF(struct suspect, is.op),
	FIELD_U8_OF(struct suspect, is.dtype),
	{0},
};

const struct field peer_silent_fields[] = {
	FIELD_LIST_OF(struct peer_silent, n, of, suspect_fields),
	{0},
};

int peer_silent_check(const struct peer_silent *m, struct err *err)
{
	for (uint32_t i = 0; i < m->n; i++) {
		if (m->of[i].rank >= RANK_MAX || (i && m->of[i].rank <= m->of[i - 1].rank))
			return peer_bad(PEER_SILENT, err, "rank", m->of[i].rank);
		if (m->of[i].is.dtype >= DTYPE_END)
			return peer_bad(PEER_SILENT, err, "dtype", m->of[i].is.dtype);
	}
	return 0;
}

const struct field peer_standstill_fields[] = {
	FIELD_U32_OF(struct peer_standstill, epoch),  FIELD_BOOL_OF(struct peer_standstill, is),
	FIELD_BOOL_OF(struct peer_standstill, named), FIELD_U32_OF(struct peer_standstill, rank),
	FIELD_U32_OF(struct peer_standstill, node),   FIELD_U64_OF(struct peer_standstill, silent_ns),
	FIELD_TEXT_OF(struct peer_standstill, text),  {0},
};

int peer_standstill_check(const struct peer_standstill *m, struct err *err)
{
	if (!m->epoch || m->epoch > EPOCH_MAX)
		return peer_bad(PEER_STANDSTILL, err, "epoch", m->epoch);
	return m->rank >= RANK_MAX ? peer_bad(PEER_STANDSTILL, err, "rank", m->rank) : 0;
}
