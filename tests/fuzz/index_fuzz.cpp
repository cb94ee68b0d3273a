// SPDX-License-Identifier: Apache-2.0
//
// Indexes of checkpoints that are nearly right, and the parts of them that ranks send, are read or
// refused. A case is the text of index.json or of a part.
#include "tests/fuzz/checkpoint_corpus.hpp"
#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"

namespace tenon {
namespace {

std::string make_index(Mutator& mutator) {
  static const JsonCases indexes({index_text(merged(corpus_metadata(7), corpus_shares(1))),
                                  index_text(merged(corpus_metadata(9), corpus_shares(2)))});
  static const JsonCases parts({share_text(corpus_shares(1)[0]), share_text(corpus_shares(2)[1])});
  return mutator.one_in(4) ? parts.make(mutator) : indexes.make(mutator);
}

void check_index(const std::string& text) {
  const CheckpointIndex index = index_of(text, "runs/a/checkpoints/step-7");
  const std::string written = index_text(index);
  if (index_text(index_of(written, "again")) != written) {
    throw FuzzFinding("an accepted index differs when it is written and read again");
  }
  (void)index.tensor_bytes();
}

void check_share(const std::string& text) {
  const RankShare share = share_of(text);
  const std::string written = share_text(share);
  if (share_text(share_of(written)) != written) {
    throw FuzzFinding("an accepted part differs when it is written and read again");
  }
  (void)outcome_of([&] {
    const CheckpointIndex index = merged(corpus_metadata(7), {corpus_shares(2)[0], share});
    check_index(index_text(index));
  });
}

std::string judge_index(const std::string& text) {
  const std::string index = outcome_of([&] { check_index(text); });
  const std::string share = outcome_of([&] { check_share(text); });
  return share == kFuzzAccepted ? share : index;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc, argv, {.name = "index_fuzz", .make = tenon::make_index, .judge = tenon::judge_index});
}
