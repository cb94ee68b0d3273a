// SPDX-License-Identifier: Apache-2.0
//
// Writes the metrics of a run as a TensorBoard event file: a TFRecord file of `Event` messages in
// protobuf's wire format, one message per record. The messages are small and fixed, so no protobuf
// library is needed.
//
// Source: TensorFlow's tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto
// (fields), tensorflow/core/lib/io/record_writer.h (framing); TensorBoard's
// event_processing/event_accumulator.py (which data a session start discards); the checksum is
// CRC-32C of RFC 3720, appendix B.4, masked as record_writer.h masks it.
#include <tenon/cpp/metric_sink.hpp>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include "../../growing_file.hpp"

namespace {

// ---- TFRecord ----

constexpr std::array<uint32_t, 256> crc_table() {
  constexpr uint32_t kCastagnoli = 0x82f63b78;  // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    }
    table[byte] = crc;
  }
  return table;
}

uint32_t masked_crc(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

// A number as little-endian bytes.
template <class T>
void put_fixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out += static_cast<char>((value >> (8 * i)) & 0xff);
  }
}

// Length, its checksum, the message, its checksum.
std::string framed(const std::string& message) {
  std::string out;
  put_fixed<uint64_t>(out, message.size());
  put_fixed<uint32_t>(out, masked_crc(out));
  out += message;
  put_fixed<uint32_t>(out, masked_crc(message));
  return out;
}

// ---- protobuf ----

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>(value | 0x80);
  }
  out += static_cast<char>(value);
}

void put_key(std::string& out, uint32_t field, Wire wire) {
  put_varint(out, (field << 3) | wire);
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, kLength);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_double(std::string& out, uint32_t field, double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  put_key(out, field, kFixed64);
  put_fixed(out, bits);
}

void put_float(std::string& out, uint32_t field, float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  put_key(out, field, kFixed32);
  put_fixed(out, bits);
}

// ---- events ----

enum EventField : uint32_t {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSessionLog = 7
};
enum SessionLogField : uint32_t { kStatus = 1 };
enum SessionStatus : uint32_t { kStart = 1 };
enum SummaryField : uint32_t { kValue = 1 };
enum ValueField : uint32_t { kTag = 1, kSimpleValue = 2 };

// The first event of each file.
std::string version_event(double unix_seconds) {
  std::string event;
  put_double(event, kWallTime, unix_seconds);
  put_bytes(event, kFileVersion, "brain.Event:2");
  return event;
}

// Makes TensorBoard discard the data of this step and later ones: a session start at a step means
// that the run resumed before it.
std::string start_event(double unix_seconds, uint64_t step) {
  std::string session;
  put_key(session, kStatus, kVarint);
  put_varint(session, kStart);
  std::string event;
  put_double(event, kWallTime, unix_seconds);
  put_key(event, kStep, kVarint);
  put_varint(event, step);
  put_bytes(event, kSessionLog, session);
  return event;
}

std::string scalars_event(const tenon::MetricRecord& record) {
  std::string summary;
  for (size_t i = 0; i < record.size(); ++i) {
    std::string value;
    put_bytes(value, kTag, record.name(i));
    put_float(value, kSimpleValue, static_cast<float>(record.value(i)));
    put_bytes(summary, kValue, value);
  }
  std::string event;
  put_double(event, kWallTime, record.unix_seconds());
  put_key(event, kStep, kVarint);
  put_varint(event, record.step());
  put_bytes(event, kSummary, summary);
  return event;
}

double unix_seconds_now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_1970).count();
}

constexpr char kFileStart[] = "events.out.tfevents.";

// The latest time in the names of a folder's event files, Unix seconds; 0 if there are none.
long long latest_second(const std::filesystem::path& folder) {
  long long latest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.rfind(kFileStart, 0) == 0) {
      const long long second = std::atoll(name.c_str() + sizeof kFileStart - 1);
      latest = second > latest ? second : latest;
    }
  }
  return latest;
}

// TensorBoard recognizes event files by "tfevents" in the name and reads a folder's files in name
// order, so the time comes first.
std::string file_name(long long unix_seconds, int number) {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
    std::strcpy(host, "localhost");
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%010lld", unix_seconds);
  return tenon::concat(kFileStart, seconds, ".", host, ".", ::getpid(), ".", number);
}

struct TensorboardOptions {
  std::string folder = ".";
};

class Tensorboard : public tenon::MetricSink {
 public:
  static constexpr const char* kType = "tensorboard";
  static constexpr const char* kSummary = "writes metrics as scalars to a TensorBoard event file";
  using Options = TensorboardOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("folder", &Options::folder)
        .non_empty()
        .doc("folder of the event file, created if missing; relative to the run folder");
  }

  explicit Tensorboard(const Options& options) : folder_(options.folder) {}

  void open(const std::string& run_dir) override {
    const std::filesystem::path folder =
        (std::filesystem::path(run_dir) / folder_).lexically_normal();
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      TENON_FAIL(TENON_IO,
                 "tensorboard.io",
                 "cannot create the folder ",
                 folder.string(),
                 ": ",
                 error.message());
    }
    const double now = unix_seconds_now();
    // Sorts after the run's existing files, even if the clock was set back or in the same second.
    const long long second = std::max(static_cast<long long>(now), latest_second(folder) + 1);
    int number = 0;
    while (
        !file_.open((folder / file_name(second, number)).string(), GrowingFile::IfThere::kRefuse)) {
      ++number;
    }
    file_.add(framed(version_event(now)));
  }

  void write(const tenon::MetricRecord& record) override {
    file_.add(framed(scalars_event(record)));
  }

  // Event files are append-only, so a session start tells TensorBoard which steps to discard. It
  // cannot discard part of a step's records; repeated points overwrite equal ones.
  void resume(uint64_t step, uint64_t records_of_step) override {
    const bool keeps_some = records_of_step > 0;
    file_.add(framed(start_event(unix_seconds_now(), keeps_some ? step + 1 : step)));
  }

  // Records reach the file system as they are written.
  void flush() override {}

 private:
  std::string folder_;
  GrowingFile file_{"tensorboard"};
};

}  // namespace

TENON_PLUGIN(Tensorboard)
