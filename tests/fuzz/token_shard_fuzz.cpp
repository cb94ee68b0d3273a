// SPDX-License-Identifier: Apache-2.0
//
// Shards of encoded chats that are nearly right are read or refused. A case is the letter s and a
// shard, or the letter c and a shard whose checksum is computed again before it is read.
#define XXH_INLINE_ALL
#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <xxhash.h>

#include "plugins/datasets/chat/token_shard.hpp"
#include "plugins/datasets/chat/token_store.hpp"
#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr ShardKey kKey = {0x0123456789abcdef, 0xfedcba9876543210};
constexpr char kKeyName[] = "fedcba98765432100123456789abcdef";

constexpr ShardRules kAnyShard = {.rows_of_sample = 1, .vocab_size = int64_t{1} << 31};

TokenShard shard_of(size_t num_rows, bool has_bytes) {
  TokenShard shard;
  for (size_t row = 0; row < num_rows; ++row) {
    for (size_t t = 0; t < 2 + row % 5; ++t) {
      shard.tokens.push_back(static_cast<MarkedToken>(row * 7 + t) | (t > 0 ? kTrained : 0));
      if (has_bytes) {
        shard.bytes.push_back(static_cast<uint32_t>(t));
      }
    }
    shard.ends.push_back(static_cast<int64_t>(shard.tokens.size()));
  }
  shard.counts.unlabeled.add("chats.jsonl, line 3");
  shard.counts.cut.add("chats.jsonl, line 9");
  return shard;
}

// Valid shards.
const std::vector<std::string>& seeds() {
  static const std::vector<std::string> bytes = [] {
    const ScratchFolder folder;
    const std::string path = (folder.path() / "shard.bin").string();
    std::vector<std::string> all;
    for (const size_t num_rows : {0, 1, 9}) {
      for (const bool has_bytes : {false, true}) {
        write_shard(path, kKey, shard_of(num_rows, has_bytes));
        all.push_back(read_corpus_file(path));
      }
    }
    return all;
  }();
  return bytes;
}

std::string make_shard(Mutator& mutator) {
  static const std::vector<std::string> words = {
      "TNCHAT01", "TNCHATB1", std::string(8, '\0'), std::string(8, '\xff'), std::string(4, '\x80')};
  const std::string& seed = mutator.pick(seeds());
  std::string shard = mutator.one_in(8) ? seed : mutator.mutated(seed, words, seeds());
  return (mutator.one_in(3) ? "s" : "c") + shard;
}

bool is_seed(const std::string& shard) {
  return std::find(seeds().begin(), seeds().end(), shard) != seeds().end();
}

void check_shard(const TokenShard& shard) {
  int64_t before = 0;
  for (const int64_t end : shard.ends) {
    if (end < before + 2) {
      throw FuzzFinding("rows are not in order, or have fewer than two tokens");
    }
    if (std::none_of(shard.tokens.begin() + before + 1,
                     shard.tokens.begin() + end,
                     [](MarkedToken token) { return (token & kTrained) != 0; })) {
      throw FuzzFinding("a row has no label");
    }
    before = end;
  }
  if (before != static_cast<int64_t>(shard.tokens.size()) ||
      (!shard.bytes.empty() && shard.bytes.size() != shard.tokens.size())) {
    throw FuzzFinding("the parts of a shard have other sizes than its tokens");
  }
}

// The store reads the rows of the shard from the file.
void check_store(const fs::path& folder, const TokenShard& shard) {
  const TokenStore store = TokenStore::in_folder(
      Host(nullptr),
      folder.string(),
      kKey,
      kAnyShard,
      {.num_shards = 1,
       .make = [](size_t) -> TokenShard { throw FuzzFinding("a shard is made again"); },
       .begin = [](const std::string&) {},
       .end = [] {}});
  if (store.num_rows() != shard.ends.size()) {
    throw FuzzFinding("the store has other rows than the shard");
  }
  for (size_t row = 0; row < store.num_rows(); ++row) {
    std::vector<MarkedToken> tokens;
    std::vector<uint32_t> bytes;
    store.read(row, tokens, shard.bytes.empty() ? nullptr : &bytes);
    const auto begin = static_cast<size_t>(row == 0 ? 0 : shard.ends[row - 1]);
    const auto end = static_cast<size_t>(shard.ends[row]);
    const auto is_part = [&](const std::vector<uint32_t>& part, const std::vector<uint32_t>& of) {
      return of.empty() ? part.empty()
                        : std::equal(part.begin(),
                                     part.end(),
                                     of.begin() + static_cast<ptrdiff_t>(begin),
                                     of.begin() + static_cast<ptrdiff_t>(end));
    };
    if (!is_part(tokens, shard.tokens) || !is_part(bytes, shard.bytes) ||
        store.size_of(row) != tokens.size()) {
      throw FuzzFinding("a row of the store differs from that of the shard");
    }
  }
}

std::string judge_shard(const std::string& input) {
  static const ScratchFolder folder;
  const fs::path own = folder.path() / kKeyName;
  fs::create_directories(own);
  std::string shard = input.substr(std::min<size_t>(1, input.size()));
  const bool was_seed = is_seed(shard);
  const bool is_fixed = input.rfind('c', 0) == 0 && shard.size() >= sizeof(uint64_t);
  if (is_fixed) {
    const size_t size = shard.size() - sizeof(uint64_t);
    const uint64_t checksum = XXH3_64bits(shard.data(), size);
    std::memcpy(shard.data() + size, &checksum, sizeof(checksum));
  }
  const std::string path = (own / "shard-00000.bin").string();
  std::ofstream(path, std::ios::binary | std::ios::trunc) << shard;
  std::string why;
  const std::optional<TokenShard> read = read_shard(path, kKey, why);
  if (read.has_value() != why.empty()) {
    throw FuzzFinding("a shard is refused without a reason, or accepted with one");
  }
  if (was_seed != read.has_value() && (was_seed || !is_fixed)) {
    throw FuzzFinding(was_seed ? "a valid shard is refused"
                               : "a change of a shard is not reported");
  }
  if (!read) {
    try {
      check_store(folder.path(), {});
    } catch (const Error& error) {
      return error.id();
    }
    throw FuzzFinding("the store accepts a bad shard");
  }
  check_shard(*read);
  check_store(folder.path(), *read);
  return kFuzzAccepted;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::use_memory_for_scratch();
  return tenon::run_fuzz(argc,
                         argv,
                         {.name = "token_shard_fuzz",
                          .make = tenon::make_shard,
                          .judge = tenon::judge_shard,
                          .least_accepted = 0.05});
}
