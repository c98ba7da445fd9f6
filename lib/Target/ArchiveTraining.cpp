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

static void readRates(const JsonReader &json, ArchiveMetadata &metadata) {
  if (json.isNull())
    return;
  json.forEach([&](const JsonReader &row) {
    metadata.learningRates.emplace_back();
    row.forEach([&](const JsonReader &rate) {
      metadata.learningRates.back().push_back(rate.asDouble());
    });
    if (metadata.learningRates.back().size() !=
        metadata.optimizer.groups.size())
      row.fail("a rate for each parameter group");
  });
  if (metadata.learningRates.empty())
    json.fail("null or a table of at least one row");
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
  metadata.clipping = readClipping(json);
  if (!json["scaler"].isNull())
    metadata.scaler = readScaler(json["scaler"]);
  readRates(json["learning_rates"], metadata);
  readLength(json["length"], metadata);
  metadata.accumulate = json["accumulate"].asInt();
  if (metadata.accumulate < 1)
    json["accumulate"].fail("a number of micro-batches of at least 1");
}
