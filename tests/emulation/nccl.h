/* What comm/cuda asks of NCCL, for ranks that are threads or processes of one machine;
   emulated_nccl.cc. Types and names are NCCL's. Members of a communicator meet as work of their
   streams. Where one calls another operation than the first, or another count, type or reduction,
   all hang until they are aborted, as NCCL does, and standard error says why. The first call in a
   communicator that blocks does so until all members have called, unless NCCL_RUNTIME_CONNECT=0. */
#ifndef TESTS_EMULATION_NCCL_H
#define TESTS_EMULATION_NCCL_H

#include <cuda_runtime.h>

typedef enum {
    ncclSuccess,
    ncclUnhandledCudaError,
    ncclSystemError,
    ncclInternalError,
    ncclInvalidArgument,
    ncclInvalidUsage,
    ncclRemoteError,
    ncclInProgress
} ncclResult_t;
typedef enum {
    ncclInt32 = 2,
    ncclInt64 = 4,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclBfloat16 = 9
} ncclDataType_t;
typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg } ncclRedOp_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef struct {
    int blocking, splitShare;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER \
    { 1, 0 }
typedef struct emulated_comm *ncclComm_t;

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
/* One part, of all members, which shares the whole's end. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part,
                           ncclConfig_t *config);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *code);
const char *ncclGetErrorString(ncclResult_t code);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);

#endif
