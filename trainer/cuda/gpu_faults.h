/* A device that is broken on purpose, for good: only another process can use it again. */
#ifndef CKPT_TRAINER_GPU_FAULTS_H
#define CKPT_TRAINER_GPU_FAULTS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Each puts a kernel on the stream that traps, reads where nothing is, or never ends. 0 or the vendor's code. */
int gpu_trap(void *stream);
int gpu_illegal_address(void *stream);
int gpu_never_end(void *stream);

#ifdef __cplusplus
}
#endif

#endif
