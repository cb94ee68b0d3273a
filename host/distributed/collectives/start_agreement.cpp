// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/start_agreement.hpp"

#include "host/error/error.hpp"
#include "host/tensor/philox.hpp"
#include "host/text/formatted.hpp"
#include "host/text/rank_list.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using nlohmann::json;

constexpr size_t kToldDifferences = 3;
constexpr size_t kLongestValue = 100;

std::string metadata_text(std::span<const Fact> metadata) {
  json all = json::object();
  for (const Fact& fact : metadata) {
    all[fact.name] = fact.value;
  }
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Returns the metadata of a rank, with JSON values split by key: "recipe /train/steps".
std::map<std::string, std::string> single_metadata(const std::string& text) {
  std::map<std::string, std::string> metadata;
  const json all = json::parse(text);
  for (const auto& [name, value] : all.items()) {
    const auto& plain = value.get_ref<const std::string&>();
    const json parts = json::parse(plain, nullptr, false);
    if (!parts.is_structured()) {
      metadata[name] = plain;
      continue;
    }
    const json flat = parts.flatten();
    for (const auto& [key, part] : flat.items()) {
      metadata[name + " " + key] = part.dump();
    }
  }
  return metadata;
}

std::string shortened(const std::string& value) {
  if (value.empty()) {
    return "none";
  }
  return value.size() <= kLongestValue ? value : value.substr(0, kLongestValue) + "...";
}

// "recipe /train/steps: 3 on ranks 0 and 1, 4 on rank 2"
std::string difference_text(const std::string& name,
                            const std::vector<std::map<std::string, std::string>>& of_ranks) {
  std::vector<std::pair<std::string, std::vector<uint32_t>>> values;  // in order of first rank
  for (uint32_t rank = 0; rank < of_ranks.size(); ++rank) {
    const auto fact = of_ranks[rank].find(name);
    const std::string value = fact != of_ranks[rank].end() ? fact->second : "";
    const auto known =
        std::ranges::find_if(values, [&](const auto& entry) { return entry.first == value; });
    if (known != values.end()) {
      known->second.push_back(rank);
    } else {
      values.push_back({value, {rank}});
    }
  }
  if (values.size() == 1) {
    return "";
  }
  std::string text = name + ": ";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i > 0 ? ", " : "") + shortened(values[i].first) + " on " + rank_list(values[i].second);
  }
  return text;
}

}  // namespace

void agree_on_metadata(Group& ranks, std::span<const Fact> metadata) {
  const std::string mine = metadata_text(metadata);
  const uint64_t digest = stream_of(mine);
  const auto gathering =
      ranks.start_gather(std::as_bytes(std::span(&digest, 1)), "digest of the run's fingerprint");
  const std::span<const std::byte> all = gathering->wait();
  bool is_equal = true;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    is_equal &= std::memcmp(all.data() + rank * sizeof(digest), &digest, sizeof(digest)) == 0;
  }
  if (is_equal) {  // otherwise each rank sees a digest unlike its own
    return;
  }
  std::vector<std::map<std::string, std::string>> of_ranks;
  std::map<std::string, std::string> names;
  for (const std::string& text : ranks.gather_texts(mine, "the run's facts")) {
    of_ranks.push_back(single_metadata(text));
    names.insert(of_ranks.back().begin(), of_ranks.back().end());
  }
  std::vector<std::string> differences;
  for (const auto& [name, value] : names) {
    if (std::string text = difference_text(name, of_ranks); !text.empty()) {
      differences.push_back(std::move(text));
    }
  }
  std::string told;
  for (size_t i = 0; i < std::min(differences.size(), kToldDifferences); ++i) {
    told += (i > 0 ? "; " : "") + differences[i];
  }
  if (differences.size() > kToldDifferences) {
    told += formatted("; and {} more", differences.size() - kToldDifferences);
  }
  throw Error("distributed.differs",
              "the ranks were started differently: " + told +
                  "; start all ranks with the same recipe, plugins and program");
}

}  // namespace tenon
