// Recipes for first values, in fsdp.json.

#include "ArchiveRecipes.h"

using namespace fsdp;

std::vector<InitInfo> fsdp::readRecipe(const JsonReader &json) {
  std::vector<InitInfo> steps;
  if (json.isNull())
    return steps;
  json.forEach([&](const JsonReader &step) {
    InitInfo info;
    info.op = step["op"].asOneOf(
        {"fill", "uniform", "normal", "multiply", "add", "clamp", "erfinv"});
    step["values"].forEach([&](const JsonReader &value) {
      info.values.push_back(value.asDouble());
    });
    info.draw = step["draw"].asInt();
    if (JsonReader region = step["region"]; !region.isNull()) {
      info.region.emplace();
      info.region->offset = region["offset"].asInt();
      for (auto [name, list] : {std::pair("sizes", &info.region->sizes),
                                std::pair("strides", &info.region->strides)})
        region[name].forEach(
            [list = list](const JsonReader &n) { list->push_back(n.asInt()); });
    }
    steps.push_back(std::move(info));
  });
  if (steps.empty())
    json.fail("null or a list of at least one step");
  return steps;
}
