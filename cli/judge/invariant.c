#include "judge/invariant.h"

#include <stdarg.h>
#include <stdio.h>

void invariant_broken(struct invariant *v, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (v->held)
		vsnprintf(v->text, sizeof(v->text), fmt, ap);
	va_end(ap);
	v->held = false;
}
