# What `tools/dev test --sanitize=KINDS` and `tools/dev fuzz` compile with, all
# by Clang, into build folders of their own: FSDP_SANITIZE is what stands behind
# -fsanitize=.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  message(FATAL_ERROR "FSDP_SANITIZE needs Clang; run `tools/dev test --sanitize=${FSDP_SANITIZE}`")
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O1")
# Clang takes a precompiled header only from a target with the very same flags.
set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
add_compile_options(-fsanitize=${FSDP_SANITIZE} -fno-omit-frame-pointer -gline-tables-only)
add_link_options(-fsanitize=${FSDP_SANITIZE})
if(FSDP_SANITIZE MATCHES "undefined")
  # Of PyTorch's classes, which its wheel has compiled otherwise, neither the
  # tables nor the functions have what these two checks look for.
  add_compile_options(-fno-sanitize-recover=all -fno-sanitize=vptr,function
                      -fsanitize=float-cast-overflow)
endif()
if(FSDP_SANITIZE MATCHES "address")
  # What libFuzzer steers by. Programs without it take no notice.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
