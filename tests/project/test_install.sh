#!/usr/bin/env bash
# Installs to a temporary folder with a blank in its name, and uses the installation as users do:
# with a C and a C++ program through pkg-config, a CMake project through find_package, and the
# installed programs.
set -euo pipefail
build=${SYN_BUILD:?the build folder}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/an installation"

fail() {
    echo "FAILED: $*"
    exit 1
}
# quiet COMMAND...: prints the command's output only if it fails.
quiet() {
    "$@" >"$work/log" 2>&1 || {
        cat "$work/log"
        fail "$*"
    }
}

quiet cmake --install "$build" --prefix "$prefix"
lib=$(dirname "$(find "$prefix" -name 'libsyntorch.*' -print -quit)")
include=$(dirname "$(dirname "$(find "$prefix" -path '*/syntorch/syntorch.h' -print -quit)")")
[ "$(ls "$include")" = syntorch ] || fail "the include path holds more than syntorch/:" "$include"/*
[ -f "$lib/pkgconfig/syntorch.pc" ] || fail "no pkgconfig/syntorch.pc beside the library in $lib"

# A user's program: a product on the CPU with a known result, GPT-2 on meta, and its trace as JSON.
cat >"$work/use.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syntorch/syntorch.h>

static syn_error err;

static void must(syn_status s, const char *what) {
    if (s == SYN_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.text);
    exit(1);
}

static void product(void) {
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 2, 2};
    const syn_spec spec_a = {SYN_F32, 2, {2, 3}}, spec_b = {SYN_F32, 2, {3, 2}};
    float c[4];
    syn_ctx *ctx;
    must(syn_ctx_new(&ctx, SYN_DEVICE_CPU, NULL, &err), "context");
    const syn_tensor in_a = syn_input(ctx, "a", &spec_a, a), in_b = syn_input(ctx, "b", &spec_b, b);
    const syn_tensor t = syn_matmul(ctx, in_a, in_b, false, false);
    if (syn_tensor_read(ctx, t, c, sizeof c) != SYN_OK) must(syn_ctx_check(ctx, &err), "product");
    printf("%g %g %g %g\n", c[0], c[1], c[2], c[3]);
    syn_ctx_free(ctx);
}

static void model(void) {
    const syn_spec ids = {SYN_I32, 2, {1, 4}};
    syn_model_options options;
    syn_model_config config;
    syn_ctx *ctx;
    syn_model *gpt;
    syn_graph *graph;
    syn_sink *sink;
    memset(&options, 0, sizeof options);
    options.seed = 1;
    must(syn_model_config_preset(&config, "gpt2", &err), "preset");
    must(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), "context");
    must(syn_model_new(&gpt, ctx, &config, &options, &err), "model");
    must(syn_causal_begin(gpt, 1, 4, &err), "begin");
    const syn_tensor logits = syn_causal_forward(gpt, syn_input(ctx, "ids", &ids, NULL));
    must(syn_ctx_check(ctx, &err), "forward");
    printf("%lld parameters, %lld logits\n", (long long)syn_model_config_params(&config, 0),
           (long long)syn_tensor_dim(ctx, logits, -1));
    const syn_trace *trace = syn_ctx_trace(ctx);
    must(syn_trace_graph(&graph, &trace, 1, NULL, &err), "graph");
    must(syn_export_memory(&sink, graph, &syn_export_json, NULL, &err), "json");
    size_t bytes;
    const char *json = syn_sink_data(sink, &bytes);
    if (!json || !strstr(json, "\"nodes\"")) exit(1);
    must(syn_sink_close(sink, false, &err), "close");
    syn_graph_free(graph);
    syn_model_free(gpt);
    syn_ctx_free(ctx);
}

int main(void) {
    product();
    model();
    return 0;
}
END
# The product of the two matrices, computed manually. GPT-2's parameters: L(12h^2+13h) + (V+S)h + 2h
# = 124,439,808.
expected=$'7 8 16 17\n124439808 parameters, 50257 logits'
# A shared library may be installed where the loader does not search.
ldpath=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# Through pkg-config, as C and as C++ (the program is valid in both).
export PKG_CONFIG_PATH="$lib/pkgconfig"
if command -v pkg-config >/dev/null; then
    pkg-config --exists --print-errors syntorch || fail "pkg-config does not accept syntorch.pc"
    [[ " $(pkg-config --cflags syntorch)" != *' -D'* ]] ||
        fail "pkg-config passes on defines of dependencies: $(pkg-config --cflags syntorch)"
    # pkg-config escapes blanks for a shell.
    eval "cflags=($(pkg-config --cflags syntorch)) libs=($(pkg-config --libs syntorch))"
    quiet cc -std=c11 -Wall -Wextra -Wpedantic -Werror "${cflags[@]}" "$work/use.c" "${libs[@]}" \
        -o "$work/use"
    got=$(LD_LIBRARY_PATH=$ldpath "$work/use") || fail "the C program: exit $?"
    [ "$got" = "$expected" ] || fail "the C program printed '$got', not '$expected'"
    echo "a C program through pkg-config: $(tail -n 1 <<<"$got")"
    if command -v c++ >/dev/null; then
        cp "$work/use.c" "$work/use.cpp"
        quiet c++ -std=c++17 -Wall -Wextra -Werror "${cflags[@]}" "$work/use.cpp" "${libs[@]}" \
            -o "$work/use-cpp"
        [ "$(LD_LIBRARY_PATH=$ldpath "$work/use-cpp")" = "$expected" ] || fail "the C++ program"
        echo "the same as C++"
    fi
    example=$SYN_SOURCE/examples/mlp_two_ways.c
    quiet cc -std=c11 "${cflags[@]}" "$example" "${libs[@]}" -o "$work/mlp"
    if command -v neato >/dev/null; then
        (cd "$work" && LD_LIBRARY_PATH=$ldpath quiet ./mlp)
        grep -q 'all_reduce' "$work/mlp_both.svg" ||
            fail "examples/mlp_two_ways.c drew no all-reduce"
    fi
    quiet cc -std=c11 "${cflags[@]}" "$SYN_SOURCE/examples/train_mlp.c" "${libs[@]}" \
        -o "$work/train_mlp"
    LD_LIBRARY_PATH=$ldpath quiet "$work/train_mlp" 2
    echo "the examples are users' programs"
fi

# Each installed header compiles alone, as C and C++, with only the installed headers, and so does
# each macro that is a struct value. Each header that they name is installed.
n=0 n_values=0
mapfile -t headers < <(cd "$include" && find . -name '*.h' | sed 's|^\./||' | sort)
for header in "${headers[@]}"; do
    warnings=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
    values=$(sed -nE 's/^#define ([A-Z_]+) +\(.*\}\)$/    (void)\1;/p' "$include/$header")
    n_values=$((n_values + $(grep -c . <<<"$values" || true)))
    text=$(printf '#include <%s>\nvoid values(void);\nvoid values(void) {\n%s\n}' \
        "$header" "$values")
    quiet cc -std=c11 "${warnings[@]}" "-I$include" -x c - <<<"$text"
    if command -v c++ >/dev/null; then
        quiet c++ -std=c++17 "${warnings[@]}" "-I$include" -x c++ - <<<"$text"
    fi
    names=$(grep -v '#include <' "$include/$header" | grep -oE '[a-z0-9_/]+\.h\b' || true)
    for named in $names; do
        case $named in
        */*) [ -f "$include/$named" ] ;;
        *) [ -n "$(find "$include" -name "$named")" ] ;;
        esac || fail "$header names $named, which is not installed"
    done
    n=$((n + 1))
done
[ $n -gt 25 ] || fail "only $n headers are installed"
[ $n_values -ge 5 ] || fail "only $n_values structs were found that macros stand for"
echo "$n installed headers stand alone and name no others"

# A shared library exports the functions and data that installed headers declare, and nothing else.
# A static library is first linked to a shared one to check the same.
if grep -q __clang__ <<<"$(cc -dM -E - </dev/null)"; then
    echo "not compared: what is declared and what is exported, for want of gcc"
else
    shared=$(find "$lib" -name 'libsyntorch.so' -print -quit)
    if [ -z "$shared" ]; then
        shared="$work/libsyntorch.so"
        whole=(-Wl,--whole-archive "$lib/libsyntorch.a" -Wl,--no-whole-archive)
        quiet cc -shared -o "$shared" "${whole[@]}"
    fi
    nm -D --defined-only "$shared" | awk '{print $NF}' | sort -u >"$work/exported"
    echo '#include <syntorch/syntorch.h>' >"$work/all.c"
    quiet cc -std=c11 "-I$include" -fsyntax-only -aux-info "$work/functions" "$work/all.c"
    {
        grep -F '/syntorch/' "$work/functions" | grep -v '\*/ static' |
            sed -E 's/^[^(]*[ *](syn[a-z0-9_]*) \(.*/\1/'
        cc -std=c11 "-I$include" -E -P "$work/all.c" | tr '\n' ' ' |
            grep -oE 'extern const [a-z_]+ [^;(]*;' | grep -oE ' syn[a-z0-9_]+ *[[,;]' |
            tr -d ' [,;'
    } | sort -u >"$work/declared"
    difference=$(comm -3 "$work/declared" "$work/exported")
    [ -z "$difference" ] || fail $'declared only, and (moved in) exported only:\n'"$difference"
    internal=$(grep -vxE 'syn_[a-z0-9_]+|syn__fail' "$work/exported" | sed -n 1,3p || true)
    internal+=$(grep '^syn__' "$work/exported" | grep -vx syn__fail || true)
    [ -z "$internal" ] || fail "exported without a public name: $internal"
    [ "$(wc -l <"$work/exported")" -gt 200 ] || fail "only $(wc -l <"$work/exported") exports"
    echo "$(wc -l <"$work/exported") functions and tables are declared and exported"
fi

cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(use C)
find_package(syntorch 0.1 REQUIRED)
add_executable(use_cmake use.c)
target_link_libraries(use_cmake PRIVATE syntorch::syntorch)
END
quiet cmake -S "$work" -B "$work/build" "-DCMAKE_PREFIX_PATH=$prefix"
quiet cmake --build "$work/build"
got=$(LD_LIBRARY_PATH=$ldpath "$work/build/use_cmake") || fail "the CMake program: exit $?"
[ "$got" = "$expected" ] || fail "the CMake program printed '$got', not '$expected'"
echo "a CMake project through find_package"

# The installed programs find their files from any folder.
cd "$work"
names=$(cd "$prefix/bin" && echo *)
[ "$names" = "syntorch syntorch-inference syntorch-pretrain syntorch-synth" ] ||
    fail "these programs are installed: $names"
"$prefix/bin/syntorch-inference" --num_output_tokens 2 --tp 2 --quiet ||
    fail "the installed syntorch-inference: exit $?"
"$prefix/bin/syntorch" --version >/dev/null || fail "the installed syntorch: exit $?"
if ldd "$prefix/bin/syntorch" | grep -F 'not found'; then
    fail "a library of the installed syntorch is missing"
fi
[ -f "$prefix/share/doc/syntorch/examples/own_op.c" ] || fail "the examples are not installed"
pages=$("$prefix/bin/syntorch-pretrain" --help | grep -oE 'docs/[a-z]+\.md' | sort -u)
[ -n "$pages" ] || fail "--help names no page of docs/"
for page in $pages; do
    [ -s "$prefix/share/doc/syntorch/$page" ] || fail "--help names $page, which is not installed"
done
for file in man/man1/syntorch-convert-text.1 bash-completion/completions/syntorch \
    zsh/site-functions/_syntorch fish/vendor_completions.d/syntorch.fish; do
    [ -s "$prefix/share/$file" ] || fail "share/$file is not installed"
done
echo "the installed programs run"
