/* What the device layer says in its log, counted. */
#ifndef CKPT_TESTS_CUDA_LOG_H
#define CKPT_TESTS_CUDA_LOG_H

/* From now on the log of the process goes to a file in memory. Returns it. */
int cuda_log_listen(void);
/* How often the text was said. */
int cuda_log_count(int heard, const char *text);

#endif
