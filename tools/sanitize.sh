# Sanitizers and fuzz targets: parts of tools/dev, which sources this file.

# What sanitizers and fuzzing need besides.
clang_packages=(libclang-rt-22-dev libfuzzer-22-dev)

# The runtime alone, by Clang: build/sanitize-KINDS. Neither the extension module
# nor what imitates GPUs is built: Python and PyTorch have no sanitizers.
sanitized=
compile_sanitized() { # KINDS [TARGET...]
  local kinds=$1 n
  shift
  [[ $kinds == address,undefined || $kinds == thread ]] ||
    fail "--sanitize takes address,undefined or thread, not '$kinds'"
  packages+=("${clang_packages[@]}")
  install_packages
  install_python
  sanitized=build/sanitize-${kinds/,/-}
  begin
  mkdir -p "$sanitized"
  cmake -G Ninja -S . -B "$sanitized" -DCMAKE_CXX_COMPILER=clang++-22 -DCMAKE_C_COMPILER=clang-22 \
    -DFSDP_SANITIZE="$kinds" -DFSDP_BUILD_COMPILER=OFF -DFSDP_BUILD_CUDA=OFF \
    -DFSDP_BUILD_PYTHON=OFF >"$sanitized/configure.log" 2>&1 || {
    tail -n 30 "$sanitized/configure.log" >&2
    fail "CMake failed: see above, the whole output is in $sanitized/configure.log"
  }
  n=$(jobs)
  say build "ninja, $n at a time, into $sanitized"
  ninja -C "$sanitized" -j "$n" "$@" || fail "the build failed: the first error is above"
  report build "programs are in $sanitized/bin"
}

# PyTorch keeps for ever what it has once allocated, so leaks are not looked for
# where it is loaded. Its own code is not watched: what ThreadSanitizer says of
# accesses there would be of locks that it has not seen. A kernel that asks for
# more memory than a test has any use for gets none, which is an error of the plan.
export_sanitizer_options() {
  export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:strict_string_checks=1:allocator_may_return_null=1:max_allocation_size_mb=2048:${ASAN_OPTIONS:-}
  export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
  export TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:${TSAN_OPTIONS:-}
  export OMP_NUM_THREADS=1
}

test_sanitized() { # KINDS
  compile_sanitized "$1"
  export_sanitizer_options
  suite "$1" ctest --test-dir "$sanitized" --output-on-failure -j "$(jobs)" --no-tests=error
  # Ranks that are threads, where there is a compiler of their plans.
  if [[ $1 == thread && -x build/bin/fsdp-translate ]]; then
    suite "$1, fsdp-run" .venv/bin/python test/robustness/threads.py "$sanitized/bin"
  fi
  ((${#failed[@]} == 0)) || fail "these suites failed: ${failed[*]}"
}

fuzz_targets=(plan manifest safetensors archive command-line)
fuzz() { # [TARGET...] [--targets A,B] [--seconds N | --runs N]
  local seconds=30 runs=-1 wanted=() names corpora target folder made=build/fuzz seeds=build/fuzz/seeds
  while (($#)); do
    case $1 in
    --seconds) seconds=${2:?--seconds takes a number}; shift ;;
    --runs) runs=${2:?--runs takes a number} seconds=0; shift ;;
    --targets) IFS=, read -ra names <<<"${2:?--targets takes names, as in plan,manifest}"
       wanted+=("${names[@]}"); shift ;;
    *) wanted+=("$1") ;;
    esac
    shift
  done
  for target in "${wanted[@]}"; do
    [[ " ${fuzz_targets[*]} " == *" $target "* ]] ||
      fail "there is no fuzz target '$target'; there are ${fuzz_targets[*]}"
  done
  [[ $seconds =~ ^[0-9]+$ ]] || fail "--seconds takes a whole number, not '$seconds'"
  [[ $runs =~ ^(-1|[0-9]+)$ ]] || fail "--runs takes a whole number, not '$runs'"
  ((${#wanted[@]})) || wanted=("${fuzz_targets[@]}")
  compile_sanitized address,undefined fuzz_targets
  export_sanitizer_options
  "$sanitized/bin/write_seeds" "$seeds"
  # Plans and archives of models, where the compiler is built.
  [[ ! -x build/bin/fsdp-translate ]] || .venv/bin/python test/robustness/fuzz/seeds.py "$seeds"
  for target in "${wanted[@]}"; do
    mkdir -p "$made/corpus/$target" "$made/found/$target"
    corpora=("$made/corpus/$target")
    for folder in "test/robustness/fuzz/corpus/$target" "$seeds/$target"; do
      [[ ! -d $folder ]] || corpora+=("$folder")
    done
    suite "fuzz $target" "$sanitized/bin/fuzz-$target" -max_total_time="$seconds" -runs="$runs" \
      -timeout=25 -rss_limit_mb=4096 -max_len=65536 -close_fd_mask=3 -print_final_stats=1 \
      -artifact_prefix="$made/found/$target/" \
      "${corpora[@]}"
  done
  ((${#failed[@]} == 0)) || fail "what was found lies in $made/found; run it again with $sanitized/bin/fuzz-TARGET FILE"
}
