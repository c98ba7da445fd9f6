#include "launch/Secret.h"

#include "Error.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fsdp {

static constexpr size_t fewestBytes = 16;
static constexpr size_t mostBytes = 4096;

static std::string readSecretFile(const std::string &path) {
  // A FIFO must not keep the run waiting for a writer.
  int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) {
    std::string why = std::strerror(errno);
    if (file >= 0)
      close(file);
    throw Error(E::Secret, "cannot read the run's secret from " + path + " (" +
                               secretFileVariable + "): " + why);
  }
  std::string text(mostBytes + 1, '\0');
  ssize_t bytes =
      S_ISREG(status.st_mode) ? read(file, text.data(), text.size()) : -1;
  close(file);
  if (bytes < 0)
    throw Error(E::Secret, std::string(secretFileVariable) + " names " + path +
                               ", which is no regular file that can be read");
  if (status.st_mode & (S_IRWXG | S_IRWXO))
    throw Error(E::Secret, "other users may open " + path +
                               ", which holds the run's "
                               "secret (" +
                               secretFileVariable + "); run chmod 600 on it");
  text.resize(static_cast<size_t>(bytes));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.pop_back();
  return text;
}

std::string findSecret(const Variables &variables) {
  auto secret = variables(secretVariable), file = variables(secretFileVariable);
  if (secret && file)
    throw Error(E::Secret, std::string(secretVariable) + " and " +
                               secretFileVariable + " are both set; unset one");
  if (!secret && !file)
    return "";
  const char *name = secret ? secretVariable : secretFileVariable;
  std::string result = secret ? *secret : readSecretFile(*file);
  if (result.size() < fewestBytes || result.size() > mostBytes)
    throw Error(E::Secret,
                "the run's secret (" + std::string(name) + ") has " +
                    (result.size() > mostBytes ? "more than " : "") +
                    std::to_string(std::min(result.size(), mostBytes)) +
                    " bytes, and must have " + std::to_string(fewestBytes) +
                    " to " + std::to_string(mostBytes) +
                    "; make one with: openssl rand -hex 32");
  return result;
}

std::string makeSecret() {
  if (sodium_init() < 0)
    throw Error(E::System,
                "this system gives no random numbers, which a secret needs");
  std::array<unsigned char, 32> bytes;
  randombytes_buf(bytes.data(), bytes.size());
  std::string digits(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), bytes.data(), bytes.size());
  digits.pop_back();
  return digits;
}

} // namespace fsdp
