# Defines, from what PyTorch's wheel brings or stands on, without a toolkit or a
# GPU:
#   cuda_headers          headers of CUDA and NCCL
#   cuda_runtime          those and CUDA's runtime library
#   cuda_compiler         those and NVRTC, which compiles kernels at run time
#   torch_cuda_allocator  cuda_runtime and libc10_cuda
#   torch_cuda_kernels    those and libtorch_cuda
get_filename_component(_nvidia ${TORCH_DIR}/../nvidia ABSOLUTE)
set(FSDP_CUDA_HEADERS "" CACHE PATH "Folder of include/ with what wheels of CUDA lack: crt/ and nv/")
mark_as_advanced(FSDP_CUDA_HEADERS)
# The wheels of CUDA 13, those of CUDA 12, a toolkit, and what a packed runtime
# or pip's build brings.
set(_cuda_places ${_nvidia}/cu13 ${_nvidia}/cuda_runtime /usr/local/cuda
    ${FSDP_DEPS} ${FSDP_CUDA_HEADERS})
foreach(part IN ITEMS cublas cusparse cusolver)
  list(APPEND _cuda_places ${_nvidia}/${part})
endforeach()

# Each header by the folder that holds it, since the wheels of CUDA 12 have one
# each. PyTorch does not bring the wheels of crt/ and nv/, which others include.
set(_cuda_headers)
set(_missing)
foreach(header IN ITEMS cuda_runtime_api.h crt/host_config.h nv/target cublas_v2.h cusparse.h cusolverDn.h nvrtc.h nccl.h)
  find_path(FSDP_HAS_${header} ${header} PATHS ${_nvidia}/nccl ${_cuda_places}
            PATH_SUFFIXES include include/cccl NO_DEFAULT_PATH)
  mark_as_advanced(FSDP_HAS_${header})
  if(FSDP_HAS_${header})
    list(APPEND _cuda_headers ${FSDP_HAS_${header}})
  else()
    list(APPEND _missing ${header})
  endif()
endforeach()
list(REMOVE_DUPLICATES _cuda_headers)
find_library(FSDP_CUDART NAMES libcudart.so.13 libcudart.so.12 PATHS ${_cuda_places}
             PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
find_library(FSDP_NVRTC NAMES libnvrtc.so.13 libnvrtc.so.12 PATHS ${_cuda_places}
             PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
find_library(FSDP_NCCL NAMES libnccl.so.2 PATHS ${_nvidia}/nccl PATH_SUFFIXES lib)
mark_as_advanced(FSDP_CUDART FSDP_NVRTC FSDP_NCCL)
foreach(library IN ITEMS CUDART NVRTC NCCL)
  if(NOT FSDP_${library})
    list(APPEND _missing ${library})
  endif()
endforeach()
if(NOT EXISTS ${TORCH_DIR}/lib/libtorch_cuda.so)
  list(APPEND _missing libtorch_cuda.so)
endif()

set(_found ON)
if(_missing)
  set(_found OFF)
endif()
option(FSDP_BUILD_CUDA "Build libfsdp_cuda and libfsdp_cuda_kernels (needs PyTorch's CUDA build)" ${_found})
if(FSDP_BUILD_CUDA)
  if(_missing)
    list(JOIN _missing ", " _missing)
    message(FATAL_ERROR "CUDA is wanted, and neither ${_nvidia} nor /usr/local/cuda has ${_missing}; "
                        "install PyTorch's CUDA build, nvidia-cuda-crt and nvidia-cuda-cccl by pip, "
                        "or set -DFSDP_BUILD_CUDA=OFF")
  endif()
  add_library(cuda_headers INTERFACE)
  target_include_directories(cuda_headers SYSTEM INTERFACE ${_cuda_headers})
  add_library(cuda_runtime INTERFACE)
  target_link_libraries(cuda_runtime INTERFACE cuda_headers ${FSDP_CUDART})
  # Where PyTorch's own libraries look for theirs, so that both load one copy.
  foreach(library IN ITEMS ${FSDP_CUDART} ${FSDP_NCCL})
    get_filename_component(_folder ${library} DIRECTORY)
    target_link_options(cuda_runtime INTERFACE -Wl,-rpath,${_folder})
  endforeach()

  add_library(cuda_compiler INTERFACE)
  target_link_libraries(cuda_compiler INTERFACE cuda_runtime ${FSDP_NVRTC})
  get_filename_component(_folder ${FSDP_NVRTC} DIRECTORY)
  target_link_options(cuda_compiler INTERFACE -Wl,-rpath,${_folder})

  add_library(torch_cuda_allocator INTERFACE)
  target_link_libraries(torch_cuda_allocator INTERFACE
    ${TORCH_DIR}/lib/libc10_cuda.so torch_cpu_only cuda_runtime)
  add_library(torch_cuda_kernels INTERFACE)
  target_link_libraries(torch_cuda_kernels INTERFACE
    ${TORCH_DIR}/lib/libtorch_cuda.so torch_cuda_allocator)
endif()
