/*
 * The calls of NCCL that the trainer needs, as a table with plain types: the library, taken at run time, or the fake of the
 * tests. The program is neither built nor linked against NCCL, so that one binary starts on machines without it. What
 * stands here is its C interface as it has been since 2.14, the first with communicators that do not block.
 *
 * Calls return one of the codes below; another one is an error that text_of() explains.
 */
#ifndef CKPT_TRAINER_NCCL_TABLE_H
#define CKPT_TRAINER_NCCL_TABLE_H

#include <stddef.h>

enum {
	NCCL_SUCCESS = 0,
	NCCL_UNHANDLED_CUDA_ERROR = 1,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6,
	NCCL_IN_PROGRESS = 7,
};

enum { NCCL_SUM = 0 };     /* ncclRedOp_t */
enum { NCCL_FLOAT32 = 7 }; /* ncclDataType_t */

enum { NCCL_ID_SIZE = 128 };
struct nccl_id {
	char bytes[NCCL_ID_SIZE];
};

/* ncclConfig_t of 2.17: later versions take a shorter one, by its size. NCCL_UNDEFINED leaves a field to the library. */
#define NCCL_UNDEFINED (-2147483647 - 1)
#define NCCL_CONFIG_MAGIC 0xcafebeef
enum { NCCL_CONFIG_VERSION = 21700, NCCL_VERSION_LEAST = 21700 };
struct nccl_config {
	size_t size;
	unsigned int magic, version;
	int blocking, cga_cluster_size, min_ctas, max_ctas;
	const char *net_name;
	int split_share;
};

struct nccl_table {
	int (*version)(int *version);
	int (*unique_id)(struct nccl_id *id); /* also where there is no GPU: it is no probe */
	int (*init)(void **comm, int world, struct nccl_id id, int rank, struct nccl_config *config);
	int (*async_error)(void *comm, int *code);
	int (*abort)(void *comm); /* ends what runs on the device and frees; may hang */
	int (*reduce_scatter)(const void *send, void *receive, size_t receive_count, int type, int op, void *comm,
			      void *stream);
	int (*all_gather)(const void *send, void *receive, size_t send_count, int type, void *comm, void *stream);
	const char *(*text_of)(int code);
};

enum { NCCL_WHY_SIZE = 256 };

/*
 * The library's calls, loaded once and never let go: libnccl.so.2, or the file that CKPT_NCCL_LIBRARY names. 0 and the
 * table; -ENOENT: there is no such library; -ENOSYS: it lacks a call or is too old. `why` names it.
 */
int nccl_table_load(const struct nccl_table **table, char why[NCCL_WHY_SIZE]);

#endif
