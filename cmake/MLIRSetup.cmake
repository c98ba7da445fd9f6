# MLIR and LLVM 22 from Debian's packages (any 22.x), linked as shared libraries.
# The package accepts its own major.minor only, so its version is checked here.
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "MLIR 22 is needed, ${MLIR_DIR} has ${LLVM_VERSION_MAJOR}; run `tools/dev build`, or set -DMLIR_DIR")
endif()
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(mlir_shared INTERFACE)
target_include_directories(mlir_shared SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_include_directories(mlir_shared INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include)
target_link_libraries(mlir_shared INTERFACE MLIR LLVM)
