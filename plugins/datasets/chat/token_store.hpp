// SPDX-License-Identifier: Apache-2.0
//
// All encoded samples of a dataset, in memory or in shards of a cache folder.
//
// A data set in the cache is a folder named by a key: a hash of everything that decides its tokens.
// While it is built, its name ends in `.incomplete`; shards that are there already are kept, so
// that an interrupted build continues. One process builds, others wait for it.
#pragma once

#include <tenon/cpp/services.hpp>
#include <tenon/cpp/stable_file.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "token_shard.hpp"

namespace tenon {

// What holds for the shards of a data set, besides their key.
struct ShardRules {
  size_t rows_of_sample = 1;
  int64_t vocab_size = 0;  // ids are below it
};

// Returns shard number i. It is called in ascending order, by one thread.
using MakeShard = std::function<TokenShard(size_t i)>;

// How shards are made. A shard with problems is not stored.
struct ShardSource {
  size_t num_shards = 0;
  MakeShard make;
  // Called before shards of a folder are made.
  std::function<void(const std::string& folder)> begin;
  // Called after all are made; throws if some had problems.
  std::function<void()> end;
};

class TokenStore {
 public:
  // Makes all shards and keeps them in memory.
  static TokenStore in_memory(const ShardSource& source);
  // Opens the shards of `key` in the folder, after building those that are missing.
  //
  // Errors   chat.cache: the folder cannot be written; chat.bad_shard: a shard is corrupt, or was
  //          made from something else
  static TokenStore in_folder(const Host& host,
                              const std::string& folder,
                              const ShardKey& key,
                              const ShardRules& rules,
                              const ShardSource& source);

  size_t num_rows() const { return num_rows_; }
  // Number of tokens of a row.
  size_t size_of(size_t row) const;
  // Appends the tokens of a row and, unless `bytes` is null, the bytes that they stand for.
  //
  // Errors   chat.read, chat.changed: the shard's file changed
  // Threads  [any]
  void read(size_t row, std::vector<MarkedToken>& out, std::vector<uint32_t>* bytes) const;

  // The folder of the shards; "" in memory.
  const std::string& folder() const { return folder_; }
  size_t num_shards() const { return shards_.size(); }
  size_t rows_of_shard(size_t i) const { return shards_[i].shard.ends.size(); }
  const ShardCounts& counts_of_shard(size_t i) const { return shards_[i].shard.counts; }

 private:
  struct Stored {
    TokenShard shard;                  // without tokens and bytes if `file` has them
    std::unique_ptr<StableFile> file;  // null: in memory
    int64_t offset = 0;                // of the tokens in the file
    int64_t bytes_offset = 0;          // of the bytes of tokens in the file
    size_t first_row = 0;
  };

  void add(TokenShard shard, std::unique_ptr<StableFile> file);
  const Stored& shard_of(size_t row) const;

  std::string folder_;
  std::vector<Stored> shards_;
  size_t num_rows_ = 0;
};

// The folder for data sets of users who did not choose one; empty if there is none.
std::string default_cache_folder();

}  // namespace tenon
