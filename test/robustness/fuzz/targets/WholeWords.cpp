// Changes command lines by whole words: one of another place, left out, twice,
// or a number at the end of its type. Now and then some bytes.
#include "FuzzTarget.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::mt19937_64 random(seed);
  if (random() % 2)
    return LLVMFuzzerMutate(data, size, maxSize);
  static const char *const numbers[] = {"-1",
                                        "0",
                                        "1e999",
                                        "nan",
                                        "2147483648",
                                        "9223372036854775807",
                                        "18446744073709551616",
                                        "0x10",
                                        "1.5",
                                        ""};
  std::vector<std::string> words(1);
  for (size_t i = 0; i < size; ++i)
    if (data[i] == '\n')
      words.emplace_back();
    else
      words.back() += static_cast<char>(data[i]);
  size_t at = random() % words.size();
  const std::string other = words[random() % words.size()];
  switch (random() % 4) {
  case 0:
    words[at] = other;
    break;
  case 1:
    words.erase(words.begin() + at);
    break;
  case 2:
    words.insert(words.begin() + at, other);
    break;
  default:
    words[at] = words[at].substr(0, words[at].find('=') + 1) +
                numbers[random() % std::size(numbers)];
  }
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : "\n") + word;
  if (text.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
