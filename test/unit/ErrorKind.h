#ifndef FSDP_TEST_UNIT_ERRORKIND_H
#define FSDP_TEST_UNIT_ERRORKIND_H

#include "Error.h"

#include <string>

namespace fsdp::test {

/// The identifier of the error that `call` throws; empty where it throws none.
template <typename Call> std::string identifierThrownBy(Call call) {
  try {
    call();
  } catch (const std::exception &error) {
    return identifierOf(kindOf(error));
  }
  return "";
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_ERRORKIND_H
