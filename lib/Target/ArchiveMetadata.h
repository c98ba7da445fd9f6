// fsdp.json as plain data.
//
// docs/archive.md has the format. TorchScript keeps neither shapes nor dtypes
// nor module paths, so this file is part of it.

#ifndef FSDP_LIB_TARGET_ARCHIVEMETADATA_H
#define FSDP_LIB_TARGET_ARCHIVEMETADATA_H

#include "TorchGraph.h"

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace fsdp {

/// The type of a value; sizes and strides in elements.
struct TensorInfo {
  std::vector<int64_t> shape, strides;
  std::string dtype;     // "float32"
  bool anyShape = false; // of a rule: that of whichever parameter it updates
};

/// What a program is given: states, inputs, and the gradient that backward
/// begins with. What a rule is given: a parameter, its gradient, its states and
/// numbers of the step.
enum class ArgumentRole {
  Parameter,
  Buffer,
  Constant,
  Input,
  Cotangent,
  Gradient,
  State,
  Number
};

struct ArgumentInfo {
  std::string name;
  ArgumentRole role;
  std::string fqn; // of the state, or the input's name; empty: others
};

enum class ResultRole { Loss, Gradient, HasGradient, BufferUpdate, Output };

struct ResultInfo {
  std::string name;
  ResultRole role; // of a rule: none but outputs
  // Empty: loss. Of HasGradient: the buffer that counts steps without one.
  std::string fqn;
};

struct NodeInfo {
  std::string op, overload;
  std::vector<std::optional<std::string>> results; // per tensor
  std::string module;
  bool backward = false;
  std::optional<int64_t> checkpoint; // the number of the one it is in
  bool keep = false;                 // its results, in a checkpoint
  std::string source;                // "gpt.py:31", or empty
};

struct ProgramInfo {
  std::string variantOf; // the program it is for batches of other shapes;
                         // empty: none
  std::string turn;      // whose loss it trains; empty: the step has one loss
  std::string next;      // the program of the next turn; empty: none
  std::vector<ArgumentInfo> arguments;
  std::vector<ResultInfo> results;
  std::vector<NodeInfo> nodes;
  std::map<std::string, TensorInfo> values;
};

struct ModuleInfo {
  std::string path, className;
  bool container = false;
  std::vector<std::string> aliases;
};

/// A step of the recipe for a state's first value; see docs/archive.md.
struct InitInfo {
  struct Region {
    int64_t offset;
    std::vector<int64_t> sizes, strides;
  };
  std::string op;
  std::vector<double> values;
  int64_t draw = 0;
  std::optional<Region> region;
};

struct StateInfo {
  std::string fqn;
  std::vector<std::string> aliases;
  TensorInfo type;
  bool trainable = false;          // parameters
  std::optional<std::string> unit; // parameters: the model's own choice
  int64_t shardDim = 0;            // the dimension that it is split on
  bool persistent = false;         // buffers
  std::vector<InitInfo> init;      // empty: the value is in the weights file
};

struct InputInfo {
  std::string name;
  TensorInfo type;
  bool repeat = false; // the same value every step
};

/// A unit that lives on the host.
struct OffloadInfo {
  bool pinMemory = true;
};

/// Parameters that the model wants gathered and reduced together.
struct UnitInfo {
  std::string name;
  std::vector<std::string> modules; // paths
  bool root = false;                // no other unit is around it
  std::optional<bool>
      reshard; // after forward; not given: the compiler's choice
  std::optional<int64_t> reshardRanks; // over how many forward leaves a shard
  // What it computes and reduces in; not given: as its parameters are, and as
  // it computes.
  std::optional<std::string> paramDtype, reduceDtype;
  std::optional<OffloadInfo> offload;
  std::optional<double> gradientDivisor; // not given: the number of ranks
  // Units that are gathered ahead; empty: the compiler's choice.
  std::vector<std::string> prefetchForward, prefetchBackward;
};

/// Which of an optimizer's implementations a group has.
enum class ImplementationInfo { ForLoop, Foreach, Fused };

/// A parameter group; hyperparameters are what describes it, by name.
struct GroupInfo {
  using Value = std::variant<bool, double, std::string, std::vector<double>>;
  std::vector<std::string> parameters;
  std::string optimizer; // adamw; or with its module: lion.Lion
  ImplementationInfo implementation = ImplementationInfo::ForLoop;
  double lr = 0.0;
  std::map<std::string, Value> hyperparameters; // that do not change
};

/// How a number of the step is computed.
enum class NumberOp {
  Hyperparameter,
  StepCount,
  Former,
  Add,
  Subtract,
  Multiply,
  Divide,
  Power,
  Negate,
  SquareRoot,
  Exponential,
  Logarithm,
  Cosine,
  Round,
  SelectEqual,
  SelectLess,
  SelectLessEqual
};

/// A number of the step, from earlier ones and constants.
struct NumberInfo {
  using Operand = std::variant<double, std::string>;
  std::string name;
  NumberOp op;
  std::vector<Operand> operands;
  std::string hyperparameter; // of the rule's group, that it is
  std::string next;           // of a former one: the number that it is then
};

/// What a step does to each of its parameters.
struct RuleInfo {
  struct State {
    std::string name, dtype;
    double initial = 0.0;
  };
  std::string name, method;
  size_t group = 0;
  std::vector<std::string> parameters;
  std::string missed; // the buffer that counts steps which give its parameters
                      // no gradient; empty: each step gives them one
  bool sets = false; // first sets its parameters as the step does: what it does
                     // is not the optimizer's step alone
  std::vector<State> states;
  std::vector<NumberInfo> numbers;
  ProgramInfo program; // results: the new parameter, then the states
};

struct OptimizerInfo {
  std::vector<GroupInfo> groups;
  std::vector<RuleInfo> rules;
};

/// How gradients are bounded: by their norm, or by value.
struct ClippingInfo {
  std::optional<double> maxNorm, value;
  double normType = 2;
};

/// Dynamic loss scaling, as torch.amp.GradScaler has it.
struct ScalerInfo {
  double growthFactor = 2, backoffFactor = 0.5;
  int64_t growthInterval = 2000;
};

/// The numbers of parameter groups that steps read as numbers of the step.
struct ScheduleInfo {
  struct Column {
    std::string name; // "lr", "momentum", "betas.0"
    size_t group;
    double value; // in the first step
  };
  std::vector<Column> columns;
  std::vector<std::vector<double>> rows; // by step; empty: constant
};

struct ArchiveMetadata {
  std::string torchVersion, source;
  std::map<std::string, ProgramInfo> programs;
  std::vector<ModuleInfo> modules;
  std::vector<StateInfo> parameters, buffers, constants;
  std::vector<InputInfo> inputs;
  std::vector<int64_t> mesh; // ranks by dimension; empty: not described
  std::string meshDevice;    // "cpu" or "cuda"; empty: either
  std::vector<std::string> meshNames; // of its dimensions; empty: none
  int64_t ranks = 0;                  // that the step computes with; 0: none
  std::vector<UnitInfo> units;        // empty: the compiler chooses
  OptimizerInfo optimizer;
  ClippingInfo clipping;
  std::optional<ScalerInfo> scaler;
  ScheduleInfo schedule;
  std::optional<int64_t> epochs, steps;
  int64_t accumulate = 1; // micro-batches per step
  int64_t seed = 0;
};

/// Compares every digest, then reads `fsdp.json`. Throws ArchiveError: the
/// archive is not the exporter's or is altered, is of another version, or a
/// field is missing or ill-typed (the error names its path).
ArchiveMetadata readMetadata(const TorchArchive &archive);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_ARCHIVEMETADATA_H
