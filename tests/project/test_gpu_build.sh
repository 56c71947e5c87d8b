#!/usr/bin/env bash
# Tests which architectures CUDA kernels are compiled for, and which toolkits are accepted, with
# fake nvidia-smi and nvcc programs.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "$*" >&2
    exit 1
}
# program NAME: creates a program of that name from standard input.
program() {
    { echo '#!/bin/sh' && cat; } >"$work/$1"
    chmod +x "$work/$1"
}

# The architectures of this machine's GPUs, without those that are too old; one default architecture
# if nvidia-smi fails or does not exist.
cat >"$work/ask.cmake" <<END
include($SYN_SOURCE/cmake/SynCudaArchitectures.cmake)
syn_cuda_architectures(found)
message("\${found}")
END
chosen() { # ARCHITECTURES
    local got
    got=$(PATH="$work:$PATH" cmake -P "$work/ask.cmake" 2>&1)
    [ "$got" = "$1" ] || fail "compiled for '$got', not '$1'"
}
program nvidia-smi <<'END'
[ "$*" = "--query-gpu=compute_cap --format=csv,noheader" ] || exit 1
printf '9.0\n8.6\n6.1\n9.0\n'
END
chosen '90;86'
program nvidia-smi <<'END'
echo 'Field "compute_cap" is not a valid field to query.'
exit 2
END
chosen 80
rm "$work/nvidia-smi"

# A toolkit that is too old is ignored with AUTO and is an error with ON.
program nvcc <<'END'
echo 'Cuda compilation tools, release 11.8, V11.8.89'
END
configured() { # SYN_CUDA
    cmake -S "$SYN_SOURCE" -B "$work/build-$1" -DSYN_CUDA="$1" -DSYN_TESTS=OFF -DSYN_MPI=OFF \
        -DCMAKE_CUDA_COMPILER="$work/nvcc" 2>&1
}
if text=$(configured ON); then fail "SYN_CUDA=ON was content with CUDA 11.8"; fi
grep -qz "needs NVIDIA's toolkit 12.0 or[[:space:]]*newer;.* is[[:space:]]*11.8" <<<"$text" ||
    fail "$text"
text=$(configured AUTO) || fail "$text"
grep -q 'CUDA: not found (no --device cuda)' <<<"$text" || fail "$text"
grep -q 'is older than' <<<"$text" || fail "the toolkit was not looked for: $text"

# A build with sanitizers has no kernels even if there is a toolkit; BUILD_TESTING=OFF builds no
# tests.
text=$(cmake -S "$SYN_SOURCE" -B "$work/sanitized" -DSYN_SANITIZE=address -DBUILD_TESTING=OFF \
    -DSYN_MPI=OFF -DCMAKE_CUDA_COMPILER="$work/nvcc" 2>&1) || fail "$text"
grep -q 'CUDA: not found (no --device cuda)' <<<"$text" || fail "$text"
if grep -q 'is older than' <<<"$text"; then fail "kernels in a sanitized build: $text"; fi
[ ! -e "$work/sanitized/tests" ] || fail "BUILD_TESTING=OFF is ignored"
