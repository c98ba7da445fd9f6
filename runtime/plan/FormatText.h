#ifndef FSDP_PLAN_FORMATTEXT_H
#define FSDP_PLAN_FORMATTEXT_H

#include <string>

namespace fsdp {

/// What printf would print.
std::string formatText(const char *pattern, ...)
    __attribute__((format(printf, 1, 2)));

} // namespace fsdp

#endif // FSDP_PLAN_FORMATTEXT_H
