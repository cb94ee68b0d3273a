// SPDX-License-Identifier: Apache-2.0
#include "safetensors_file.hpp"

#include <tenon/cpp/guard.hpp>

#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include <array>
#include <exception>
#include <fstream>
#include <utility>

namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the format

[[noreturn]] void corrupt(const std::string& path, const std::string& what) {
  TENON_FAIL(TENON_DATA_LOSS,
             "aot.bad_weights",
             path,
             ": ",
             what,
             "; copy the file again, or export the module again");
}

const char* dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return "F64";
    case at::kFloat:
      return "F32";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    case at::kLong:
      return "I64";
    case at::kInt:
      return "I32";
    case at::kShort:
      return "I16";
    case at::kChar:
      return "I8";
    case at::kByte:
      return "U8";
    default:
      return "BOOL";
  }
}

// Whether elements of this shape take exactly `size` bytes.
bool holds(const std::vector<int64_t>& shape, uint64_t element_size, uint64_t size) {
  uint64_t bytes = element_size;
  for (const int64_t axis : shape) {
    if (axis < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(axis), &bytes)) {
      return false;
    }
  }
  return bytes == size;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  std::ifstream in(path_, std::ios::binary | std::ios::ate);
  if (!in) {
    TENON_FAIL(TENON_NOT_FOUND,
               "aot.no_weights",
               path_,
               " cannot be read; export the module again with tenon_aot.py");
  }
  const auto size = static_cast<uint64_t>(in.tellg());
  in.seekg(0);
  std::array<unsigned char, 8> length_bytes{};
  in.read(reinterpret_cast<char*>(length_bytes.data()), length_bytes.size());
  uint64_t length = 0;
  for (size_t i = length_bytes.size(); i > 0; --i) {
    length = length << 8 | length_bytes[i - 1];
  }
  if (!in || length > kMaxHeader || length > size - length_bytes.size()) {
    corrupt(path_, "the file is truncated or no safetensors file");
  }
  std::string header(length, '\0');
  in.read(header.data(), static_cast<std::streamsize>(length));
  const uint64_t start = length_bytes.size() + length;
  try {
    const auto all = nlohmann::json::parse(header);
    for (const auto& [name, entry] : all.items()) {
      if (name == "__metadata__") {
        continue;
      }
      const auto offsets = entry.at("data_offsets").get<std::array<uint64_t, 2>>();
      if (offsets[0] > offsets[1] || offsets[1] > size - start) {
        corrupt(path_, "the file is truncated");
      }
      entries_[name] = {entry.at("shape").get<std::vector<int64_t>>(),
                        entry.at("dtype").get<std::string>(),
                        start + offsets[0],
                        start + offsets[1]};
    }
  } catch (const nlohmann::json::exception&) {
    corrupt(path_, "the header is malformed");
  }
}

at::Tensor SafetensorsFile::read(const std::string& name,
                                 const std::vector<int64_t>& shape,
                                 at::ScalarType dtype) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.shape != shape ||
      found->second.dtype != dtype_name(dtype)) {
    TENON_FAIL(TENON_INVALID,
               "aot.other_weights",
               path_,
               ": tensor ",
               name,
               found == entries_.end() ? " is missing" : " has another shape or dtype",
               "; the file belongs to another model.json, export the module again");
  }
  // Before memory is allocated: a corrupt shape may be of any size.
  const uint64_t size = found->second.end - found->second.begin;
  if (!holds(shape, c10::elementSize(dtype), size)) {
    corrupt(path_, "tensor " + name + " has another size than its shape");
  }
  at::Tensor values = at::empty(shape, dtype);
  std::ifstream in(path_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(found->second.begin));
  in.read(static_cast<char*>(values.mutable_data_ptr()),
          static_cast<std::streamsize>(values.nbytes()));
  if (!in) {
    corrupt(path_, "the file is truncated");
  }
  return values;
}
