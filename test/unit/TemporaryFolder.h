// A folder that lives as long as a test.
#ifndef FSDP_TEST_UNIT_TEMPORARYFOLDER_H
#define FSDP_TEST_UNIT_TEMPORARYFOLDER_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace fsdp::test {

struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "fsdp-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }

  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  std::string write(const std::string &name, const std::string &bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }

  std::string path;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_TEMPORARYFOLDER_H
