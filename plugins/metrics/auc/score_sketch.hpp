// SPDX-License-Identifier: Apache-2.0
//
// The weights of the positive and negative samples by score, in a table of fixed size. While the
// table has room, samples are stored as they are. When it is full, neighbors are joined into
// points. A point has at most one of `points` equal parts of the positive weight, or of the
// negative weight, or a single score. So rare positives have as many points as frequent negatives,
// wherever the scores are.
//
// The table is an fp64 tensor [rows + 1, 3]. Row 0 is (number of used rows, number of samples, 0);
// the other rows are (score, positive weight, negative weight).
// Invariant: the sums of both weights are exact.
// Threads: one at a time.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

struct ScorePoint {
  double score = 0.0;
  double positive = 0.0;
  double negative = 0.0;
};

// Joins points of equal score. Returns them in ascending order.
inline std::vector<ScorePoint> sorted_points(std::vector<ScorePoint> points) {
  std::sort(points.begin(), points.end(), [](const ScorePoint& a, const ScorePoint& b) {
    return a.score < b.score;
  });
  size_t used = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (used > 0 && points[used - 1].score == points[i].score) {
      points[used - 1].positive += points[i].positive;
      points[used - 1].negative += points[i].negative;
    } else {
      points[used++] = points[i];
    }
  }
  points.resize(used);
  return points;
}

// Joins neighbors. A joined point has the score of its heaviest part, so frequent scores stay tied.
inline std::vector<ScorePoint> joined_points(std::vector<ScorePoint> points, int64_t num_parts) {
  points = sorted_points(std::move(points));
  double positive = 0.0;
  double negative = 0.0;
  for (const ScorePoint& point : points) {
    positive += point.positive;
    negative += point.negative;
  }
  // Parts are numbered by the weight below the middle of a point.
  const auto part_of = [&](double before, double own, double total) {
    return total > 0.0 ? std::floor((before + 0.5 * own) / total * static_cast<double>(num_parts))
                       : 0.0;
  };
  std::vector<ScorePoint> joined;
  double heaviest = 0.0;
  double last_part = -1.0;
  double positive_before = 0.0;
  double negative_before = 0.0;
  for (const ScorePoint& point : points) {
    const double part = part_of(positive_before, point.positive, positive) +
                        part_of(negative_before, point.negative, negative);
    positive_before += point.positive;
    negative_before += point.negative;
    const double weight = point.positive + point.negative;
    if (part != last_part) {
      joined.push_back(point);
      heaviest = weight;
      last_part = part;
      continue;
    }
    joined.back().positive += point.positive;
    joined.back().negative += point.negative;
    if (weight > heaviest) {
      joined.back().score = point.score;
      heaviest = weight;
    }
  }
  return joined;
}

// The table in a CPU tensor, which is borrowed.
class ScoreSketch {
 public:
  // Rows of the table for N parts of each weight. A table that is full keeps a fourth at
  // most.
  static int64_t rows_for(int64_t num_parts) { return 1 + 8 * num_parts; }

  ScoreSketch(const at::Tensor& table, int64_t num_parts)
      : head_(table.mutable_data_ptr<double>()),
        rows_(reinterpret_cast<ScorePoint*>(head_ + 3)),
        num_rows_(table.size(0) - 1),
        num_parts_(num_parts) {}

  int64_t num_samples() const { return static_cast<int64_t>(head_[1]); }
  std::vector<ScorePoint> points() const { return {rows_, rows_ + num_used()}; }

  void add(const std::vector<ScorePoint>& points, int64_t num_samples) {
    head_[1] += static_cast<double>(num_samples);
    if (num_used() + std::ssize(points) <= num_rows_) {
      std::copy(points.begin(), points.end(), rows_ + num_used());
      head_[0] += static_cast<double>(points.size());
      return;
    }
    std::vector<ScorePoint> all = this->points();
    all.insert(all.end(), points.begin(), points.end());
    const std::vector<ScorePoint> joined = joined_points(std::move(all), num_parts_);
    std::copy(joined.begin(), joined.end(), rows_);
    head_[0] = static_cast<double>(joined.size());
  }

 private:
  int64_t num_used() const { return static_cast<int64_t>(head_[0]); }

  static_assert(sizeof(ScorePoint) == 3 * sizeof(double));
  double* head_;
  ScorePoint* rows_;
  int64_t num_rows_;
  int64_t num_parts_;
};

// Area under the ROC curve of points; equal scores are ties. NaN unless both classes occur.
inline double area_under_points(std::vector<ScorePoint> points) {
  double positive = 0.0;
  double negative = 0.0;
  double wins = 0.0;
  for (const ScorePoint& point : sorted_points(std::move(points))) {
    wins += point.positive * (negative + 0.5 * point.negative);
    positive += point.positive;
    negative += point.negative;
  }
  return positive > 0.0 && negative > 0.0 ? wins / (positive * negative) : std::nan("");
}
