// The borders between the programs and the libraries beside them, which are
// loaded when they are needed. Both sides are of the same build.

#ifndef FSDP_PLAN_LOADLIBRARY_H
#define FSDP_PLAN_LOADLIBRARY_H

namespace fsdp {

/// What a library beside this program, or this extension module, exports under
/// a symbol. It stays loaded. Throws Error where there is no such library;
/// `otherwise` is what it says then, before the reason.
const void *loadBesideProgram(const char *file, const char *symbol,
                              const char *otherwise);

/// A library's table of functions, by its type: `file` and `symbol` are where
/// it is, `otherwise` what is missing without it.
template <typename Library> const Library &loadLibrary() {
  return *static_cast<const Library *>(
      loadBesideProgram(Library::file, Library::symbol, Library::otherwise));
}

} // namespace fsdp

#endif // FSDP_PLAN_LOADLIBRARY_H
