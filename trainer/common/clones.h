/*
 * HOT marks a function whose loops are worth one version per instruction set, chosen when the program starts.
 * The versions give the same bits: the trainer is compiled without fused multiply-add (-ffp-contract=off) and
 * without reassociation, so a wider vector only advances more elements at once.
 * Under a sanitizer there is one version: the choice runs before the sanitizer's own start. By clang, too: its versions (clang 14) are
 * called NAME.ifunc, and other files do not find them.
 */
#ifndef CKPT_TRAINER_CLONES_H
#define CKPT_TRAINER_CLONES_H

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define HOT __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HOT
#endif

#endif
