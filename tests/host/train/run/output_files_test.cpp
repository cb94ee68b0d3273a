// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/output_files.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <filesystem>
#include <fstream>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

const std::string kOutputKey(32, 'a');

// Row i has 1 + i % 3 values, i + 0.25 and so on.
std::vector<at::Tensor> output_rows(int64_t first, int64_t last) {
  std::vector<at::Tensor> rows;
  for (int64_t i = first; i < last; ++i) {
    rows.push_back(at::arange(1 + i % 3, at::kDouble).add(static_cast<double>(i) + 0.25));
  }
  return rows;
}

void write_outputs(const OutputFiles& files) {
  for (const size_t file : files.begin()) {
    const auto [first, last] = files.samples_of(file);
    files.write(file, output_rows(first, last));
  }
  files.finish();
}

std::string problem_of(const OutputFiles& files) {
  try {
    files.open();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("stored outputs are read by sample, in either dtype", "[train]") {
  const ScratchFolder folder;
  const auto dtype = GENERATE(at::kFloat, at::kDouble);
  const OutputFiles files(folder.path().string(), kOutputKey, dtype, kSamplesOfFile + 5);
  CHECK(files.num_files() == 2);
  CHECK_FALSE(files.is_complete());
  write_outputs(files);
  CHECK(files.is_complete());
  const auto values = files.open();
  for (const int64_t sample : {int64_t{0}, int64_t{4}, kSamplesOfFile - 1, kSamplesOfFile + 4}) {
    CAPTURE(sample);
    const at::Tensor row = at::full({4}, -1.0, dtype);
    values->read(sample, row);
    const at::Tensor expected = output_rows(sample, sample + 1).front().to(dtype);
    CHECK(at::equal(row.narrow(0, 0, expected.numel()), expected));
    CHECK(row[3].item<double>() == -1.0);
    const at::Tensor narrow = at::zeros({1}, dtype);
    values->read(sample, narrow);
    CHECK(narrow.item<double>() == expected[0].item<double>());
  }
}

TEST_CASE("stored outputs that change while they are read are reported", "[train]") {
  const ScratchFolder folder;
  const OutputFiles files(folder.path().string(), kOutputKey, at::kFloat, 7);
  write_outputs(files);
  const std::string path = files.folder() + "/values-000000.bin";
  const auto values = files.open();
  const auto time = fs::last_write_time(path);
  const at::Tensor row = at::zeros({3}, at::kFloat);
  CHECK(values->read(5, row) == 3);
  {
    std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-12, std::ios::end);  // the last value, of sample 6
    bytes.put('\x7f');
  }
  fs::last_write_time(path, time);  // the size and the time are those of before
  CHECK(values->read(5, row) == 3);
  CHECK_THROWS_WITH(values->read(6, row),
                    contains_text("[outputs.corrupt] " + path) &&
                        contains_text("sample 6: the file changed after the run opened it"));
}

TEST_CASE("only missing and corrupt files of outputs are made again", "[train]") {
  const ScratchFolder folder;
  const OutputFiles files(folder.path().string(), kOutputKey, at::kFloat, 3 * kSamplesOfFile);
  CHECK(files.begin() == std::vector<size_t>{0, 1, 2});
  for (const size_t file : {0, 2}) {
    const auto [first, last] = files.samples_of(file);
    files.write(file, output_rows(first, last));
  }
  CHECK(files.begin() == std::vector<size_t>{1});
  fs::resize_file(files.folder() + ".incomplete/values-000002.bin", 200);
  CHECK(files.begin() == std::vector<size_t>{1, 2});
}

TEST_CASE("every change of a file of outputs is reported", "[train]") {
  const ScratchFolder folder;
  const OutputFiles files(folder.path().string(), kOutputKey, at::kFloat, 7);
  write_outputs(files);
  const std::string path = files.folder() + "/values-000000.bin";
  const auto size = static_cast<std::streamoff>(fs::file_size(path));
  for (std::streamoff at = 0; at < size; ++at) {
    CAPTURE(at);
    std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(at);
    const int byte = bytes.get();
    bytes.seekp(at);
    bytes.put(static_cast<char>(byte ^ 4));
    bytes.close();
    CHECK_THAT(problem_of(files), contains_text("[outputs.corrupt] " + path + " is invalid: "));
    std::fstream again(path, std::ios::in | std::ios::out | std::ios::binary);
    again.seekp(at);
    again.put(static_cast<char>(byte));
  }
  CHECK(problem_of(files).empty());
  for (const std::streamoff n : {size - 1, size / 2, std::streamoff{9}, std::streamoff{0}}) {
    fs::resize_file(path, static_cast<uintmax_t>(n));
    CHECK_THAT(problem_of(files), contains_text("truncated"));
  }
}

TEST_CASE("files of outputs of other samples or another key are reported", "[train]") {
  const ScratchFolder folder;
  const OutputFiles files(folder.path().string(), kOutputKey, at::kFloat, 7);
  write_outputs(files);
  const std::string other(32, 'b');
  const auto copied = [&](const OutputFiles& to) {
    fs::remove_all(to.folder());
    fs::copy(files.folder(), to.folder());
    return problem_of(to);
  };
  const std::string run_folder = folder.path().string();
  CHECK_THAT(copied({run_folder, other, at::kFloat, 7}),
             contains_text("it has values of other samples, or of another model"));
  fs::rename(files.folder(), run_folder + "/kept");
  fs::copy(run_folder + "/kept", files.folder());
  CHECK_THAT(problem_of({run_folder, kOutputKey, at::kFloat, 8}),
             contains_text("of other samples"));
  CHECK_THAT(problem_of({run_folder, kOutputKey, at::kDouble, 7}),
             contains_text("of other samples"));
}

TEST_CASE("one process computes outputs, and others try again without waiting", "[train]") {
  const ScratchFolder scratch;
  const std::string cache = (scratch.path() / "outputs").string();
  OutputLock second(cache, "key");
  {
    OutputLock first(cache, "key");
    CHECK(first.try_lock());
    CHECK_FALSE(second.try_lock());
    CHECK_FALSE(second.try_lock());
  }
  CHECK(second.try_lock());
}

}  // namespace tenon
