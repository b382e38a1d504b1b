#include "arena/head_block.h"

#include "format/files/safetensors.h"
#include "store/disk/disk.h"

#include <stdlib.h>
#include <string.h>

static int make_one(const struct registration *reg, const struct layout *layout, uint32_t file, struct head_block *head,
		    struct err *err)
{
	AUTO_WBUF struct wbuf out = {0};
	int rc = safetensors_header(reg, layout, file, &out);
	if (rc)
		return err_set(err, rc, "cannot build the header of group '%s': %s", layout->files[file].group,
			       err_name(rc));
	if (posix_memalign(&head->data, DISK_ALIGN, out.len))
		return err_set(err, -ENOMEM, "no memory for file headers");
	memcpy(head->data, out.data, out.len);
	head->len = out.len;
	head->digest = digest_bytes(out.data, out.len);
	return 0;
}

int head_blocks_make(const struct registration *reg, const struct layout *layout, struct head_block **out,
		     struct err *err)
{
	struct head_block *heads = calloc(layout->nfiles ? layout->nfiles : 1, sizeof(*heads));
	int rc = heads ? 0 : err_set(err, -ENOMEM, "no memory for file headers");
	for (uint32_t i = 0; !rc && i < layout->nfiles; i++)
		rc = make_one(reg, layout, i, &heads[i], err);
	if (rc)
		head_blocks_free(heads, layout->nfiles);
	*out = rc ? NULL : heads;
	return rc;
}

void head_blocks_free(struct head_block *heads, uint32_t n)
{
	for (uint32_t i = 0; heads && i < n; i++)
		free(heads[i].data);
	free(heads);
}
