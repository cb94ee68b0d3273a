// SPDX-License-Identifier: Apache-2.0
#include "ratings.hpp"

#include <tenon/cpp/stable_file.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tenon {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) {
      return parts;
    }
    begin = end + 1;
  }
}

// One tab-separated file: a header of "name:type" fields and rows with as many columns.
class TabFile {
 public:
  TabFile(std::string path, const std::vector<std::string>& columns) : path_(std::move(path)) {
    const StableFile file(path_, "movielens");
    text_.resize(static_cast<size_t>(file.size()));
    file.read(0, text_.size(), text_.data());
    file.check_unchanged(0);
    std::vector<std::string_view> lines = split(text_, '\n');
    const std::vector<std::string_view> header = split(trimmed(lines.front()), '\t');
    std::vector<size_t> indices;
    for (const std::string& column : columns) {
      const auto found = std::find_if(header.begin(), header.end(), [&](std::string_view name) {
        return name.substr(0, name.find(':')) == column;
      });
      if (found == header.end()) {
        TENON_FAIL(TENON_INVALID,
                   "movielens.header",
                   path_,
                   " has no column \"",
                   column,
                   "\" in its first line (expected RecBole's ml-100k format)");
      }
      indices.push_back(static_cast<size_t>(found - header.begin()));
    }
    for (size_t i = 1; i < lines.size(); ++i) {
      const std::string_view line = trimmed(lines[i]);
      if (line.empty()) {
        continue;
      }
      const std::vector<std::string_view> fields = split(line, '\t');
      if (fields.size() != header.size()) {
        TENON_FAIL(TENON_INVALID,
                   "movielens.row",
                   path_,
                   ", line ",
                   i + 1,
                   " has ",
                   fields.size(),
                   " columns, but the header has ",
                   header.size());
      }
      std::vector<std::string_view> row;
      for (const size_t index : indices) {
        row.push_back(fields[index]);
      }
      rows_.push_back({i + 1, std::move(row)});
    }
  }

  struct Row {
    size_t line = 0;
    std::vector<std::string_view> fields;  // in the requested order
  };
  const std::vector<Row>& rows() const { return rows_; }
  const std::string& path() const { return path_; }

  template <class T>
  T number(const Row& row, size_t column) const {
    const std::string_view text = row.fields[column];
    T value{};
    const auto end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc{} || result.ptr != end) {
      TENON_FAIL(TENON_INVALID,
                 "movielens.row",
                 path_,
                 ", line ",
                 row.line,
                 ": \"",
                 std::string(text),
                 "\" is not a number");
    }
    return value;
  }

 private:
  static std::string_view trimmed(std::string_view line) {
    return !line.empty() && line.back() == '\r' ? line.substr(0, line.size() - 1) : line;
  }

  std::string path_;
  std::string text_;
  std::vector<Row> rows_;
};

// Maps each value of a column to its index in byte order.
std::map<std::string_view, int64_t> indices_of(const std::set<std::string_view>& values) {
  std::map<std::string_view, int64_t> indices;
  for (const std::string_view value : values) {
    indices.emplace(value, static_cast<int64_t>(indices.size()));
  }
  return indices;
}

std::map<std::string_view, int64_t> indices_of(const TabFile& file, size_t column) {
  std::set<std::string_view> values;
  for (const TabFile::Row& row : file.rows()) {
    values.insert(row.fields[column]);
  }
  return indices_of(values);
}

using IndexById = std::unordered_map<int64_t, uint32_t>;

int64_t new_id(const TabFile& file, const TabFile::Row& row, IndexById& indices) {
  const auto id = file.number<int64_t>(row, 0);
  if (!indices.emplace(id, static_cast<uint32_t>(indices.size())).second) {
    TENON_FAIL(
        TENON_INVALID, "movielens.row", file.path(), ", line ", row.line, ": duplicate id ", id);
  }
  return id;
}

uint32_t index_of(const TabFile& file,
                  const TabFile::Row& row,
                  int64_t id,
                  const IndexById& indices,
                  const char* what) {
  const auto found = indices.find(id);
  if (found == indices.end()) {
    TENON_FAIL(TENON_INVALID,
               "movielens.row",
               file.path(),
               ", line ",
               row.line,
               " refers to ",
               what,
               " ",
               id,
               ", which is missing from its file");
  }
  return found->second;
}

// Unknown years have several spellings, none of them a number.
int64_t year_of(std::string_view text) {
  int64_t year = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), year);
  return result.ec == std::errc{} && result.ptr == text.data() + text.size() ? year : 0;
}

}  // namespace

std::array<std::string, 3> movielens_files(const std::string& folder) {
  const std::string prefix = folder + "/ml-100k";
  return {prefix + ".user", prefix + ".item", prefix + ".inter"};
}

MovielensRatings read_movielens(const std::string& folder) {
  const auto [user_file, item_file, rating_file] = movielens_files(folder);
  const TabFile users(user_file, {"user_id", "age", "gender", "occupation"});
  const TabFile films(item_file, {"item_id", "release_year", "class"});
  const TabFile ratings(rating_file, {"user_id", "item_id", "rating", "timestamp"});
  MovielensRatings out;

  const auto genders = indices_of(users, 2);
  const auto occupations = indices_of(users, 3);
  IndexById user_indices;
  for (const TabFile::Row& row : users.rows()) {
    new_id(users, row, user_indices);
    out.users.push_back(
        {users.number<int64_t>(row, 1), genders.at(row.fields[2]), occupations.at(row.fields[3])});
  }

  std::set<std::string_view> genre_names;
  const auto genres_of = [](const TabFile::Row& row) {
    std::vector<std::string_view> names = split(row.fields[2], ' ');
    names.erase(std::remove(names.begin(), names.end(), std::string_view()), names.end());
    return names;
  };
  for (const TabFile::Row& row : films.rows()) {
    const auto names = genres_of(row);
    genre_names.insert(names.begin(), names.end());
  }
  const auto genres = indices_of(genre_names);
  IndexById film_indices;
  for (const TabFile::Row& row : films.rows()) {
    new_id(films, row, film_indices);
    MovielensFilm film;
    film.release_year = year_of(row.fields[1]);
    for (const std::string_view name : genres_of(row)) {
      film.genres.push_back(genres.at(name));
    }
    out.films.push_back(std::move(film));
  }

  for (const TabFile::Row& row : ratings.rows()) {
    MovielensRating rating;
    rating.user_id = ratings.number<int64_t>(row, 0);
    rating.item_id = ratings.number<int64_t>(row, 1);
    rating.user = index_of(ratings, row, rating.user_id, user_indices, "user");
    rating.film = index_of(ratings, row, rating.item_id, film_indices, "film");
    rating.rating = ratings.number<float>(row, 2);
    rating.timestamp = ratings.number<int64_t>(row, 3);
    out.ratings.push_back(rating);
  }
  if (out.ratings.empty()) {
    TENON_FAIL(TENON_INVALID, "movielens.empty", ratings.path(), " has no ratings");
  }
  return out;
}

std::vector<uint32_t> movielens_order(uint32_t n, uint32_t seed) {
  std::mt19937 numbers(seed);
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  for (uint32_t i = 0; i + 1 < n; ++i) {
    std::swap(order[i], order[i + static_cast<uint32_t>(numbers() % (n - i))]);
  }
  return order;
}

}  // namespace tenon
