#include "Error.h"

#include <cctype>
#include <cstdio>
#include <new>

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

std::string explainError(const std::string &identifier) {
  std::string wanted;
  for (char c : identifier)
    wanted += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (wanted.compare(0, 5, "FSDP-") != 0)
    wanted = "FSDP-" + wanted;
  for (const Entry &entry : entries)
    if (identifierOf(entry.kind) == wanted)
      return wanted + ": " + entry.title + "\n\n" + entry.cause + "\n\n" +
             entry.mending + "\n";
  throw Error(E::ErrorUnknown, "there is no error " + identifier +
                                   "; give it as errors print it, as in "
                                   "FSDP-E0101");
}

E kindOf(const std::exception &error) {
  if (const auto *own = dynamic_cast<const Identified *>(&error))
    return own->kind;
  if (dynamic_cast<const std::bad_alloc *>(&error))
    return E::OutOfMemory;
  return E::Unexpected;
}

} // namespace fsdp
