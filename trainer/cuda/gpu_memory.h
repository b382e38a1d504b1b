/* Memory and streams of the device, in plain C. Calls return 0 or the vendor's code, which gpu_text() explains, unless said otherwise. */
#ifndef CKPT_TRAINER_GPU_MEMORY_H
#define CKPT_TRAINER_GPU_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many devices there are; 0 also without a driver. */
int gpu_count(void);
/* Makes it the calling thread's device, with a stream that does not wait for others. */
int gpu_open(int ordinal, void **stream);
int gpu_close(void *stream);

/* Where it is on the bus, "0000:1b:00.0": at least 16 bytes. */
int gpu_bus_id(int ordinal, char *text, int size);

int gpu_malloc(void **memory, size_t bytes);
int gpu_free(void *memory);
/* On the host, pinned. */
int gpu_malloc_host(void **memory, size_t bytes);
int gpu_free_host(void *memory);

/* On the stream; either side may be on the host. */
int gpu_copy(void *to, const void *from, size_t bytes, void *stream);
int gpu_zero(void *at, size_t bytes, void *stream);

/* 1: all that was put on the stream is done; 0: not yet; -EIO: an error that stays, *text says which. */
int gpu_query(void *stream, const char **text);
const char *gpu_text(int code);

#ifdef __cplusplus
}
#endif

#endif
