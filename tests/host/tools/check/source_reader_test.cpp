// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/source_reader.hpp"

#include "host/tools/check/subject.hpp"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// A stream that breaks its contract: after its first batch, reads give neither samples nor an end.
class StuckStream final : public FakeSource {
 public:
  StuckStream() : FakeSource(DatasetStyle::kStream) {}

  bool next(const Window*, uint32_t, int64_t, tenon_batch_writer& writer) override {
    if (++num_nexts_ == 1) {
      write_samples(writer, std::vector<int64_t>{7});
    }
    if (num_nexts_ > 10) {
      throw std::logic_error("the reader does not stop");
    }
    return false;
  }
  void seek(const Window*, uint32_t, const std::optional<std::string>&) override { num_nexts_ = 0; }

 private:
  int num_nexts_ = 0;
};

using Samples = std::vector<std::vector<int64_t>>;  // by batch

Samples first_samples(DataSource& source, std::size_t most) {
  const CheckRequest request{};
  const PluginInfo info{};
  Subject subject(request, info, nullptr);
  SourceReader reader(subject, "the source", source);
  Samples samples;
  for (const Batch& batch : reader.first_batches(2, most)) {
    samples.push_back(samples_of(batch));
  }
  return samples;
}

}  // namespace

TEST_CASE("the first batches of a source are read to its end", "[check]") {
  FakeMap map(3);
  CHECK(first_samples(map, 1) == Samples{{0, 1}});
  CHECK(first_samples(map, 4) == Samples{{0, 1}, {2}});
  FakeMap empty(0);
  CHECK(first_samples(empty, 4).empty());
  const auto end = GENERATE(FakeStream::End::kWithLast, FakeStream::End::kAfterLast);
  FakeStream stream({3}, end);
  CHECK(first_samples(stream, 4) == Samples{{0, 1}, {2}});
}

TEST_CASE("a stream without samples and without an end ends the first batches", "[check]") {
  StuckStream stream;
  CHECK(first_samples(stream, 4) == Samples{{7}});
}

}  // namespace tenon
