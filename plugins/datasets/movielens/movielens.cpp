// SPDX-License-Identifier: Apache-2.0
//
// MovieLens-100k ratings as samples: ids and features of user and film, with "did the user like it"
// as the label.
//
// Invariants: a sample is a pure function of its index and the options. Histories contain only
// earlier ratings, and none of the validation or test part, so they leak no labels.
// Threads: reads share immutable state.
//
// Source: Harper, Konstan, The MovieLens Datasets: History and Context, ACM TiiS 5 (2015).
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/source_files.hpp>

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ratings.hpp"

namespace {

enum class Split { kAll, kTrain, kValid, kTest };
enum class Keep { kAll, kLiked };

struct MovielensOptions {
  std::string path;
  Split split = Split::kAll;
  int64_t split_seed = 2020;
  double liked_from = 4.0;
  Keep keep = Keep::kAll;
  int64_t history = 0;
  std::optional<int64_t> windows;
  std::optional<int64_t> window_days;
};

constexpr int64_t kSecondsPerDay = 86400;
constexpr size_t kMaxGenres = 6;  // per film in the dataset

class Movielens : public tenon::MapDataset, public tenon::SourceFiles {
 public:
  static constexpr const char* kType = "movielens";
  static constexpr const char* kSummary = "MovieLens-100k ratings with user and film features";
  using Options = MovielensOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("path", &Options::path)
        .required()
        .non_empty()
        .path()
        .doc("folder with ml-100k.inter, ml-100k.user and ml-100k.item");
    binder
        .choice("split",
                &Options::split,
                {{"all", Split::kAll},
                 {"train", Split::kTrain},
                 {"valid", Split::kValid},
                 {"test", Split::kTest}})
        .doc("random part of the ratings: train 80%, valid 10%, test 10%, or all");
    binder.field("split_seed", &Options::split_seed)
        .min(0)
        .max(4294967295.0)
        .doc("seed of the split");
    binder.field("liked_from", &Options::liked_from).doc("smallest rating with label 1");
    binder.choice("keep", &Options::keep, {{"all", Keep::kAll}, {"liked", Keep::kLiked}})
        .doc("samples to keep: all, or only those with label 1");
    binder.field("history", &Options::history)
        .min(0)
        .max(100000)
        .doc("maximum length of `history`; 0: no such field");
    binder.field("windows", &Options::windows)
        .min(1)
        .max(1000000)
        .doc("number of windows of equal size, in time order; null: no windows");
    binder.field("window_days", &Options::window_days)
        .min(1)
        .doc("length of a window, days; empty windows are skipped; null: no windows");
  }

  explicit Movielens(Options options) : options_(std::move(options)) {
    if (options_.windows && options_.window_days) {
      TENON_FAIL(TENON_INVALID,
                 "movielens.windows",
                 "both `windows` and `window_days` are set; set only one");
    }
  }

  void describe(tenon::DatasetInfo& info) override {
    data_ = tenon::read_movielens(options_.path);
    choose_samples();
    for (const char* const name :
         {"user_id", "item_id", "age", "gender", "occupation", "release_year", "timestamp"}) {
      info.field(name, {"B"}, TENON_I64);
    }
    info.field("rating", {"B"}, TENON_F32);
    info.field("label", {"B"}, TENON_F32);
    info.field("genres.values", {tenon::Axis(-1)}, TENON_I64);
    info.field("genres.offsets", {tenon::Axis(-1)}, TENON_I64);
    if (options_.history > 0) {
      info.field("history.values", {tenon::Axis(-1)}, TENON_I64);
      info.field("history.offsets", {tenon::Axis(-1)}, TENON_I64);
    }
    if (options_.windows || options_.window_days) {
      cut_windows();
      info.windows();
    }
  }

  const void* extension(const char* id) override {
    return tenon::SourceFilesCalls<Movielens>::find(id);
  }
  // All windows are cut from the same files.
  void list_files(const tenon_window*, tenon::SourceFileList& files) override {
    for (const std::string& file : tenon::movielens_files(options_.path)) {
      files.add(file);
    }
  }

  int64_t size(const tenon_window* window) override {
    return window == nullptr ? static_cast<int64_t>(samples_.size()) : piece_of(*window).size;
  }

  bool next_window(tenon::Window& out) override {
    if (next_window_ == pieces_.size()) {
      return false;
    }
    const Piece& piece = pieces_[next_window_++];
    out.id = piece.id;
    out.label = piece.label;
    out.size = piece.size;
    return true;
  }
  void reset(uint64_t) override { next_window_ = 0; }

  void read(const tenon_window* window,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const int64_t first = window == nullptr ? 0 : piece_of(*window).first;
    const int64_t num_samples = size(window);
    const auto batch = static_cast<int64_t>(n);
    const auto ids = [&](uint32_t field) { return writer.add<int64_t>(field, {batch}); };
    auto* user_id = ids(kUserId);
    auto* item_id = ids(kItemId);
    auto* age = ids(kAge);
    auto* gender = ids(kGender);
    auto* occupation = ids(kOccupation);
    auto* release_year = ids(kReleaseYear);
    auto* timestamp = ids(kTimestamp);
    auto* stars = writer.add<float>(kRating, {batch});
    auto* label = writer.add<float>(kLabel, {batch});
    std::vector<int64_t> genres;
    std::vector<int64_t> history;
    std::vector<int64_t> genre_ends;
    std::vector<int64_t> history_ends;
    for (size_t b = 0; b < n; ++b) {
      TENON_CHECK(0 <= indices[b] && indices[b] < num_samples,
                  "rating ",
                  indices[b],
                  " is out of range [0, ",
                  num_samples,
                  ")");
      const tenon::MovielensRating& rating =
          data_.ratings[samples_[static_cast<size_t>(first + indices[b])]];
      const tenon::MovielensUser& user = data_.users[rating.user];
      const tenon::MovielensFilm& film = data_.films[rating.film];
      user_id[b] = rating.user_id;
      item_id[b] = rating.item_id;
      age[b] = user.age;
      gender[b] = user.gender;
      occupation[b] = user.occupation;
      release_year[b] = film.release_year;
      timestamp[b] = rating.timestamp;
      stars[b] = rating.rating;
      label[b] = is_liked(rating) ? 1.0F : 0.0F;
      genres.insert(genres.end(),
                    film.genres.begin(),
                    film.genres.begin() +
                        static_cast<std::ptrdiff_t>(std::min(film.genres.size(), kMaxGenres)));
      genre_ends.push_back(static_cast<int64_t>(genres.size()));
      add_history(rating, history);
      history_ends.push_back(static_cast<int64_t>(history.size()));
    }
    write_ragged(writer, kGenreValues, genres, genre_ends);
    if (options_.history > 0) {
      write_ragged(writer, kHistoryValues, history, history_ends);
    }
    writer.set_counts(batch, 0);
  }

 private:
  // In the order of declaration in `describe`.
  enum Field : uint32_t {
    kUserId,
    kItemId,
    kAge,
    kGender,
    kOccupation,
    kReleaseYear,
    kTimestamp,
    kRating,
    kLabel,
    kGenreValues,
    kGenreOffsets,
    kHistoryValues,
    kHistoryOffsets
  };
  struct Piece {
    uint64_t id = 0;
    std::string label;
    int64_t first = 0;  // index of its first sample
    int64_t size = 0;
  };
  struct Liked {
    int64_t timestamp = 0;
    int64_t item_id = 0;
  };

  static void write_ragged(tenon::BatchWriter& writer,
                           uint32_t values_field,
                           const std::vector<int64_t>& values,
                           const std::vector<int64_t>& ends) {
    std::copy(values.begin(),
              values.end(),
              writer.add<int64_t>(values_field, {static_cast<int64_t>(values.size())}));
    auto* offsets = writer.add<int64_t>(values_field + 1, {static_cast<int64_t>(ends.size()) + 1});
    *offsets = 0;
    std::copy(ends.begin(), ends.end(), offsets + 1);
  }

  bool is_liked(const tenon::MovielensRating& rating) const {
    return static_cast<double>(rating.rating) >= options_.liked_from;
  }

  // Selects the ratings that are samples, and the liked films that histories may contain.
  void choose_samples() {
    const std::vector<tenon::MovielensRating>& ratings = data_.ratings;
    const std::vector<uint32_t> order = tenon::movielens_order(
        static_cast<uint32_t>(ratings.size()), static_cast<uint32_t>(options_.split_seed));
    const size_t train_end = ratings.size() * 8 / 10;
    const size_t valid_end = ratings.size() * 9 / 10;
    const size_t begin = options_.split == Split::kValid  ? train_end
                         : options_.split == Split::kTest ? valid_end
                                                          : 0;
    const size_t end = options_.split == Split::kTrain   ? train_end
                       : options_.split == Split::kValid ? valid_end
                                                         : ratings.size();
    for (size_t i = begin; i < end; ++i) {
      if (options_.keep == Keep::kAll || is_liked(ratings[order[i]])) {
        samples_.push_back(order[i]);
      }
    }
    if (samples_.empty()) {
      TENON_FAIL(TENON_INVALID,
                 "movielens.empty",
                 options_.path,
                 " has no ratings left after `split`, `keep` and `liked_from`");
    }
    liked_.resize(data_.users.size());
    const size_t known_end = options_.split == Split::kAll ? ratings.size() : train_end;
    for (size_t i = 0; i < known_end; ++i) {
      const tenon::MovielensRating& rating = ratings[order[i]];
      if (is_liked(rating)) {
        liked_[rating.user].push_back({rating.timestamp, rating.item_id});
      }
    }
    for (std::vector<Liked>& of_user : liked_) {
      std::sort(of_user.begin(), of_user.end(), [](const Liked& a, const Liked& b) {
        return std::pair(a.timestamp, a.item_id) < std::pair(b.timestamp, b.item_id);
      });
    }
  }

  // Most recent first, so that a prefix has the most recent films.
  void add_history(const tenon::MovielensRating& rating, std::vector<int64_t>& out) const {
    const std::vector<Liked>& liked = liked_[rating.user];
    const auto now = std::lower_bound(
        liked.begin(), liked.end(), rating.timestamp, [](const Liked& past, int64_t time) {
          return past.timestamp < time;
        });
    const auto length = std::min<int64_t>(options_.history, now - liked.begin());
    for (auto past = now; past != now - length;) {
      out.push_back((--past)->item_id);
    }
  }

  void cut_windows() {
    std::sort(samples_.begin(), samples_.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(data_.ratings[a].timestamp, a) < std::pair(data_.ratings[b].timestamp, b);
    });
    const auto num_samples = static_cast<int64_t>(samples_.size());
    const auto add_piece = [&](uint64_t id, int64_t first, int64_t end) {
      const int64_t time = data_.ratings[samples_[static_cast<size_t>(first)]].timestamp;
      pieces_.push_back({id, label_of(time), first, end - first});
    };
    if (options_.windows) {
      const int64_t count = *options_.windows;
      if (count > num_samples) {
        TENON_FAIL(TENON_INVALID,
                   "movielens.windows",
                   "`windows` is ",
                   count,
                   ", but only ",
                   num_samples,
                   " samples are left; each window needs at least one");
      }
      for (int64_t i = 0; i < count; ++i) {
        add_piece(static_cast<uint64_t>(i), num_samples * i / count, num_samples * (i + 1) / count);
      }
      return;
    }
    const auto number_of = [&](int64_t sample) {
      return data_.ratings[samples_[static_cast<size_t>(sample)]].timestamp / kSecondsPerDay /
             *options_.window_days;
    };
    for (int64_t first = 0, end = 0; first < num_samples; first = end) {
      const int64_t number = number_of(first);
      while (end < num_samples && number_of(end) == number) {
        ++end;
      }
      add_piece(static_cast<uint64_t>(number), first, end);
    }
  }

  // Time of a window's first sample, UTC.
  std::string label_of(int64_t time) const {
    const std::time_t seconds = time;
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    std::array<char, 32> text{};
    const char* const format = options_.window_days ? "%Y-%m-%d" : "%Y-%m-%d %H:%M";
    return std::string(text.data(), std::strftime(text.data(), text.size(), format, &parts));
  }

  const Piece& piece_of(const tenon_window& window) const {
    const auto found = std::find_if(
        pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.id == window.id; });
    TENON_CHECK(found != pieces_.end(), "no window ", window.id);
    return *found;
  }

  Options options_;
  tenon::MovielensRatings data_;
  std::vector<uint32_t> samples_;          // indices into data_.ratings
  std::vector<std::vector<Liked>> liked_;  // per user, in time order
  std::vector<Piece> pieces_;
  size_t next_window_ = 0;
};

}  // namespace

TENON_PLUGIN(Movielens)
