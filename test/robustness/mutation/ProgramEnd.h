// How the programs of these tests take numbers and tell errors.
#ifndef FSDP_TEST_MUTATION_PROGRAMEND_H
#define FSDP_TEST_MUTATION_PROGRAMEND_H

#include "Error.h"

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace fsdp::test {

/// The number that a flag is given. Throws Error where it is none, or too
/// small.
inline uint64_t parseNumber(const std::string &flag, const std::string &text,
                            uint64_t least) {
  bool digits = !text.empty() && text.size() < 19 &&
                text.find_first_not_of("0123456789") == std::string::npos;
  uint64_t number = digits ? std::strtoull(text.c_str(), nullptr, 10) : 0;
  if (!digits || number < least)
    throw Error(E::Flag, flag + ": '" + text + "' is no number from " +
                             std::to_string(least) + " on");
  return number;
}

/// Prints an error, with its identifier; the status of the program.
inline int endWith(const std::exception &error) {
  std::cerr << "error: " << withIdentifier(error.what(), kindOf(error)) << "\n";
  return 1;
}

} // namespace fsdp::test

#endif // FSDP_TEST_MUTATION_PROGRAMEND_H
