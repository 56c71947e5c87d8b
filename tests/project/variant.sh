#!/usr/bin/env bash
# variant.sh NAME [all]: builds the parts of the project that a variant tests in
# SYN_BUILD/variant-NAME, and runs tests there. all: also run tests that take long there and find
# few errors, for `./dev test --all`.
#   address  AddressSanitizer with leak check, and UndefinedBehaviorSanitizer. Runs tests that are C
#            programs, except full-size models and MPI jobs that other tests also start, and the
#            scripts that give the programs invalid input
#   thread   ThreadSanitizer. Runs the tests with threads
#   minimal  a shared library without optional libraries. Runs the installation test and tests that
#            are C programs, except full-size models and tests in which no optional library takes
#            part
#   clang    compiles every file with clang, with all warnings as errors; replays the fuzz corpora
#            under its UndefinedBehaviorSanitizer
#   cuda     runs the CUDA tests on the emulated device, with sanitizers also in its kernels
# Exit 77: not possible on this machine (no clang, no sanitizer library, or a Linux kernel on which
# the sanitizer cannot run).
set -euo pipefail
variant=$1 all=${2:-}
folder=$SYN_BUILD/variant-$variant
jobs=${SYN_JOBS:-2}
under=()
doubles='^test_gradients$'    # compiles the library again
shared=-DBUILD_SHARED_LIBS=ON # makes linking hundreds of programs fast

skip() {
    echo "skipped: $*"
    exit 77
}

# quietly COMMAND...: appends output to the build log, and prints errors from it on failure.
quietly() {
    "$@" >>"$folder/build.log" 2>&1 || {
        grep -E -A 8 'error|warning|FAILED' "$folder/build.log" | sed -n 1,60p ||
            tail -n 40 "$folder/build.log"
        echo "the build with $variant failed (all of it in $folder/build.log)"
        exit 1
    }
}

# configure CMAKE-OPTIONS...
configure() {
    mkdir -p "$folder"
    : >"$folder/build.log"
    # Programs find their example files in ../examples.
    [ -e "$SYN_BUILD/examples" ] || ln -sfn "$SYN_SOURCE/examples" "$SYN_BUILD/examples"
    local generator=()
    if [ ! -f "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    quietly cmake -S "$SYN_SOURCE" -B "$folder" "${generator[@]}" -DCMAKE_BUILD_TYPE=Debug \
        -DSYN_CUDA=OFF -DSYN_TEST_CUDA=none "$@"
}

# build TARGETS...
build() {
    local start=$SECONDS
    quietly cmake --build "$folder" -j "$jobs" --target "$@"
    echo "built in $((SECONDS - start)) s"
}

# probe FLAG: checks that the sanitizer works on this machine, with a tiny program that is correct
# without arguments and that the sanitizer must stop with an argument.
probe() {
    local file=$folder/probe.c
    mkdir -p "$folder"
    cat >"$file" <<'END'
#include <pthread.h>
#include <stdlib.h>
static int shared;
static void *add(void *bad) {
    if (bad) shared++;
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t other;
    char *cell = malloc(1);
    (void)argv;
    if (pthread_create(&other, NULL, add, argc > 1 ? &shared : NULL) != 0) return 2;
    add(argc > 1 ? &shared : NULL);
    pthread_join(other, NULL);
    cell[argc > 1 ? argc - 1 : 0] = 1;
    free(cell);
    return 0;
}
END
    cc -g "$1" -pthread "$file" -o "$folder/probe" 2>/dev/null ||
        skip "the compiler cannot link with $1"
    if ! "$folder/probe" >"$folder/probe.log" 2>&1; then
        if grep -q LeakSanitizer "$folder/probe.log"; then
            echo "no leak check: it cannot run under this kernel's limits on tracing"
            export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
        elif setarch -R "$folder/probe" 2>/dev/null; then
            # a Linux kernel with more random address bits than the sanitizer supports
            under=(setarch -R)
        else
            skip "a program built with $1 does not start here: $(tail -n 1 "$folder/probe.log")"
        fi
    fi
    if "${under[@]}" "$folder/probe" bad >/dev/null 2>&1; then
        echo "$1 did not stop a program that it must stop"
        exit 1
    fi
}

# check CTEST-OPTIONS...: builds the programs, then builds and runs the tests that the options
# select.
check() {
    local tests
    tests=$(ctest --test-dir "$folder" -N "$@" | sed -n 's/^ *Test *#[0-9]*: //p')
    [ -n "$tests" ] || { echo "no test is meant by $*" && exit 1; }
    mapfile -t tests < <(grep -v '\.[a-z]*$' <<<"$tests" | sed 's/^cuda_.*/cuda_checks/' | sort -u)
    build programs "${tests[@]}"
    (cd "$folder" &&
        "${under[@]}" ctest -j "$jobs" --output-on-failure --no-label-summary "$@")
}

# random_calls: calls the Python package at random, with the library under the sanitizers. Python
# itself leaks, so leaks are not reported.
random_calls() {
    /usr/bin/python3 -c 'import cffi' 2>/dev/null || return 0
    build python_package
    # A shared library of sanitizers must be loaded first.
    SYN_BUILD=$folder ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 \
        LD_PRELOAD="$(cc -print-file-name=libasan.so) $(cc -print-file-name=libubsan.so)" \
        "${under[@]}" /usr/bin/python3 "$SYN_SOURCE/tests/python/fuzz_package.py" 10000
}

# missing_parts: the Python package of a build without optional libraries records traces, and names
# the library that is missing when it is needed.
missing_parts() {
    /usr/bin/python3 -c 'import cffi' 2>/dev/null || return 0
    build python_package
    PYTHONPATH=$folder/python /usr/bin/python3 - <<'END'
import os, syntorch, tempfile
os.chdir(tempfile.mkdtemp())
t = syntorch.trace("gpt2", tp=2, layers=1, hw="h100")
assert len(t.ops()) == len(t) and t.save("x.json")
try:
    t.save("x.et")
    raise SystemExit("FAILED: .et without protobuf-c")
except syntorch.UnsupportedError as error:
    assert "protobuf-c" in str(error), error
losses = syntorch.pretrain(max_steps=1, max_seq_length=16, tokenizer="bytes", batch_size=1,
                           skip_eval=True)
assert len(losses) == 1, losses  # without BLAS
END
}

# warnings: compiles the files that were not built with -fsyntax-only, all of them despite errors.
warnings() {
    python3 - "$folder" <<'END' | quietly xargs -0 -P "$jobs" -n 1 bash -c
import json, os, re, sys
folder = sys.argv[1]
for file in json.load(open(f"{folder}/compile_commands.json")):
    if not os.path.exists(os.path.join(folder, re.search(r" -o (\S+)", file["command"])[1])):
        print(f"cd {folder} && {file['command']} -fsyntax-only", end="\0")
END
}

case $variant in
address | cuda)
    export ASAN_OPTIONS=allocator_may_return_null=1:strict_string_checks=1
    ASAN_OPTIONS+=:detect_stack_use_after_return=1
    export UBSAN_OPTIONS=print_stacktrace=1
    probe -fsanitize=address
    ;;&
address)
    configure -DCMAKE_C_FLAGS_DEBUG='-O1 -g1' -DSYN_SANITIZE=address,undefined $shared
    if [ "$all" = all ]; then
        check -L program -E "$doubles"
        check -R '^test_[a-z_]*(inputs|tool_|names|failures|damaged|misuse|odd)[a-z_]*\.py'
    else
        long='_full|_mpi|alloc|forgotten|memory_predicted|products|picture_pages|wordpiece'
        check -L program -E "$long|$doubles"
        check -R 'test_(tool_.*|odd_names|inference_failures)\.py'
    fi
    random_calls
    ;;
cuda)
    configure -DCMAKE_C_FLAGS_DEBUG='-O1 -g1' -DSYN_SANITIZE=address,undefined \
        -DSYN_TEST_CUDA=emulated
    build all
    check -L cuda
    check -R '^test_emulated_[a-z]*$'
    ;;
thread)
    # MPI and OpenBLAS are not compiled with the sanitizer, so it would report races in their
    # threads.
    export OPENBLAS_NUM_THREADS=1
    export TSAN_OPTIONS=allocator_may_return_null=1:halt_on_error=1:second_deadlock_stack=1
    probe -fsanitize=thread
    configure -DCMAKE_C_FLAGS_DEBUG='-O1 -g1' -DSYN_SANITIZE=thread -DSYN_MPI=OFF $shared
    threads='comm|gpt|bert|llama|generat|rank|train|rows|attention|product|padding|weights|thread'
    threads+='|worker|parallel|inference|score|parity|dispatch|trace'
    kernels='rows|products|attention|attention_grad'
    alone='full|_half|forgotten|picture|tokenizer|_hub|_pt_|_et_|weights_|config|refused|chrome'
    if [ "$all" = all ]; then check -L program -E "$doubles"
    else check -L program -R "$threads" -E "$alone|^test_($kernels)$"
    fi
    # Of the kernel tests, run only the parts that use threads.
    build test_attention test_attention_grad test_products
    for kernel in 'attention threads' 'attention_grad threads' 'products repeatable'; do
        "${under[@]}" "$folder/tests/test_${kernel% *}" "${kernel#* }"
    done
    ;;
minimal)
    configure -DCMAKE_C_FLAGS_DEBUG='-O1' $shared -DSYN_WERROR=ON \
        -DSYN_OPENBLAS=OFF -DSYN_MPI=OFF -DSYN_CGRAPH=OFF -DSYN_PROTOBUF_C=OFF -DSYN_PCRE2=OFF \
        -DSYN_UTF8PROC=OFF -DSYN_ZLIB=OFF
    same='_full|_comm|_half|_pt_|alloc|ops_table|attention|rows|forgotten|memory|views|parts'
    check -L program -E "$same|training_trace|ops_select|$doubles"
    build syntorch programs
    SYN_BUILD=$folder bash "$SYN_SOURCE/tests/project/test_install.sh"
    SYN_BUILD=$folder python3 "$SYN_SOURCE/tests/programs/test_doctor.py"
    missing_parts
    ;;
clang)
    command -v clang >/dev/null || skip "no clang"
    # clang's UndefinedBehaviorSanitizer finds arithmetic on null pointers; gcc's does not.
    configure -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS_DEBUG=-O0 -DSYN_WERROR=ON \
        -DSYN_SANITIZE=undefined -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
    check -R '^replay_'
    build test_et_schema test_et_schema_grown syn_headers # include what the build makes
    warnings
    ;;
*)
    echo "variant.sh takes address, thread, minimal, clang or cuda, not '$variant'"
    exit 2
    ;;
esac
