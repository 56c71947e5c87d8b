#!/usr/bin/env bash
# Checks rules for every file and every program of the repository. Files have no machine-specific
# paths, package hosts or marks of unfinished work, and scripts parse. Each program explains all its
# options in --help and rejects unknown ones.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
build=${SYN_BUILD:-build}
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# The patterns below are written so that this file does not match them.
if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    mapfile -d '' -t files < <(
        git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
            while IFS= read -r -d '' f; do if [ -f "$f" ]; then printf '%s\0' "$f"; fi; done)
    [ ${#files[@]} -gt 50 ] || fail "git lists only ${#files[@]} files"
    endings='\.(c|h|def|cu|cpp|py|sh|cmake|in|proto|js|css|html)'
    mapfile -d '' -t sources < <(printf '%s\0' "${files[@]}" |
        grep -zE "($endings|CMakeLists.txt|Dockerfile|dev|.ci/run)$")

    # no WHAT PATTERN FILES...: fails if a line of the files matches the pattern
    no() {
        local what=$1 pattern=$2 hits
        shift 2
        hits=$(printf '%s\0' "$@" | xargs -0 grep -nIE -e "$pattern" -- /dev/null |
            sed -n 1,5p || true)
        [ -z "$hits" ] || fail "$what:"$'\n'"$hits"
    }
    no 'a path of one machine' '(^|[^A-Za-z0-9_.])/(wor[k]|far[m]|roo[t]|hom[e])/' "${files[@]}"
    hosts='pypi\.or[g]|pythonhosted\.or[g]|npmjs\.(or[g]|com)|crates\.i[o]|proxy\.golan[g]'
    no 'a package host' "($hosts|deb\\.debia[n]|\\.pkg\\.de[v]|anaconda\\.or[g])" "${files[@]}"
    no 'an unfinished mark' '\b(TOD[O]|FIXM[E]|XX[X]|[Ss]tub[s]?|[Nn]ot (yet )?implemente[d])\b' \
        "${sources[@]}"
    no 'a merge conflict' '^(<<<<<<<|>>>>>>>) ' "${files[@]}"
    # Under pipefail, a reader that closes its pipe early kills the writer, and the script with it.
    mapfile -d '' -t scripts < <(printf '%s\0' "${files[@]}" | grep -zE '\.sh$|^dev$|^\.ci/run$')
    no 'a pipe into head or grep -q' '[|] (head|grep -[a-zA-Z]*[qm])' "${scripts[@]}"
    no 'a carriage return' $'\r$' "${sources[@]}"
    no 'a banner that is not "---- what ----"' '^(/\*|#) -+ .* -{5,}' "${sources[@]}"
    no 'a comment whose end the formatter put on a line of its own' '^ +\*/$' "${sources[@]}"
    no 'blanks at the end of a line' '[[:blank:]]$' "${sources[@]}"
    # Lines end at 100 columns, except for blocks in pages that are indented by four. In diffs that
    # pages show, the first column is not counted.
    mapfile -d '' -t pages < <(printf '%s\0' "${files[@]}" | grep -zE '\.md$')
    LC_ALL=C.UTF-8 no 'a line of more than 100 columns' '.{101}' "${sources[@]}"
    for page in "${pages[@]}"; do
        hits=$(sed '/^```diff$/,/^```$/s/^[-+ ]//' "$page" |
            LC_ALL=C.UTF-8 grep -nE '^([^ ].{3}| [^ ]..|  [^ ].|   [^ ]).{97}' || true)
        [ -z "$hits" ] || fail "a line of more than 100 columns: $page:$hits"
    done
    # Only syntorch/base/thread.c starts threads, because it sets the size of their stacks.
    mapfile -t hits < <(printf '%s\0' "${sources[@]}" | grep -zE '\.c$' | grep -zv '^tests/' |
        xargs -0 grep -l pthread_create -- /dev/null || true)
    [ "${hits[*]}" = syntorch/base/thread.c ] ||
        fail "threads are started outside of syntorch/base/thread.c: ${hits[*]}"
    # No files that a program run here has written: logs, and files larger than any picture or
    # fixture.
    for f in "${files[@]}"; do
        case $f in
        *.log) fail "$f is a log" ;;
        esac
        [ "$(stat -c %s "$f")" -le 262144 ] || fail "$f has more than 256 KiB"
    done
    for f in "${files[@]}"; do
        case $f in
        dev | .ci/run) [ -x "$f" ] || fail "$f is not executable" ;;
        esac
        case $f in
        dev | .ci/run | *.sh) bash -n "$f" || fail "$f does not parse" ;;
        esac
    done
    echo "${#files[@]} files read"
else
    echo "not a git checkout: files not read"
fi

# ---- programs ----

# helps SOURCES COMMAND...: checks that --help exits with 0 and lists each option of the sources'
# tables, and that an unknown option exits with 2.
helps() {
    local source=$1 text option options code=0
    shift
    text=$("$@" --help 2>&1) || code=$?
    [ $code = 0 ] || fail "$* --help: exit $code"
    options=$(sed -nE '/CLI_ALIAS/d; s/^.*\{"([a-z][a-z0-9_-]*)", *CLI_.*$/\1/p' $source)
    [ -n "$options" ] || fail "no option table was found in $source"
    for option in $options help version; do
        [[ $text == *"--$option "* || $text == *"--$option"$'\n'* ]] ||
            fail "$* --help does not explain --$option"
    done
    while IFS= read -r option; do
        [ ${#option} -le 120 ] || fail "$* --help has a line of ${#option} characters: $option"
    done <<<"$text"
    code=0
    "$@" --no-such-option >/dev/null 2>&1 || code=$?
    [ $code = 2 ] || fail "$* --no-such-option: exit $code, not 2"
    ran=$((ran + 1))
}

ran=0
for source in examples/*.c; do
    program=$(basename "$source" .c)
    [ -x "$build/$program" ] || { fail "$build/$program was not built"; continue; }
    table=tools/$program/${program}_options.c
    [ -f "$table" ] || table=$source
    [[ $program != pretrain && $program != synth ]] || table+=" tools/pretrain/division_options.h"
    if grep -q CLI_ $table; then helps "$table" "$build/$program"; fi
done
# Options that users rely on.
for option in num_input_tokens num_output_tokens tp device temperature top_k top_p visualize_trace \
    hw model_config model tokenizer prompt batch_size seed out_dir save_logits attention \
    debug; do
    grep -q -- "--$option " <<<"$("$build/inference" --help)" ||
        fail "inference --help does not explain --$option"
done
commands=$("$build/syntorch" --help)
for source in tools/commands/cmd_*.c; do
    command=$(basename "$source" .c)
    command=${command#cmd_}
    command=${command//_/-}
    if grep -qE "^ +$command " <<<"$commands"; then
        helps "$source" "$build/syntorch" "$command"
    else # `syntorch convert pytorch`: convert lists it
        family=${command%%-*} member=${command#*-}
        grep -qE "^ +$member " <<<"$("$build/syntorch" "$family" --help 2>&1)" ||
            fail "syntorch --help does not list $command"
        helps "$source" "$build/syntorch" "$family" "$member"
    fi
done
code=0
"$build/syntorch" no_such_command >/dev/null 2>&1 || code=$?
[ $code = 2 ] || fail "syntorch no_such_command: exit $code, not 2"
for program in inference syntorch; do
    grep -qxE "$program [0-9]+\.[0-9]+\.[0-9]+" <<<"$("$build/$program" --version)" ||
        fail "$program --version"
done

# Dashes and underscores in options are equivalent.
for option in --num-output-tokens --num_output_tokens; do
    "$build/inference" $option 2 --quiet || fail "inference $option 2"
done

# Most commands multiply no matrices, so `syntorch` must not load OpenBLAS, whose threads would spin
# at every start.
if needed=$(ldd "$build/syntorch" 2>/dev/null) &&
    [[ $needed != *libsyntorch* && $needed == *openblas* ]]; then
    fail "syntorch loads OpenBLAS"
fi

# docs/pytorch.md explains every anomaly and hint of a conversion.
names=$(sed -nE 's/^ +X\([A-Z_]+, "([a-z-]+)",.*/\1/p' export/pytorch_notes.h)
[ "$(wc -l <<<"$names")" = "$(grep -c '^ *X(' export/pytorch_notes.h)" ] ||
    fail "export/pytorch_notes.h: only these were found: $names"
for name in $names; do
    grep -q "\`$name\`" docs/pytorch.md || fail "docs/pytorch.md does not explain $name"
done

help=$(./dev --help) || fail "./dev --help: exit $?"
for command in setup build test bench fuzz format inference export; do
    grep -qE "^  $command " <<<"$help" || fail "./dev --help does not list $command"
done
code=0
./dev no_such_command 2>/dev/null || code=$?
[ $code = 2 ] || fail "./dev no_such_command: exit $code, not 2"
# ./dev works from any folder, with paths relative to that folder (only tested if there is nothing
# to build).
if [ "$build" -ef build ] && [ -f build/.built ]; then
    here=$(mktemp -d)
    root=$PWD
    (cd "$here" && "$root/dev" inference --num_output_tokens 2 --quiet --save_logits logits.npy) ||
        fail "./dev inference elsewhere"
    [ -s "$here/logits.npy" ] ||
        fail "./dev inference --save_logits wrote no logits.npy in the caller's folder"
    rm -rf "$here"
fi

[ $failures = 0 ] || exit 1
echo "$ran programs and commands explain themselves"
