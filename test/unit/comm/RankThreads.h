#ifndef FSDP_TEST_UNIT_COMM_RANKTHREADS_H
#define FSDP_TEST_UNIT_COMM_RANKTHREADS_H

#include "comm/Communicator.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::test {

using Body = std::function<void(Communicator &)>;
using Connect = std::function<std::unique_ptr<Communicator>(int rank)>;

/// Runs `body` on every rank, each a thread; a rank that throws aborts the
/// others. Returns what each rank threw.
inline std::vector<std::string> onRanks(int ranks, const Connect &connect,
                                        const Body &body) {
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      std::unique_ptr<Communicator> communicator;
      try {
        communicator = connect(r);
        body(*communicator);
      } catch (const std::exception &error) {
        errors[r] = error.what();
        if (communicator)
          communicator->abort(error.what());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_COMM_RANKTHREADS_H
