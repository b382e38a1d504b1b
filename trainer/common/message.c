#include "common/message.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

enum { MESSAGE_SIZE = 1000 };

void message(int rank, const char *format, ...)
{
	char text[MESSAGE_SIZE + 1];
	va_list arguments;
	int used = rank < 0 ? snprintf(text, MESSAGE_SIZE, "ckpt-train: ")
			    : snprintf(text, MESSAGE_SIZE, "rank %d: ", rank);
	ssize_t ignored;

	va_start(arguments, format);
	used += vsnprintf(text + used, MESSAGE_SIZE - (size_t)used, format, arguments);
	va_end(arguments);
	if (used >= MESSAGE_SIZE)
		used = MESSAGE_SIZE - 1;
	text[used++] = '\n';
	ignored = write(STDERR_FILENO, text, (size_t)used); /* there is nobody to complain to */
	(void)ignored;
}
