// Names of states that a plan has besides a model's own: exporter, compiler and
// runtime know them by these. The exporter's are in step/scaler.py.
#ifndef FSDP_PLAN_STATENAMES_H
#define FSDP_PLAN_STATENAMES_H

namespace fsdp::plan {

/// Of a loss scaler: the scale, the steps since it last changed, and the steps
/// that were skipped in all.
inline constexpr char scaleStateName[] = "fsdp.scaler.scale";
inline constexpr char growthStateName[] = "fsdp.scaler.growth_tracker";
inline constexpr char skippedStateName[] = "fsdp.scaler.skipped_steps";

/// Of parameters that values may leave without a gradient: how many steps have.
/// This and a number.
inline constexpr char missedStatePrefix[] = "fsdp.missed.";

/// Of such parameters, whether a micro-batch of this step has given them a
/// gradient; zero between two steps. This and a number.
inline constexpr char givenStatePrefix[] = "fsdp.given.";

/// What a buffer has had before a step of several micro-batches: this and its
/// name.
inline constexpr char keptStatePrefix[] = "fsdp.kept.";

} // namespace fsdp::plan

#endif // FSDP_PLAN_STATENAMES_H
