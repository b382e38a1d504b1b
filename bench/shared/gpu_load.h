/* The loads of gpu_load.cu; they return the vendor's code. */
#ifndef CKPT_BENCH_GPU_LOAD_H
#define CKPT_BENCH_GPU_LOAD_H

/* Reads all of the memory and writes nothing. */
int gpu_sweep(const void *memory, unsigned long long bytes, unsigned blocks, unsigned long long *sum, void *stream);
/* rounds times over n values. */
int gpu_work(float *values, unsigned long long n, unsigned rounds, unsigned blocks, void *stream);
/* As many of its blocks as the current device has places for at a time. */
int gpu_work_blocks(unsigned *blocks);
/* A stream of ordinary priority, as a program has for its training, which does not synchronise with the default stream. */
int gpu_work_stream(void **stream);

#endif
