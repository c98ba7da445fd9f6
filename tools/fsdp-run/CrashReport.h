#ifndef FSDP_TOOLS_FSDPRUN_CRASHREPORT_H
#define FSDP_TOOLS_FSDPRUN_CRASHREPORT_H

namespace fsdp {

/// From now on a process that crashes first writes to stderr which calls led
/// there, one "FILE(+OFFSET)" a line, and then ends by the signal as before.
/// That also holds for its copies. A signal that is handled already, as by a
/// sanitizer, is left alone.
void reportCrashes();

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPRUN_CRASHREPORT_H
