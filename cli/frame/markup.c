#include "frame/markup.h"

#include "frame/output.h"

#include <math.h>
#include <stdarg.h>

static void escape(FILE *f, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			fputs("&amp;", f);
			break;
		case '<':
			fputs("&lt;", f);
			break;
		case '>':
			fputs("&gt;", f);
			break;
		case '"':
			fputs("&quot;", f);
			break;
		case '\'':
			fputs("&#39;", f);
			break;
		default:
			fputc(*text, f);
		}
}

/* What a bound has cut off may have been the rest of a character. */
static void drop_half(char *text, size_t n)
{
	size_t at = n;
	while (at && ((unsigned char)text[at - 1] & 0xc0) == 0x80)
		at--;
	if (at && (unsigned char)text[at - 1] >= 0xc0)
		text[at - 1] = '\0';
}

static void escape_all(FILE *f, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void escape_all(FILE *f, const char *fmt, va_list ap)
{
	char text[MARKUP_TEXT_MAX], plain[MARKUP_TEXT_MAX];
	if (vsnprintf(text, sizeof(text), fmt, ap) >= (int)sizeof(text))
		drop_half(text, sizeof(text) - 1);
	escape(f, text_plain(plain, sizeof(plain), text));
}

void markup_text(FILE *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	escape_all(f, fmt, ap);
	va_end(ap);
}

void markup(FILE *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
}

static void put_cell(FILE *f, const char *tag, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
static void put_cell(FILE *f, const char *tag, const char *fmt, va_list ap)
{
	fputs(tag, f);
	escape_all(f, fmt, ap);
	fputs("</td>", f);
}

void markup_cell(FILE *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put_cell(f, "<td>", fmt, ap);
	va_end(ap);
}

void markup_number(FILE *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put_cell(f, "<td class=\"n\">", fmt, ap);
	va_end(ap);
}

void markup_ms(FILE *f, double ms)
{
	char text[32];
	if (isnan(ms))
		markup_number(f, "–");
	else
		markup_number(f, "%s",
			      text_duration(text, sizeof(text), ms > 0 ? (uint64_t)(fmin(ms, 1e12) * 1e6) : 0));
}

void markup_table(FILE *f, const char *caption, const char *const *columns)
{
	markup(f, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
	markup_text(f, "%s", caption);
	markup(f, "\"><table><caption>");
	markup_text(f, "%s", caption);
	markup(f, "</caption><thead><tr>");
	for (; *columns; columns++) {
		bool number = **columns == '>';
		markup(f, number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
		markup_text(f, "%s", *columns + number);
		markup(f, "</th>");
	}
	markup(f, "</tr></thead><tbody>\n");
}

void markup_table_end(FILE *f)
{
	markup(f, "</tbody></table></div>\n");
}
