// SPDX-License-Identifier: Apache-2.0

#include "host/tools/inspect/inspect_checkpoint.hpp"

#include "host/checkpoint/checkpoint_difference.hpp"
#include "host/checkpoint/checkpoint_index.hpp"
#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/named_checkpoint.hpp"
#include "host/error/plugin_text.hpp"
#include "host/io/content_hash.hpp"
#include "host/recipe/plugin_difference.hpp"
#include "host/recipe/recipe_difference.hpp"
#include "host/terminal/text_table.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using Rows = std::vector<std::vector<std::string>>;

CheckpointReader open_checkpoint(const std::string& path) {
  NamedCheckpoint named = find_checkpoint(path);
  return {std::move(named.storage), std::move(named.checkpoint)};
}

std::string number_text(double value) {
  std::ostringstream text;
  text.precision(9);
  text << value;
  return text.str();
}

// The first part of an entry's name: "parameters" of "parameters/values/embed".
std::string part_of(const std::string& name) {
  return name.substr(0, name.find('/'));
}

std::uint64_t bytes_of(const StoredTensor& tensor) {
  std::uint64_t bytes = 0;
  for (const StoredPiece& piece : tensor.pieces) {
    bytes += piece.end - piece.begin;
  }
  return bytes;
}

std::string shape_text(const StoredTensor& tensor) {
  std::string text = "[";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

// The metadata that --inspect and --diff print, as rows of name and value.
Rows fact_rows(const CheckpointIndex& index) {
  const CheckpointMetadata& metadata = index.metadata;
  Rows rows = {{"run", metadata.run},
               {"kind", metadata.kind},
               {"step", std::to_string(metadata.step)},
               {"updates", std::to_string(metadata.updates)},
               {"epochs", std::to_string(metadata.epochs)},
               {"windows", std::to_string(metadata.windows)},
               {"samples", std::to_string(metadata.samples)},
               {"tokens", std::to_string(metadata.tokens)},
               {"at the end of", metadata.at},
               {"time", metadata.time},
               {"ranks", std::to_string(index.num_ranks())},
               {"device", metadata.device},
               {"precision", metadata.precision},
               {"compute threads", std::to_string(metadata.compute_threads)},
               {"machine", metadata.machine},
               {"tenon", metadata.tenon},
               {"libtorch", metadata.torch},
               {"excluded", joined(metadata.excluded.parameters)},
               {"excluded tables", joined(metadata.excluded.tables)}};
  for (const auto& [name, value] : metadata.metrics) {
    rows.push_back({"metric " + name, number_text(value)});
  }
  return rows;
}

// Calls `visit` with each tensor's name, entry and rank; the rank is "" if all ranks share it.
template <class Visit>
void visit_tensors(const CheckpointIndex& index, Visit visit) {
  for (const auto& [name, tensor] : index.shared.tensors) {
    visit(name, tensor, std::string());
  }
  for (std::size_t rank = 0; rank < index.by_rank.size(); ++rank) {
    for (const auto& [name, tensor] : index.by_rank[rank].tensors) {
      visit(name, tensor, std::to_string(rank));
    }
  }
}

std::string parts_table(const CheckpointIndex& index) {
  struct Part {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Part> parts;
  visit_tensors(index,
                [&](const std::string& name, const StoredTensor& tensor, const std::string&) {
                  Part& part = parts[part_of(name)];
                  ++part.entries;
                  part.bytes += bytes_of(tensor);
                });
  const auto count = [&parts](const StoredEntries& entries) {
    for (const auto& [name, number] : entries.numbers) {
      ++parts[part_of(name)].entries;
    }
  };
  count(index.shared);
  for (const StoredEntries& entries : index.by_rank) {
    count(entries);
  }
  Rows rows = {{"part", "entries", "bytes"}};
  for (const auto& [name, part] : parts) {
    rows.push_back({name, std::to_string(part.entries), std::to_string(part.bytes)});
  }
  return text_table(rows);
}

std::string tensors_table(const CheckpointIndex& index) {
  Rows rows = {{"tensor", "dtype", "shape", "bytes", "rank", "files"}};
  visit_tensors(index,
                [&](const std::string& name, const StoredTensor& tensor, const std::string& rank) {
                  std::string files;
                  std::string last;
                  for (const StoredPiece& piece : tensor.pieces) {
                    if (piece.file != last) {
                      files += (files.empty() ? "" : ", ") + piece.file;
                      last = piece.file;
                    }
                  }
                  rows.push_back({name,
                                  tensor.is_bytes ? "bytes" : tensor.dtype,
                                  shape_text(tensor),
                                  std::to_string(bytes_of(tensor)),
                                  rank,
                                  files});
                });
  return text_table(rows);
}

std::string metadata_text(const CheckpointIndex& index) {
  std::string text;
  for (const std::vector<std::string>& row : fact_rows(index)) {
    if (!row[1].empty()) {
      std::string name = "  " + printable_line(row[0]);
      name.resize(std::max<std::size_t>(20, name.size() + 1), ' ');
      text += name + printable_line(row[1]) + "\n";
    }
  }
  return text;
}

std::string plugins_text(const CheckpointIndex& index) {
  Rows rows = {{"plugin", "version", "hash"}};
  for (const StoredPlugin& plugin : index.metadata.plugins) {
    rows.push_back({plugin.id, plugin.version, plugin.hash});
  }
  return text_table(rows);
}

// The plugins of a checkpoint. Hashes of earlier releases are not comparable and count as unknown.
std::vector<UsedPlugin> used_plugins(const CheckpointIndex& index) {
  std::vector<UsedPlugin> used;
  for (const StoredPlugin& plugin : index.metadata.plugins) {
    used.push_back({.id = plugin.id,
                    .version = plugin.version,
                    .hash = is_content_hash(plugin.hash) ? plugin.hash : ""});
  }
  return used;
}

// The lines under a heading; "" if there are no lines.
std::string under(const std::string& heading, const std::string& lines) {
  return lines.empty() ? "" : heading + "\n" + lines + "\n";
}

std::string differing_metadata(const CheckpointIndex& a, const CheckpointIndex& b) {
  std::map<std::string, std::pair<std::string, std::string>> metadata;
  for (const std::vector<std::string>& row : fact_rows(a)) {
    metadata[row[0]].first = row[1];
  }
  for (const std::vector<std::string>& row : fact_rows(b)) {
    metadata[row[0]].second = row[1];
  }
  std::string text;
  for (const auto& [name, values] : metadata) {
    if (values.first != values.second) {
      const auto shown = [](const std::string& value) {
        return value.empty() ? "(nothing)" : printable_line(value);
      };
      text += "  " + printable_line(name) + ": " + shown(values.first) + " -> " +
              shown(values.second) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string inspected_text(const std::string& path, InspectForm form) {
  const CheckpointReader reader = open_checkpoint(path);
  const CheckpointIndex& index = reader.index();
  if (form == InspectForm::kJson) {
    return index_text(index);
  }
  return reader.address() + "\n" + metadata_text(index) + "\n" + plugins_text(index) + "\n" +
         parts_table(index) + "\n" + tensors_table(index);
}

std::string verified_text(const std::string& path) {
  const NamedCheckpoint named = find_checkpoint(path);
  const CheckpointReader reader(named.storage, named.checkpoint);
  reader.verify();
  const auto record = named.storage->commit_record(named.checkpoint);
  std::uint64_t num_tensors = 0;
  visit_tensors(reader.index(), [&](const std::string&, const StoredTensor&, const std::string&) {
    ++num_tensors;
  });
  return reader.address() + " is sound: " + counted(num_tensors, "tensor") + ", " +
         counted(reader.index().tensor_bytes(), "byte") + " in " +
         counted(reader.index().files.size(), "file") + "\n" +
         (record.has_value() && !record->has_checksum()
              ? "COMMITTED has no checksum, because an earlier release wrote it: its number is not "
                "verified\n"
              : "");
}

CheckpointComparison compared_checkpoints(const std::string& path_a, const std::string& path_b) {
  const CheckpointReader a = open_checkpoint(path_a);
  const CheckpointReader b = open_checkpoint(path_b);
  const CheckpointDifference state = compare_checkpoints(a, b);
  CheckpointComparison result{.is_equal = state.entries.empty()};
  result.text = "first:  " + a.address() + "\nsecond: " + b.address() + "\n\n";
  result.text += under("metadata", differing_metadata(a.index(), b.index()));
  std::string recipe;
  std::istringstream changes(changes_text(
      recipe_changes({a.recipe(), a.index().num_ranks()}, {b.recipe(), b.index().num_ranks()})));
  for (std::string line; std::getline(changes, line);) {
    recipe += "  " + line + "\n";
  }
  result.text += under("recipe, as if the second resumed from the first", recipe);
  std::string plugins;
  for (const PluginChange& change :
       plugin_changes(used_plugins(a.index()), used_plugins(b.index()))) {
    plugins += "  " + change.what + "\n";
  }
  result.text += under("plugins", plugins);
  std::string entries;
  for (const EntryDifference& entry : state.entries) {
    entries += "  " + printable_line(entry.name) + ": " + printable_line(entry.what) + "\n";
  }
  result.text += under("state", entries);
  if (a.index().num_ranks() != b.index().num_ranks()) {
    result.text += "what belongs to single ranks, rows of tables too, is not compared\n";
  }
  result.text += formatted("{} equal, {}\n",
                           counted(state.num_equal, "entry is", "entries are"),
                           counted(state.entries.size(), "differs", "differ"));
  return result;
}

}  // namespace tenon
