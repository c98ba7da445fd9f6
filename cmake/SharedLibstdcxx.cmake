# PyTorch's libraries load libstdc++.so.6. A compiler that comes without the
# link to it, libstdc++.so, takes the static library and says nothing: then a
# process has two, and std::call_once of one waits for variables of the other.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so
                OUTPUT_VARIABLE _link OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT IS_ABSOLUTE "${_link}")
  find_library(FSDP_LIBSTDCXX NAMES libstdc++.so.6)
  mark_as_advanced(FSDP_LIBSTDCXX)
  if(NOT FSDP_LIBSTDCXX)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} links libstdc++ statically, which PyTorch's libraries "
                        "do not bear, and no libstdc++.so.6 was found; set -DFSDP_LIBSTDCXX=FILE")
  endif()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/libstdc++)
  file(CREATE_LINK ${FSDP_LIBSTDCXX} ${CMAKE_BINARY_DIR}/libstdc++/libstdc++.so SYMBOLIC)
  add_link_options(-L${CMAKE_BINARY_DIR}/libstdc++)
endif()
