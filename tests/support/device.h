/* Runs tests of the CPU on CUDA, too. With SYN_TEST_DEVICE=cuda in the environment, a context that
   requests the CPU gets CUDA, so the tests of ops and models also test CUDA's kernels. The test
   programs are linked with a syn_ctx_new that does this. Without a CUDA device, such a program is
   skipped. Ranks that are threads share devices if there are fewer devices than ranks, unless
   SYNTORCH_CUDA_SHARED is set. */
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether CUDA replaces the CPU. */
bool ref_on_cuda(void);
/* Number of rounds to run out of n similar ones: a quarter on the emulated device, which is a
   hundred times slower than the CPU, otherwise all. */
int ref_rounds(int n);
/* Whether this machine has the CUDA module and a device. If not, tests that compare both devices
   SKIP. */
bool ref_has_cuda(void);
/* Number of CUDA devices. With at most this many ranks, each rank gets its own device and uses
   NCCL. */
int ref_cuda_devices(void);
/* Call this before starting ranks that are processes. Sets SYNTORCH_CUDA_SHARED=1 if there are more
   ranks than devices, and otherwise removes the variable. Does nothing if the variable was set
   outside the test. */
void ref_share_devices(int ranks);
/* Number of calls of a CUDA runtime function so far. Only the emulated device counts calls; others
   return 0. */
uint64_t ref_cuda_calls(const char *name);

#endif
