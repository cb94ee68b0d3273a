// SPDX-License-Identifier: Apache-2.0
//
// MovieLens-100k ratings joined with user and film features, read from three tab-separated files
// (ml-100k.inter, .user, .item). All data is in memory: 10 MB. Samples, splits and windows are
// outside this file.
//
// Invariant: immutable after loading.
// Threads: reads from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct MovielensUser {
  int64_t age = 0;
  int64_t gender = 0;      // index among the column's values, in byte order
  int64_t occupation = 0;  // likewise
};

struct MovielensFilm {
  int64_t release_year = 0;  // 0: unknown
  std::vector<int64_t> genres;
};

struct MovielensRating {
  int64_t user_id = 0;
  int64_t item_id = 0;
  uint32_t user = 0;  // index in `users`
  uint32_t film = 0;
  float rating = 0;
  int64_t timestamp = 0;  // Unix time, seconds
};

struct MovielensRatings {
  std::vector<MovielensUser> users;
  std::vector<MovielensFilm> films;
  std::vector<MovielensRating> ratings;  // in file order
};

// Returns the paths of the files of users, films and ratings.
std::array<std::string, 3> movielens_files(const std::string& folder);

// Reads the files of `folder`.
// Errors   movielens.open, .no_file, .read, .short, .changed; movielens.header for a missing
//          column; movielens.row for a wrong column count, an invalid number, a duplicate id, or a
//          rating of an unknown user or film; movielens.empty if there are no ratings. Messages
//          name file and line.
MovielensRatings read_movielens(const std::string& folder);

// Returns the permutation of `torch.randperm(n, generator=Generator().manual_seed(seed))`: a
// Fisher-Yates shuffle with the 32-bit outputs of a Mersenne twister.
//
// Source   Matsumoto, Nishimura, Mersenne Twister (1998); Fisher, Yates (1938)
std::vector<uint32_t> movielens_order(uint32_t n, uint32_t seed);

}  // namespace tenon
