#include "arena/table.h"

#include "format/arena/tensor_heads.h"

#include <stdlib.h>

int table_decode(const void *data, size_t len, struct table **out, struct err *err)
{
	struct table *table = calloc(1, sizeof(*table));
	if (!table)
		return err_set(err, -ENOMEM, "no memory for a table");
	int rc = registration_decode(data, len, &table->reg, err);
	if (rc) {
		free(table);
		return rc;
	}
	table->refs = 1;
	table->digest = digest_bytes(data, len);
	table->tensors = tensor_heads_digest(&table->reg);
	table->bytes = (uint32_t)len; /* at most REGISTRATION_BYTES_MAX */
	*out = table;
	return 0;
}

struct table *table_get(struct table *table)
{
	table->refs++;
	return table;
}

void table_put(struct table *table)
{
	if (!table || --table->refs)
		return;
	registration_free(&table->reg);
	free(table);
}
