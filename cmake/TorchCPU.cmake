# Defines torch_cpu_only: PyTorch's headers, libtorch_cpu and libc10 from the
# Python package. PyTorch's own find_package(Torch) stops without nvcc.
#
# FSDP_PYTHON names the Python whose PyTorch is used (default: .venv, then the
# first python3 on PATH): a list, where it needs flags to find that.
if(NOT FSDP_PYTHON)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(FSDP_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  else()
    find_program(FSDP_PYTHON python3 REQUIRED)
  endif()
endif()
execute_process(
  COMMAND ${FSDP_PYTHON} -c
    "import importlib.util as u, importlib.metadata as m; print(u.find_spec('torch').submodule_search_locations[0], m.version('torch').split('+')[0], sep=';')"
  OUTPUT_VARIABLE _torch OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _failed ERROR_QUIET)
if(_failed)
  message(FATAL_ERROR "no PyTorch in ${FSDP_PYTHON}; run `tools/dev build`, or set -DFSDP_PYTHON")
endif()
list(GET _torch 0 TORCH_DIR)
list(GET _torch 1 TORCH_VERSION)
# What it does not promise to keep (which allocation becomes an output, Gloo's
# and its allocator's interfaces) was checked for one version.
set(FSDP_TORCH_VERSION 2.11.0 CACHE STRING "PyTorch's version; another one is at your own risk")
if(NOT TORCH_VERSION VERSION_EQUAL FSDP_TORCH_VERSION)
  message(FATAL_ERROR "PyTorch ${FSDP_TORCH_VERSION} is needed, ${FSDP_PYTHON} has ${TORCH_VERSION}; "
                      "run `tools/dev build`, or set -DFSDP_PYTHON, or -DFSDP_TORCH_VERSION=${TORCH_VERSION} to try with it")
endif()

add_library(torch_cpu_only INTERFACE)
target_include_directories(torch_cpu_only SYSTEM INTERFACE
  ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(torch_cpu_only INTERFACE ${TORCH_DIR}/lib/libtorch_cpu.so ${TORCH_DIR}/lib/libc10.so)
target_link_options(torch_cpu_only INTERFACE
  -Wl,-rpath,${TORCH_DIR}/lib -Wl,--allow-shlib-undefined -Wl,--no-as-needed)
