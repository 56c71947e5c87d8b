/* What a pair of traces lacks, and which profiler option would give it. */
#ifndef EXPORT_PT_HINTS_H
#define EXPORT_PT_HINTS_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* id, sentence. docs/pytorch.md explains each under its id. */
#define SYN__PT_HINT_LIST(X)                                                                       \
    X(NO_DEVICE_TRACE, "no-device-trace",                                                          \
      "no device trace was given: the result has no times and no device work (--device: what "     \
      "torch.profiler's export_chrome_trace wrote in the same run)")                               \
    X(NO_HOST_TRACE, "no-host-trace",                                                              \
      "no host trace was given: host ops are the CPU ops of the device trace, without tensor ids " \
      "and outputs (--host: what torch.profiler's ExecutionTraceObserver wrote in the same run)")  \
    X(NO_DEVICE_WORK, "no-device-work",                                                            \
      "no kernels, copies or memory sets were recorded (profile with "                             \
      "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], on a machine with a GPU; events " \
      "of other accelerators are not read)")                                                       \
    X(NO_CPU_OPS, "no-cpu-ops",                                                                    \
      "the device trace holds no CPU ops, so host nodes have no times (profile with "              \
      "ProfilerActivity.CPU too)")                                                                 \
    X(NO_RF_IDS, "no-rf-ids",                                                                      \
      "the device trace has no \"Record function id\", so host nodes were matched by External id " \
      "or by name and order (PyTorch 2.3 or newer writes it)")                                     \
    X(NO_CORRELATION, "no-correlation",                                                            \
      "device work has no correlation id, so its launches were found by External id or by time "   \
      "(newer PyTorch for ROCm writes it)")                                                        \
    X(NO_SYNC_EVENTS, "no-sync-events",                                                            \
      "synchronisation between streams was inferred from runtime calls (profile with "             \
      "experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True) "  \
      "to have it recorded)")                                                                      \
    X(FEW_MATCHES, "few-matches",                                                                  \
      "less than half of the host nodes were found in the device trace: are both from the same "   \
      "run and rank, and was the observer active during the profiled steps?")                      \
    X(OTHER_STEPS, "other-steps",                                                                  \
      "the device trace holds steps that the host trace lacks (record both files over the same "   \
      "steps; --trim leaves out the device work of the others)")                                   \
    X(REPEATED_STEPS, "repeated-steps",                                                            \
      "the host trace fits several steps of the device trace equally well: it was matched to the " \
      "first")                                                                                     \
    X(RENUMBERED_STEPS, "renumbered-steps",                                                        \
      "autograd's sequence numbers differ between the files, which hold other steps or runs: "     \
      "host "                                                                                      \
      "nodes have the times of the same calls there")                                              \
    X(NO_SHAPES, "no-shapes",                                                                      \
      "the device trace tells no shapes, so flops and bytes of computation are unknown: 1 "        \
      "(profile "                                                                                  \
      "with record_shapes=True, or give the host trace)")                                          \
    X(MANY_ORPHANS, "many-orphans",                                                                \
      "most host nodes have a parent that is not in the file: the ExecutionTraceObserver was "     \
      "started or stopped within a step")

typedef enum syn__pt_hint {
#define SYN_X(id, name, sentence) SYN__PT_HINT_##id,
    SYN__PT_HINT_LIST(SYN_X)
#undef SYN_X
        SYN__PT_HINTS
} syn__pt_hint;

const char *syn__pt_hint_name(syn__pt_hint hint);
const char *syn__pt_hint_sentence(syn__pt_hint hint);
/* Bit per hint that holds for a rank after syn__pt_match. */
uint32_t syn__pt_hints_of(const syn__pt_rank *rank, const syn__pt_report *report);

#ifdef __cplusplus
}
#endif
#endif
