/* What nccl_table.h says of NCCL's interface, against the header of the NCCL that is installed here, if it is. */
#include "collective/nccl_table.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

_Static_assert(sizeof(struct nccl_id) == sizeof(ncclUniqueId), "as in nccl.h");
_Static_assert(NCCL_ID_SIZE == NCCL_UNIQUE_ID_BYTES, "as in nccl.h");
_Static_assert(offsetof(struct nccl_config, magic) == offsetof(ncclConfig_t, magic), "as in nccl.h");
_Static_assert(offsetof(struct nccl_config, version) == offsetof(ncclConfig_t, version), "as in nccl.h");
_Static_assert(offsetof(struct nccl_config, blocking) == offsetof(ncclConfig_t, blocking), "as in nccl.h");
_Static_assert(offsetof(struct nccl_config, max_ctas) == offsetof(ncclConfig_t, maxCTAs), "as in nccl.h");
_Static_assert(offsetof(struct nccl_config, net_name) == offsetof(ncclConfig_t, netName), "as in nccl.h");
_Static_assert(offsetof(struct nccl_config, split_share) == offsetof(ncclConfig_t, splitShare), "as in nccl.h");
_Static_assert(NCCL_UNDEFINED == NCCL_CONFIG_UNDEF_INT, "as in nccl.h");
_Static_assert((int)NCCL_SUCCESS == (int)ncclSuccess && (int)NCCL_IN_PROGRESS == (int)ncclInProgress, "as in nccl.h");
_Static_assert((int)NCCL_REMOTE_ERROR == (int)ncclRemoteError && (int)NCCL_INVALID_USAGE == (int)ncclInvalidUsage,
	       "as in nccl.h");
_Static_assert((int)NCCL_FLOAT32 == (int)ncclFloat32 && (int)NCCL_SUM == (int)ncclSum, "as in nccl.h");
#endif
