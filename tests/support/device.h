/* Tests on CUDA. Where the environment variable SYN_TEST_DEVICE is "cuda" contexts that ask for the
   CPU get CUDA, so that a test of ops or models is one of its kernels, too; test programs are
   linked with a syn_ctx_new that does so. Without a device such a program is skipped. Ranks that
   are threads share devices where there are too few, unless SYNTORCH_CUDA_SHARED is set. */
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether CUDA stands for the CPU. */
bool ref_on_cuda(void);
/* How many of n similar rounds to run: a quarter on the emulated device, which is a hundred times
   slower than the CPU; else n. */
int ref_rounds(int n);
/* Whether there is a module and a device; who compares both says SKIP("no CUDA device") else. */
bool ref_has_cuda(void);
/* How many; 0: none. So many ranks have one each, and exchange by NCCL. */
int ref_cuda_devices(void);
/* Sets SYNTORCH_CUDA_SHARED=1 where so many ranks are more than there are devices, and takes that
   back where they are not, unless somebody else has set it: for ranks that are processes. */
void ref_share_devices(int ranks);
/* Calls of a function of CUDA's runtime so far, which the emulated device counts; 0 on others. */
uint64_t ref_cuda_calls(const char *name);

#endif
