// SPDX-License-Identifier: Apache-2.0
//
// Files of MovieLens that are nearly right are read or refused. A case is a line that names one of
// the three files, and its content; the others are valid.
#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "plugins/datasets/movielens/ratings.hpp"
#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

const std::map<std::string, std::string>& seed_files() {
  static const std::map<std::string, std::string> files = {
      {"ml-100k.user",
       "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
       "1\t24\tM\ttechnician\t85711\n2\t53\tF\tother\t94043\n"},
      {"ml-100k.item",
       "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
       "10\tToy Story\t1995\tAnimation Comedy\n20\tGoldenEye\tunknown\tAction\r\n"},
      {"ml-100k.inter",
       "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
       "1\t10\t3.5\t881250949\n2\t20\t1\t891717742\n"}};
  return files;
}

std::string make_tables(Mutator& mutator) {
  static const std::vector<std::string> names = {
      "ml-100k.user", "ml-100k.item", "ml-100k.inter", "ml-100k.inter"};
  static const std::vector<std::string> words = {
      "\t", "\n", "\r\n", "1\t10\t5\t1\n", "nan", "1e400", "-1", "rating:float", " "};
  static const std::vector<std::string> others = {seed_files().at("ml-100k.user"),
                                                  seed_files().at("ml-100k.inter")};
  const std::string& name = mutator.pick(names);
  const std::string& seed = seed_files().at(name);
  return name + "\n" + (mutator.one_in(16) ? seed : mutator.mutated(seed, words, others));
}

std::string judge_tables(const std::string& input) {
  static const ScratchFolder folder;
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string changed = input.substr(0, end);
  for (const auto& [name, content] : seed_files()) {
    std::ofstream(folder.path() / name, std::ios::binary | std::ios::trunc)
        << (name != changed      ? content
            : end < input.size() ? input.substr(end + 1)
                                 : "");
  }
  try {
    const MovielensRatings read = read_movielens(folder.path().string());
    if (read.ratings.empty()) {
      throw FuzzFinding("no ratings are accepted");
    }
    for (const MovielensRating& rating : read.ratings) {
      if (rating.user >= read.users.size() || rating.film >= read.films.size()) {
        throw FuzzFinding("a rating is of no user or of no film");
      }
    }
  } catch (const Error& error) {
    const std::string id = error.id();
    const std::string_view message = error.what();
    if (!id.starts_with("movielens.") || message.empty() ||
        message.find('\n') != std::string_view::npos) {
      throw FuzzFinding(id + " is not an error of this reader in one line");
    }
    return id;
  }
  return kFuzzAccepted;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::use_memory_for_scratch();
  return tenon::run_fuzz(
      argc,
      argv,
      {.name = "movielens_fuzz", .make = tenon::make_tables, .judge = tenon::judge_tables});
}
