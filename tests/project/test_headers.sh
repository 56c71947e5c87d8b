#!/usr/bin/env bash
# Checks that every header of the library compiles alone, as C11 and as C++17, without a warning.
# Headers that include C's atomics are private and must compile only as C.
set -euo pipefail
cd "$(dirname "$0")/../.."
warnings=(-Wall -Wextra -Wpedantic -Werror -D_POSIX_C_SOURCE=200809L -fsyntax-only -I.
    "-I${SYN_BUILD:-build}/generated")
cxx=$(command -v c++ || true)
mpi=()
if command -v pkg-config >/dev/null && pkg-config --exists ompi-c; then
    read -ra mpi < <(pkg-config --cflags ompi-c)
fi
failures=0 n=0
mapfile -t headers < <(
    find syntorch ops comm models export -name "*.h" -not -path "*/cuda/*" | sort)
for header in "${headers[@]}"; do
    flags=("${warnings[@]}")
    if grep -q '<mpi.h>' "$header"; then
        [ ${#mpi[@]} -gt 0 ] || continue
        flags+=("${mpi[@]}")
    fi
    n=$((n + 1))
    cc -std=c11 "${flags[@]}" -x c - <<<"#include \"$header\"" || {
        echo "FAILED: $header alone, as C11"
        failures=$((failures + 1))
    }
    [ -n "$cxx" ] || continue
    if grep -qE '/(stdatomic|mpi)\.h' <<<"$(cc -M "${flags[@]}" "$header")"; then continue; fi
    "$cxx" -std=c++17 "${flags[@]}" -x c++ - <<<"#include \"$header\"" || {
        echo "FAILED: $header alone, as C++17"
        failures=$((failures + 1))
    }
done
[ $failures = 0 ] || exit 1
echo "$n headers stand alone"
