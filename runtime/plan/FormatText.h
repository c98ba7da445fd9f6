#ifndef FSDP_PLAN_FORMATTEXT_H
#define FSDP_PLAN_FORMATTEXT_H

#include <string>

namespace fsdp {

/// What printf would print.
std::string formatText(const char *pattern, ...)
    __attribute__((format(printf, 1, 2)));

/// Adds an item to a list that is written as "a, b, c".
inline void appendListed(std::string &list, const std::string &item) {
  if (!list.empty())
    list += ", ";
  list += item;
}

/// The first line that is not empty, as of a library's message.
inline std::string firstLine(std::string text) {
  text.erase(0, text.find_first_not_of('\n'));
  return text.substr(0, text.find('\n'));
}

/// `text` for a terminal: characters that it would obey, as names of a
/// stranger's may have, are written as \x1b. Lines and columns stay.
std::string visible(const std::string &text);

} // namespace fsdp

#endif // FSDP_PLAN_FORMATTEXT_H
