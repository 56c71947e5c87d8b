#!/usr/bin/env bash
# Traces name a kernel by the argument of SYN_LAUNCH, so each argument must be the name of a
# __global__ function.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
files=(ops/cuda/*.cu ops/cuda/[!d]*.cuh comm/cuda/*.cu) # device.cuh has the macro
kernels=$(cat "${files[@]}" | tr '\n' ' ' |
    grep -Po '__global__ void( __launch_bounds__\(.*?\))?\s+\K\w+(?=\()')
n=0
for kernel in $(grep -hPo 'SYN_LAUNCH\(\(?\K\w+' "${files[@]}"); do
    grep -qx "$kernel" <<<"$kernels" || { echo "FAILED: SYN_LAUNCH($kernel: no kernel"; exit 1; }
    n=$((n + 1))
done
[ "$n" -gt 40 ] || { echo "FAILED: $n launches"; exit 1; }
echo "$n launches by name"
