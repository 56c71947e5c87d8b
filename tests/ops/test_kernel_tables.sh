#!/usr/bin/env bash
# If one level of vector instructions lacks a kernel, the compiler must report exactly one error,
# which names the kernel. Renames each kernel in a copy of the sources to prove it.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
levels=(scalar)
avx2=(-mavx2 -mfma -mf16c)
if [ "$(uname -m)" = x86_64 ]; then levels+=(avx2 avx512); fi
scalar=()
avx512=("${avx2[@]}" -mavx512f -mavx512bw -mavx512dq -mavx512vl)
tried=0

# errors FILE LEVEL: prints the compiler's errors. The compiler finds headers in the copy first.
errors() {
    local -n flags=$2
    cc -std=c11 -D_POSIX_C_SOURCE=200809L -I"$copy" -I. "${flags[@]}" -fsyntax-only "$1" 2>&1 |
        grep -E '(^|: )error: ' || true
}

# without FAMILY KERNEL...: copies each level's file and the bodies that they include, renames one
# kernel at a time, and checks the error.
without() {
    local level got family=$1
    for level in "${levels[@]}"; do
        got=$(errors "ops/${family}_$level.c" "$level")
        [ -z "$got" ] || { echo "FAILED: ${family}_$level.c as it is: $got"; exit 1; }
    done
    mkdir -p "$copy/ops"
    for kernel in "${@:2}"; do
        cp "ops/$family"_*body.h ops/"$family"_{scalar,avx2,avx512}.c "$copy/ops"
        sed -i "s/\b$kernel\((\|,\)/gone\1/" "$copy/ops/${family}_"*
        for level in "${levels[@]}"; do
            got=$(errors "$copy/ops/${family}_$level.c" "$level")
            tried=$((tried + 1))
            [ "$(wc -l <<<"$got")" = 1 ] && [[ $got == *"'$kernel'"* ]] ||
                { echo "FAILED: ${family}_$level.c without $kernel: $got"; exit 1; }
        done
    done
}

without rows row_tanh row_softmax row_mul
without attention attend attend_grad
echo "$tried tables without a kernel were refused with its name"
