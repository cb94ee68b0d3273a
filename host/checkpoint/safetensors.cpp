// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/safetensors.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files hold what memory holds");

constexpr size_t kLengthBytes = 8;
// The first tensor starts at a multiple of this, so that a mapped file can be used directly.
constexpr size_t kAlignment = 64;
constexpr uint64_t kMaxHeader = 100'000'000;  // bytes; the limit of the reference implementation

constexpr std::pair<at::ScalarType, std::string_view> kTypes[] = {{at::kDouble, "F64"},
                                                                  {at::kFloat, "F32"},
                                                                  {at::kHalf, "F16"},
                                                                  {at::kBFloat16, "BF16"},
                                                                  {at::kLong, "I64"},
                                                                  {at::kInt, "I32"},
                                                                  {at::kShort, "I16"},
                                                                  {at::kChar, "I8"},
                                                                  {at::kByte, "U8"},
                                                                  {at::kBool, "BOOL"},
                                                                  {at::kUInt16, "U16"},
                                                                  {at::kUInt32, "U32"},
                                                                  {at::kUInt64, "U64"},
                                                                  {at::kFloat8_e4m3fn, "F8_E4M3"},
                                                                  {at::kFloat8_e5m2, "F8_E5M2"}};

[[noreturn]] void damaged(const std::string& address, const std::string& why) {
  throw Error("checkpoint.damaged", address + " is not a valid safetensors file: " + why);
}

uint64_t bytes_of(const SafeTensor& tensor) {
  uint64_t bytes = c10::elementSize(tensor.dtype);
  for (const int64_t size : tensor.shape) {
    bytes *= static_cast<uint64_t>(size);
  }
  return bytes;
}

}  // namespace

std::optional<std::string_view> safetensors_dtype(at::ScalarType dtype) {
  const auto* const found =
      std::ranges::find(kTypes, dtype, &std::pair<at::ScalarType, std::string_view>::first);
  return found != std::end(kTypes) ? std::optional(found->second) : std::nullopt;
}

std::optional<at::ScalarType> scalar_type_of_safetensors(std::string_view dtype) {
  const auto* const found =
      std::ranges::find(kTypes, dtype, &std::pair<at::ScalarType, std::string_view>::second);
  return found != std::end(kTypes) ? std::optional(found->first) : std::nullopt;
}

std::string safetensors_header(std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  uint64_t at = 0;
  for (SafeTensor& tensor : tensors) {
    const auto dtype = safetensors_dtype(tensor.dtype);
    if (!dtype.has_value()) {
      throw Error("checkpoint.bad_tensor",
                  "'" + tensor.name + "' is " + c10::toString(tensor.dtype) +
                      ", which safetensors files do not support; use another dtype");
    }
    tensor.begin = at;
    at += bytes_of(tensor);
    tensor.end = at;
    header[tensor.name] = {
        {"dtype", *dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = header.dump();
  const size_t whole = (kLengthBytes + text.size() + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(whole - kLengthBytes, ' ');
  const uint64_t length = text.size();
  std::string result(kLengthBytes, '\0');
  std::memcpy(result.data(), &length, kLengthBytes);
  result += text;
  for (SafeTensor& tensor : tensors) {
    tensor.begin += result.size();
    tensor.end += result.size();
  }
  return result;
}

SafetensorsContent read_safetensors_header(
    uint64_t size,
    const std::function<void(uint64_t offset, std::span<std::byte> out)>& read,
    const std::string& address) {
  if (size < kLengthBytes) {
    damaged(address, formatted("it has {} bytes", size));
  }
  uint64_t length = 0;
  read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeader || length > size - kLengthBytes) {
    damaged(address,
            formatted("its header claims to have {} bytes, of {} in the file", length, size));
  }
  std::string text(length, '\0');
  read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const uint64_t data = kLengthBytes + length;
  SafetensorsContent content;
  try {
    const json header = json::parse(text);
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        content.metadata = value.get<std::map<std::string, std::string>>();
        continue;
      }
      const auto dtype = scalar_type_of_safetensors(value.at("dtype").get<std::string>());
      if (!dtype.has_value()) {
        damaged(address,
                "'" + name + "' has the dtype " + value.at("dtype").dump() +
                    ", which is not supported");
      }
      SafeTensor tensor{.name = name,
                        .dtype = *dtype,
                        .shape = value.at("shape").get<std::vector<int64_t>>(),
                        .begin = data + value.at("data_offsets").at(0).get<uint64_t>(),
                        .end = data + value.at("data_offsets").at(1).get<uint64_t>()};
      if (std::ranges::any_of(tensor.shape, [](int64_t n) { return n < 0; }) ||
          tensor.end < tensor.begin || tensor.end - tensor.begin != bytes_of(tensor)) {
        damaged(address, "'" + name + "' has a shape that does not match its byte range");
      }
      content.tensors.push_back(std::move(tensor));
    }
  } catch (const json::exception& error) {
    damaged(address, std::string("its header cannot be read: ") + error.what());
  }
  std::ranges::sort(content.tensors, [](const SafeTensor& a, const SafeTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = data;
  for (const SafeTensor& tensor : content.tensors) {
    if (tensor.begin != at) {
      damaged(address, "there is a gap or an overlap before '" + tensor.name + "'");
    }
    at = tensor.end;
  }
  if (at != size) {
    damaged(address, formatted("its tensors end at byte {}, but the file ends at {}", at, size));
  }
  return content;
}

}  // namespace tenon
