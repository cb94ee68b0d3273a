// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_index.hpp"

#include "host/checkpoint/checkpoint_files.hpp"
#include "host/error/error.hpp"
#include "host/io/checksum.hpp"
#include "host/json/bounded_json.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "tenon.checkpoint";
constexpr int64_t kVersionWithoutBoxes = 1;
constexpr int64_t kVersionWithoutRanges = 2;

constexpr std::pair<uint32_t, const char*> kScopes[] = {{TENON_STATE_REPLICATED, "replicated"},
                                                        {TENON_STATE_PER_SHARD, "per_shard"},
                                                        {TENON_STATE_PER_RANK, "per_rank"},
                                                        {kStateByRow, "by_row"}};

const char* scope_name(uint32_t scope) {
  for (const auto& [value, name] : kScopes) {
    if (value == scope) {
      return name;
    }
  }
  throw Error("state.bad_entry", formatted("scope {} is not known", scope));
}

uint32_t scope_of(const std::string& name) {
  for (const auto& [value, known] : kScopes) {
    if (known == name) {
      return value;
    }
  }
  throw BadJson(quoted_start(name) + " is not a scope");
}

// Formats a number exactly, including values that JSON cannot represent: "0x1.8p+1", "-inf",
// "nan:7ff8000000000000".
std::string double_text(double value) {
  char text[48];
  if (std::isnan(value)) {
    return "nan:" + xxh3_text(std::bit_cast<uint64_t>(value));
  }
  std::snprintf(text, sizeof(text), "%a", value);
  return text;
}

// Parses 64 bits, hexadecimal. The whole text counts, without sign or blanks.
std::optional<uint64_t> bits_in(std::string_view text) {
  uint64_t bits = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, bits, 16);
  return read.ec == std::errc() && read.ptr == end ? std::optional(bits) : std::nullopt;
}

double double_of(const std::string& text) {
  constexpr std::string_view kNan = "nan:";
  if (text.starts_with(kNan)) {
    if (const auto bits = bits_in(std::string_view(text).substr(kNan.size()))) {
      return std::bit_cast<double>(*bits);
    }
  } else if (!text.empty() && std::string_view("+ \t\n\v\f\r").find(text[0]) == std::string::npos) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);  // reads "0x1.8p+1" and "-inf"
    if (end == text.c_str() + text.size()) {
      return value;
    }
  }
  throw BadJson(quoted_start(text) + " is not a number");
}

uint64_t sum_of(const json& value) {
  const auto text = value.get<std::string>();
  const auto sum = text.size() == 16 ? bits_in(text) : std::nullopt;
  if (!sum.has_value()) {
    throw BadJson(quoted_start(text) + " is not a checksum");
  }
  return *sum;
}

json to_json(const StoredTensor& tensor) {
  json pieces = json::array();
  for (const StoredPiece& piece : tensor.pieces) {
    json& entry = pieces.emplace_back(json{{"file", piece.file},
                                           {"begin", piece.begin},
                                           {"end", piece.end},
                                           {"first", piece.first},
                                           {"numel", piece.numel},
                                           {"xxh3", xxh3_text(piece.xxh3)}});
    if (piece.box) {
      entry["start"] = piece.box->start;
      entry["size"] = piece.box->size;
      for (const IndexRange& range : piece.box->ranges) {
        entry["axis"] = piece.box->axis;
        entry["ranges"].push_back({range.start, range.size});
      }
    }
  }
  json result = {{"dtype", tensor.dtype},
                 {"shape", tensor.shape},
                 {"scope", scope_name(tensor.scope)},
                 {"pieces", std::move(pieces)}};
  if (tensor.is_bytes) {
    result["is_bytes"] = true;
  }
  return result;
}

std::vector<int64_t> integers_of(const json& values) {
  std::vector<int64_t> integers;
  for (const json& value : values) {
    integers.push_back(integer_of(value));
  }
  return integers;
}

Box box_of(const json& piece) {
  Box box{.start = integers_of(piece.at("start")), .size = integers_of(piece.at("size"))};
  if (piece.contains("ranges")) {
    box.axis = unsigned_of(piece.at("axis"));
    for (const json& range : piece.at("ranges")) {
      box.ranges.push_back({integer_of(range.at(0)), integer_of(range.at(1))});
    }
  }
  return box;
}

StoredTensor tensor_of(const json& value) {
  StoredTensor tensor{.dtype = value.at("dtype").get<std::string>(),
                      .shape = integers_of(value.at("shape")),
                      .scope = scope_of(value.at("scope").get<std::string>()),
                      .is_bytes = value.value("is_bytes", false),
                      .pieces = {}};
  for (const json& piece : value.at("pieces")) {
    tensor.pieces.push_back({.file = piece.at("file").get<std::string>(),
                             .begin = unsigned_of(piece.at("begin")),
                             .end = unsigned_of(piece.at("end")),
                             .first = integer_of(piece.at("first")),
                             .numel = integer_of(piece.at("numel")),
                             .xxh3 = sum_of(piece.at("xxh3"))});
    if (piece.contains("start") || piece.contains("size")) {
      tensor.pieces.back().box = box_of(piece);
    }
  }
  return tensor;
}

json to_json(const StoredEntries& entries) {
  json tensors = json::object();
  for (const auto& [name, tensor] : entries.tensors) {
    tensors[name] = to_json(tensor);
  }
  json numbers = json::object();
  for (const auto& [name, number] : entries.numbers) {
    json& entry = numbers[name];
    entry["scope"] = scope_name(number.scope);
    if (const auto* const value = std::get_if<int64_t>(&number.value)) {
      entry["int"] = *value;
    } else {
      entry["double"] = double_text(std::get<double>(number.value));
    }
  }
  return {{"tensors", std::move(tensors)}, {"numbers", std::move(numbers)}};
}

StoredEntries entries_of(const json& value) {
  StoredEntries entries;
  for (const auto& [name, tensor] : value.at("tensors").items()) {
    entries.tensors[name] = tensor_of(tensor);
  }
  for (const auto& [name, number] : value.at("numbers").items()) {
    StoredNumber& entry = entries.numbers[name];
    entry.scope = scope_of(number.at("scope").get<std::string>());
    if (number.contains("int")) {
      entry.value = integer_of(number["int"]);
    } else {
      entry.value = double_of(number.at("double").get<std::string>());
    }
  }
  return entries;
}

std::map<std::string, uint32_t> versions_of(const json& value) {
  std::map<std::string, uint32_t> versions;
  for (const auto& [name, version] : value.items()) {
    const uint64_t number = unsigned_of(version);
    if (number > std::numeric_limits<uint32_t>::max()) {
      throw BadJson(formatted("{} is not a version", number));
    }
    versions[name] = static_cast<uint32_t>(number);
  }
  return versions;
}

json to_json(const std::vector<StoredFile>& files) {
  json result = json::array();
  for (const StoredFile& file : files) {
    result.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"header_xxh3", xxh3_text(file.header_xxh3)}});
  }
  return result;
}

std::vector<StoredFile> files_of(const json& value) {
  std::vector<StoredFile> files;
  for (const json& file : value) {
    files.push_back({file.at("name").get<std::string>(),
                     unsigned_of(file.at("bytes")),
                     sum_of(file.at("header_xxh3"))});
  }
  return files;
}

json to_json(const CheckpointMetadata& metadata) {
  json plugins = json::array();
  for (const StoredPlugin& plugin : metadata.plugins) {
    plugins.push_back({{"id", plugin.id}, {"version", plugin.version}, {"hash", plugin.hash}});
  }
  json metrics = json::object();
  for (const auto& [name, value] : metadata.metrics) {
    metrics[name] = double_text(value);
  }
  json result = {
      {"run", metadata.run},
      {"kind", metadata.kind},
      {"tenon", metadata.tenon},
      {"torch", metadata.torch},
      {"machine", metadata.machine},
      {"compute_threads", metadata.compute_threads},
      {"precision", metadata.precision},
      {"device", metadata.device},
      {"step", metadata.step},
      {"updates", metadata.updates},
      {"epochs", metadata.epochs},
      {"windows", metadata.windows},
      {"samples", metadata.samples},
      {"tokens", metadata.tokens},
      {"at", metadata.at},
      {"time", metadata.time},
      {"evaluated_step",
       metadata.evaluated_step.has_value() ? json(*metadata.evaluated_step) : json(nullptr)},
      {"figures", std::move(metrics)},
      {"plugins", std::move(plugins)}};
  if (!metadata.processor.empty()) {
    result["processor"] = metadata.processor;
    result["kernels"] = metadata.kernels;
  }
  if (metadata.norm_version != 0) {
    result["norm_version"] = metadata.norm_version;
  }
  if (metadata.journal.has_value()) {
    result["journal"] = {{"attempt", metadata.journal->attempt}, {"n", metadata.journal->n}};
  }
  if (!metadata.checkpoint.empty()) {
    result["checkpoint"] = metadata.checkpoint;
  }
  if (!metadata.excluded.is_empty()) {
    result["left_out"] = {{"parameters", metadata.excluded.parameters},
                          {"tables", metadata.excluded.tables}};
  }
  if (metadata.sources.has_value()) {
    json& sources = result["sources"] = json::array();
    for (const SourceRecord& source : *metadata.sources) {
      sources.push_back(record_json(source));
    }
  }
  return result;
}

CheckpointMetadata metadata_of(const json& value) {
  CheckpointMetadata metadata;
  value.at("run").get_to(metadata.run);
  metadata.checkpoint = value.value("checkpoint", "");
  value.at("kind").get_to(metadata.kind);
  value.at("tenon").get_to(metadata.tenon);
  value.at("torch").get_to(metadata.torch);
  value.at("machine").get_to(metadata.machine);
  metadata.processor = value.value("processor", "");
  if (const auto kernels = value.find("kernels"); kernels != value.end()) {
    kernels->get_to(metadata.kernels);
  }
  metadata.compute_threads = integer_of(value.at("compute_threads"));
  if (const auto version = value.find("norm_version"); version != value.end()) {
    metadata.norm_version = integer_of(*version);
  }
  if (const auto journal = value.find("journal"); journal != value.end()) {
    metadata.journal = {.attempt = unsigned_of(journal->at("attempt")),
                        .n = unsigned_of(journal->at("n"))};
  }
  value.at("precision").get_to(metadata.precision);
  value.at("device").get_to(metadata.device);
  metadata.step = unsigned_of(value.at("step"));
  metadata.updates = unsigned_of(value.at("updates"));
  metadata.epochs = unsigned_of(value.at("epochs"));
  metadata.windows = unsigned_of(value.at("windows"));
  metadata.samples = integer_of(value.at("samples"));
  metadata.tokens = integer_of(value.at("tokens"));
  value.at("at").get_to(metadata.at);
  value.at("time").get_to(metadata.time);
  if (const json& step = value.at("evaluated_step"); !step.is_null()) {
    metadata.evaluated_step = unsigned_of(step);
  }
  for (const auto& [name, metric] : value.at("figures").items()) {
    metadata.metrics[name] = double_of(metric.get<std::string>());
  }
  for (const json& plugin : value.at("plugins")) {
    metadata.plugins.push_back({plugin.at("id").get<std::string>(),
                                plugin.at("version").get<std::string>(),
                                plugin.at("hash").get<std::string>()});
  }
  if (const auto excluded = value.find("left_out"); excluded != value.end()) {
    excluded->at("parameters").get_to(metadata.excluded.parameters);
    excluded->at("tables").get_to(metadata.excluded.tables);
  }
  if (const auto sources = value.find("sources"); sources != value.end()) {
    metadata.sources.emplace();
    for (const json& source : *sources) {
      metadata.sources->push_back(record_of(source));
    }
  }
  return metadata;
}

// Sorts the pieces of one box together.
bool comes_before(const StoredPiece& a, const StoredPiece& b) {
  if (!a.box || !b.box) {
    return a.box.has_value() == b.box.has_value() ? a.first < b.first : !a.box.has_value();
  }
  return std::tie(a.box->start, a.box->size, a.box->axis, a.box->ranges, a.first) <
         std::tie(b.box->start, b.box->size, b.box->axis, b.box->ranges, b.first);
}

// Describes the pieces of a complete tensor as flat ranges of the whole, if each of them is one.
void leave_out_boxes(StoredTensor& tensor) {
  const auto is_flat = [&](const StoredPiece& piece) {
    return !piece.box || piece_of(tensor, piece).num_runs() == 1;
  };
  if (!std::ranges::all_of(tensor.pieces, is_flat)) {
    return;
  }
  for (StoredPiece& piece : tensor.pieces) {
    if (piece.box) {
      piece.first = piece_of(tensor, piece).first_in_tensor();
      piece.box.reset();
    }
  }
  std::ranges::sort(tensor.pieces, comes_before);
}

// Returns the oldest version of the format that describes the index.
int64_t version_of(const CheckpointIndex& index) {
  int64_t version = kVersionWithoutBoxes;
  const auto look = [&version](const StoredEntries& entries) {
    for (const auto& [name, tensor] : entries.tensors) {
      for (const StoredPiece& piece : tensor.pieces) {
        if (piece.box) {
          version = std::max(
              version, piece.box->ranges.empty() ? kVersionWithoutRanges : kCheckpointVersion);
        }
      }
    }
  };
  look(index.shared);
  std::ranges::for_each(index.by_rank, look);
  return version;
}

// Returns the first incomplete entry with the reason, or "" if all entries are complete.
std::string why_not_whole(const CheckpointIndex& index) {
  const auto look = [&](const StoredEntries& entries) -> std::string {
    for (const auto& [name, tensor] : entries.tensors) {
      if (const std::string why = why_not_whole(tensor, index.files); !why.empty()) {
        return "'" + name + "' " + why;
      }
    }
    return "";
  };
  std::string why = look(index.shared);
  for (size_t rank = 0; rank < index.by_rank.size() && why.empty(); ++rank) {
    why = look(index.by_rank[rank]);
  }
  return why;
}

}  // namespace

uint64_t CheckpointIndex::tensor_bytes() const {
  uint64_t bytes = 0;
  const auto add = [&bytes](const StoredEntries& entries) {
    for (const auto& [name, tensor] : entries.tensors) {
      for (const StoredPiece& piece : tensor.pieces) {
        bytes += piece.end - piece.begin;
      }
    }
  };
  add(shared);
  for (const StoredEntries& entries : by_rank) {
    add(entries);
  }
  return bytes;
}

std::string share_text(const RankShare& share) {
  return json({{"files", to_json(share.files)},
               {"versions", share.versions},
               {"shared", to_json(share.shared)},
               {"own", to_json(share.own)}})
      .dump();
}

RankShare share_of(const std::string& text) {
  try {
    const json value = parse_bounded_json(text);
    return {.files = files_of(value.at("files")),
            .versions = versions_of(value.at("versions")),
            .shared = entries_of(value.at("shared")),
            .own = entries_of(value.at("own"))};
  } catch (const json::exception& error) {
    throw Error("checkpoint.damaged",
                std::string("cannot read a rank's part of the index: ") + error.what());
  } catch (const BadJson& error) {
    throw Error("checkpoint.damaged",
                std::string("cannot read a rank's part of the index: ") + error.what());
  }
}

CheckpointIndex merged(CheckpointMetadata metadata, std::vector<RankShare> shares) {
  CheckpointIndex index;
  index.metadata = std::move(metadata);
  for (RankShare& share : shares) {
    index.files.insert(index.files.end(), share.files.begin(), share.files.end());
    index.versions.merge(share.versions);
    index.shared.numbers.merge(share.shared.numbers);
    for (auto& [name, tensor] : share.shared.tensors) {
      auto [found, is_new] = index.shared.tensors.try_emplace(name, tensor);
      if (is_new) {
        continue;
      }
      StoredTensor& have = found->second;
      if (have.dtype != tensor.dtype || have.shape != tensor.shape || have.scope != tensor.scope) {
        throw Error("checkpoint.incomplete",
                    "ranks wrote '" + name + "' with different shapes or dtypes");
      }
      have.pieces.insert(have.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
    index.by_rank.push_back(std::move(share.own));
  }
  for (auto& [name, tensor] : index.shared.tensors) {
    std::ranges::sort(tensor.pieces, comes_before);
  }
  if (const std::string why = why_not_whole(index); !why.empty()) {
    throw Error("checkpoint.incomplete",
                "the parts of the ranks do not form a complete checkpoint: " + why);
  }
  for (auto& [name, tensor] : index.shared.tensors) {
    leave_out_boxes(tensor);
  }
  return index;
}

std::string index_text(const CheckpointIndex& index) {
  json by_rank = json::array();
  for (const StoredEntries& entries : index.by_rank) {
    by_rank.push_back(to_json(entries));
  }
  nlohmann::ordered_json result;
  result["format"] = kFormat;
  result["version"] = version_of(index);
  result["facts"] = to_json(index.metadata);
  result["files"] = to_json(index.files);
  result["versions"] = index.versions;
  result["shared"] = to_json(index.shared);
  result["by_rank"] = std::move(by_rank);
  return result.dump(1) + "\n";
}

std::string sums_text(const std::string& index, const std::string& recipe) {
  return xxh128_text(index) + "  " + kIndexFile + "\n" + xxh128_text(recipe) + "  " + kRecipeFile +
         "\n";
}

CheckpointIndex index_of(const std::string& text, const std::string& address) {
  const auto damaged = [&](const std::string& why) {
    return Error("checkpoint.damaged", address + ": index.json is corrupt: " + why);
  };
  CheckpointIndex index;
  try {
    const json value = parse_bounded_json(text);
    if (value.value("format", "") != kFormat) {
      throw Error("checkpoint.foreign",
                  address + " is not a checkpoint: another program wrote index.json");
    }
    if (const auto version = integer_of(value.at("version"));
        version < kVersionWithoutBoxes || version > kCheckpointVersion) {
      throw Error("checkpoint.too_new",
                  formatted("{} has format {}, but this host supports at most {}; read it with the "
                            "that wrote it",
                            address,
                            version,
                            kCheckpointVersion));
    }
    index.metadata = metadata_of(value.at("facts"));
    index.files = files_of(value.at("files"));
    index.versions = versions_of(value.at("versions"));
    index.shared = entries_of(value.at("shared"));
    for (const json& entries : value.at("by_rank")) {
      index.by_rank.push_back(entries_of(entries));
    }
  } catch (const json::exception& error) {
    throw damaged(error.what());
  } catch (const BadJson& error) {
    throw damaged(error.what());
  }
  if (const std::string why = why_not_whole(index); !why.empty()) {
    throw damaged(why);
  }
  return index;
}

}  // namespace tenon
