// System calls on files that fail or kill the process where a test wants it.
#ifndef FSDP_TEST_UNIT_TRAIN_FAILINGCALLS_H
#define FSDP_TEST_UNIT_TRAIN_FAILINGCALLS_H

#include <string>

namespace fsdp::test {

/// What happens at one of the calls that change files below `folder`, counted
/// from 1 as they come: it fails with `error`, or, where that is 0, the process
/// is killed. The calls are those of this program, which replaces them.
struct FailingCall {
  std::string folder;
  int at = 0; // 0: none of them
  int error = 0;
  /// All later ones fail too, as on a disk that stays full.
  bool forGood = false;
};

void setFailingCall(const FailingCall &call);
/// Since setFailingCall().
int countedCalls();

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_TRAIN_FAILINGCALLS_H
