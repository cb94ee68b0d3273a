// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/output_files.hpp"

#include "host/error/error.hpp"
#include "host/io/checksum.hpp"
#include "host/io/private_file.hpp"
#include "host/io/regular_file.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'T', 'N', 'O', 'U', 'T', 'P', '0', '1'};
constexpr size_t kKeyDigits = 32;

struct FileHeader {
  char magic[8];
  char key[kKeyDigits];
  uint64_t first_sample;
  uint64_t num_samples;
  uint64_t num_values;
  uint64_t value_bytes;
};

std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

uint64_t checksum_of(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.value();
}

uint64_t checksum_of(std::string_view text) {
  return checksum_of(text_bytes(text));
}

void append_bytes(std::string& out, const void* data, size_t size) {
  out.append(static_cast<const char*>(data), size);
}

std::string file_name(const std::string& folder, size_t file) {
  char name[48];
  std::snprintf(name, sizeof(name), "/values-%06zu.bin", file);
  return folder + name;
}

// An open file of a set, whose checksum matched.
struct OpenedValues {
  OpenFile file;
  std::string path;
  std::vector<uint64_t> ends;  // by sample, in values
  std::vector<uint64_t> sums;  // by sample: XXH3-64 of its values
  uint64_t offset = 0;         // of the values
};

// What the header of a file must say.
struct ExpectedFile {
  const std::string& key;
  int64_t first;
  int64_t last;
  size_t value_bytes;
};

// The checksum of each sample's values.
std::vector<uint64_t> sums_of(std::string_view values,
                              const std::vector<uint64_t>& ends,
                              size_t value_bytes) {
  std::vector<uint64_t> sums;
  uint64_t begin = 0;
  for (const uint64_t end : ends) {
    sums.push_back(checksum_of(values.substr(begin * value_bytes, (end - begin) * value_bytes)));
    begin = end;
  }
  return sums;
}

// Opens a file; nothing, with the reason, if it is missing or is not the expected one.
std::optional<OpenedValues> open_values(const std::string& path,
                                        const ExpectedFile& expected,
                                        std::string& why) {
  FileText read = read_file_text(path, std::numeric_limits<int64_t>::max());
  if (!read.problem.empty()) {
    why = read.problem;
    return std::nullopt;
  }
  std::string& text = read.text;
  FileHeader header{};
  uint64_t sum = 0;
  if (text.size() < sizeof(header) + sizeof(sum)) {
    why = "it is truncated";
    return std::nullopt;
  }
  std::memcpy(&sum, text.data() + text.size() - sizeof(sum), sizeof(sum));
  text.resize(text.size() - sizeof(sum));
  std::memcpy(&header, text.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    why = "it has no values of this release";
    return std::nullopt;
  }
  if (sum != checksum_of(text)) {
    why = "its checksum does not match, or it is truncated";
    return std::nullopt;
  }
  const auto num_samples = static_cast<uint64_t>(expected.last - expected.first);
  const size_t rest = text.size() - sizeof(header);
  if (std::string_view(header.key, kKeyDigits) != expected.key ||
      header.first_sample != static_cast<uint64_t>(expected.first) ||
      header.num_samples != num_samples || header.value_bytes != expected.value_bytes ||
      num_samples * sizeof(uint64_t) > rest ||
      header.num_values != (rest - num_samples * sizeof(uint64_t)) / expected.value_bytes ||
      (rest - num_samples * sizeof(uint64_t)) % expected.value_bytes != 0) {
    why = "it has values of other samples, or of another model";
    return std::nullopt;
  }
  OpenedValues opened;
  opened.path = path;
  opened.ends.resize(num_samples);
  std::memcpy(opened.ends.data(), text.data() + sizeof(header), num_samples * sizeof(uint64_t));
  opened.offset = sizeof(header) + num_samples * sizeof(uint64_t);
  if (!std::ranges::is_sorted(opened.ends) ||
      (num_samples > 0 ? opened.ends.back() : 0) != header.num_values) {
    why = "its samples do not end with its values";
    return std::nullopt;
  }
  opened.sums =
      sums_of(std::string_view(text).substr(opened.offset), opened.ends, expected.value_bytes);
  RegularFile file = open_regular_file(path);
  if (!file.problem.empty()) {
    why = file.problem;
    return std::nullopt;
  }
  opened.file = std::move(file.file);
  return opened;
}

// The values of a complete set. Files stay open, so that removing the folder does no harm.
class FileValues final : public SampleValues {
 public:
  FileValues(std::vector<OpenedValues> files, size_t value_bytes)
      : files_(std::move(files)), value_bytes_(value_bytes) {}

  int64_t read(int64_t sample, const at::Tensor& row) const override {
    const OpenedValues& opened = files_.at(static_cast<size_t>(sample / kSamplesOfFile));
    const auto i = static_cast<size_t>(sample % kSamplesOfFile);
    const uint64_t begin = i == 0 ? 0 : opened.ends.at(i - 1);
    const auto n = static_cast<size_t>(opened.ends.at(i) - begin);
    const size_t num_in_row = std::min(n, static_cast<size_t>(row.numel()));
    auto* const row_bytes = static_cast<std::byte*>(row.mutable_data_ptr());
    // The checksum also covers the values beyond the row.
    std::vector<std::byte> whole(num_in_row < n ? n * value_bytes_ : 0);
    const std::span<std::byte> values(num_in_row < n ? whole.data() : row_bytes, n * value_bytes_);
    size_t num_read = 0;
    const std::string problem =
        read_at(opened.file, opened.offset + begin * value_bytes_, values, num_read);
    const auto fail = [&](const std::string& why) {
      throw Error("outputs.corrupt",
                  opened.path + ": cannot read the values of sample " + formatted("{}", sample) +
                      ": " + why);
    };
    if (!problem.empty() || num_read != values.size()) {
      fail(problem.empty() ? "the file is truncated" : problem);
    }
    if (checksum_of(values) != opened.sums.at(i)) {
      fail("the file changed after the run opened it; do not change it while a run reads it");
    }
    if (num_in_row < n) {
      std::ranges::copy(values.first(num_in_row * value_bytes_), row_bytes);
    }
    return static_cast<int64_t>(n);
  }

 private:
  std::vector<OpenedValues> files_;
  size_t value_bytes_;
};

}  // namespace

OutputFiles::OutputFiles(std::string cache,
                         std::string key,
                         at::ScalarType dtype,
                         int64_t num_samples)
    : cache_(std::move(cache)), key_(std::move(key)), dtype_(dtype), num_samples_(num_samples) {}

bool OutputFiles::is_complete() const {
  std::error_code ignored;
  return fs::is_directory(folder(), ignored);
}

size_t OutputFiles::num_files() const {
  return static_cast<size_t>((num_samples_ + kSamplesOfFile - 1) / kSamplesOfFile);
}

std::pair<int64_t, int64_t> OutputFiles::samples_of(size_t file) const {
  const int64_t first = static_cast<int64_t>(file) * kSamplesOfFile;
  return {first, std::min(first + kSamplesOfFile, num_samples_)};
}

std::vector<size_t> OutputFiles::begin() const {
  const std::string building = folder() + ".incomplete";
  make_folders(building);
  std::vector<size_t> missing;
  for (size_t i = 0; i < num_files(); ++i) {
    std::string why;
    const auto [first, last] = samples_of(i);
    const ExpectedFile expected{key_, first, last, c10::elementSize(dtype_)};
    if (!open_values(file_name(building, i), expected, why)) {
      missing.push_back(i);
    }
  }
  return missing;
}

void OutputFiles::write(size_t file, std::span<const at::Tensor> rows) const {
  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::memcpy(header.key, key_.data(), kKeyDigits);
  header.first_sample = static_cast<uint64_t>(samples_of(file).first);
  header.num_samples = rows.size();
  header.value_bytes = c10::elementSize(dtype_);
  std::string ends;
  std::string values;
  for (const at::Tensor& row : rows) {
    const at::Tensor exact = row.to(dtype_).contiguous();
    append_bytes(values, exact.const_data_ptr(), exact.nbytes());
    header.num_values += static_cast<uint64_t>(exact.numel());
    append_bytes(ends, &header.num_values, sizeof(header.num_values));
  }
  std::string text;
  append_bytes(text, &header, sizeof(header));
  text += ends;
  text += values;
  const uint64_t sum = checksum_of(text);
  append_bytes(text, &sum, sizeof(sum));
  // Without locks in the file system, other processes may write the same file.
  replace_file(file_name(folder() + ".incomplete", file), text, formatted(".tmp{}", ::getpid()));
}

void OutputFiles::finish() const {
  try {
    rename_path(folder() + ".incomplete", folder());
  } catch (const Error&) {
    if (!is_complete()) {  // else another process has finished it
      throw;
    }
  }
  sync_folder(cache_);
}

std::shared_ptr<const SampleValues> OutputFiles::open() const {
  std::vector<OpenedValues> files;
  for (size_t i = 0; i < num_files(); ++i) {
    const std::string path = file_name(folder(), i);
    const auto [first, last] = samples_of(i);
    std::string why;
    auto opened = open_values(path, {key_, first, last, c10::elementSize(dtype_)}, why);
    if (!opened) {
      throw Error("outputs.corrupt",
                  path + " is invalid: " + why + "; remove the folder " + folder() +
                      " to compute the values again");
    }
    files.push_back(std::move(*opened));
  }
  return std::make_shared<FileValues>(std::move(files), c10::elementSize(dtype_));
}

OutputLock::OutputLock(const std::string& cache, const std::string& key)
    : file_((make_folders(cache), cache + "/" + key + ".lock")) {}

bool OutputLock::try_lock() {
  const FileLock::State state = file_.try_lock();
  if (!std::exchange(is_told_, true)) {
    if (state == FileLock::State::kBusy) {
      log_info("another process computes the outputs of the model; waiting for it (" +
               file_.path() + ")");
    } else if (state == FileLock::State::kUnsupported) {
      log_warning("this file system has no locks (" + file_.problem() +
                  "): other runs may compute the same outputs, too (" + file_.path() + ")");
    }
  }
  return state != FileLock::State::kBusy;
}

std::string output_cache_folder() {
  if (const char* const folder = std::getenv("TENON_CACHE")) {
    return std::string(folder) + "/outputs";
  }
  const std::string folder = user_cache_folder();
  if (folder.empty()) {
    throw Error("storage.io",
                "there is no folder for stored outputs: neither XDG_CACHE_HOME nor HOME is set; "
                "set TENON_CACHE to a folder");
  }
  return folder + "/outputs";
}

}  // namespace tenon
