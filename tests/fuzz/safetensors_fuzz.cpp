// SPDX-License-Identifier: Apache-2.0
//
// Safetensors files that are nearly right are read or refused. A case is a whole file.
#include "host/checkpoint/safetensors.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"

namespace tenon {
namespace {

constexpr std::size_t kLengthBytes = 8;

struct WrittenHeader {
  std::string header;
  std::uint64_t file_bytes = 0;
};

WrittenHeader written(std::vector<SafeTensor> tensors,
                      const std::map<std::string, std::string>& metadata) {
  WrittenHeader result;
  result.header = safetensors_header(tensors, metadata);
  result.file_bytes = tensors.empty() ? result.header.size() : tensors.back().end;
  return result;
}

// As the host writes files: with and without metadata, empty tensors, scalars, several dtypes.
std::vector<WrittenHeader> corpus_headers() {
  const SafeTensor weight{.name = "model.weight", .dtype = at::kFloat, .shape = {2, 3}};
  const SafeTensor bias{.name = "model.bias", .dtype = at::kBFloat16, .shape = {3}};
  const SafeTensor step{.name = "step", .dtype = at::kLong, .shape = {}};
  const SafeTensor none{.name = "none", .dtype = at::kDouble, .shape = {0, 7}};
  const SafeTensor bytes{.name = "run/last_figures", .dtype = at::kByte, .shape = {5}};
  return {written({}, {}),
          written({weight}, {{"format", "pt"}}),
          written({weight, bias, bytes}, {}),
          written({step, none, weight, bias}, {{"format", "pt"}, {"a", ""}})};
}

std::string file_of(std::string json_part, std::uint64_t file_bytes, Mutator& mutator) {
  std::uint64_t length = json_part.size();
  std::string file(kLengthBytes, '\0');
  if (mutator.one_in(40)) {
    static const std::vector<std::uint64_t> kLengths = {
        0, 1, 100'000'001, std::uint64_t{1} << 32, UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 8};
    length = mutator.pick(kLengths);
  }
  std::memcpy(file.data(), &length, kLengthBytes);
  file += json_part;
  file.resize(file.size() + file_bytes, 'x');
  return file;
}

std::string make_safetensors(Mutator& mutator) {
  static const std::vector<WrittenHeader> corpus = corpus_headers();
  static const JsonCases cases = [] {
    std::vector<std::string> texts;
    for (const WrittenHeader& one : corpus) {
      texts.push_back(one.header.substr(kLengthBytes));
    }
    return JsonCases(std::move(texts));
  }();
  const WrittenHeader& like = mutator.pick(corpus);
  std::string text = mutator.one_in(16) ? like.header.substr(kLengthBytes) : cases.make(mutator);
  std::uint64_t data = like.file_bytes - like.header.size();
  if (!mutator.one_in(4)) {  // as many bytes as the header claims, so that it may be accepted
    const auto value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    data = 0;
    for (const auto& tensor : value.is_object() ? value : nlohmann::json::object()) {
      if (tensor.is_object() && tensor.contains("data_offsets") &&
          tensor["data_offsets"].is_array()) {
        for (const auto& offset : tensor["data_offsets"]) {
          const bool is_small = offset.is_number_unsigned() && offset <= kMaxMutatedSize;
          data = std::max(data, is_small ? offset.get<std::uint64_t>() : 0);
        }
      }
    }
  }
  std::string file = file_of(std::move(text), data, mutator);
  return mutator.one_in(10) ? mutator.mutated(std::move(file), {"{", "\""}, {file}) : file;
}

SafetensorsContent read_whole(const std::string& file) {
  const auto read = [&](std::uint64_t offset, std::span<std::byte> out) {
    if (offset > file.size() || out.size() > file.size() - offset) {
      throw FuzzFinding("the reader reads behind the end of the file");
    }
    std::memcpy(out.data(), file.data() + offset, out.size());
  };
  return read_safetensors_header(file.size(), read, "x.safetensors");
}

using Described = std::map<std::string, std::pair<at::ScalarType, std::vector<std::int64_t>>>;

Described described(const std::vector<SafeTensor>& tensors) {
  Described result;
  for (const SafeTensor& tensor : tensors) {
    if (!result.try_emplace(tensor.name, tensor.dtype, tensor.shape).second) {
      throw FuzzFinding("a name is accepted twice");
    }
  }
  return result;
}

void check_content(const SafetensorsContent& content, std::uint64_t size) {
  std::uint64_t at = content.tensors.empty() ? size : content.tensors.front().begin;
  for (const SafeTensor& tensor : content.tensors) {
    if (tensor.begin != at || tensor.end < tensor.begin) {
      throw FuzzFinding("accepted tensors overlap or have a gap");
    }
    at = tensor.end;
  }
  if (at != size) {
    throw FuzzFinding("accepted tensors do not end with the file");
  }
  std::vector<SafeTensor> tensors = content.tensors;
  std::string file = safetensors_header(tensors, content.metadata);
  file.resize(tensors.empty() ? file.size() : tensors.back().end, 'x');
  const SafetensorsContent again = read_whole(file);
  if (described(again.tensors) != described(content.tensors) ||
      again.metadata != content.metadata) {
    throw FuzzFinding("an accepted header differs when it is written and read again");
  }
}

std::string judge_safetensors(const std::string& file) {
  return outcome_of([&] { check_content(read_whole(file), file.size()); });
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(argc,
                         argv,
                         {.name = "safetensors_fuzz",
                          .make = tenon::make_safetensors,
                          .judge = tenon::judge_safetensors});
}
