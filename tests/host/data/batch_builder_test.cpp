// SPDX-License-Identifier: Apache-2.0

#include "host/data/batch_builder.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// "x" [B, T] f32, "y" [B, T, 3] i64, "z" [] f64.
class Source final : public FakeSource {
 public:
  explicit Source(DatasetStyle style) : FakeSource(style) {
    FieldInfo x;
    x.name = "x";
    x.dtype = TENON_F32;
    x.axes = {{"B"}, {"T"}};
    FieldInfo y;
    y.name = "y";
    y.dtype = TENON_I64;
    y.axes = {{"B"}, {"T"}, {"", 3}};
    FieldInfo z;
    z.name = "z";
    z.dtype = TENON_F64;
    info_.schema = std::make_shared<const std::vector<FieldInfo>>(std::vector{x, y, z});
  }
};

// The calls of one read, each giving the message of its status, "" for success.
class Read {
 public:
  explicit Read(int64_t samples, DatasetStyle style = DatasetStyle::kMap)
      : source_(style), builder_(source_, samples) {}

  std::string add(uint32_t field, std::vector<int64_t> shape) {
    return text(
        writer().add(&writer(), field, static_cast<uint32_t>(shape.size()), shape.data(), &data));
  }
  std::string add_tensor(uint32_t field, const at::Tensor& tensor) {
    return text(writer().add_tensor(&writer(), field, borrow(tensor)));
  }
  std::string set_counts(int64_t samples, int64_t tokens) {
    return text(writer().set_counts(&writer(), samples, tokens));
  }
  std::string set_position(const void* position, size_t size) {
    return text(writer().set_position(&writer(), position, size));
  }
  std::string set_lengths(const std::vector<int64_t>& lengths) {
    return text(writer().set_lengths(&writer(), lengths.data(), lengths.size()));
  }
  // The message of finish()'s error, "" for success.
  std::string finish() {
    try {
      batch = builder_.finish();
      return "";
    } catch (const Error& error) {
      CHECK(error.id() == "data.bad_batch");
      CHECK_THAT(error.message(), contains_text("dataset \"fake\": "));
      return error.message();
    }
  }

  static std::string text(tenon_status* status) {
    const StatusText text = take(status);
    if (!text.ok()) {
      CHECK(text.code == TENON_INVALID);
      CHECK(text.id == "data.bad_batch");
    }
    return text.message;
  }

  tenon_batch_writer& writer() { return builder_.writer(); }
  BatchBuilder& builder() { return builder_; }

  void* data = nullptr;
  Batch batch;

 private:
  Source source_;
  BatchBuilder builder_;
};

TEST_CASE("a batch holds what a read has written", "[data]") {
  Read read(2);
  REQUIRE(read.add(0, {2, 4}) == "");
  REQUIRE(read.data != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(read.data) % 64 == 0);
  for (int i = 0; i < 8; ++i) {
    static_cast<float*>(read.data)[i] = static_cast<float>(i);
  }
  const at::Tensor y = at::ones({2, 4, 3}, at::kLong);
  REQUIRE(read.add_tensor(1, y) == "");
  REQUIRE(read.add(2, {}) == "");
  *static_cast<double*>(read.data) = 0.5;
  REQUIRE(read.set_counts(2, 7) == "");
  REQUIRE(read.finish() == "");

  CHECK(read.batch.samples == 2);
  CHECK(read.batch.tokens == 7);
  CHECK(at::equal(*read.batch.find("x"), at::arange(8, at::kFloat).view({2, 4})));
  CHECK(read.batch.find("y")->data_ptr() == y.data_ptr());
  CHECK(read.batch.find("z")->item<double>() == 0.5);
}

TEST_CASE("a tensor that is not contiguous is copied, and its graph is left behind", "[data]") {
  Read read(2);
  at::Tensor x = at::arange(8, at::kFloat).view({4, 2}).t();
  x.set_requires_grad(true);
  REQUIRE(read.add_tensor(0, x) == "");
  REQUIRE(read.add(1, {2, 4, 3}) == "");
  REQUIRE(read.add(2, {}) == "");
  REQUIRE(read.set_counts(2, 0) == "");
  REQUIRE(read.finish() == "");
  CHECK(read.batch.find("x")->is_contiguous());
  CHECK_FALSE(read.batch.find("x")->requires_grad());
  CHECK(at::equal(*read.batch.find("x"), x.detach()));
}

TEST_CASE("a shape that contradicts the schema is refused at once and at the end", "[data]") {
  const auto refused = [](uint32_t field, std::vector<int64_t> shape) {
    Read read(2);
    CHECK(read.add(0, {2, 4}) == "");
    const std::string message = read.add(field, std::move(shape));
    CHECK(message != "");
    // The dataset goes on all the same.
    CHECK(read.set_counts(2, 0) == "");
    CHECK_THAT(read.finish(), contains_text(message));
    return message;
  };
  CHECK(refused(1, {2, 4}) == "field \"y\" has shape [2, 4], expected [B, T, 3]");
  CHECK(refused(1, {2, 4, 2}) == "field \"y\" has shape [2, 4, 2], expected [B, T, 3]");
  CHECK(refused(1, {2, -4, 3}) == "field \"y\" has shape [2, -4, 3], expected [B, T, 3]");
  CHECK(refused(1, {3, 4, 3}) ==
        "field \"y\" has shape [3, 4, 3], expected [B, T, 3] where B is 2, the number of samples");
  CHECK(refused(1, {2, 5, 3}) ==
        "field \"y\" has shape [2, 5, 3], expected [B, T, 3] where T is 4, as in field \"x\"");
  CHECK(refused(2, {1}) == "field \"z\" has shape [1], expected []");
  CHECK(refused(0, {2, 4}) == "field \"x\" is written twice");
  CHECK_THAT(refused(3, {2}), contains_text("no field has the number 3: the schema has 3 fields"));
  CHECK_THAT(refused(UINT32_MAX, {2}), contains_text("no field has the number 4294967295"));
}

TEST_CASE("a shape that no memory can hold is refused", "[data]") {
  Read read(2);
  CHECK_THAT(read.add(0, {2, std::numeric_limits<int64_t>::max()}),
             contains_text("exceeds any memory"));
}

TEST_CASE("a tensor of another dtype or device is refused", "[data]") {
  Read read(2);
  CHECK(read.add_tensor(0, at::ones({2, 4}, at::kDouble)) == "field \"x\" is f64, expected f32");
  CHECK_THAT(read.add_tensor(0, at::empty({2, 4}, at::TensorOptions(at::kMeta).dtype(at::kFloat))),
             contains_text("field \"x\" is on meta, expected the CPU"));
  CHECK_THAT(read.add_tensor(0, at::ones({2, 4}, at::kComplexFloat)),
             contains_text("expected f32"));
}

TEST_CASE("null arguments are errors and not crashes", "[data]") {
  Read read(2);
  tenon_batch_writer& writer = read.writer();
  const int64_t shape[] = {2, 4};
  void* data = nullptr;
  CHECK(Read::text(writer.add(nullptr, 0, 2, shape, &data)) == "the batch writer is null");
  CHECK(Read::text(writer.add(&writer, 0, 2, nullptr, &data)) ==
        "the shape of field \"x\" is null");
  CHECK(Read::text(writer.add(&writer, 0, 2, shape, nullptr)) == "out_data is null");
  CHECK_THAT(Read::text(writer.add_tensor(&writer, 1, nullptr)), contains_text("is null"));
  CHECK(Read::text(writer.set_counts(nullptr, 1, 1)) == "the batch writer is null");
  CHECK(data == nullptr);
}

TEST_CASE("a field that is left out is named", "[data]") {
  Read read(1);
  CHECK(read.add(0, {1, 4}) == "");
  CHECK(read.add(2, {}) == "");
  CHECK(read.set_counts(1, 0) == "");
  CHECK_THAT(read.finish(), contains_text("field \"y\" is not written, expected each field once"));
}

TEST_CASE("counts are set once and are those that were asked for", "[data]") {
  CHECK(Read(3).set_counts(2, 0) == "the batch has 2 samples, expected 3");
  CHECK(Read(3).set_counts(4, 0) == "the batch has 4 samples, expected 3");
  CHECK_THAT(Read(3).set_counts(-1, 0), contains_text("expected non-negative numbers"));
  CHECK_THAT(Read(3).set_counts(3, -1), contains_text("expected non-negative numbers"));
  CHECK(Read(3, DatasetStyle::kStream).set_counts(2, 0) == "");
  CHECK(Read(3, DatasetStyle::kStream).set_counts(4, 0) ==
        "the batch has 4 samples, expected at most 3");
  Read twice(3);
  CHECK(twice.set_counts(3, 0) == "");
  CHECK(twice.set_counts(3, 0) == "the counts are set twice");

  Read never(1);
  CHECK(never.add(0, {1, 1}) == "");
  CHECK_THAT(never.finish(), contains_text("one call of set_counts"));
}

TEST_CASE("a stream's samples are held against axis B", "[data]") {
  Read read(8, DatasetStyle::kStream);
  CHECK(read.add(0, {5, 4}) == "");
  CHECK(read.add(1, {5, 4, 3}) == "");
  CHECK(read.add(2, {}) == "");
  CHECK(read.set_counts(6, 0) == "");
  CHECK_THAT(read.finish(),
             contains_text("axis B of field \"x\" is 5, expected 6, the number of samples"));
}

TEST_CASE("a stream may write nothing", "[data]") {
  Read without_grad(8, DatasetStyle::kStream);
  CHECK(without_grad.finish() == "");
  CHECK(without_grad.batch.samples == 0);

  Read counted(8, DatasetStyle::kStream);
  CHECK(counted.set_counts(0, 0) == "");
  CHECK(counted.finish() == "");
  CHECK(counted.batch.samples == 0);
  CHECK(counted.batch.find("x") == nullptr);
  CHECK(counted.batch.fields.size() == 3);
}

TEST_CASE("a position is kept for streams and refused in map style", "[data]") {
  Read read(8, DatasetStyle::kStream);
  CHECK_FALSE(read.builder().position().has_value());
  CHECK(read.set_position("a\0b", 3) == "");
  CHECK(read.builder().position() == std::string("a\0b", 3));
  CHECK(read.set_position("c", 1) == "the position is set twice");

  Read empty(8, DatasetStyle::kStream);
  CHECK(empty.set_position("", 0) == "");
  CHECK(empty.builder().position() == "");
  CHECK(Read(8, DatasetStyle::kStream).set_position(nullptr, 0) == "the position is null");

  const std::string large(kMaxStateBytes + 1, 'x');
  CHECK(Read(8, DatasetStyle::kStream).set_position(large.data(), large.size() - 1) == "");
  CHECK_THAT(Read(8, DatasetStyle::kStream).set_position(large.data(), large.size()),
             contains_text("1048577 bytes, expected at most 1048576"));
  CHECK_THAT(Read(8).set_position("a", 1), contains_text("only stream-style datasets support"));
}

}  // namespace
// ---- lengths ----

// A read of three samples with four positions, complete except counts and lengths.
class ReadOfThree : public Read {
 public:
  explicit ReadOfThree(DatasetStyle style = DatasetStyle::kMap) : Read(3, style) {
    CHECK(add(0, {3, 4}).empty());
    CHECK(add(1, {3, 4, 3}).empty());
    CHECK(add(2, {}).empty());
  }
};

TEST_CASE("a batch keeps the lengths of its samples", "[data]") {
  ReadOfThree read;
  CHECK(read.set_counts(3, 6).empty());
  CHECK(read.set_lengths({4, 0, 2}).empty());
  CHECK(read.finish().empty());
  CHECK(at::equal(*read.batch.find("lengths"), at::tensor({4, 0, 2}, at::kLong)));
}

TEST_CASE("without lengths all entries are valid, if they are the tokens", "[data]") {
  for (const int64_t tokens : {0, 12}) {
    ReadOfThree read;
    CHECK(read.set_counts(3, tokens).empty());
    CHECK(read.finish().empty());
    CHECK(at::equal(*read.batch.find("lengths"), at::full({3}, 4, at::kLong)));
  }
  ReadOfThree padded;
  CHECK(padded.set_counts(3, 7).empty());
  CHECK(padded.finish().empty());
  CHECK(padded.batch.find("lengths") == nullptr);
}

TEST_CASE("lengths that contradict the batch are refused", "[data]") {
  const auto error_of = [](const std::vector<int64_t>& lengths, int64_t tokens) {
    ReadOfThree read;
    const std::string first = read.set_lengths(lengths);
    read.set_counts(3, tokens);
    const std::string second = read.finish();
    CHECK((first.empty() || second == "dataset \"fake\": " + first));
    return second;
  };
  CHECK_THAT(error_of({4, 5, 1}, 10),
             contains_text("the length of sample 1 of the batch is 5, expected 0 to 4, the size of "
                           "axis T"));
  CHECK_THAT(error_of({4, -1, 1}, 4), contains_text("the length of sample 1 of the batch is -1"));
  CHECK_THAT(error_of({4, 4}, 8), contains_text("2 lengths are set, expected 3, one per sample"));
  CHECK_THAT(error_of({4, 2, 1}, 8),
             contains_text("the lengths add up to 7 tokens, but set_counts reported 8"));
  ReadOfThree twice;
  CHECK(twice.set_lengths({4, 4, 4}).empty());
  CHECK_THAT(twice.set_lengths({4, 4, 4}), contains_text("the lengths are set twice"));
  Read early(3);  // before the size of T is known
  CHECK(early.set_lengths({1, 9, 1}).empty());
  CHECK(early.add(0, {3, 4}).empty());
  CHECK(early.add(1, {3, 4, 3}).empty());
  CHECK(early.add(2, {}).empty());
  CHECK(early.set_counts(3, 11).empty());
  CHECK_THAT(early.finish(), contains_text("the length of sample 1 of the batch is 9"));
}

}  // namespace tenon
