// SPDX-License-Identifier: Apache-2.0
//
// The page of the zoo (tests/faults/zoo/README.md): each member, the checks that fail for it, and
// what they report. The test of the checker collects the rows from its runs. With TENON_UPDATE_ZOO
// it writes the page; else it compares members and checks with the page.
// Threads: one at a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tenon {

// A member of the zoo whom checks were run on.
struct ZooMember {
  std::string name;              // "crashes_in_entry"; "loss no_sum" of a fault of `misbehaves`
  std::set<std::string> checks;  // that failed
  std::string says;              // a text in what they report
  std::string found;             // what the last of them reports
};

// A member that no check can find, and why.
struct UncheckedMember {
  std::string name;
  std::string reason;
};

// The members that checks were run on so far. A member may have several rows.
std::vector<ZooMember>& checked_members();

// The members that the checker cannot find.
std::vector<UncheckedMember> unchecked_members();

// The names of all members: of the built plugins, and of the rows of zoo_test.
std::set<std::string> all_members();

// The page, from the rows of checked_members().
std::string zoo_page();

// The rows of a page: "`NAME` | `check`" and the rest of the row.
std::map<std::string, std::string> rows_of_page(const std::string& page);

std::string zoo_page_path();

}  // namespace tenon
