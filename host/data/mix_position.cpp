// SPDX-License-Identifier: Apache-2.0

#include "host/data/mix_position.hpp"

#include "host/data/rank_sampler.hpp"
#include "host/error/error.hpp"

#include <utility>

namespace tenon {
namespace {

constexpr int64_t kVersion = 1;
// The sum of two such numbers is at most kMostSamples.
constexpr int64_t kMost = kMostSamples / 2;

void put(std::string& bytes, int64_t value) {
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(static_cast<uint64_t>(value) >> shift));
  }
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  int64_t number() {
    const std::string_view bytes = text(8);
    uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return static_cast<int64_t>(value);
  }

  int64_t number(int64_t most) {
    const int64_t value = number();
    if (value < 0 || value > most) {
      fail();
    }
    return value;
  }

  std::string_view text(std::size_t size) {
    if (size > bytes_.size()) {
      fail();
    }
    const std::string_view found = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return found;
  }

  void expect(int64_t value) {
    if (number() != value) {
      fail();
    }
  }

  void end() const {
    if (!bytes_.empty()) {
      fail();
    }
  }

 private:
  [[noreturn]] static void fail() {
    throw Error("data.bad_state",
                "the saved position of the mix is corrupt, or belongs to another mix; resume with "
                "the recipe that saved it");
  }

  std::string_view bytes_;
};

}  // namespace

std::string encode(const MixShardPosition& position) {
  std::string bytes;
  put(bytes, kVersion);
  put(bytes, static_cast<int64_t>(position.parts.size()));
  put(bytes, position.turn);
  for (const MixPartPosition& part : position.parts) {
    put(bytes, part.taken);
    put(bytes, part.has_ended ? 1 : 0);
    put(bytes, part.shard);
    put(bytes, part.position ? 1 : 0);
    if (part.position) {
      put(bytes, static_cast<int64_t>(part.position->size()));
      bytes += *part.position;
    }
  }
  return bytes;
}

MixShardPosition decode_mix_position(std::string_view bytes, std::size_t num_parts) {
  Reader in(bytes);
  in.expect(kVersion);
  in.expect(static_cast<int64_t>(num_parts));
  MixShardPosition position{.turn = in.number(kMost), .parts = {}};
  for (std::size_t i = 0; i < num_parts; ++i) {
    MixPartPosition part{.taken = in.number(kMost),
                         .has_ended = in.number(1) == 1,
                         .shard = static_cast<uint32_t>(in.number(UINT32_MAX))};
    if (in.number(1) == 1) {
      part.position = std::string(in.text(static_cast<std::size_t>(in.number(INT64_MAX))));
    }
    position.parts.push_back(std::move(part));
  }
  in.end();
  return position;
}

}  // namespace tenon
