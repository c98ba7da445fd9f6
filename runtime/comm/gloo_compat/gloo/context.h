// See algorithm.h.
#pragma once

#include <chrono>
#include <memory>

namespace gloo {

namespace transport {
class UnboundBuffer {
public:
  virtual ~UnboundBuffer();
};
} // namespace transport

class Context {
public:
  virtual ~Context();
  void setTimeout(std::chrono::milliseconds timeout);
};

} // namespace gloo
