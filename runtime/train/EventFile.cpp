#include "train/EventFile.h"

#include "Error.h"
#include "comm/HostProcess.h"
#include "plan/FormatText.h"

#include <array>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace fsdp {

namespace {

/// What a field of metrics is called there, the factor to its unit, and whether
/// it is of one rank where the field is of all. torchtitan's where it has one;
/// a field that is not here keeps its name.
struct Tag {
  const char *field, *name;
  double factor;
  bool ofOneRank = false;
};
constexpr Tag tags[] = {
    {"loss", "loss_metrics/global_avg_loss", 1},
    {"eval_loss", "validation_metrics/loss", 1},
    {"tokens_per_s", "throughput(tps)", 1, /*ofOneRank=*/true},
    {"flops_per_s", "tflops", 1e-12},
    {"hfu", "hfu(%)", 100},
    {"mfu", "mfu(%)", 100},
    {"step_ms", "time_metrics/end_to_end(s)", 1e-3},
    {"data_wait_ms", "time_metrics/data_loading(s)", 1e-3},
    {"exposed_comm_ms", "time_metrics/exposed_communication(s)", 1e-3},
    {"unit_exposed_comm_ms", "unit_exposed_communication(s)", 1e-3},
    {"memory_bytes", "memory/planned(GiB)", 1.0 / (1 << 30)},
    {"memory_peak_bytes", "memory/max_resident(GiB)", 1.0 / (1 << 30)},
};

Tag tagOf(const std::string &field) {
  for (const Tag &tag : tags)
    if (field == tag.field)
      return tag;
  return {field.c_str(), field.c_str(), 1};
}

// Protocol buffers: a key is a field's number and how its value is written.
enum Wire { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

void putVarint(std::string &to, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void putKey(std::string &to, unsigned field, Wire wire) {
  putVarint(to, field << 3 | wire);
}

/// In the order of this machine's bytes, which is that of the format.
template <typename Number> void putFixed(std::string &to, Number number) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &number, sizeof(Number));
  to.append(bytes, sizeof(Number));
}

void putBytes(std::string &to, unsigned field, const std::string &bytes) {
  putKey(to, field, Bytes);
  putVarint(to, bytes.size());
  to += bytes;
}

/// Castagnoli's polynomial, as CRC32C has it, reflected.
uint32_t maskedCrc(const std::string &bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> table;
    for (uint32_t i = 0; i < table.size(); ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82F63B78 : 0);
    }
    return table;
  }();
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8; // as records are masked
}

/// Seconds of the system's clock.
double now() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// An event of now in its record. `what` is a field of the event.
std::string record(uint64_t step, unsigned field, const std::string &what) {
  std::string event;
  putKey(event, 1, Fixed64); // wall_time
  putFixed(event, now());
  putKey(event, 2, Varint); // step
  putVarint(event, step);
  putBytes(event, field, what);
  std::string length, record;
  putFixed<uint64_t>(length, event.size());
  record = length;
  putFixed(record, maskedCrc(length));
  record += event;
  putFixed(record, maskedCrc(event));
  return record;
}

constexpr unsigned fileVersion = 3, summary = 5, sessionLog = 7; // of an event

std::string newFileIn(const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(E::FileUnwritable,
                "cannot make the folder " + folder + ": " + error.message() +
                    "; give --tensorboard a folder that can be written");
  // Readers take files in the order of their names.
  return folder + "/events.out.tfevents." + formatText("%017.6f", now()) + "." +
         hostName() + "." + std::to_string(getpid());
}

} // namespace

EventFile::EventFile(const std::string &folder, uint64_t done, int ranks)
    : MetricsWriter(newFileIn(folder), O_CREAT | O_APPEND), ranks(ranks) {
  append(record(0, fileVersion, "brain.Event:2"));
  std::string started;
  putKey(started, 1, Varint); // status
  putVarint(started, 1);      // START: what is of this step or later is void
  append(record(done + 1, sessionLog, started));
}

void EventFile::write(const nlohmann::ordered_json &row) {
  std::string values;
  auto put = [&](const std::string &prefix, const std::string &suffix,
                 const nlohmann::ordered_json &fields) {
    for (const auto &[field, value] : fields.items()) {
      if (field == "step" || field == "epoch" || !value.is_number())
        continue;
      std::string known = prefix + field;
      Tag tag = tagOf(known);
      std::string one;
      putBytes(one, 1, tag.name + suffix);
      putKey(one, 2, Fixed32); // simple_value
      putFixed(one, static_cast<float>(value.get<double>() * tag.factor /
                                       (tag.ofOneRank ? ranks : 1)));
      putBytes(values, 1, one);
    }
  };
  put("", "", row);
  if (auto units = row.find("units"); units != row.end())
    for (const auto &[unit, fields] : units->items())
      put("unit_", "/" + unit, fields);
  append(record(row["step"], summary, values));
}

} // namespace fsdp
