/* Finds out from the name of a kernel whether and how it communicates. */
#ifndef EXPORT_PT_KERNEL_NAMES_H
#define EXPORT_PT_KERNEL_NAMES_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__pt_kernel_library {
    SYN__PT_KERNEL_COMPUTES,
    SYN__PT_KERNEL_OF_NCCL, /* NCCL, RCCL, MSCCL: these kernels run the calls of a process group */
    SYN__PT_KERNEL_OF_OTHER /* a library whose calls PyTorch does not record: DeepEP, NVSHMEM,
                               ... */
} syn__pt_kernel_library;

syn__pt_kernel_library syn__pt_kernel_library_of(syn__str name);
/* The kind of call (SYN__PT_CALL_...) that a communication kernel runs. It is SYN__PT_CALL_SEND for
   ncclDevKernel_SendRecv, although this kernel may send, receive or do both. */
int syn__pt_kernel_kind(syn__str name);

#ifdef __cplusplus
}
#endif
#endif
