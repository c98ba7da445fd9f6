#include "plan/Names.h"

#include <cctype>

namespace fsdp::plan {

static std::string inLowerCase(std::string name) {
  for (char &letter : name)
    letter =
        static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return name;
}

std::string nameOf(Role role) { return inLowerCase(EnumNameRole(role)); }
std::string nameOf(AxisRole role) {
  return inLowerCase(EnumNameAxisRole(role));
}
std::string nameOf(DeviceKind device) {
  return inLowerCase(EnumNameDeviceKind(device));
}
std::string nameOf(std::optional<ProgramRegion> region) {
  return region ? inLowerCase(EnumNameProgramRegion(*region)) : "";
}

} // namespace fsdp::plan
