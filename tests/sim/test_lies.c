/* The simulator must be able to fail: a disk that lies about fsync, of files or of directories, is noticed within a few seeds. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* 0: the run noticed; 1: it did not. */
static int notices(const char *program, const char *lie)
{
	char first[] = "1", count[] = "20";
	char *argv[] = {(char *)program, first, count, NULL};
	int status;
	pid_t pid;
	setenv("CKPT_SIM_LIE", lie, 1);
	if (posix_spawn(&pid, program, NULL, NULL, argv, environ) || waitpid(pid, &status, 0) < 0) {
		perror(program);
		return 1;
	}
	int noticed = WIFEXITED(status) && WEXITSTATUS(status) == 1;
	printf("fsync of a %s lies: %s\n", lie, noticed ? "noticed" : "NOT NOTICED");
	return !noticed;
}

int main(int argc, char **argv)
{
	char path[4096];
	(void)argc;
	const char *slash = strrchr(argv[0], '/');
	snprintf(path, sizeof(path), "%.*ssim_save", slash ? (int)(slash - argv[0] + 1) : 0, argv[0]);
	return notices(path, "file") | notices(path, "dir");
}
