// SPDX-License-Identifier: Apache-2.0
//
// Reads Parquet with Arrow alone: the baseline for the dataset `columnar`. It also writes the file
// that both programs read.
//
// usage: arrow_scan write FILE ROWS            rows like those of a log: 26 ids, 13 numbers, a list
//        arrow_scan read FILE THREADS ROUNDS   prints a line of JSON: rows/s of the fastest round
//                                              and CPU seconds per round, all threads
#include <algorithm>
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/thread_pool.h>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <random>
#include <string>
#include <vector>

namespace {

void check(const arrow::Status& status) {
  if (!status.ok()) {
    std::cerr << status.ToString() << "\n";
    std::exit(1);
  }
}

template <class T>
T check(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

// A number below `size`, small ones more often, as a 64-bit id.
int64_t power_law_id(std::mt19937_64& random, double size) {
  const double uniform = std::uniform_real_distribution<double>(1e-9, 1)(random);
  const auto rank = static_cast<uint64_t>(size * std::pow(uniform, 3.0));
  return static_cast<int64_t>((rank + 1) * 0x9e3779b97f4a7c15ULL);
}

void write(const std::string& path, int64_t rows) {
  std::mt19937_64 random(1);
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (int c = 0; c < 26; ++c) {
    arrow::Int64Builder ids;
    for (int64_t i = 0; i < rows; ++i) {
      check(ids.Append(power_law_id(random, 1e6)));
    }
    fields.push_back(arrow::field("c" + std::to_string(c), arrow::int64(), /*nullable=*/false));
    columns.push_back(check(ids.Finish()));
  }
  for (int c = 0; c < 13; ++c) {
    arrow::FloatBuilder numbers;
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < rows; ++i) {
      check(numbers.Append(normal(random)));
    }
    fields.push_back(arrow::field("i" + std::to_string(c), arrow::float32(), /*nullable=*/false));
    columns.push_back(check(numbers.Finish()));
  }
  auto entries = std::make_shared<arrow::Int64Builder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), entries);
  for (int64_t i = 0; i < rows; ++i) {
    check(lists.Append());
    for (uint64_t n = random() % 11; n > 0; --n) {
      check(entries->Append(power_law_id(random, 1e5)));
    }
  }
  fields.push_back(arrow::field("clicks", lists.type()));
  columns.push_back(check(lists.Finish()));
  const auto table = arrow::Table::Make(arrow::schema(fields), columns);
  const auto properties =
      parquet::WriterProperties::Builder().compression(parquet::Compression::SNAPPY)->build();
  check(parquet::arrow::WriteTable(*table,
                                   arrow::default_memory_pool(),
                                   check(arrow::io::FileOutputStream::Open(path)),
                                   /*chunk_size=*/100'000,
                                   properties));
}

void read(const std::string& path, int threads, int rounds) {
  check(arrow::SetCpuThreadPoolCapacity(threads));
  double best = 0;
  int64_t rows = 0;
  const std::clock_t busy = std::clock();
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(check(arrow::io::ReadableFile::Open(path))));
    parquet::ArrowReaderProperties properties(/*use_threads=*/threads > 1);
    properties.set_pre_buffer(true);
    builder.properties(properties);
    const std::unique_ptr<parquet::arrow::FileReader> reader = check(builder.Build());
    const auto batches = check(reader->GetRecordBatchReader());
    rows = 0;
    std::shared_ptr<arrow::RecordBatch> batch;
    for (check(batches->ReadNext(&batch)); batch != nullptr; check(batches->ReadNext(&batch))) {
      rows += batch->num_rows();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(rows) / took.count());
  }
  std::printf("{\"rows\": %lld, \"rows_s\": %.0f, \"cpu_s\": %.3f}\n",
              static_cast<long long>(rows),
              best,
              static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC / rounds);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (words.size() == 4 && words[1] == "write") {
    write(words[2], std::atoll(argv[3]));
  } else if (words.size() == 5 && words[1] == "read") {
    read(words[2], std::atoi(argv[3]), std::atoi(argv[4]));
  } else {
    std::cerr << "usage: arrow_scan write FILE ROWS | read FILE THREADS ROUNDS\n";
    return 2;
  }
  return 0;
}
