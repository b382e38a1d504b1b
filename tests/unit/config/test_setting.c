#include "config/setting.h"
#include "config/value.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define EACH(s) for (const struct setting *s = settings; s->key; s++)

Test(setting, keys_flags_and_variables_are_unique)
{
	EACH(a)
	{
		for (const struct setting *b = settings; b < a; b++) {
			cr_assert(a->scope != b->scope || strcmp(a->key, b->key), "%s", a->key);
			cr_assert(strcmp(a->flag, b->flag), "%s", a->flag);
			cr_assert(strcmp(a->env, b->env), "%s", a->env);
		}
	}
}

/* So that nobody has to guess. */
Test(setting, a_variable_is_the_flag_in_capitals)
{
	EACH(s)
	{
		char want[64] = "CKPT_";
		size_t at = 5;
		for (const char *c = s->flag; *c; c++)
			want[at++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
		cr_assert_str_eq(s->env, want);
	}
}

Test(setting, each_default_is_allowed_and_says_where_it_comes_from)
{
	EACH(s)
	{
		char text[SETTING_TEXT_MAX];
		struct value value;
		struct err err = {{0}};
		setting_fallback(s, text, sizeof(text));
		cr_assert((s->fallback != NULL) != (s->fallback_text != NULL), "%s", s->key);
		cr_assert(!*text || !value_parse(s, text, &value, &err), "%s: %s", s->key, err.text);
	}
}

/* Their memory belongs to the sources that the daemon began with. But for those that are looked at again at each reload (ckptd/reload.c). */
Test(setting, texts_need_a_restart)
{
	EACH(s)
	{
		bool text = s->type == SETTING_PATH || s->type == SETTING_NAME || s->type == SETTING_URL ||
			    s->type == SETTING_NODE;
		cr_assert(s->restart || !text || !strncmp(s->key, "cluster-key", strlen("cluster-key")), "%s", s->key);
	}
}

Test(setting, help_is_one_line_without_a_full_stop)
{
	EACH(s)
	{
		size_t len = strlen(s->help);
		cr_assert(len > 10 && len < 100 && s->help[len - 1] != '.' && !strchr(s->help, '\n'), "%s", s->key);
	}
}

Test(setting, the_same_key_is_found_in_each_scope)
{
	const struct setting *node = setting_find(SCOPE_NODE, "memory-limit"),
			     *job = setting_find(SCOPE_JOB, "memory-limit");
	cr_assert(node && job && node != job);
	cr_assert_null(setting_find(SCOPE_NODE, "linger"));
	cr_assert_null(setting_find(SCOPE_JOB, "nonsense"));
}
