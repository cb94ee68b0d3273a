// SPDX-License-Identifier: Apache-2.0
//
// Event files are read here by the formats' descriptions, with code that shares nothing with the
// plugin's; tests/parity/tensorboard_read.py reads them with TensorBoard's own.
#include "host/plugin/metric_sink_proxy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

tenon::MetricSinkProxy make_sink(const std::string& options = "{}") {
  return tenon::MetricSinkProxy(tenon::make_component("metric_sink", "tensorboard", options));
}

constexpr double kTime = 1763719200.25;

void write(const tenon::MetricSinkProxy& sink,
           uint64_t step,
           const std::vector<std::pair<const char*, double>>& metrics) {
  std::vector<const char*> names;
  std::vector<double> values;
  for (const auto& [name, value] : metrics) {
    names.push_back(name);
    values.push_back(value);
  }
  tenon_metric_record record{};
  record.struct_size = sizeof record;
  record.step = step;
  record.unix_seconds = kTime;
  record.names = names.data();
  record.values = values.data();
  record.count = names.size();
  sink.write(record);
}

// CRC-32C as a division of polynomials, bit by bit.
uint32_t crc32c(std::string_view bytes) {
  uint32_t rest = 0xffffffffu;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool in = ((static_cast<uint8_t>(c) >> bit) & 1) != 0;
      const bool out = (rest & 1) != 0;
      rest >>= 1;
      if (in != out) {
        rest ^= 0x82f63b78u;
      }
    }
  }
  return rest ^ 0xffffffffu;
}

template <class T>
T fixed(std::string_view bytes, size_t at) {
  REQUIRE(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool is_masked_crc(uint32_t masked, std::string_view bytes) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return ((rotated >> 17) | (rotated << 15)) == crc32c(bytes);
}

// The messages of a TFRecord file, their checksums checked.
std::vector<std::string> messages_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const std::string_view view = all;
  std::vector<std::string> messages;
  for (size_t at = 0; at < view.size();) {
    const auto size = fixed<uint64_t>(view, at);
    CHECK(is_masked_crc(fixed<uint32_t>(view, at + 8), view.substr(at, 8)));
    REQUIRE(at + 16 + size <= view.size());
    const std::string_view message = view.substr(at + 12, size);
    CHECK(is_masked_crc(fixed<uint32_t>(view, at + 12 + size), message));
    messages.emplace_back(message);
    at += 16 + size;
  }
  return messages;
}

// One field of a protobuf message: the payload of a fixed or a length-delimited one, or a varint.
struct Field {
  uint64_t number = 0;
  uint64_t varint = 0;
  std::string_view bytes;
};

std::vector<Field> fields_of(std::string_view message) {
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(at < message.size());
      const auto byte = static_cast<uint8_t>(message[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
  };
  std::vector<Field> fields;
  while (at < message.size()) {
    const uint64_t key = varint();
    Field field;
    field.number = key >> 3;
    const uint64_t wire = key & 7;
    if (wire == 0) {
      field.varint = varint();
    } else {
      REQUIRE((wire == 1 || wire == 2 || wire == 5));
      const uint64_t size = wire == 1 ? 8 : wire == 5 ? 4 : varint();
      REQUIRE(at + size <= message.size());
      field.bytes = message.substr(at, size);
      at += size;
    }
    fields.push_back(field);
  }
  return fields;
}

struct Event {
  double wall_time = 0;
  uint64_t step = 0;
  std::string file_version;
  uint64_t session_status = 0;
  std::vector<std::pair<std::string, float>> scalars;
};

Event event_of(std::string_view message) {
  Event event;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1) {
      event.wall_time = fixed<double>(field.bytes, 0);
    } else if (field.number == 2) {
      event.step = field.varint;
    } else if (field.number == 3) {
      event.file_version = field.bytes;
    } else if (field.number == 7) {
      const std::vector<Field> parts = fields_of(field.bytes);
      REQUIRE(parts.size() == 1);
      CHECK(parts[0].number == 1);
      event.session_status = parts[0].varint;
    } else {
      REQUIRE(field.number == 5);
      for (const Field& value : fields_of(field.bytes)) {
        REQUIRE(value.number == 1);
        const std::vector<Field> parts = fields_of(value.bytes);
        REQUIRE(parts.size() == 2);
        CHECK(parts[0].number == 1);
        CHECK(parts[1].number == 2);
        event.scalars.emplace_back(parts[0].bytes, fixed<float>(parts[1].bytes, 0));
      }
    }
  }
  return event;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  return files;
}

std::vector<Event> events_in(const std::filesystem::path& folder) {
  const auto files = files_in(folder);
  REQUIRE(files.size() == 1);
  CHECK(files[0].filename().string().rfind("events.out.tfevents.", 0) == 0);
  std::vector<Event> events;
  for (const std::string& message : messages_of(files[0])) {
    events.push_back(event_of(message));
  }
  return events;
}

}  // namespace

TEST_CASE("the checksum of the tests is CRC-32C", "[plugins]") {
  // RFC 3720, appendix B.4: 32 bytes of zeros, of ones, and 0 to 31.
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) {
    rising += c;
  }
  CHECK(crc32c(rising) == 0x46dd794eu);
}

TEST_CASE("tensorboard writes an event a record, with wall time, step and scalars", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto sink = make_sink();
  sink.open(folder.path().string());
  write(sink, 10, {{"loss", 4.125}, {"lr", 0.001}, {"eval/loss", 2000}});
  write(sink, 3000000000, {{"loss", -0.5}});
  const std::vector<Event> events = events_in(folder.path());
  REQUIRE(events.size() == 3);
  CHECK(events[0].file_version == "brain.Event:2");
  CHECK(events[0].wall_time > 1.6e9);
  CHECK(events[1].wall_time == kTime);
  CHECK(events[1].step == 10);
  CHECK(events[1].scalars == std::vector<std::pair<std::string, float>>{
                                 {"loss", 4.125f}, {"lr", 0.001f}, {"eval/loss", 2000.0f}});
  CHECK(events[2].step == 3000000000);
  CHECK(events[2].scalars == std::vector<std::pair<std::string, float>>{{"loss", -0.5f}});
}

TEST_CASE("tensorboard keeps NaN and infinities", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto sink = make_sink();
  sink.open(folder.path().string());
  const double infinity = std::numeric_limits<double>::infinity();
  write(sink, 1, {{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}, {"d", 1e300}});
  const auto scalars = events_in(folder.path()).at(1).scalars;
  REQUIRE(scalars.size() == 4);
  CHECK(std::isnan(scalars[0].second));
  CHECK(scalars[1].second == std::numeric_limits<float>::infinity());
  CHECK(scalars[2].second == -std::numeric_limits<float>::infinity());
  CHECK(scalars[3].second == std::numeric_limits<float>::infinity());
}

TEST_CASE("tensorboard makes its folder, and a file of its own each time", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string options = R"({"folder": "logs/scalars"})";
  for (int run = 0; run < 3; ++run) {
    const auto sink = make_sink(options);
    sink.open(folder.path().string());
    write(sink, 1, {{"run", run}});
  }
  const auto files = files_in(folder.path() / "logs" / "scalars");
  CHECK(files.size() == 3);
  for (const auto& file : files) {
    CHECK(messages_of(file).size() == 2);
  }
}

TEST_CASE("tensorboard is told to forget what a run that goes on writes again", "[plugins]") {
  for (const uint64_t records_of_step : {0, 1}) {
    const tenon::ScratchFolder folder;
    const auto sink = make_sink();
    sink.open(folder.path().string());
    sink.resume(10, records_of_step);
    write(sink, 11, {{"loss", 1}});
    const std::vector<Event> events = events_in(folder.path());
    REQUIRE(events.size() == 3);
    CHECK(events[1].session_status == 1);  // the start of a session
    CHECK(events[1].step == (records_of_step == 0 ? 10 : 11));
    CHECK(events[1].wall_time >= events[0].wall_time);
    CHECK(events[2].step == 11);
  }
}

TEST_CASE("tensorboard reads its files in the order in which they were made", "[plugins]") {
  const tenon::ScratchFolder folder;
  // As if the clock had been set back since.
  folder.write("events.out.tfevents.4102444800.host.1.0", "");
  make_sink().open(folder.path().string());
  make_sink().open(folder.path().string());
  auto files = files_in(folder.path());
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() == 3);
  const auto name = [&](size_t i) { return files[i].filename().string(); };
  CHECK(name(0) == "events.out.tfevents.4102444800.host.1.0");
  CHECK(name(1).rfind("events.out.tfevents.4102444801.", 0) == 0);
  CHECK(name(2).rfind("events.out.tfevents.4102444802.", 0) == 0);
}

TEST_CASE("tensorboard says which folder or file it cannot use", "[plugins]") {
  const tenon::ScratchFolder folder;
  folder.write("taken", "a file");
  CHECK_THAT(tenon::error_of(
                 [&] { make_sink(R"({"folder": "taken/logs"})").open(folder.path().string()); }),
             tenon::contains_text("cannot create the folder " + folder.path().string()));
  CHECK_FALSE(tenon::options_problem("metric_sink", "tensorboard", R"({"folder": ""})").empty());
}
