# Puts the programs into the Python package, for `cmake --install` and for pip. An
# installed package lies beside PyTorch, and its programs look for it there, so that
# nothing in them names the folder that they were built in.
#
# The version has one place, the package's __init__.py.
set(FSDP_PACKAGE ${CMAKE_SOURCE_DIR}/python/fsdp_mlir)

# install_program(TARGET LIBRARY_FOLDER...): with the folders, beside the package's
# or absolute, that hold its shared libraries; none: the linker's are right.
function(install_program target)
  if(NOT TARGET ${target})
    return()
  endif()
  install(PROGRAMS $<TARGET_FILE:${target}> DESTINATION fsdp_mlir/bin)
  if(ARGN)
    set(folders ${ARGN})
    list(TRANSFORM folders PREPEND "\\$ORIGIN/../../" REGEX "^[^/]")
    list(JOIN folders ":" rpath)
    install(CODE "
      file(RPATH_SET NEW_RPATH \"${rpath}\" FILE
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/fsdp_mlir/bin/$<TARGET_FILE_NAME:${target}>\")")
  endif()
endfunction()

install_program(fsdp-opt)
install_program(fsdp-translate ${LLVM_LIBRARY_DIR})
install_program(fsdp_archive torch/lib)
install_program(fsdp-run torch/lib)
install_program(fsdp_runtime torch/lib)
if(FSDP_BUILD_CUDA)
  get_filename_component(_site ${TORCH_DIR}/.. ABSOLUTE)
  get_filename_component(_cuda ${FSDP_CUDART} DIRECTORY)
  file(RELATIVE_PATH _beside ${_site} ${_cuda})
  if(NOT _beside MATCHES "^\\.\\.")
    set(_cuda ${_beside}) # of PyTorch's wheels
  endif()
  install_program(fsdp_cuda ${_cuda} nvidia/nccl/lib)
  install_program(fsdp_cuda_kernels torch/lib ${_cuda} nvidia/nccl/lib)
endif()

# pip takes the package's own files itself.
if(NOT SKBUILD)
  install(DIRECTORY ${FSDP_PACKAGE} DESTINATION .
    PATTERN __pycache__ EXCLUDE PATTERN bin EXCLUDE)
endif()
