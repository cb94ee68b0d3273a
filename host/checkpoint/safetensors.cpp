// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/safetensors.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/io/checked_size.hpp"
#include "host/json/bounded_json.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <unordered_set>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files hold what memory holds");

constexpr size_t kLengthBytes = 8;
// The first tensor starts at a multiple of this, so that a mapped file can be used directly.
constexpr size_t kAlignment = 64;
constexpr uint64_t kMaxHeader = 100'000'000;  // bytes; the limit of the reference implementation
constexpr size_t kMaxDims = 64;               // libtorch's operations support no more

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kDtype = "dtype";
constexpr std::string_view kShape = "shape";
constexpr std::string_view kDataOffsets = "data_offsets";

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

// Reads the header, event by event: memory grows with the tensors, not with what a corrupt file
// nests or repeats.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  // `data` and `end` are the positions of the first tensor and of the end of the file.
  HeaderReader(uint64_t data, uint64_t end, const std::string& address)
      : data_(data), end_(end), address_(address) {}

  SafetensorsContent take() && { return std::move(content_); }

  bool null() override { return other_value(); }
  bool boolean(bool) override { return other_value(); }
  bool number_float(number_float_t, const string_t&) override { return other_value(); }
  bool number_integer(number_integer_t) override { return other_value(); }  // negative
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override;
  bool start_array(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    refuse(formatted("it is not valid JSON at byte {}", position));
  }

 private:
  enum class In { kHeader, kMetadata, kTensor, kShape, kOffsets, kUnknown };
  struct Fields {
    std::string dtype;
    std::vector<int64_t> shape;
    std::vector<uint64_t> offsets;
    std::set<std::string> found;  // of kDtype, kShape and kDataOffsets
  };

  [[noreturn]] void refuse(const std::string& why) const {
    damaged(address_, "its header cannot be read: " + why);
  }
  [[noreturn]] void refuse_value() const {
    refuse("the value of " + quoted_start(key_) + " has another type than the format specifies");
  }

  bool is_in(In in) const { return !open_.empty() && open_.back() == in; }
  // True in a part that the format does not specify; readers skip it.
  bool is_unknown() const { return is_in(In::kUnknown) || (is_in(In::kTensor) && !is_field(key_)); }
  static bool is_field(const std::string& key) {
    return key == kDtype || key == kShape || key == kDataOffsets;
  }
  // A value that the format has nowhere.
  bool other_value() const {
    if (open_.empty()) {
      refuse("it is not an object");
    }
    if (!is_unknown()) {
      refuse_value();
    }
    return true;
  }
  bool open(In in);
  bool close() {
    open_.pop_back();
    return true;
  }
  void add_tensor();

  uint64_t data_;
  uint64_t end_;
  const std::string& address_;
  SafetensorsContent content_;
  std::unordered_set<std::string> names_;
  std::vector<In> open_;
  std::string name_;  // key in the header: of a tensor
  std::string key_;   // last key
  Fields fields_;     // of the open tensor
};

bool HeaderReader::open(In in) {
  if (open_.size() == kMaxFileJsonDepth) {
    refuse(formatted("it is nested more than {} levels deep", kMaxFileJsonDepth));
  }
  open_.push_back(in);
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  if (open_.empty()) {
    return open(In::kHeader);
  }
  if (is_in(In::kHeader)) {
    fields_ = {};
    return open(key_ == kMetadata ? In::kMetadata : In::kTensor);
  }
  return other_value() && open(In::kUnknown);
}

bool HeaderReader::start_array(std::size_t) {
  if (is_in(In::kTensor) && key_ == kShape) {
    return open(In::kShape);
  }
  if (is_in(In::kTensor) && key_ == kDataOffsets) {
    return open(In::kOffsets);
  }
  return other_value() && open(In::kUnknown);
}

bool HeaderReader::key(string_t& name) {
  const bool is_new = is_in(In::kHeader)                     ? names_.insert(name).second
                      : is_in(In::kMetadata)                 ? !content_.metadata.contains(name)
                      : is_in(In::kTensor) && is_field(name) ? fields_.found.insert(name).second
                                                             : true;
  if (!is_new) {
    refuse("it has the name " + quoted_start(name) + " twice");
  }
  if (is_in(In::kHeader)) {
    name_ = name;
  }
  key_ = std::move(name);
  return true;
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (is_in(In::kShape)) {
    if (fields_.shape.size() == kMaxDims || value > std::numeric_limits<int64_t>::max()) {
      refuse(quoted_start(name_) + " has a shape that no tensor can have");
    }
    fields_.shape.push_back(static_cast<int64_t>(value));
    return true;
  }
  if (is_in(In::kOffsets)) {
    if (fields_.offsets.size() == 2) {
      refuse(quoted_start(name_) + " has more than two offsets");
    }
    fields_.offsets.push_back(value);
    return true;
  }
  return other_value();
}

bool HeaderReader::string(string_t& value) {
  if (is_in(In::kMetadata)) {
    content_.metadata[key_] = std::move(value);
    return true;
  }
  if (is_in(In::kTensor) && key_ == kDtype) {
    fields_.dtype = std::move(value);
    return true;
  }
  return other_value();
}

bool HeaderReader::end_object() {
  if (is_in(In::kTensor)) {
    add_tensor();
  }
  return close();
}

// Adds the tensor whose object has ended.
void HeaderReader::add_tensor() {
  const std::string name = quoted_start(name_);
  if (fields_.found.size() != 3 || fields_.offsets.size() != 2) {
    refuse(name + " lacks its dtype, its shape or one of its two offsets");
  }
  const auto dtype = scalar_type_of_safetensors(fields_.dtype);
  if (!dtype.has_value()) {
    damaged(address_,
            name + " has the dtype " + quoted_start(fields_.dtype) + ", which is not supported");
  }
  const auto begin = checked_sum(data_, fields_.offsets[0]);
  const auto end = checked_sum(data_, fields_.offsets[1]);
  if (!begin.has_value() || !end.has_value() || *begin > *end || *end > end_) {
    damaged(address_, name + " has offsets outside the file");
  }
  if (checked_bytes(fields_.shape, c10::elementSize(*dtype)) != *end - *begin) {
    damaged(address_, name + " has a shape that does not match its byte range");
  }
  content_.tensors.push_back({.name = std::move(name_),
                              .dtype = *dtype,
                              .shape = std::move(fields_.shape),
                              .begin = *begin,
                              .end = *end});
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
    const auto bytes = checked_bytes(tensor.shape, c10::elementSize(tensor.dtype));
    const auto end = bytes.has_value() ? checked_sum(at, *bytes) : std::nullopt;
    TENON_ASSERT(end.has_value(), "a tensor in memory has a size that fits");
    at = *end;
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
  HeaderReader header(data, size, address);
  json::sax_parse(text, &header);
  SafetensorsContent content = std::move(header).take();
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
