// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint records of the files that a component of the run reads: names, sizes and hashes
// in order. Modification times do not count.
// Threads: any.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct RecordedFile {
  std::string name;         // below the common folder of all files of the component
  std::int64_t bytes = -1;  // -1: unknown
  // FORM:VALUE, for example "whole:0123456789abcdef". Values of different forms do not compare. "":
  // unknown.
  std::string hash = {};
  // The name is part of the data. Not saved: the host that compares asks the component again.
  bool name_counts = false;
};

struct SourceRecord {
  std::string place;  // JSON pointer of the component in the recipe: "/data/train"
  std::vector<RecordedFile> files;
};

// Removes the common folder from the names of files, and combines neighbors if there are more than
// 2,048 files, so that a record stays small. Makes all names valid UTF-8.
void shorten(SourceRecord& record);

// Returns what differs, for a message: "a.csv has 90 bytes (expected 100)"; "" if nothing does.
std::string record_difference(const SourceRecord& then, const SourceRecord& now);

nlohmann::json record_json(const SourceRecord& record);
// Errors  BadJson, nlohmann::json::exception
SourceRecord record_of(const nlohmann::json& value);

// The same, as text.
std::string record_text(const SourceRecord& record);
// Errors  checkpoint.damaged
SourceRecord record_of(const std::string& text);

}  // namespace tenon
