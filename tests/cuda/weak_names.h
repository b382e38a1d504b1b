/* Kernels stand in one program twice: as they are, and for the memory model under these names. */
#ifndef CKPT_TESTS_CUDA_WEAK_NAMES_H
#define CKPT_TESTS_CUDA_WEAK_NAMES_H

#define gpu_digest weak_gpu_digest
#define gpu_digest_load weak_gpu_digest_load
#define gpu_pieces weak_gpu_pieces
#define gpu_pack weak_gpu_pack
#define gpu_pack_load weak_gpu_pack_load
#define gpu_unpack weak_gpu_unpack
#define gpu_planes weak_gpu_planes
#define gpu_tell weak_gpu_tell
#define gpu_tell_load weak_gpu_tell_load

#endif
