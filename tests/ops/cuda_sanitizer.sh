#!/usr/bin/env bash
# cuda_sanitizer.sh TOOL: runs the CUDA kernels on a real device under NVIDIA's compute-sanitizer.
# TOOL memcheck finds accesses outside of allocations; racecheck finds accesses to shared memory
# that no barrier separates. Tests that compare ops with the CPU run a tenth of their rounds. Exit
# 77: not possible on this machine.
set -u
tool=$1 failed=0
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[ -x "$sanitizer" ] || { echo "skipped: no compute-sanitizer"; exit 77; }
export SYN_TEST_FEW=1
"$SYN_BUILD/tests/test_cuda_losses" parts >/dev/null 2>&1
[ $? != 77 ] || { echo "skipped: no CUDA device"; exit 77; }
for program in attention losses products rows select shapes; do
    log=$(timeout 90 "$sanitizer" --tool "$tool" --error-exitcode 99 --print-limit 20 \
        "$SYN_BUILD/tests/test_cuda_$program" 2>&1) && continue
    printf 'FAILED: %s of test_cuda_%s (exit code %s)\n%s\n' "$tool" "$program" $? "$log"
    failed=1
done
exit $failed
