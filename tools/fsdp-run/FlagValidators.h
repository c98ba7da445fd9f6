// What numbers a flag takes.
#ifndef FSDP_RUN_FLAGVALIDATORS_H
#define FSDP_RUN_FLAGVALIDATORS_H

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace fsdp {

/// Decimal digits, in range: what converts texts takes -1 for 2^64 - 1.
inline CLI::Validator wholeNumber(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        int64_t value = 0;
        const char *end = text.data() + text.size();
        auto [rest, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc() && rest == end && value >= least &&
            value <= most)
          return "";
        return "'" + text + "' is no whole number from " +
               std::to_string(least) + " to " + std::to_string(most);
      },
      "");
}

// Steps, epochs and seconds of a year: more would overflow somewhere.
inline constexpr int64_t mostSteps = 1'000'000'000'000'000,
                         mostEpochs = 1'000'000'000, mostRanks = 1'000'000,
                         mostSeconds = 31'536'000,
                         mostFlops = 1'000'000'000'000'000'000;

/// `what`: "number of seconds".
inline CLI::Validator aboveZero(const std::string &what, int64_t most) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        char *rest = nullptr;
        double value = std::strtod(text.c_str(), &rest);
        if (rest == text.c_str() + text.size() && value > 0 &&
            value <= most) // not NaN
          return "";
        return "'" + text + "' is no " + what + " above 0, up to " +
               std::to_string(most);
      },
      "");
}

/// As of a shell's variable that is not set.
inline CLI::Validator notEmpty() {
  return CLI::Validator(
      [](std::string &text) -> std::string {
        return text.empty() ? "its value is empty; is a variable of the shell "
                              "not set?"
                            : "";
      },
      "");
}

inline CLI::Validator secondsAboveZero() {
  return aboveZero("number of seconds", mostSeconds);
}

} // namespace fsdp

#endif // FSDP_RUN_FLAGVALIDATORS_H
