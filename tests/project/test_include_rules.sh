#!/usr/bin/env bash
# Who may include whom (docs/architecture.md):
#
#     models/ --> ops/ --> syntorch/ <-- comm/, export/        examples/, tests/ are free
#
# and within export/ and tools/ which room may include which: the table below. Headers of other
# projects: each in one family of files of these folders (comm/comm_mpi*), and in a header only if
# that is private to the family. File names are unique across the tree. Then plants each kind of
# violation in a copy and expects to see it.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
layers=(syntorch ops comm models export tools)
all=("${layers[@]}" examples tests)

# Headers of C11 and POSIX, and of the compiler (vector intrinsics).
known=" assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal
stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads
time uchar wchar wctype dirent dlfcn fcntl glob ftw poll pthread regex sched semaphore spawn
strings syslog termios unistd netdb netinet/in arpa/inet sys/ioctl sys/mman sys/resource
sys/select sys/socket sys/stat sys/statvfs sys/time sys/times sys/types sys/uio sys/un sys/utsname
sys/wait immintrin emmintrin xmmintrin pmmintrin tmmintrin smmintrin nmmintrin arm_neon cpuid "
known=${known//$'\n'/ }

# Room: rooms it may include beside itself. A room may name only those above it, so there are no
# cycles; a folder without a line is an error. Every room of export/ may also include syntorch/
# and text/, which knows no format. The front's headers, export/*.h, include syntorch/ alone; its
# sources, export/*.c, are the lists of formats and may include every room.
rooms='
syntorch:
ops: syntorch
ops/cuda: syntorch ops
comm: syntorch
comm/cuda: syntorch ops/cuda
models: syntorch ops
export: syntorch
export/text:
export/walk: export
export/nodelink: export export/walk
export/chrome: export export/walk
export/kineto: export export/walk
export/picture: export export/walk
export/html: export export/walk
export/chakra/wire:
export/chakra: export export/walk export/chakra/wire
export/chakra/check: export export/chakra/wire export/chakra export/walk
export/workload: export/chakra/wire
export/pytorch/read: export
export/pytorch/rank: export export/chakra/wire export/pytorch/read
export/pytorch/match: export export/pytorch/read export/pytorch/rank
export/pytorch/comm: export/chakra/wire export/pytorch/read export/pytorch/rank
export/pytorch/deps: export/pytorch/read export/pytorch/rank export/pytorch/comm
export/pytorch/sim: export/chakra/wire export/pytorch/read export/pytorch/rank export/pytorch/comm
export/pytorch/set: export/chakra/wire export/pytorch/read export/pytorch/rank export/pytorch/comm
    export/pytorch/sim
export/pytorch/write: export/chakra/wire export/pytorch/read export/pytorch/rank export/pytorch/sim
export/pytorch/compat: export/chakra/wire export/pytorch/read export/pytorch/write
export/pytorch: export/chakra/wire export/pytorch/read export/pytorch/rank export/pytorch/match
    export/pytorch/comm export/pytorch/deps export/pytorch/sim export/pytorch/set
    export/pytorch/write export/pytorch/compat
tools: syntorch ops export export/text export/chakra/wire
tools/pytorch: syntorch export export/text tools
tools/launch: syntorch ops comm export tools
tools/saving: syntorch models tools
tools/sweep: syntorch tools
tools/inference: syntorch ops comm models export tools tools/launch tools/saving tools/sweep
tools/pretrain: syntorch ops comm models export tools tools/launch tools/saving tools/sweep
tools/calibrate: syntorch ops comm models export tools
tools/commands: syntorch models export export/text export/chakra/wire export/chakra export/workload
    export/pytorch/read tools tools/pytorch
'
declare -A may_include=()
room=""
for word in $rooms; do
    if [[ $word == *: ]]; then
        room=${word%:}
        may_include[$room]=" $room "
        if [[ $room == export/* ]]; then may_include[$room]+="syntorch export/text "; fi
    elif [[ -n ${may_include[$word]:-} ]]; then
        may_include[$room]+="$word "
    else
        echo "FAILED: the table lets $room/ include $word/, which does not stand above it"
        exit 1
    fi
done

sources() {
    find "${layers[@]}" -type f -regex '.*\.\(c\|h\|cu\|cuh\|def\)'
}

# Every include line of these folders as "file:line:rest". Comments of one line before "#" are
# not C style here.
include_lines() {
    sources | sort | tr '\n' '\0' |
        xargs -0 grep -nE '^[[:space:]]*#[[:space:]]*include' /dev/null || true
}

check_own() { # file, line, path between the quotes
    local room=${1%/*} target=${3%/*}
    if [[ $3 != */* ]]; then
        echo "$1:$2: \"$3\" is included without its folder"
    elif [[ $room = syntorch && $3 = ops/ops.def ]]; then
        return 0
    elif [[ $room = export && $1 = *.c && $3 = export/* ]]; then
        return 0
    elif [[ $room = ops/cuda && $3 = comm/cuda/* ]]; then
        return 0 # one module
    elif [[ ${may_include[$room]:-} != *" $target "* ]]; then
        echo "$1:$2: $room/ must not include \"$3\""
    fi
}

# The family of a file: what its name begins with; all of the CUDA module is one.
stem_of() {
    case $1 in
    */cuda/*) stem=cuda ;;
    *) stem=${1%.*} ;;
    esac
}

# One violation a line for the tree in the current folder.
violations() {
    local line file number rest path stem
    # header of others -> stem of its users; our header -> the header it brings in
    declare -A family=() private=()
    while IFS= read -r line; do
        file=${line%%:*} rest=${line#*:}
        number=${rest%%:*} rest=${rest#*:}
        if [[ $rest =~ include[[:space:]]*\"([^\"]*)\" ]]; then
            check_own "$file" "$number" "${BASH_REMATCH[1]}"
            continue
        elif [[ $rest =~ include[[:space:]]*\<([^\>]*)\> ]]; then
            path=${BASH_REMATCH[1]}
        else
            echo "$file:$number: cannot tell what is included"
            continue
        fi
        [[ $known != *" ${path%.h} "* ]] || continue
        stem_of "$file"
        if [[ $file == *.h || $file == *.cuh ]]; then private[$file]=$path; fi
        if [[ -n ${family[$path]:-} && $stem == "${family[$path]}"* ]]; then continue; fi
        if [[ -n ${family[$path]:-} && ${family[$path]} != "$stem"* ]]; then
            echo "$file:$number: <$path> is already used by ${family[$path]}*;" \
                "one family of files may"
        fi
        family[$path]=$stem
    done < <(include_lines)
    sources | sed 's|/[^/]*$||' | sort -u | while read -r room; do
        [ -n "${may_include[$room]:-}" ] || echo "$room/ has no line in the table of rooms"
    done
    for file in "${!private[@]}"; do
        stem_of "$file"
        if [ $stem = cuda ]; then stem='[a-z]*/cuda/'; fi
        grep -rlF "\"$file\"" "${layers[@]}" | grep -v "^$stem" | sort | head -n 1 |
            sed "s|\$|: must not include \"$file\" and with it <${private[$file]}>|" || true
    done
    find "${all[@]}" -type f -regex '.*\.\(c\|h\|cc\|cu\|cuh\|def\)' \
        -not -path 'tests/emulation/*' |
        sed 's|.*/||' | sort | uniq -d |
        sed 's/.*/& is the name of several files/' || true
}

fail() {
    echo "FAILED: $*"
    exit 1
}

found=$(violations)
[ -z "$found" ] || fail $'the include rule:\n'"$found"
lines=$(include_lines | wc -l)
[ "$lines" -gt 50 ] || fail "only $lines include lines were seen; does the search still work?"

while read -r n file; do
    [ "$file" = total ] || [ "$n" -le 600 ] || echo "warning: $file has $n lines; is it two things?"
done < <(find "${all[@]}" -type f -name '*.[ch]' -exec wc -l {} +)

# ---- each kind of violation is seen ----

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "${all[@]}" "$copy"
cd "$copy"

n_planted=0
expected=()
# plant FILE TEXT EXPECTED: with this line more, a report with these words is to be there. Of a new
# file the name gets a number.
plant() {
    local file=${1%/*}/$(sed "s/^planted\./planted$n_planted./" <<<"${1##*/}")
    mkdir -p "${file%/*}"
    printf '%s\n' "$2" >>"$file"
    expected+=("$3")
    n_planted=$((n_planted + 1))
}

plant models/planted.c '#include "comm/comm.h"' 'models/ must not include "comm/comm.h"'
plant models/planted.h '#include "export/export.h"' 'models/ must not include "export/export.h"'
plant syntorch/planted.c '#include "ops/ops.h"' 'syntorch/ must not include "ops/ops.h"'
plant syntorch/planted.c '#include "tools/cli.h"' 'syntorch/ must not include "tools/cli.h"'
plant ops/planted.c '  #  include "models/causal.h"' 'ops/ must not include "models/causal.h"'
plant ops/planted.h '#include "../comm/comm.h"' 'ops/ must not include "../comm/comm.h"'
plant comm/planted.c '#include "ops/ops.def"' 'comm/ must not include "ops/ops.def"'
plant export/planted.c '#include "ops/ops.h"' 'export/ must not include "ops/ops.h"'
plant export/planted.c '#include "export.h"' 'without its folder'
plant export/planted.c '#include HEADER' 'cannot tell'
plant export/planted.c '#include "models/causal.h"' 'export/ must not include "models/causal.h"'
plant export/planted.h '#include "export/walk/links.h"' \
    'export/ must not include "export/walk/links.h"'
plant export/text/planted.c '#include "export/export.h"' 'export/text/ must not include'
plant export/text/planted.h '#include "export/chakra/wire/et_node.h"' \
    'export/text/ must not include'
plant export/walk/planted.c '#include "export/nodelink/graphml.h"' 'export/walk/ must not include'
plant export/chakra/wire/planted.c '#include "export/chakra/et_walk.h"' \
    'export/chakra/wire/ must not include'
plant export/chakra/planted.c '#include "export/chakra/check/et_scan.h"' \
    'export/chakra/ must not include'
plant export/chakra/check/planted.c '#include "export/pytorch/read/pt_host.h"' \
    'export/chakra/check/ must not include'
plant export/chakra/planted.c '#include "export/planted/chakra/et_walk.h"' \
    'export/chakra/ must not include'
plant export/pytorch/rank/planted.h '#include "export/pytorch/write/pt_sim.h"' \
    'export/pytorch/rank/ must not include'
plant export/pytorch/write/planted.c '#include "export/chakra/et_walk.h"' \
    'export/pytorch/write/ must not include'
plant export/planted/planted.c '#include <string.h>' \
    'export/planted/ has no line in the table of rooms'
plant ops/planted/planted.c '#include <string.h>' 'ops/planted/ has no line in the table of rooms'
plant comm/planted.h '#include <mpi.h>' '<mpi.h> is already used by '
plant models/planted.c '#include <cuda_runtime.h>' '<cuda_runtime.h> is already used by '
plant models/planted.c '#include <mpi.h>' '<mpi.h> is already used by '
plant ops/planted.h '#include <cblas.h>' '<cblas.h> is already used by '
plant export/walk/planted.c '#include <zlib.h>' '<zlib.h> is already used by '
plant syntorch/utf8.h '#include <libxml/parser.h>' \
    'must not include "syntorch/utf8.h" and with it <libxml/parser.h>'
plant tools/planted.c '#include "tools/commands/command.h"' \
    'tools/ must not include "tools/commands/command.h"'
plant tools/commands/planted.c '#include "tools/launch/launch.h"' \
    'tools/commands/ must not include "tools/launch/launch.h"'
plant tools/inference/planted.c '#include "tools/pytorch/pytorch_job.h"' \
    'tools/inference/ must not include'
plant tools/pytorch/planted.c '#include "export/pytorch/read/pt_host.h"' \
    'tools/pytorch/ must not include'
plant tools/planted.c '#include "tests/support/test.h"' 'tools/ must not include'
plant tools/graph.h '/* a second graph.h */' 'graph.h is the name of several files'
found=$(violations)
for words in "${expected[@]}"; do
    [[ $found == *"$words"* ]] || fail "expected '$words', got '$found'"
done
n=$(wc -l <<<"$found")
[ "$n" -eq "$n_planted" ] || fail "$n_planted were planted, $n reported: $found"
echo "$lines include lines follow the rule; $n_planted planted violations were seen"
