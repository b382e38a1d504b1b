#include "template.h"

#include <stdio.h>
#include <string.h>

/* What stands for %c; NULL: nothing does. */
static const char *stands_for(char c, const struct template_user *user, char number[16])
{
	snprintf(number, 16, "%u", user->uid);
	return c == 'u' ? user->name : c == 'U' ? number : c == 'h' ? user->home : c == '%' ? "%" : NULL;
}

static bool fits_in_path(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int template_expand(const char *text, const struct template_user *user, char *dst, size_t size, struct err *err)
{
	size_t at = 0;
	char number[16];
	if (!fits_in_path(user->name))
		return err_set(err, -EINVAL, "the name of user %u, '%s', cannot stand in a path", user->uid,
			       user->name);
	for (const char *p = text; *p; p++) {
		char plain[2] = {*p, '\0'};
		const char *part = *p == '%' ? stands_for(*++p, user, number) : plain;
		if (!part)
			return err_set(err, -EINVAL, "%s: behind %% one of u, U, h, %% is expected", text);
		size_t len = strlen(part);
		if (at + len >= size)
			return err_set(err, -ENAMETOOLONG, "%s becomes longer than %zu bytes for user %s", text,
				       size - 1, user->name);
		memcpy(dst + at, part, len);
		at += len;
	}
	dst[at] = '\0';
	return 0;
}

int template_check(const char *text, bool *per_user, struct err *err)
{
	char one[4096], other[4096];
	int rc = template_expand(text, &(struct template_user){"a", "/h/a", 1}, one, sizeof(one), err);
	if (!rc)
		rc = template_expand(text, &(struct template_user){"b", "/h/b", 2}, other, sizeof(other), err);
	*per_user = !rc && strcmp(one, other) != 0;
	return rc;
}
