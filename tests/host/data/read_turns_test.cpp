// SPDX-License-Identifier: Apache-2.0
//
// Ranks, as threads, that divide the positions of the same samples: loaders that take turns give
// what loaders give that read all.
#include "host/data/read_turns.hpp"

#include "host/data/loader.hpp"
#include "host/data/mix_source.hpp"
#include "host/data/packed_source.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// ---- ranks ----

// Where the ranks put messages down.
struct Mail {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<int64_t, int64_t>, std::deque<at::Tensor>> messages;  // by sender, receiver
};

class ThreadParts final : public PartExchange {
 public:
  ThreadParts(Mail& mail, int64_t rank) : mail_(mail), rank_(rank) {}

  void send(std::span<const at::Tensor> messages) override {
    ++num_sent;
    const std::lock_guard lock(mail_.mutex);
    for (size_t to = 0; to < messages.size(); ++to) {
      if (static_cast<int64_t>(to) != rank_) {
        mail_.messages[{rank_, to}].push_back(messages[to].clone());
      }
    }
    mail_.arrived.notify_all();
  }
  at::Tensor receive(int64_t from) override {
    std::unique_lock lock(mail_.mutex);
    auto& queue = mail_.messages[{from, rank_}];
    mail_.arrived.wait(lock, [&] { return !queue.empty(); });
    at::Tensor message = queue.front();
    queue.pop_front();
    return message;
  }
  Error error_of(const std::exception& failure) const override {
    const auto* const error = dynamic_cast<const Error*>(&failure);
    return error != nullptr ? *error : Error("run.internal", failure.what());
  }

  int num_sent = 0;

 private:
  Mail& mail_;
  const int64_t rank_;
};

// Calls `body` on a thread for each rank. Fails if a message is left.
void on_ranks(int64_t size, const std::function<void(int64_t rank, ThreadParts& parts)>& body) {
  Mail mail;
  {
    std::vector<std::jthread> threads;
    for (int64_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        ThreadParts parts(mail, rank);
        body(rank, parts);
      });
    }
  }
  for (const auto& [pair, queue] : mail.messages) {
    CHECK(queue.empty());
  }
}

// ---- sources ----

// Sample i has lengths[i] tokens 1000 i, 1000 i + 1, ..., after `base`; a flag and two values for
// each token; and, unless `is_packable`, a weight and a note for the host.
class Tokens final : public FakeSource {
 public:
  Tokens(std::vector<int64_t> lengths,
         bool is_packable,
         int64_t base = 0,
         DatasetStyle style = DatasetStyle::kMap)
      : FakeSource(style), lengths_(std::move(lengths)), has_more_(!is_packable), base_(base) {
    const std::vector<Axis> axes = {{.name = "B"}, {.name = "T"}};
    std::vector<FieldInfo> fields = {
        {.name = "ids", .dtype = TENON_I64, .axes = axes, .pad = 7},
        {.name = "flag", .dtype = TENON_BOOL, .axes = axes},
        {.name = "x",
         .dtype = TENON_BF16,
         .axes = {{.name = "B"}, {.name = "T"}, {.name = "", .size = 2}},
         .pad = 0.5}};
    if (has_more_) {
      fields.push_back({.name = "weight", .dtype = TENON_F64, .axes = {{.name = "B"}}});
      fields.push_back({.name = "note",
                        .dtype = TENON_U8,
                        .flags = TENON_FIELD_HOST_ONLY,
                        .axes = {{.name = "B"}, {.name = "", .size = 3}}});
    }
    info_.schema = std::make_shared<const std::vector<FieldInfo>>(std::move(fields));
    info_.has_lengths = true;
  }

  int64_t size(const Window*) override { return static_cast<int64_t>(lengths_.size()); }
  void lengths(const Window*, std::span<const int64_t> indices, std::span<int32_t> out) override {
    for (size_t i = 0; i < indices.size(); ++i) {
      out[i] = static_cast<int32_t>(lengths_.at(static_cast<size_t>(indices[i])));
    }
  }
  LengthSummary length_summary(const Window*) override {
    return {.longest = *std::ranges::max_element(lengths_), .source = name_, .fingerprint = 1};
  }
  void read(const Window*, std::span<const int64_t> indices, tenon_batch_writer& writer) override {
    const Call call(*this, true);
    num_samples += static_cast<int64_t>(indices.size());
    for (const int64_t index : indices) {
      if (index == broken) {
        throw Error("plugin.failed", "sample " + std::to_string(index) + " cannot be read");
      }
      if (index == odd) {
        throw std::runtime_error("an odd sample");
      }
    }
    write(indices, writer);
  }
  bool next(const Window*, uint32_t, int64_t most, tenon_batch_writer& writer) override {
    const Call call(*this, true);
    std::vector<int64_t> indices(static_cast<size_t>(std::min(most, size(nullptr) - position_)));
    std::iota(indices.begin(), indices.end(), position_);
    position_ += static_cast<int64_t>(indices.size());
    num_samples += static_cast<int64_t>(indices.size());
    write(indices, writer);
    throw_if_failed(writer.set_position(&writer, &position_, sizeof(position_)));
    return position_ == size(nullptr);
  }
  void seek(const Window*, uint32_t, const std::optional<std::string>& position) override {
    position_ = 0;
    if (position) {
      std::memcpy(&position_, position->data(), sizeof(position_));
    }
  }

  std::atomic<int64_t> num_samples = 0;  // read
  int64_t broken = -1;                   // a sample that cannot be read
  int64_t odd = -1;                      // a sample whose read throws no Error

 private:
  void write(std::span<const int64_t> indices, tenon_batch_writer& writer) {
    const auto n = static_cast<int64_t>(indices.size());
    std::vector<int64_t> lengths;
    for (const int64_t index : indices) {
      lengths.push_back(lengths_.at(static_cast<size_t>(index)));
    }
    const int64_t width = *std::ranges::max_element(lengths);
    at::Tensor ids = at::full({n, width}, 7, at::kLong);
    for (int64_t b = 0; b < n; ++b) {
      const int64_t first = base_ + 1000 * indices[static_cast<size_t>(b)];
      const int64_t length = lengths[static_cast<size_t>(b)];
      ids[b].narrow(0, 0, length).copy_(at::arange(first, first + length, at::kLong));
    }
    std::vector<at::Tensor> fields = {
        ids, ids.remainder(2).eq(0), at::stack({ids / 3, ids / 7}, 2).to(at::kBFloat16)};
    if (has_more_) {
      fields.push_back(ids.select(1, 0).to(at::kDouble) / 11);
      fields.push_back(ids.slice(1, 0, 1).expand({n, 3}).to(at::kByte));
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      throw_if_failed(
          writer.add_tensor(&writer, static_cast<uint32_t>(i), borrow(fields[i].contiguous())));
    }
    throw_if_failed(
        writer.set_counts(&writer, n, std::accumulate(lengths.begin(), lengths.end(), int64_t{0})));
    throw_if_failed(writer.set_lengths(&writer, lengths.data(), lengths.size()));
  }

  const std::vector<int64_t> lengths_;
  const bool has_more_;
  const int64_t base_;
  int64_t position_ = 0;
};

std::vector<int64_t> lengths_up_to(int64_t most, int64_t size) {
  std::vector<int64_t> lengths(static_cast<size_t>(size));
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = 1 + static_cast<int64_t>((i * i * 31 + i * 17) % static_cast<size_t>(most));
  }
  return lengths;
}

enum class SourceKind { kRagged, kPacked, kMix };

// A source of a kind, for one rank.
struct SourceOfKind {
  SourceOfKind(SourceKind kind, int64_t longest)
      : first(lengths_up_to(longest, 23), kind != SourceKind::kRagged),
        second(lengths_up_to(longest, 9), true, 500'000) {
    source = &first;
    if (kind == SourceKind::kMix) {
      mix.emplace(std::vector<MixPart>{{"a", 2, &first}, {"b", 1, &second}},
                  MixOptions{.when = WhenOneEnds::kContinue, .shuffle = true});
      source = &*mix;
    }
    if (kind == SourceKind::kPacked) {
      packed.emplace(first, PackOptions{.length = longest, .group = 7});
      source = &*packed;
    }
  }
  int64_t num_samples() const { return first.num_samples + second.num_samples; }

  Tokens first;
  Tokens second;
  std::optional<MixSource> mix;
  std::optional<PackedSource> packed;
  DataSource* source;
};

// ---- devices ----

// Copies to new CPU memory.
class CountingGpu final : public Gpu {
 public:
  at::Device device() const override { return at::kCPU; }
  std::string describe() const override { return "copies"; }
  void* stream() const override { return nullptr; }
  std::unique_ptr<Upload> upload(std::vector<at::Tensor> tensors) override {
    class Copy final : public Upload {
     public:
      explicit Copy(std::vector<at::Tensor> copies) : copies_(std::move(copies)) {}
      std::vector<at::Tensor> finish() override { return copies_; }

     private:
      std::vector<at::Tensor> copies_;
    };
    copies.clear();
    for (const at::Tensor& tensor : tensors) {
      copies.push_back(tensor.clone());
    }
    return std::make_unique<Copy>(copies);
  }
  void synchronize() override {}
  MemoryPins memory_pins() const override { return {}; }
  GpuMemory memory() const override { return {}; }
  std::optional<RefusedMemory> refused() const override { return std::nullopt; }

  std::vector<at::Tensor> copies;  // of the last upload
};

// ---- equality ----

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() &&
         (!a.defined() ||
          (a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.is_contiguous() &&
           (a.nbytes() == 0 ||
            std::memcmp(a.const_data_ptr(), b.contiguous().const_data_ptr(), a.nbytes()) == 0)));
}

bool is_same(const std::optional<BatchPositions>& a, const std::optional<BatchPositions>& b) {
  return a.has_value() == b.has_value() &&
         (!a || (a->range == b->range && a->whole == b->whole && a->sequences == b->sequences &&
                 is_same(a->position_ids, b->position_ids)));
}

bool is_same(const Batch& a, const Batch& b) {
  bool is_equal = *a.schema == *b.schema && a.fields.size() == b.fields.size() &&
                  a.samples == b.samples && a.tokens == b.tokens && is_same(a.lengths, b.lengths) &&
                  a.sequences == b.sequences && a.row_parts == b.row_parts &&
                  a.packed_samples == b.packed_samples && is_same(a.positions, b.positions);
  for (size_t i = 0; i < a.fields.size() && is_equal; ++i) {
    is_equal = is_same(a.fields[i], b.fields[i]);
  }
  return is_equal;
}

LoaderOptions alone(int64_t rank, int64_t size) {
  return {.batch_size = 3, .shuffle = true, .seed = 5, .positions = {.rank = rank, .size = size}};
}

// Compares a loader that takes turns with one that reads all. Returns what differs; "" if nothing
// does. `read` is the source of the first.
std::string problem_of(const SourceOfKind& read,
                       Loader& loader,
                       Loader& expected,
                       const DataRank& positions) {
  int64_t own_samples = 0;
  for (int64_t number = 0;; ++number) {
    if (loader.num_batches_left() != expected.num_batches_left()) {
      return "batches left";
    }
    const bool has_next = loader.has_next();
    const auto part = loader.next();
    const auto whole = expected.next();
    if (part.has_value() != whole.has_value() || has_next != whole.has_value()) {
      return "the end";
    }
    if (!part) {
      break;
    }
    if (!is_same(*part, *whole)) {
      return "batch " + std::to_string(number);
    }
    if (loader.position().cursor != expected.position().cursor ||
        loader.position().packs != expected.position().packs ||
        loader.pack_counts() != expected.pack_counts() ||
        (read.mix && loader.part_samples() != expected.part_samples())) {
      return "the position after batch " + std::to_string(number);
    }
    own_samples += number % positions.size == positions.rank ? part->dataset_samples() : 0;
  }
  return own_samples == read.num_samples() ? "" : "the number of samples read";
}

// The error that next() throws; "" if none.
std::string error_of_next(Loader& loader) {
  try {
    loader.next();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("ranks that take turns get the parts of ranks that read all, and read each batch once",
          "[data][multi-rank]") {
  const auto kind = GENERATE(SourceKind::kRagged, SourceKind::kPacked, SourceKind::kMix);
  const int64_t size = GENERATE(2, 3, 4);
  const int64_t longest = GENERATE(1, 3, 40);  // shorter than the ranks, and longer
  const int num_threads = GENERATE(0, 2);
  CAPTURE(static_cast<int>(kind), size, longest, num_threads);
  std::vector<std::string> problems(static_cast<size_t>(size));
  on_ranks(size, [&](int64_t rank, ThreadParts& parts) {
    SourceOfKind read(kind, longest);
    SourceOfKind all(kind, longest);
    LoaderOptions options = alone(rank, size);
    Loader expected(*all.source, std::nullopt, 2, options);
    options.parts = &parts;
    options.num_threads = num_threads;
    options.prefetch = 2;
    Loader loader(*read.source, std::nullopt, 2, options);
    problems[static_cast<size_t>(rank)] = problem_of(read, loader, expected, options.positions);
  });
  CHECK(problems == std::vector<std::string>(problems.size()));
}

TEST_CASE("turns begin with the first rank after a resume, and end with the last batch",
          "[data][multi-rank]") {
  const auto kind = GENERATE(SourceKind::kRagged, SourceKind::kPacked, SourceKind::kMix);
  const int num_threads = GENERATE(0, 2);
  const std::optional<int64_t> most = GENERATE(std::optional<int64_t>(), std::optional<int64_t>(2));
  for (int done = 0; done < 5; ++done) {
    CAPTURE(static_cast<int>(kind), num_threads, done);
    std::vector<std::string> problems(3);
    on_ranks(3, [&](int64_t rank, ThreadParts& parts) {
      SourceOfKind before(kind, 10);
      LoaderOptions options = alone(rank, 3);
      options.parts = &parts;
      options.num_threads = num_threads;
      options.prefetch = 3;
      LoaderPosition position;
      {
        Loader first(*before.source, std::nullopt, 1, options);
        for (int i = 0; i < done; ++i) {
          first.next();
        }
        first.has_next();  // exchanges a batch, and consumes nothing
        position = first.position();
      }
      SourceOfKind read(kind, 10);
      SourceOfKind all(kind, 10);
      options.max_batches = most;
      Loader loader(*read.source, std::nullopt, 1, options, position);
      options.parts = nullptr;
      Loader expected(*all.source, std::nullopt, 1, options, position);
      problems[static_cast<size_t>(rank)] = problem_of(read, loader, expected, options.positions);
    });
    CHECK(problems == std::vector<std::string>(3));
  }
}

TEST_CASE("ranks with other samples have other turns, and short batches stay complete",
          "[data][multi-rank]") {
  // Two groups of two ranks; the last global batch has one sample, and the second group none of it.
  for (const int64_t group : {0, 1}) {
    std::vector<std::string> problems(2);
    on_ranks(2, [&](int64_t rank, ThreadParts& parts) {
      SourceOfKind read(SourceKind::kRagged, 20);
      SourceOfKind wanted(SourceKind::kRagged, 20);
      LoaderOptions options = alone(rank, 2);
      options.batch_size = 1;
      options.rank = {.rank = group, .size = 2};
      Loader expected(*wanted.source, std::nullopt, 0, options);
      options.parts = &parts;
      Loader loader(*read.source, std::nullopt, 0, options);
      problems[static_cast<size_t>(rank)] = problem_of(read, loader, expected, options.positions);
    });
    CHECK(problems == std::vector<std::string>(2));
  }
}

TEST_CASE("a failing read is the same error on all ranks, at the same batch, again and again",
          "[data][multi-rank]") {
  const int64_t broken = GENERATE(0, 4, 8);  // of the first, the second and the third rank's turn
  const bool is_odd = GENERATE(false, true);
  const int num_threads = GENERATE(0, 2);
  CAPTURE(broken, is_odd, num_threads);
  const std::string wanted =
      is_odd ? "[run.internal] an odd sample"
             : "[plugin.failed] sample " + std::to_string(broken) + " cannot be read";
  std::vector<std::string> problems(3);
  on_ranks(3, [&](int64_t rank, ThreadParts& parts) {
    Tokens source(lengths_up_to(9, 20), false);
    (is_odd ? source.odd : source.broken) = broken;
    LoaderOptions options = alone(rank, 3);
    options.shuffle = false;
    options.parts = &parts;
    options.num_threads = num_threads;
    Loader loader(source, std::nullopt, 0, options);
    std::string& problem = problems[static_cast<size_t>(rank)];
    for (int64_t i = 0; i < broken / 3; ++i) {
      problem += error_of_next(loader);
    }
    const int64_t cursor = loader.position().cursor;
    for (int again = 0; again < 2; ++again) {
      problem += loader.has_next() ? "" : "no next";
      const std::string error = error_of_next(loader);
      problem += error == wanted ? "" : "other error: " + error;
    }
    problem += loader.position().cursor == cursor ? "" : "moved";
  });
  CHECK(problems == std::vector<std::string>(3));
}

TEST_CASE("batches that cannot be divided are an error on all ranks", "[data][multi-rank]") {
  std::vector<std::string> errors(2);
  on_ranks(2, [&](int64_t rank, ThreadParts& parts) {
    FakeMap source(5);
    LoaderOptions options = alone(rank, 2);
    options.parts = &parts;
    Loader loader(source, std::nullopt, 0, options);
    errors[static_cast<size_t>(rank)] = error_of_next(loader);
  });
  CHECK(errors[0].starts_with("[data.no_positions] "));
  CHECK(errors[1] == errors[0]);
}

TEST_CASE("each rank reads all of a stream, and sends nothing", "[data][multi-rank]") {
  std::vector<std::string> problems(3);
  on_ranks(3, [&](int64_t rank, ThreadParts& parts) {
    const std::vector<int64_t> lengths = lengths_up_to(9, 11);
    Tokens source(lengths, false, 0, DatasetStyle::kStream);
    Tokens mapped(lengths, false);
    LoaderOptions options = alone(rank, 3);
    options.shuffle = false;
    Loader expected(mapped, std::nullopt, 0, options);
    options.parts = &parts;
    Loader loader(source, std::nullopt, 0, options);
    std::string& problem = problems[static_cast<size_t>(rank)];
    while (const auto part = loader.next()) {
      problem += is_same(*part, *expected.next()) ? "" : "other part";
    }
    problem += !expected.has_next() && source.num_samples == 11 && parts.num_sent == 0 ? "" : "end";
  });
  CHECK(problems == std::vector<std::string>(3));
}

TEST_CASE("parts are copied to the GPU after the exchange", "[data][multi-rank]") {
  std::vector<std::string> problems(2);
  on_ranks(2, [&](int64_t rank, ThreadParts& parts) {
    SourceOfKind read(SourceKind::kRagged, 20);
    SourceOfKind all(SourceKind::kRagged, 20);
    LoaderOptions options = alone(rank, 2);
    Loader expected(*all.source, std::nullopt, 0, options);
    CountingGpu gpu;
    options.parts = &parts;
    options.gpu = &gpu;
    Loader loader(*read.source, std::nullopt, 0, options);
    std::string& problem = problems[static_cast<size_t>(rank)];
    while (loader.has_next()) {
      const std::vector<at::Tensor> copied = gpu.copies;
      const Batch part = *loader.next();
      problem += is_same(part, *expected.next()) ? "" : "other part";
      // Three fields with tokens, the weight, the lengths and the position ids; not the note.
      const std::vector<at::Tensor> wanted = {part.fields[0],
                                              part.fields[1],
                                              part.fields[2],
                                              part.fields[3],
                                              part.lengths,
                                              part.positions->position_ids};
      problem +=
          std::ranges::equal(
              copied, wanted, [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); })
              ? ""
              : "other copies";
    }
    problem += expected.has_next() ? "too few" : "";
  });
  CHECK(problems == std::vector<std::string>(2));
}

TEST_CASE("turns are those of the plan, whoever asks first", "[data]") {
  class Numbers final : public ReadPlan {
   public:
    std::optional<ReadRequest> next() override {
      return num_ < 8 ? std::optional(ReadRequest{.first = num_++}) : std::nullopt;
    }
    void end_lane(uint32_t) override {}
    ReadResult read(const ReadRequest& request) override { return {.num_dropped = request.first}; }

   private:
    int64_t num_ = 0;
  };
  for (const int ahead : {0, 1, 2, 9}) {
    ReadTurns turns(std::make_unique<Numbers>(), {.rank = 1, .size = 3});
    std::vector<int64_t> own;
    const auto ask = [&] {
      if (const auto request = turns.next()) {
        own.push_back(request->first);
      }
    };
    for (int i = 0; i < ahead; ++i) {
      ask();
    }
    for (int64_t number = 0; number < 8; ++number) {
      const auto turn = turns.take();
      REQUIRE(turn.has_value());
      CHECK(turn->number == number);
      CHECK(turn->request.first == number);
      CHECK(turn->rank == number % 3);
    }
    CHECK_FALSE(turns.take().has_value());
    for (int i = 0; i < 3; ++i) {
      ask();
    }
    CHECK(own == std::vector<int64_t>{1, 4, 7});
    CHECK(turns.read({.first = 7}).num_dropped == 7);
  }
}

}  // namespace tenon
