/* Tests on CUDA. If the environment has SYN_TEST_DEVICE=cuda, contexts that request the CPU get
   CUDA, so that tests of ops and models also test CUDA's kernels. Test programs are linked with a
   syn_ctx_new that does this. Without a device such a program is skipped. Ranks that are threads
   share devices if there are too few, unless SYNTORCH_CUDA_SHARED is set. */
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether CUDA replaces the CPU. */
bool ref_on_cuda(void);
/* How many of n similar rounds to run: a quarter on the emulated device, which is a hundred times
   slower than the CPU; else n. */
int ref_rounds(int n);
/* Whether there is a module and a device; without, tests that compare both devices SKIP. */
bool ref_has_cuda(void);
/* Number of devices; 0: none. Up to this many ranks get one device each and use NCCL. */
int ref_cuda_devices(void);
/* For ranks that are processes: sets SYNTORCH_CUDA_SHARED=1 if there are more ranks than devices,
   and otherwise removes it, unless it was set outside the test. */
void ref_share_devices(int ranks);
/* Number of calls of a CUDA runtime function so far. Only the emulated device counts them; 0 on
   others. */
uint64_t ref_cuda_calls(const char *name);

#endif
