// SPDX-License-Identifier: Apache-2.0
#include "host/data/stored_source.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// Samples of a row of three positions, which are their own numbers.
class RowSource final : public FakeSource {
 public:
  explicit RowSource(DatasetStyle style = DatasetStyle::kMap) : FakeSource(style) {
    info_.schema = std::make_shared<const std::vector<FieldInfo>>(std::vector<FieldInfo>{
        {.name = "row", .dtype = TENON_I64, .flags = 0, .axes = {{"B", -1}, {"T", -1}}, .pad = 0}});
  }
  void read(const Window*, std::span<const int64_t> indices, tenon_batch_writer& writer) override {
    const auto n = static_cast<int64_t>(indices.size());
    const int64_t shape[2] = {n, 3};
    void* data = nullptr;
    REQUIRE(writer.add(&writer, 0, 2, shape, &data) == nullptr);
    for (int64_t i = 0; i < 3 * n; ++i) {
      static_cast<int64_t*>(data)[i] = indices[static_cast<size_t>(i / 3)];
    }
    REQUIRE(writer.set_counts(&writer, n, 3 * n) == nullptr);
  }
};

// Two values for each sample: 10 times its number, and one more.
class TenFold final : public SampleValues {
 public:
  int64_t read(int64_t sample, const at::Tensor& row) const override {
    row[0].fill_(10.0 * static_cast<double>(sample));
    row[1].fill_(10.0 * static_cast<double>(sample) + 1);
    return 2;
  }
};

std::string problem_with(DataSource& source) {
  try {
    StoredSource stored(source, {"m/x"}, at::kFloat);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a stored field has the values of its sample, and zeros after them", "[data]") {
  RowSource rows;
  StoredSource stored(rows, {"m/x", "m/y"}, at::kDouble);
  REQUIRE(stored.info().schema->size() == 3);
  CHECK((*stored.info().schema)[2].name == "m/y");
  stored.set_values("m/x", std::make_shared<TenFold>());
  const std::vector<int64_t> indices = {7, 2};
  BatchBuilder builder(stored, 2);
  stored.read(nullptr, indices, builder.writer());
  const Batch batch = builder.finish();
  CHECK(batch.tokens == 6);
  CHECK(at::equal(*batch.find("m/x"), at::tensor({70.0, 71.0, 0.0, 20.0, 21.0, 0.0}).view({2, 3})));
  CHECK(batch.find("m/y")->eq(0).all().item<bool>());
  CHECK((*batch.find("row"))[0][0].item<int64_t>() == 7);
}

TEST_CASE("sources whose samples have no numbers or positions cannot have stored fields",
          "[data]") {
  RowSource stream(DatasetStyle::kStream);
  CHECK_THAT(problem_with(stream), contains_text("[data.cannot_store]"));
  CHECK_THAT(problem_with(stream), contains_text("it is a stream"));
  RowSource windows;
  windows.set_windows({make_window(1, "a", 3)});
  CHECK_THAT(problem_with(windows), contains_text("it has windows"));
  FakeSource plain(DatasetStyle::kMap);
  CHECK_THAT(problem_with(plain), contains_text("has no field with the axes B and T"));
}

}  // namespace tenon
