// See algorithm.h.
#pragma once

namespace gloo {
namespace transport {

class Device {
public:
  virtual ~Device();
};

} // namespace transport
} // namespace gloo
