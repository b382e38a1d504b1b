#include "reader/reader.h"

#include <unistd.h>

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

static _Thread_local struct err last;

int reader_fail(int rc, const struct err *err)
{
	last = *err;
	if (!last.text[0])
		err_set(&last, rc, "%s", err_name(rc));
	return rc;
}

int reader_check(const ckpt_reader *r, struct err *err)
{
	if (!r)
		return err_set(err, -EINVAL, "the reader is NULL: ckpt_reader_open makes one");
	if (r->pid == getpid())
		return 0;
	return err_set(err, -ECHILD, "the reader belongs to the parent process: open another one after fork");
}

const char *ckpt_reader_error(void)
{
	return last.text;
}

const char *ckpt_reader_version(void)
{
	return TEXT(CKPT_VERSION_MAJOR) "." TEXT(CKPT_VERSION_MINOR) "." TEXT(CKPT_VERSION_PATCH);
}
