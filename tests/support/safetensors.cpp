// SPDX-License-Identifier: Apache-2.0
#include "tests/support/safetensors.hpp"

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace tenon {

GoldenData read_safetensors(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  uint64_t header_size = 0;
  if (bytes.size() < sizeof(header_size)) {
    throw std::runtime_error(path.string() + ": cannot be read, or is too short");
  }
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const char* header = bytes.data() + sizeof(header_size);
  const char* data = header + header_size;
  const nlohmann::json entries = nlohmann::json::parse(header, data);
  static const std::map<std::string, at::ScalarType> dtypes = {
      {"F32", at::kFloat}, {"I64", at::kLong}, {"I8", at::kChar}, {"U8", at::kByte}};
  GoldenData out;
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") {
      out.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    const std::string dtype = entry.at("dtype");
    const auto found = dtypes.find(dtype);
    if (found == dtypes.end()) {
      throw std::runtime_error(path.string() + ": " + name + " is " + dtype);
    }
    at::Tensor tensor = at::empty(entry.at("shape").get<std::vector<int64_t>>(), found->second);
    std::memcpy(
        tensor.data_ptr(), data + entry.at("data_offsets").at(0).get<size_t>(), tensor.nbytes());
    out.tensors.emplace(name, tensor);
  }
  return out;
}

}  // namespace tenon
