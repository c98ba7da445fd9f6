// Changes JSON so that it stays JSON: a value becomes another one, an extreme
// one or one of another place, or an entry is left out or repeated. Now and
// then some bytes instead.
#include "FuzzTarget.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

namespace {

using Json = nlohmann::ordered_json;
using Random = std::mt19937_64;

void collect(Json &json, std::vector<Json *> &all) {
  all.push_back(&json);
  if (json.is_structured())
    for (Json &member : json)
      collect(member, all);
}

Json extreme(Random &random) {
  switch (random() % 12) {
  case 0:
    return nullptr;
  case 1:
    return random() % 2 == 0;
  case 2:
    return -1;
  case 3:
    return 0;
  case 4:
    return INT64_MIN;
  case 5:
    return UINT64_MAX;
  case 6:
    return (random() % 2 ? 1.0 : -1.0) * std::pow(10.0, random() % 300);
  case 7:
    return int64_t(1) << random() % 63;
  case 8:
    return "";
  case 9:
    return Json::array();
  case 10:
    return Json::object();
  default:
    return static_cast<int64_t>(random() % 1000);
  }
}

void change(Json &root, Random &random) {
  std::vector<Json *> all;
  collect(root, all);
  Json &place = *all[random() % all.size()];
  switch (random() % 5) {
  case 0:
    place = extreme(random);
    break;
  case 1: {
    Json other = *all[random() % all.size()];
    place = other;
    break;
  }
  case 2:
    if (place.is_structured() && !place.empty()) {
      auto entry = place.begin();
      std::advance(entry, random() % place.size());
      place.erase(entry);
    }
    break;
  case 3:
    if (place.is_array() && !place.empty())
      place.push_back(Json(place[random() % place.size()]));
    break;
  default:
    if (place.is_number_integer())
      place = static_cast<int64_t>(place.get<uint64_t>() + random() % 5 - 2);
    else if (place.is_string())
      place = place.get<std::string>() + static_cast<char>('a' + random() % 26);
  }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  Random random(seed);
  Json json = random() % 5 ? Json::parse(data, data + size, nullptr,
                                         /*allow_exceptions=*/false)
                           : Json(Json::value_t::discarded);
  if (json.is_structured()) {
    for (uint64_t i = 0, count = 1 + random() % 3; i < count; ++i)
      change(json, random);
    std::string text =
        json.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() <= maxSize) {
      std::memcpy(data, text.data(), text.size());
      return text.size();
    }
  }
  return LLVMFuzzerMutate(data, size, maxSize);
}
