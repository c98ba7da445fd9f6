// Reads how fsdp.json trains: optimizer, bounds, loss scale, rates, length.

#include "ArchiveTraining.h"

#include "ArchiveOptimizer.h"

#include <limits>

using namespace fsdp;

/// A positive number, or "inf".
static double readBound(const JsonReader &json, double least) {
  if (json.isString() && json.asString() == "inf")
    return std::numeric_limits<double>::infinity();
  double bound = json.asDouble();
  if (!(bound > 0 && bound >= least))
    json.fail("\"inf\" or a number above 0, a norm's type at least 1");
  return bound;
}

static ClippingInfo readClipping(const JsonReader &json) {
  ClippingInfo clipping;
  JsonReader norm = json["clip_grad_norm"], value = json["clip_grad_value"];
  if (!norm.isNull()) {
    clipping.maxNorm = readBound(norm["max_norm"], 0);
    clipping.normType = readBound(norm["norm_type"], 1);
  }
  if (!value.isNull())
    clipping.value = readBound(value, 0);
  if (clipping.maxNorm && clipping.value)
    value.fail("null where clip_grad_norm is given");
  return clipping;
}

static ScalerInfo readScaler(const JsonReader &json) {
  ScalerInfo scaler;
  scaler.growthFactor = json["growth_factor"].asDouble();
  scaler.backoffFactor = json["backoff_factor"].asDouble();
  scaler.growthInterval = json["growth_interval"].asInt();
  if (!(scaler.growthFactor > 1))
    json["growth_factor"].fail("above 1");
  if (!(scaler.backoffFactor > 0 && scaler.backoffFactor < 1))
    json["backoff_factor"].fail("between 0 and 1");
  if (scaler.growthInterval < 1)
    json["growth_interval"].fail("1 or more");
  return scaler;
}

/// Without a schedule learning rates alone are numbers of the step.
static ScheduleInfo getConstantRates(const OptimizerInfo &optimizer) {
  ScheduleInfo schedule;
  for (size_t group = 0; group < optimizer.groups.size(); ++group)
    schedule.columns.push_back({"lr", group, optimizer.groups[group].lr});
  return schedule;
}

static ScheduleInfo readSchedule(const JsonReader &json,
                                 const OptimizerInfo &optimizer) {
  ScheduleInfo schedule;
  std::set<std::pair<std::string, size_t>> seen;
  json["columns"].forEach([&](const JsonReader &column) {
    std::string name = column["name"].asString();
    int64_t group = column["group"].asInt();
    if (group < 0 || static_cast<size_t>(group) >= optimizer.groups.size())
      column["group"].fail("the number of a group");
    std::string key = name.substr(0, name.find('.'));
    if (name != "lr" && !optimizer.groups[group].hyperparameters.count(key))
      column["name"].fail("a hyperparameter of the group");
    if (!seen.insert({name, group}).second)
      column.fail("given once");
    schedule.columns.push_back({name, static_cast<size_t>(group), 0});
  });
  for (size_t group = 0; group < optimizer.groups.size(); ++group)
    if (!seen.count({"lr", group}))
      json["columns"].fail("the learning rate of each group among others");
  json["rows"].forEach([&](const JsonReader &row) {
    std::vector<double> &values = schedule.rows.emplace_back();
    row.forEach(
        [&](const JsonReader &value) { values.push_back(value.asDouble()); });
    if (values.size() != schedule.columns.size())
      row.fail("a number for each column");
  });
  if (schedule.rows.empty())
    json["rows"].fail("a table of at least one row");
  for (size_t i = 0; i < schedule.columns.size(); ++i)
    schedule.columns[i].value = schedule.rows[0][i];
  return schedule;
}

/// What changes is no part of a rule's identity; and rules read nothing else as
/// a number of the step.
static void separateScheduled(const JsonReader &rules,
                              ArchiveMetadata &metadata) {
  std::set<std::pair<std::string, size_t>> columns;
  for (const ScheduleInfo::Column &column : metadata.schedule.columns) {
    columns.insert({column.name, column.group});
    metadata.optimizer.groups[column.group].hyperparameters.erase(
        column.name.substr(0, column.name.find('.')));
  }
  for (const RuleInfo &rule : metadata.optimizer.rules)
    for (const NumberInfo &number : rule.numbers)
      if (number.op == NumberOp::Hyperparameter &&
          !columns.count({number.hyperparameter, rule.group}))
        rules.fail("rules whose hyperparameters are columns of `schedule`, "
                   "which " +
                   number.hyperparameter + " is not");
}

static void readLength(const JsonReader &json, ArchiveMetadata &metadata) {
  if (json.isNull())
    return;
  bool epochs = json.has("epochs");
  JsonReader count = json[epochs ? "epochs" : "steps"];
  (epochs ? metadata.epochs : metadata.steps) = count.asInt();
  if (count.asInt() < 0)
    count.fail("zero or more");
}

void fsdp::readTraining(const JsonReader &json,
                        const std::set<std::string> &parameters,
                        ArchiveMetadata &metadata) {
  metadata.optimizer = readOptimizer(json["optimizer"], parameters);
  metadata.schedule = json["schedule"].isNull()
                          ? getConstantRates(metadata.optimizer)
                          : readSchedule(json["schedule"], metadata.optimizer);
  separateScheduled(json["optimizer"]["rules"], metadata);
  metadata.clipping = readClipping(json);
  if (!json["scaler"].isNull())
    metadata.scaler = readScaler(json["scaler"]);
  readLength(json["length"], metadata);
  metadata.accumulate = json["accumulate"].asInt();
  if (metadata.accumulate < 1)
    json["accumulate"].fail("a number of micro-batches of at least 1");
}
