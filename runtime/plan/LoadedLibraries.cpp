#include "plan/LoadedLibraries.h"

#include <filesystem>
#include <link.h>
#include <utility>

namespace fsdp {

std::vector<std::string> loadedLibraries(const std::string &name) {
  std::pair<const std::string &, std::vector<std::string>> found(name, {});
  dl_iterate_phdr(
      [](dl_phdr_info *object, size_t, void *data) {
        auto &[name, files] = *static_cast<decltype(found) *>(data);
        std::filesystem::path path = object->dlpi_name;
        if (path.filename().string().rfind(name, 0) == 0)
          files.push_back(path);
        return 0;
      },
      &found);
  return found.second;
}

} // namespace fsdp
