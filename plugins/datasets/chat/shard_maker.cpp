// SPDX-License-Identifier: Apache-2.0
#include "shard_maker.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <sched.h>
#include <string_view>
#include <thread>
#include <utility>

namespace tenon {
namespace {

size_t num_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    return static_cast<size_t>(std::max(CPU_COUNT(&set), 1));
  }
  return 1;
}

// Calls body(i) for i in [0, n) on several threads.
//
// Errors   that of the lowest i
template <class Body>
void for_each_in_parallel(size_t n, Body&& body) {
  std::atomic<size_t> next{0};
  std::atomic<bool> has_failed{false};
  std::mutex mutex;
  size_t failed_at = n;
  std::exception_ptr failure;
  const auto work = [&] {
    // Tasks are taken in order, so those before a failed one are all done or running.
    while (!has_failed) {
      const size_t i = next++;
      if (i >= n) {
        return;
      }
      try {
        body(i);
      } catch (...) {
        has_failed = true;
        const std::lock_guard lock(mutex);
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(num_processors(), n); ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

bool has_label(const EncodedText& text, size_t begin, size_t end) {
  return std::any_of(text.tokens.begin() + static_cast<ptrdiff_t>(std::min(begin + 1, end)),
                     text.tokens.begin() + static_cast<ptrdiff_t>(end),
                     [](MarkedToken token) { return (token & kTrained) != 0; });
}

void append_shard(TokenShard& shard, const TokenShard& more) {
  const auto before = static_cast<int64_t>(shard.tokens.size());
  shard.tokens.insert(shard.tokens.end(), more.tokens.begin(), more.tokens.end());
  shard.bytes.insert(shard.bytes.end(), more.bytes.begin(), more.bytes.end());
  for (const int64_t end : more.ends) {
    shard.ends.push_back(before + end);
  }
  shard.counts.add(more.counts);
  shard.problems.add(more.problems);
}

// Whether an error is one of a sample, so that others may be good. Errors of options and of the
// template are those of all samples.
bool is_of_sample(const Error& error) {
  const std::string_view id = error.id();
  return error.code() == TENON_INVALID && id != "chat.cannot_train" && id != "chat.no_template" &&
         id != "template.invalid" && id != "chat.bad_parquet";
}

// Whether rows are equal after each is cut.
bool are_equal_until(const std::vector<MarkedToken>& a,
                     const std::vector<MarkedToken>& b,
                     size_t limit) {
  const auto end = [&](const std::vector<MarkedToken>& row) {
    return row.begin() + static_cast<ptrdiff_t>(std::min(limit, row.size()));
  };
  return std::equal(a.begin(), end(a), b.begin(), end(b));
}

// Counts the rows from number `row` on, whose tokens begin at `token`.
void add_largest(TokenShard& shard, size_t row, size_t token, const std::string& place) {
  for (; row < shard.ends.size(); ++row) {
    const int64_t begin = row == 0 ? 0 : shard.ends[row - 1];
    shard.counts.length.add(shard.ends[row] - begin, place);
  }
  for (; token < shard.tokens.size(); ++token) {
    const MarkedToken id = shard.tokens[token] & ~kTrained;
    if (static_cast<int64_t>(id) > shard.counts.id.number) {
      shard.counts.id.add(id, place);
    }
  }
}

size_t longest_of(const std::vector<EncodedText>& rows) {
  size_t longest = 0;
  for (const EncodedText& row : rows) {
    longest = std::max(longest, row.tokens.size());
  }
  return longest;
}

}  // namespace

ShardMaker::ShardMaker(const ChatOptions& options, const SampleEncoder& encoder, Json tools)
    : options_(options),
      encoder_(encoder),
      tools_(std::move(tools)),
      templates_(encoder.template_text() + encoder.tool_template_text()) {}

TokenShard ShardMaker::make(const ChatFile& file,
                            ChatFormat format,
                            const SampleRange& part) const {
  constexpr size_t kTask = 32;  // samples
  TokenShard shard;
  file.read(part, [&](const SampleBlock& block) {
    const auto [first, last] = block.samples;
    std::vector<TokenShard> shards((last - first + kTask - 1) / kTask);
    for_each_in_parallel(shards.size(), [&, first = first, last = last](size_t task) {
      const size_t begin = first + task * kTask;
      for (size_t i = begin; i < std::min(begin + kTask, last); ++i) {
        add_sample(file, i, block, format, shards[task]);
      }
    });
    for (const TokenShard& more : shards) {
      append_shard(shard, more);
    }
  });
  return shard;
}

void ShardMaker::add_sample(const ChatFile& file,
                            size_t i,
                            const SampleBlock& block,
                            ChatFormat format,
                            TokenShard& out) const {
  try {
    at_place(file, i, [&] { encode_sample(file, i, block.parse(i), format, out); });
  } catch (const Error& error) {
    if (!is_of_sample(error)) {
      throw;
    }
    const bool is_policy = std::string_view(error.id()) == "chat.overlong";
    if (options_.bad_samples == BadSamples::kSkip && !is_policy) {
      out.counts.bad.add(error.what());
    } else {
      out.problems.add(error);
    }
  }
}

void ShardMaker::encode_sample(
    const ChatFile& file, size_t i, const Json& sample, ChatFormat format, TokenShard& out) const {
  std::vector<EncodedText> rows;
  KeyCheck check{options_.ignore, templates_, {}};
  std::vector<Conversation> chats = conversations_of(sample, format, check);
  for (const std::string& key : check.unknown) {
    out.problems.unknown_keys[key].add(file.place(i));
  }
  for (Conversation& chat : chats) {
    if (chat.tools.is_null()) {
      chat.tools = tools_;
    }
    rows.push_back(encoder_.encode(std::move(chat), format));
  }
  if (rows.size() == 2 && rows[0].tokens == rows[1].tokens) {
    TENON_FAIL(TENON_INVALID,
               "chat.equal_answers",
               "\"chosen\" and \"rejected\" have equal tokens, so the pair expresses no "
               "preference; remove the sample");
  }
  if (std::any_of(rows.begin(), rows.end(), [](const EncodedText& row) {
        return !has_label(row, 0, row.tokens.size());
      })) {
    out.counts.unlabeled.add(file.place(i));
    return;
  }
  const auto limit = static_cast<size_t>(options_.max_length.value_or(INT64_MAX));
  const size_t before = out.ends.size();
  const size_t first_token = out.tokens.size();
  if (longest_of(rows) <= limit) {
    for (const EncodedText& row : rows) {
      add_row(out, row, 0, row.tokens.size());
    }
  } else {
    add_overlong(file, i, rows, limit, out);
  }
  add_largest(out, before, first_token, file.place(i));
}

void ShardMaker::add_overlong(const ChatFile& file,
                              size_t i,
                              const std::vector<EncodedText>& rows,
                              size_t limit,
                              TokenShard& out) const {
  switch (options_.overlong) {
    case Overlong::kError:
      TENON_FAIL(TENON_INVALID,
                 "chat.overlong",
                 "the sample has ",
                 longest_of(rows),
                 " tokens (expected at most `max_length`, ",
                 limit,
                 "); set `overlong` to \"drop\", \"cut\" or \"split\"");
    case Overlong::kDrop:
      out.counts.dropped.add(file.place(i));
      return;
    case Overlong::kCut:
      if (std::any_of(rows.begin(),
                      rows.end(),
                      [&](const EncodedText& row) {
                        return !has_label(row, 0, std::min(limit, row.tokens.size()));
                      }) ||
          (rows.size() == 2 && are_equal_until(rows[0].tokens, rows[1].tokens, limit))) {
        out.counts.unlabeled.add(file.place(i));
        return;
      }
      for (const EncodedText& row : rows) {
        add_row(out, row, 0, std::min(limit, row.tokens.size()));
      }
      out.counts.cut.add(file.place(i));
      return;
    case Overlong::kSplit:
      // The last token of a part is the first of the next, so that each is a label once.
      for (size_t begin = 0; begin + 1 < rows[0].tokens.size(); begin += limit - 1) {
        const size_t end = std::min(begin + limit, rows[0].tokens.size());
        if (has_label(rows[0], begin, end)) {
          add_row(out, rows[0], begin, end);
        }
      }
      out.counts.split.add(file.place(i));
      return;
  }
}

void ShardMaker::add_row(TokenShard& shard,
                         const EncodedText& row,
                         size_t begin,
                         size_t end) const {
  const auto append = [&](const std::vector<uint32_t>& from, std::vector<uint32_t>& to) {
    to.insert(to.end(),
              from.begin() + static_cast<ptrdiff_t>(begin),
              from.begin() + static_cast<ptrdiff_t>(end));
  };
  append(row.tokens, shard.tokens);
  if (options_.label_bytes) {
    append(row.bytes, shard.bytes);
  }
  shard.ends.push_back(static_cast<int64_t>(shard.tokens.size()));
}

}  // namespace tenon
