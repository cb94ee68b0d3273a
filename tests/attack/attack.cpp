// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/attack.hpp"

#include <iostream>
#include <system_error>

namespace tenon {
namespace {

constexpr std::uint64_t kShownEach = 50;  // cases between two lines of progress

}  // namespace

void Attack::count_one() {
  ++tally_.tried;
  if (tally_.tried % kShownEach == 0) {
    std::cout << tally_.name << ": " << tally_.tried << " tried, " << tally_.findings.size()
              << " findings" << std::endl;
  }
}

void Attack::begin_case(std::uint64_t number) {
  case_ = number;
  std::seed_seq seeds{range_.seed, number};
  random_.seed(seeds);
}

void Attack::survived(const std::string& outcome) {
  ++tally_.outcomes[outcome];
  count_one();
}

void Attack::found(const std::string& what, const std::filesystem::path& folder) {
  Finding finding;
  finding.what = what;
  finding.repeat = "attack --seed " + std::to_string(range_.seed) + " --first " +
                   std::to_string(case_) + " --count 1 " + tally_.name;
  if (!folder.empty()) {
    const std::filesystem::path kept =
        folder_.parent_path() / "findings" /
        (tally_.name + "-" + std::to_string(range_.seed) + "-" + std::to_string(case_));
    std::error_code failed;
    std::filesystem::create_directories(kept.parent_path(), failed);
    std::filesystem::remove_all(kept, failed);
    std::filesystem::rename(folder, kept, failed);
    finding.folder = (failed ? folder : kept).string();
  }
  std::cout << tally_.name << ": FINDING: " << what << std::endl;
  tally_.findings.push_back(std::move(finding));
  count_one();
}

}  // namespace tenon
