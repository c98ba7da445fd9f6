#include "plan/FormatText.h"

#include <cstdarg>
#include <cstdio>

namespace fsdp {

std::string formatText(const char *pattern, ...) {
  va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  std::string text(std::vsnprintf(nullptr, 0, pattern, arguments), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  va_end(arguments);
  return text;
}

std::string visible(const std::string &text) {
  std::string shown;
  for (unsigned char c : text)
    if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f)
      shown += formatText("\\x%02x", c);
    else
      shown += static_cast<char>(c);
  return shown;
}

} // namespace fsdp
