#include "operators/OneDnnLibrary.h"

#include <ATen/Version.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <filesystem>

namespace fsdp {

namespace {

constexpr const char *package = "onednn-cpu-gomp==2023.2.0";
constexpr int major = 3, minor = 2;

/// Where pip puts a package's libraries: in lib/, of which PyTorch's are in
/// lib/pythonX.Y/site-packages/torch/lib.
std::filesystem::path besidePyTorch() {
  Dl_info pytorch;
  if (!dladdr(reinterpret_cast<void *>(&at::get_mkldnn_version), &pytorch))
    return {};
  std::filesystem::path file =
      std::filesystem::weakly_canonical(pytorch.dli_fname);
  for (int up = 0; up < 5; ++up)
    file = file.parent_path();
  return file / "libdnnl.so.3";
}

template <typename Function>
void find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  TORCH_CHECK(function, "oneDNN has no ", name, "; pip install ", package);
}

OneDnnFunctions load() {
  std::filesystem::path path = besidePyTorch();
  // Never closed: what it has compiled lives as long as the process.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(library, "this kernel is oneDNN's, which is not beside PyTorch (",
              dlerror(), "); pip install ", package,
              ", or compile the plan with another kernel table");
  OneDnnFunctions functions;
#define ONEDNN_FUNCTION(FUNCTION, MEMBER)                                      \
  find(library, #FUNCTION, functions.MEMBER);
#include "operators/OneDnnFunctions.def"
#undef ONEDNN_FUNCTION
  const dnnl_version_t *version = functions.version();
  TORCH_CHECK(version->major == major && version->minor == minor, path.string(),
              " is oneDNN ", version->major, ".", version->minor, ", not ",
              major, ".", minor, ", whose bits plans expect; pip install ",
              package);
  return functions;
}

} // namespace

const OneDnnFunctions &oneDnn() {
  static const OneDnnFunctions functions = load();
  return functions;
}

void checkOneDnn(dnnl_status_t status, const char *what) {
  TORCH_CHECK(status != dnnl_unimplemented, "oneDNN has no ", what,
              " of this type on this processor");
  TORCH_CHECK(status == dnnl_success, "oneDNN failed at ", what, " (status ",
              int(status), ")");
}

} // namespace fsdp
