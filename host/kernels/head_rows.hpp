// SPDX-License-Identifier: Apache-2.0
//
// Cross entropy of a tile of fp32 logits, without ATen. A row of logits is seen in tiles, which are
// parts of its classes: first all tiles add to the row's sums, then each tile gives its gradient.
// Invariant: rows are independent, so no result depends on how rows are assigned to threads.
//
// Source: the formula of head_loss.hpp; merged sums: Milakov and Gimelshein, Online normalizer
// calculation for softmax (2018), algorithm 3.
#pragma once

#include <cstdint>
#include <limits>

namespace tenon {

// What the loss of one row needs. Kept from forward to backward.
struct HeadRow {
  double largest = -std::numeric_limits<double>::infinity();  // m = max(x)
  double sum = 0.0;                                           // sum(exp(x - m))
  double at_label = 0.0;                                      // x[y]
  double total = 0.0;                                         // sum(x); only with label smoothing
};

struct HeadOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
  double z_loss = 0.0;
};

// Dense logits of the classes [first, first + columns) of `num_classes`. Row i has label labels[i].
struct LogitTile {
  float* logits = nullptr;
  int64_t columns = 0;
  int64_t first = 0;
  int64_t num_classes = 0;
  const int64_t* labels = nullptr;
};

// Adds the tile to rows[begin] to rows[end - 1]. Rows with an ignored label stay as they are.
void add_tile(
    const LogitTile& tile, const HeadOptions& options, HeadRow* rows, int64_t begin, int64_t end);

// Adds what another row has of other classes, with the same label.
void add_row(HeadRow& row, const HeadRow& part);

// Adds the tile as above. Then replaces its logits by exp(x - m) for the m of the tiles so far, and
// that of the label by 0; all of an ignored row by 0. Sets factors[i] to exp(old m - m): a sum over
// earlier tiles, times the factor, fits this tile.
void add_and_exponentiate(const LogitTile& tile,
                          const HeadOptions& options,
                          HeadRow* rows,
                          float* factors,
                          int64_t begin,
                          int64_t end);

// The gradient of a row's loss by its logits is others * exp(x - m) - spread, except at the label,
// where it is at_label.
struct HeadSlopes {
  double others = 0.0;
  double at_label = 0.0;
  double spread = 0.0;
};

// For a row to which all tiles were added.
HeadSlopes slopes_of(const HeadRow& row, int64_t num_classes, const HeadOptions& options);

// The loss of a row to which all tiles were added.
double loss_of(const HeadRow& row, int64_t num_classes, const HeadOptions& options);

// Replaces the logits by seeds[i] times the gradient of the loss of row i; 0 for an ignored label.
void replace_by_gradient(const LogitTile& tile,
                         const HeadOptions& options,
                         const HeadRow* rows,
                         const float* seeds,
                         int64_t begin,
                         int64_t end);

}  // namespace tenon
