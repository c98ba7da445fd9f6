#include "Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <new>
#include <optional>
#include <regex>

namespace fsdp {

namespace {

struct Entry {
  E kind;
  const char *title, *cause, *mending;
};

const Entry entries[] = {
#define ERROR(number, name, title, cause, mending)                             \
  {E::name, title, cause, mending},
#include "Errors.def"
#undef ERROR
};

} // namespace

std::string identifierOf(E kind) {
  char text[16];
  std::snprintf(text, sizeof(text), "FSDP-E%04d", static_cast<int>(kind));
  return text;
}

std::string withIdentifier(const std::string &message, E kind) {
  return message + " [" + identifierOf(kind) + "]";
}

/// The number in `FSDP-E0103`, of which people leave out or change what does
/// not matter: capitals, zeros, what stands in front, and the brackets of an
/// error.
static std::optional<int> numberOf(const std::string &identifier) {
  static const std::regex form(R"(\[?(?:FSDP-)?E?([0-9]{1,9})\]?)",
                               std::regex::icase);
  std::smatch parts;
  if (!std::regex_match(identifier, parts, form))
    return std::nullopt;
  return std::stoi(parts[1]);
}

std::string explainError(const std::string &identifier) {
  std::string unknown = "there is no error " + identifier;
  std::optional<int> number = numberOf(identifier);
  if (!number)
    throw Error(E::ErrorUnknown, unknown + "; give it as errors print it, as "
                                           "in FSDP-E0101");
  auto distance = [&](const Entry &entry) {
    return std::abs(static_cast<int>(entry.kind) - *number);
  };
  // Numbers that are near each other are of one part of the software.
  const Entry &nearest =
      *std::min_element(std::begin(entries), std::end(entries),
                        [&](const Entry &a, const Entry &b) {
                          return distance(a) < distance(b);
                        });
  std::string found = identifierOf(nearest.kind);
  if (distance(nearest) != 0)
    throw Error(E::ErrorUnknown, unknown + "; the nearest is " + found);
  return found + ": " + nearest.title + "\n\n" + nearest.cause + "\n\n" +
         nearest.mending + "\n";
}

E kindOf(const std::exception &error) {
  if (const auto *own = dynamic_cast<const Identified *>(&error))
    return own->kind;
  if (dynamic_cast<const std::bad_alloc *>(&error))
    return E::OutOfMemory;
  return E::Unexpected;
}

} // namespace fsdp
