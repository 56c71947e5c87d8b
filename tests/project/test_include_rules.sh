#!/usr/bin/env bash
# Who may include whom (docs/architecture.md):
#
#     models/ --> ops/ --> syntorch/ <-- comm/, export/        examples/, tests/ are free
#
# The table below lists which subfolders may include and link which. Each third-party header may be
# included in only one family of files (comm/comm_mpi*), and in a header only if the header is
# private to the family. File names must be unique across the tree. At the end the test plants each
# kind of violation in a copy and expects that it is found.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
layers=(syntorch ops comm models export tools)
all=("${layers[@]}" examples tests)

# Headers of C11, POSIX and the compiler (vector intrinsics).
known=" assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal
stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads
time uchar wchar wctype dirent dlfcn fcntl glob ftw poll pthread regex sched semaphore spawn
strings syslog termios unistd netdb netinet/in arpa/inet sys/ioctl sys/mman sys/resource
sys/select sys/socket sys/stat sys/statvfs sys/time sys/times sys/types sys/uio sys/un sys/utsname
sys/wait immintrin emmintrin xmmintrin pmmintrin tmmintrin smmintrin nmmintrin arm_neon cpuid "
known=${known//$'\n'/ }

# FOLDER: the folders that it may include in addition to itself. NAME+ is a folder with all folders
# below it. A line may only name folders of earlier lines, so there are no cycles. A folder without
# a line is an error. Every folder of export/ may also include syntorch/ and text/. The headers
# export/*.h include only syntorch/; the sources export/*.c are the lists of formats and may include
# every folder.
rooms='
syntorch/base:
syntorch/graph: syntorch/base
syntorch/hardware: syntorch/base syntorch/graph
syntorch: syntorch+
ops: syntorch+
ops/cuda: syntorch+ ops
comm: syntorch+
comm/cuda: syntorch+ ops/cuda
models/tokenizer: syntorch+
models: syntorch+ ops models/tokenizer
models/weights: syntorch+ models
models/training: syntorch+ ops models models/tokenizer
export: syntorch+
export/text:
export/walk: export
export/nodelink: export export/walk
export/chrome: export export/walk
export/gantt: export export/walk
export/kineto: export export/walk
export/picture: export export/walk
export/html: export export/walk
export/chakra/wire:
export/chakra: export export/walk export/chakra/wire
export/chakra/check: export export/chakra/wire export/chakra export/walk
export/chakra/simulate: export export/chakra/wire export/chakra export/chakra/check
export/workload: export export/chakra/wire
export/pytorch/read: export export/chakra/wire
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
tools: syntorch+ ops export export/text export/chakra/wire
tools/pytorch: syntorch+ export export/text export/chakra/wire tools
tools/launch: syntorch+ ops comm export tools
tools/saving: syntorch+ models+ tools
tools/requests: syntorch+ ops export/text tools
tools/serving: syntorch+ tools
tools/sweep: syntorch+ tools
tools/serve: syntorch+ ops comm models+ export export/chakra/wire tools tools/launch tools/sweep
    tools/requests tools/serving
tools/inference: syntorch+ ops comm models+ export tools tools/launch tools/saving tools/sweep
    tools/requests tools/serving tools/serve
tools/pretrain: syntorch+ ops comm models+ export tools tools/launch tools/saving tools/sweep
tools/synth: syntorch+ tools tools/inference tools/pretrain
tools/embed: syntorch+ tools tools/synth tools/inference tools/pretrain tools/launch
tools/calibrate: syntorch+ ops comm models+ export tools tools/launch
tools/doctor: syntorch+ ops comm tools
tools/commands: syntorch+ models+ export export/text export/chakra/wire export/chakra
    export/chakra/simulate
    export/workload export/pytorch/read tools tools/pytorch tools/inference
    tools/pretrain tools/synth tools/serve tools/calibrate tools/doctor
'
declare -A may_include=()

# let_include FOLDER NAME: allows a folder to include NAME, or NAME+
let_include() {
    local other found=no
    for other in "${!may_include[@]}"; do
        if [[ $other = "${2%+}" || ($2 = *+ && $other = "${2%+}"/*) ]]; then
            may_include[$1]+="$other "
            found=yes
        fi
    done
    [ $found = yes ] || {
        echo "FAILED: the table lets $1/ include $2/, which does not stand above it"
        exit 1
    }
}

room=""
for word in $rooms; do
    if [[ $word != *: ]]; then
        let_include "$room" "$word"
        continue
    fi
    room=${word%:}
    may_include[$room]=" $room "
    if [[ $room = export/* ]]; then
        let_include "$room" syntorch+
        let_include "$room" export/text
    fi
done

sources() {
    find "${layers[@]}" -type f -regex '.*\.\(c\|h\|cu\|cuh\|def\)'
}

# Prints every include line of these folders as "file:line:rest". Does not find lines with a comment
# before "#", which our style does not use.
include_lines() {
    sources | sort | tr '\n' '\0' |
        xargs -0 grep -nE '^[[:space:]]*#[[:space:]]*include' /dev/null || true
}

check_own() { # FILE LINE PATH: checks #include "PATH"
    local room=${1%/*} target=${3%/*}
    if [[ $3 != */* ]]; then
        echo "$1:$2: \"$3\" is included without its folder"
    elif [[ $room/ = syntorch/* && $3 = ops/ops.def ]]; then
        return 0
    elif [[ $room = export && $1 = *.c && $3 = export/* ]]; then
        return 0
    elif [[ $room = ops/cuda && $3 = comm/cuda/* ]]; then
        return 0 # one module
    elif [[ ${may_include[$room]:-} != *" $target "* ]]; then
        echo "$1:$2: $room/ must not include \"$3\""
    fi
}

# ---- linking ----

# Prints a line for each symbol that an object of the library needs ("U symbol file") or defines
# ("T ..."). Reads only objects of existing sources, because a build folder may also have objects of
# sources that have moved.
symbols() {
    find "${layers[@]}" -name '*.c' | sort | while read -r file; do
        if [ -f "$objects/$file.o" ]; then printf '%s\0' "$file.o"; fi
    done | (cd "$objects" && xargs -0 nm -A -g) |
        sed -n 's|^\([^:]*\)\.o: *[0-9a-f]* \([A-Z]\) \([^ ]*\)$|\2 \3 \1|p'
}

# Reads such lines and prints each symbol that a folder needs from a folder it must not include.
upward_links() {
    local user definer symbol file
    awk '{ folder = $3; sub("/[^/]*$", "", folder) }
        $1 != "U" { definer[$2] = folder; next }
        { needs[NR] = folder " " $2 " " $3 }
        END {
            for (i in needs) {
                split(needs[i], part, " ")
                of = definer[part[2]]
                if (of != "" && of != part[1]) print part[1], of, part[2], part[3]
            }
        }' | sort | while read -r user definer symbol file; do
        if [ "$user" = export ] || [[ ${may_include[$user]:-} = *" $definer "* ]]; then continue; fi
        echo "$file: $user/ must not need $symbol of $definer/"
    done
}

# stem_of FILE: sets stem to the family of a file, its name without the ending. All files of the
# CUDA module are one family.
stem_of() {
    case $1 in
    */cuda/*) stem=cuda ;;
    *) stem=${1%.*} ;;
    esac
}

# Prints the violations of the tree in the current folder, one per line.
violations() {
    local line file number rest path stem
    # family: third-party header -> stem of its users; private: our header -> the third-party header
    # that it includes
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
        [ -n "${may_include[$room]:-}" ] || echo "$room/ has no line in the table of folders"
    done
    for file in "${!private[@]}"; do
        stem_of "$file"
        if [ $stem = cuda ]; then stem='[a-z]*/cuda/'; fi
        grep -rlF "\"$file\"" "${layers[@]}" | grep -v "^$stem" | sort | sed -n 1p |
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

objects=${SYN_BUILD:?the build folder}/CMakeFiles/syn_objects.dir
[ -d "$objects" ] || fail "there are no objects in $objects"
symbols=$(symbols)
found=$(upward_links <<<"$symbols")
[ -z "$found" ] || fail $'the include rule, as objects are linked:\n'"$found"
links=$(wc -l <<<"$symbols")
[ "$links" -gt 2000 ] || fail "only $links symbols were seen; does the search still work?"
found=$(printf '%s\n' "$symbols" 'U syn_linear syntorch/planted.c' \
    'U syn_ctx_new syntorch/base/planted.c' | upward_links)
[ "$(wc -l <<<"$found")" = 2 ] && [[ $found = *'syntorch/ must not need syn_linear of ops/'* ]] ||
    fail "two planted links, found: $found"

while read -r n file; do
    [ "$file" = total ] || [ "$n" -le 600 ] || echo "warning: $file has $n lines; is it two things?"
done < <(find "${all[@]}" -type f -name '*.[ch]' -exec wc -l {} +)

# ---- each kind of violation is found ----

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "${all[@]}" "$copy"
cd "$copy"

n_planted=0
expected=()
# plant FILE TEXT EXPECTED: appends a line to a file and expects a report with these words. New
# files named planted.* get a number in their name.
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
plant syntorch/base/planted.c '#include "syntorch/context.h"' 'syntorch/base/ must not include'
plant models/planted.c '#include "models/training/trainer.h"' \
    'models/ must not include "models/training/trainer.h"'
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
    'export/planted/ has no line in the table of folders'
plant ops/planted/planted.c '#include <string.h>' 'ops/planted/ has no line in the table of folders'
plant comm/planted.h '#include <mpi.h>' '<mpi.h> is already used by '
plant models/planted.c '#include <cuda_runtime.h>' '<cuda_runtime.h> is already used by '
plant models/planted.c '#include <mpi.h>' '<mpi.h> is already used by '
plant ops/planted.h '#include <cblas.h>' '<cblas.h> is already used by '
plant export/walk/planted.c '#include <zlib.h>' '<zlib.h> is already used by '
plant syntorch/base/utf8.h '#include <libxml/parser.h>' \
    'must not include "syntorch/base/utf8.h" and with it <libxml/parser.h>'
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
