// What libFuzzer and the programs that run a corpus alone call.
#ifndef FSDP_TEST_FUZZ_TARGETS_FUZZTARGET_H
#define FSDP_TEST_FUZZ_TARGETS_FUZZTARGET_H

#include <cstddef>
#include <cstdint>

/// One input. What is wrong with it is an error of this project's, which it
/// catches; whatever else happens is a finding.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/// libFuzzer's own: changes a few bytes, and returns the new size.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

#endif // FSDP_TEST_FUZZ_TARGETS_FUZZTARGET_H
