/* What Lustre does with the files of a store. A directory may have a default layout, which what is made below inherits; it is read where
 * Lustre shows it to everybody, as the extended attribute lustre.lov of the directory, a struct lov_user_md in the machine's byte order. Setting
 * one is left to the site's own tool. */
#include "operate/doctor.h"

#include "base/bytes.h"

#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

enum { LAYOUT_MAX = 4096, ALL = 0xffff };
enum { PLAIN = 0x0BD10BD0, IN_POOL = 0x0BD30BD0, COMPOSITE = 0x0BD60BD0 }; /* the first word */

/* Of the plain ones; that in a pool has the pool's name behind it. */
struct layout {
	uint32_t magic, pattern;
	uint64_t object[2];
	uint32_t stripe_size; /* 0: the default */
	uint16_t stripes;     /* 0: the default */
	uint16_t offset;
};

/* True: files made there are striped over several servers. */
static bool read_layout(int dir, char *found, size_t size)
{
	union {
		struct layout l;
		char bytes[LAYOUT_MAX];
	} value = {.bytes = ""};
	char width[16];
	ssize_t n = fgetxattr(dir, "lustre.lov", &value, sizeof(value));
	const struct layout *l = &value.l;
	if (n >= (ssize_t)sizeof(*l) && l->magic == COMPOSITE) {
		snprintf(found, size, "Lustre, with a layout by size (lfs getstripe -d shows it)");
		return true;
	}
	if (n < (ssize_t)sizeof(*l) || (l->magic != PLAIN && l->magic != IN_POOL) || !l->stripes) {
		snprintf(found, size, "Lustre, with the default layout of the file system");
		return false;
	}
	bytes_human(width, sizeof(width), l->stripe_size);
	if (l->stripes == ALL)
		snprintf(found, size, "Lustre, files in stripes of %s on all servers",
			 l->stripe_size ? width : "default size");
	else
		snprintf(found, size, "Lustre, files in stripes of %s on %u server%s",
			 l->stripe_size ? width : "default size", l->stripes, l->stripes == 1 ? "" : "s");
	return l->stripes > 1;
}

void doctor_lustre(struct doctor *d, int dir, const char *path)
{
	char found[DOCTOR_TEXT_MAX];
	bool striped = read_layout(dir, found, sizeof(found));
	/* Stripes as large as one transfer of ckptd; small files, of which each checkpoint has some, on one server. */
	snprintf(d->lustre, sizeof(d->lustre),
		 "With few ranks and large files: lfs setstripe -E 64M -c 1 -S 8M -E -1 -c 4 -S 8M '%.3000s'; what is "
		 "made "
		 "there from then on inherits it. With more ranks than servers (OSTs) leave it as it is.",
		 path);
	doctor_add(d, "store-kind", striped ? RESULT_FINE : RESULT_NOTE,
		   "Where each file lies on one server, a rank's file is written no faster than that one is.",
		   d->lustre, "%s", found);
}
