#include "cost/StreamClocks.h"

#include <algorithm>

namespace fsdp::cost {

Interval StreamClocks::run(unsigned stream, double seconds) {
  double begin = now(stream);
  return {begin, clocks[stream] += seconds};
}

Interval StreamClocks::communicate(unsigned stream, double seconds) {
  communication += seconds;
  if (stream == plan::computeStream)
    exposed += seconds;
  return run(stream, seconds);
}

Interval StreamClocks::waitUntil(unsigned stream, double time) {
  Interval waited = {now(stream), std::max(now(stream), time)};
  if (stream == plan::computeStream)
    exposed += waited.end - waited.begin;
  clocks[stream] = waited.end;
  return waited;
}

double StreamClocks::stepSeconds() const {
  return *std::max_element(clocks.begin(), clocks.end());
}

} // namespace fsdp::cost
