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
  GoldenData out;
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") {
      out.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    const std::string dtype = entry.at("dtype");
    if (dtype != "F32" && dtype != "I64") {
      throw std::runtime_error(path.string() + ": " + name + " is " + dtype);
    }
    at::Tensor tensor = at::empty(entry.at("shape").get<std::vector<int64_t>>(),
                                  dtype == "F32" ? at::kFloat : at::kLong);
    std::memcpy(
        tensor.data_ptr(), data + entry.at("data_offsets").at(0).get<size_t>(), tensor.nbytes());
    out.tensors.emplace(name, tensor);
  }
  return out;
}

}  // namespace tenon
