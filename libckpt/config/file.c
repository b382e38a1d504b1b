#include "config/file.h"

#include "base/cleanup.h"
#include "base/quoted.h"
#include "format/tensor/names.h"

#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* inih calls back with neither the line nor the whole name of the section: the reader that hands it the lines keeps both. */
struct reader {
	struct sources *sources;
	const char *path;
	const char *at, *end;
	unsigned line;
	enum setting_scope scope; /* 0: before the first section */
	char pattern[NAME_JOB_MAX];
	int rc; /* first error, in `line` */
	struct err *err;
};

static int fail(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int fail(struct reader *r, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	r->rc = err_set(r->err, -EINVAL, "%s:%u: %s", shown_path(r->path).text, r->line, text);
	return r->rc;
}

/* ---- sections ---------------------------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* A name with * and ?, which it cannot hold; that of a group begins with @. */
static bool is_pattern(enum setting_scope scope, const char *p, size_t len)
{
	char plain[NAME_JOB_MAX];
	if (scope == SCOPE_USER && len && *p == '@') {
		p++;
		len--;
	}
	if (!len || len >= sizeof(plain))
		return false;
	for (size_t i = 0; i < len; i++)
		plain[i] = p[i] == '*' || p[i] == '?' ? 'x' : p[i];
	plain[len] = 0;
	return !name_check("job", plain, NAME_JOB_MAX, NULL);
}

/* Whether the section's name begins with this word. */
static bool is_word(const char *from, size_t len, const char *word)
{
	size_t n = strlen(word);
	return len >= n && !memcmp(from, word, n) && (len == n || is_blank(from[n]));
}

/* [from, to) is what stands between the brackets. */
static int take_section(struct reader *r, const char *from, const char *to)
{
	while (from < to && is_blank(*from))
		from++;
	while (to > from && is_blank(to[-1]))
		to--;
	size_t len = (size_t)(to - from);
	r->pattern[0] = 0;
	if (len == 4 && !memcmp(from, "node", 4)) {
		r->scope = SCOPE_NODE;
		return 0;
	}
	r->scope = is_word(from, len, "job") ? SCOPE_JOB : is_word(from, len, "user") ? SCOPE_USER : 0;
	if (!r->scope)
		return fail(r,
			    "section %s is not known: there are [node], [job], [job NAME], [user], [user NAME] and "
			    "[user @GROUP]",
			    quoted_part(from, len).text);
	for (from += strlen(scope_name(r->scope)); from < to && is_blank(*from);)
		from++;
	len = (size_t)(to - from);
	if (!len)
		return 0;
	if (!is_pattern(r->scope, from, len))
		return fail(r, "[%s %s]: expected a %s's name, 1 to %d of A-Z a-z 0-9 _ . - and * ? for any letters",
			    scope_name(r->scope), quoted_part(from, len).text, scope_name(r->scope), NAME_JOB_MAX - 1);
	memcpy(r->pattern, from, len);
	r->pattern[len] = 0;
	return 0;
}

static int check_section(struct reader *r, const char *line, const char *end)
{
	const char *close = memchr(line, ']', (size_t)(end - line));
	if (!close)
		return fail(r, "a section's name must end in ]");
	const char *rest = close + 1;
	while (rest < end && is_blank(*rest))
		rest++;
	if (rest < end && *rest != ';' && *rest != '#')
		return fail(r, "nothing but a comment may stand behind a section's name");
	return take_section(r, line + 1, close);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* fgets for inih. Blanks at the beginning are left out: inih would take an indented line for the continuation of a value. */
static char *next_line(char *dst, int size, void *stream)
{
	struct reader *r = stream;
	if (r->rc || r->at == r->end)
		return NULL;
	const char *line = r->at, *end = memchr(line, '\n', (size_t)(r->end - line));
	end = end ? end : r->end;
	r->at = end < r->end ? end + 1 : end;
	r->line++;
	while (line < end && is_blank(*line))
		line++;
	size_t len = (size_t)(end - line);
	if (len + 2 > (size_t)size) {
		fail(r, "the line is longer than %d bytes", size - 2);
		return NULL;
	}
	if (memchr(line, 0, len)) {
		fail(r, "there is a NUL byte in the line: this is no text");
		return NULL;
	}
	if (len && *line == '[' && check_section(r, line, end))
		return NULL;
	memcpy(dst, line, len);
	dst[len] = '\n';
	dst[len + 1] = 0;
	return dst;
}

static int unknown_key(struct reader *r, const char *key)
{
	for (enum setting_scope other = SCOPE_NODE; other <= SCOPE_USER; other++)
		if (setting_find(other, key))
			return fail(r, "%s is a setting of [%s], not of [%s]", key, scope_name(other),
				    scope_name(r->scope));
	char list[ERR_TEXT_MAX - 128];
	int at = 0;
	list[0] = 0;
	for (const struct setting *s = settings; s->key && at < (int)sizeof(list); s++)
		if (s->scope == r->scope)
			at += snprintf(list + at, sizeof(list) - (size_t)at, "%s%s", at ? ", " : "", s->key);
	return fail(r, "%s is not a setting of [%s]: there are %s", quoted(key).text, scope_name(r->scope), list);
}

/* inih: non-zero is success. */
static int take_value(void *user, const char *section, const char *key, const char *value)
{
	struct reader *r = user;
	(void)section;
	if (r->rc)
		return 0;
	if (!r->scope)
		return !fail(r, "%s stands before the first section", quoted(key).text);
	const struct setting *setting = setting_find(r->scope, key);
	if (!setting)
		return !unknown_key(r, key);
	struct place place = {.origin = ORIGIN_FILE, .name = r->path, .line = r->line, .pattern = r->pattern};
	r->rc = sources_add(r->sources, setting, &place, value, r->err);
	return !r->rc;
}

int file_parse(struct sources *sources, const char *path, const char *text, size_t len, struct err *err)
{
	struct reader r = {.sources = sources, .path = path, .at = text, .end = text + len, .err = err};
	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) /* some editors begin UTF-8 with a mark */
		r.at += 3;
	int bad = ini_parse_stream(next_line, &r, take_value, &r);
	if (bad > 0 && (!r.rc || (unsigned)bad < r.line)) {
		r.line = (unsigned)bad;
		return fail(&r, "expected [section], key = value, or a comment");
	}
	if (bad < 0 && !r.rc)
		return err_set(err, -ENOMEM, "%s: no memory to read it", shown_path(path).text);
	return r.rc;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int read_whole(int fd, char *dst, size_t size, size_t *len)
{
	for (*len = 0; *len < size;) {
		ssize_t n = read(fd, dst + *len, size - *len);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		*len += n > 0 ? (size_t)n : 0;
	}
	return -EFBIG;
}

int file_read(struct sources *sources, const char *path, struct err *err)
{
	struct stat st;
	size_t len;
	AUTO_FREE char *text = malloc(CONFIG_FILE_MAX + 1);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (!text)
		return err_set(err, -ENOMEM, "%s: no memory to read it", shown_path(path).text);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "%s: %s", shown_path(path).text, err_name(errno));
	/* A FIFO would be read without end; /dev/null is a way to say "no file". */
	if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		return err_set(err, -EINVAL, "%s: is not a file", shown_path(path).text);
	int rc = read_whole(fd, text, CONFIG_FILE_MAX + 1, &len);
	if (rc == -EFBIG)
		return err_set(err, rc, "%s: is larger than %d bytes", shown_path(path).text, CONFIG_FILE_MAX);
	if (rc)
		return err_set(err, rc, "%s: cannot be read: %s", shown_path(path).text, err_name(rc));
	return file_parse(sources, path, text, len, err);
}

static int read_if_there(struct sources *sources, const char *path, struct err *err)
{
	int rc = file_read(sources, path, err);
	return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
}

int file_read_all(struct sources *sources, const char *path, struct err *err)
{
	const char *named = getenv("CKPT_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char user[4096];
	if (path || (named && *named))
		return file_read(sources, path ? path : named, err);
	int rc = read_if_there(sources, CONFIG_SYSTEM, err), n = 0;
	if (!rc && xdg && *xdg)
		n = snprintf(user, sizeof(user), "%s/ckpt/ckpt.conf", xdg);
	else if (!rc && home && *home)
		n = snprintf(user, sizeof(user), "%s/.config/ckpt/ckpt.conf", home);
	return n > 0 && n < (int)sizeof(user) ? read_if_there(sources, user, err) : rc;
}
