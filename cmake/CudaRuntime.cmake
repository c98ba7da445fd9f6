# Defines cuda_runtime: CUDA's runtime library and headers, and NCCL's header,
# from the wheels that PyTorch installs beside itself. No toolkit is needed, and
# no GPU.
get_filename_component(_nvidia ${TORCH_DIR}/../nvidia ABSOLUTE)
set(_cuda ${_nvidia}/cu13)
set(_nccl ${_nvidia}/nccl)
set(_found ON)
foreach(file IN ITEMS ${_cuda}/include/cuda_runtime_api.h ${_cuda}/lib/libcudart.so.13 ${_nccl}/include/nccl.h)
  if(NOT EXISTS ${file})
    set(_found OFF)
  endif()
endforeach()
option(FSDP_BUILD_CUDA "Build libfsdp_cuda (needs PyTorch's CUDA 13 wheels)" ${_found})
if(FSDP_BUILD_CUDA)
  if(NOT _found)
    message(FATAL_ERROR "no CUDA 13 and NCCL in ${_nvidia}; install PyTorch's CUDA build, or set -DFSDP_BUILD_CUDA=OFF")
  endif()
  add_library(cuda_runtime INTERFACE)
  target_include_directories(cuda_runtime SYSTEM INTERFACE ${_cuda}/include ${_nccl}/include)
  target_link_libraries(cuda_runtime INTERFACE ${_cuda}/lib/libcudart.so.13)
  # Where PyTorch's own libraries look for theirs, so that both load one copy.
  target_link_options(cuda_runtime INTERFACE -Wl,-rpath,${_cuda}/lib -Wl,-rpath,${_nccl}/lib)
endif()
