// Names of a plan's programs: exporter, compiler and runtime know them by
// these. Besides them there are variants and further turns, which refer to one
// of them.
#ifndef FSDP_PLAN_PROGRAMNAMES_H
#define FSDP_PLAN_PROGRAMNAMES_H

namespace fsdp::plan {

/// A training step, or its first turn; of several micro-batches the last.
inline constexpr char stepProgramName[] = "step";
/// The micro-batches before the last, which add to gradients and update
/// nothing.
inline constexpr char accumulateProgramName[] = "accumulate";
/// The evaluation.
inline constexpr char evalProgramName[] = "eval";

} // namespace fsdp::plan

#endif // FSDP_PLAN_PROGRAMNAMES_H
