#include "executor/Staging.h"

namespace fsdp {

char *Staging::prepare(Backend &backend, Streams &streams, uint64_t bytes) {
  finish(streams);
  if (bytes > size) {
    memory = backend.allocateHost(bytes, /*guard=*/0, /*pinned=*/true);
    size = bytes;
  }
  pieces.clear();
  return data();
}

void Staging::launch(Streams &streams) {
  streams.copy(plan::computeStream, pieces);
  mark = streams.mark();
  underWay = true;
}

void Staging::finish(Streams &streams) {
  if (underWay)
    streams.await(mark);
  underWay = false;
}

} // namespace fsdp
