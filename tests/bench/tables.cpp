// SPDX-License-Identifier: Apache-2.0
//
// Measures an embedding table alone: lookups of known ids and a plain gather of as many rows,
// inserts, memory, and how even steps are while an empty table grows. One thread, in CPU time of
// that thread.
//
// usage: tables ROWS      (10000000 in measurements; prints a line of JSON)
#include <tenon/model.h>

#include "host/embedding/table.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <random>
#include <sys/mman.h>
#include <vector>

namespace tenon {
namespace {

constexpr size_t kBatch = 53'248;  // ids: 26 columns of 2048 samples
constexpr size_t kStep = 4096;     // new ids of a step of the growing table, and as many old ones

double now_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class Body>
double seconds(Body&& body) {
  const double begin = now_s();
  body();
  return now_s() - begin;
}

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

// Ids as a hash function makes them.
int64_t id_of(uint64_t number) {
  return static_cast<int64_t>(number * 0x9E3779B97F4A7C15 ^ number >> 7);
}

TableSpec spec_of(uint32_t dim) {
  TableSpec spec;
  spec.name = "bench";
  spec.dim = dim;
  spec.init = {.kind = TENON_INIT_UNIFORM, .a = -0.01, .b = 0.01};
  spec.seed = 1;
  return spec;
}

// Memory that the system has already mapped. A virtual machine may take milliseconds to map a page
// for the first time, which is not a cost of the table. Parts are freed just before a table needs
// them.
class TouchedMemory {
 public:
  explicit TouchedMemory(int64_t bytes) {
    for (int64_t i = 0; i < bytes / kPiece + 16; ++i) {
      // Separate blocks, so that each can be freed alone.
      void* raw =
          mmap(nullptr, 2 * kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (raw == MAP_FAILED) {
        break;
      }
      const auto skip = (kPiece - reinterpret_cast<uintptr_t>(raw) % kPiece) % kPiece;
      madvise(raw, 2 * kPiece, MADV_HUGEPAGE);
      std::memset(static_cast<char*>(raw) + skip, 1, kPiece);
      pieces_.push_back(raw);
    }
  }
  ~TouchedMemory() { provide(INT64_MAX - 64 * kPiece); }

  // Call this before an object that has `bytes` in total may allocate more.
  void provide(int64_t bytes) {
    while (!pieces_.empty() && given_ * kPiece < bytes + 32 * kPiece) {
      munmap(pieces_.back(), 2 * kPiece);
      pieces_.pop_back();
      ++given_;
    }
  }

 private:
  static constexpr int64_t kPiece = int64_t{2} << 20;
  std::vector<void*> pieces_;
  int64_t given_ = 0;
};

int64_t expected_bytes(uint32_t dim, int64_t num_rows) {
  return num_rows * (int64_t{dim} * 4 + 8 + 24);
}

std::unique_ptr<Table> filled(uint32_t dim, int64_t num_rows, double* insert_s) {
  auto table = std::make_unique<Table>(spec_of(dim));
  std::vector<int64_t> ids(kBatch);
  std::vector<int64_t> rows(kBatch);
  const std::vector<int64_t> counts(kBatch, 1);
  TouchedMemory memory(expected_bytes(dim, num_rows));
  *insert_s = 0;
  for (int64_t begin = 0; begin < num_rows; begin += kBatch) {
    const auto n = static_cast<size_t>(std::min<int64_t>(kBatch, num_rows - begin));
    for (size_t i = 0; i < n; ++i) {
      ids[i] = id_of(static_cast<uint64_t>(begin) + i);
    }
    memory.provide(table->num_bytes());
    *insert_s += seconds([&] {
      table->find_or_insert({ids.data(), n}, {counts.data(), n}, {rows.data(), n});
    });
  }
  return table;
}

struct Lookups {
  double insert_ns;
  double find_ns;
  double lookup_ns;        // find and read
  double gather_ns;        // the faster of the next two
  double table_gather_ns;  // rows of the table, in place
  double plain_gather_ns;  // rows of a tensor, by the operator
  double index_bytes;      // per row, in addition to the row itself
};

Lookups measure_lookups(uint32_t dim, int64_t num_rows) {
  double insert_s = 0;
  const auto table = filled(dim, num_rows, &insert_s);
  const auto width = static_cast<int64_t>(dim);
  at::Tensor plain = at::empty({num_rows, width});
  plain.fill_(0.01);
  at::Tensor out = at::zeros({int64_t{kBatch}, width});
  at::Tensor index = at::empty({int64_t{kBatch}}, at::kLong);
  std::vector<int64_t> ids(kBatch);
  std::vector<int64_t> rows(kBatch);
  std::mt19937_64 random(1);
  std::vector<double> find;
  std::vector<double> lookup;
  std::vector<double> table_gather;
  std::vector<double> plain_gather;
  for (int round = 0; round < 42; ++round) {
    // New random rows for each measurement, so that caches do not hold them.
    const auto draw = [&] {
      for (size_t i = 0; i < kBatch; ++i) {
        const uint64_t number = random() % static_cast<uint64_t>(num_rows);
        ids[i] = id_of(number);
        index.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(number);
      }
    };
    const auto note = [&](std::vector<double>& times, double s) {
      if (round >= 2) {
        times.push_back(1e9 * s / kBatch);
      }
    };
    float* values = out.mutable_data_ptr<float>();
    draw();
    note(find, seconds([&] { table->find(ids, rows); }));
    draw();
    note(lookup, seconds([&] {
           table->find(ids, rows);
           table->read(rows, values, width);
         }));
    // Rows were inserted in the order of their numbers.
    draw();
    std::copy_n(index.const_data_ptr<int64_t>(), kBatch, rows.begin());
    note(table_gather, seconds([&] { table->read(rows, values, width); }));
    draw();
    note(plain_gather, seconds([&] { at::index_select_out(out, plain, 0, index); }));
  }
  Lookups result{};
  result.insert_ns = 1e9 * insert_s / static_cast<double>(num_rows);
  result.find_ns = quantile(find, 0.5);
  result.lookup_ns = quantile(lookup, 0.5);
  result.table_gather_ns = quantile(table_gather, 0.5);
  result.plain_gather_ns = quantile(plain_gather, 0.5);
  result.gather_ns = std::min(result.table_gather_ns, result.plain_gather_ns);
  const auto fields = static_cast<double>(table->row_bytes());
  result.index_bytes =
      static_cast<double>(table->num_bytes()) / static_cast<double>(num_rows) - fields;
  return result;
}

// Seconds of each step while a table grows: new and known ids, a read, a record of the update.
std::vector<double> measure_growth(int64_t num_rows) {
  Table table(spec_of(16));
  std::mt19937_64 random(2);
  std::vector<int64_t> ids(2 * kStep);
  std::vector<int64_t> rows(ids.size());
  const std::vector<int64_t> counts(ids.size(), 1);
  std::vector<float> values(ids.size() * 16);
  std::vector<double> steps;
  TouchedMemory memory(expected_bytes(16, num_rows));
  uint64_t made = 0;
  for (int64_t step = 0; static_cast<int64_t>(made) < num_rows; ++step) {
    for (size_t i = 0; i < kStep; ++i) {
      ids[i] = id_of(made + i);
      ids[kStep + i] = id_of(random() % (made + kStep));
    }
    made += kStep;
    memory.provide(table.num_bytes());
    steps.push_back(seconds([&] {
      table.find_or_insert(ids, counts, rows);
      table.read(rows, values.data(), 16);
      table.note_update(rows, counts, step);
      table.end_step(step);
    }));
  }
  return steps;
}

void measure(int64_t num_rows) {
  const Lookups narrow = measure_lookups(16, num_rows);
  const Lookups wide = measure_lookups(64, num_rows);
  const std::vector<double> steps = measure_growth(num_rows);
  const auto print = [](const char* name, const Lookups& of) {
    std::printf(
        "\"%s\": {\"insert_ns\": %.1f, \"find_ns\": %.1f, \"lookup_ns\": %.1f, "
        "\"table_gather_ns\": %.1f, \"plain_gather_ns\": %.1f, \"lookup_ratio\": %.3f, "
        "\"bytes_beside\": %.2f}, ",
        name,
        of.insert_ns,
        of.find_ns,
        of.lookup_ns,
        of.table_gather_ns,
        of.plain_gather_ns,
        of.lookup_ns / of.gather_ns,
        of.index_bytes);
  };
  std::printf("{");
  print("dim16", narrow);
  print("dim64", wide);
  std::printf(
      "\"growth\": {\"median_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, "
      "\"p999_ratio\": %.3f}}\n",
      1e6 * quantile(steps, 0.5),
      1e6 * quantile(steps, 0.999),
      1e6 * quantile(steps, 1.0),
      quantile(steps, 0.999) / quantile(steps, 0.5));
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: tables ROWS\n", stderr);
    return 2;
  }
  try {
    at::set_num_threads(1);
    const at::NoGradGuard no_grad;
    tenon::measure(std::strtoll(argv[1], nullptr, 10));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
