// SPDX-License-Identifier: Apache-2.0
//
// The feature plugins: against figures of the libraries that define the hashes
// (tests/parity/features_golden.json), n-grams against a direct computation (ngram_golden.json),
// and numbers counted by hand for the rest.
#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/feature_call.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"

using namespace tenon;
using Ids = std::vector<int64_t>;

namespace {

nlohmann::json golden_features() {
  std::ifstream file(source_dir() / "tests/parity/features_golden.json");
  return nlohmann::json::parse(file);
}

int64_t id_at(const nlohmann::json& entry, const std::string& key) {
  return static_cast<int64_t>(std::stoull(entry.at(key).get<std::string>()));
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

TypedColumn ids(const Ids& values) {
  return fixed_column(at::tensor(values, at::kLong));
}

// What one step makes of one column.
TypedColumn step(const std::string& type, const std::string& options, const TypedColumn& input) {
  return call_feature(type, options, {input}).at(0);
}

}  // namespace

TEST_CASE("hashes of texts are those of the libraries that define them", "[plugins]") {
  const nlohmann::json cases = golden_features().at("texts");
  std::vector<std::string> texts;
  for (const nlohmann::json& entry : cases) {
    texts.push_back(bytes_of_hex(entry.at("hex").get<std::string>()));
  }
  REQUIRE(texts.size() > 50);
  for (const std::string function : {"farm", "murmur64", "murmur3"}) {
    const TypedColumn made =
        step("hash", R"({"function": ")" + function + R"("})", text_column(texts));
    CHECK(made.type == ColumnType{.dtype = TENON_I64});
    const Ids found = ids_of(made);
    REQUIRE(found.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO(function << " of " << texts[i].size() << " bytes");
      CHECK(found[i] == id_at(cases[i], function));
    }
  }
}

TEST_CASE("hashes of integers are those of their eight bytes", "[plugins]") {
  const nlohmann::json cases = golden_features().at("integers");
  Ids values;
  for (const nlohmann::json& entry : cases) {
    values.push_back(std::stoll(entry.at("value").get<std::string>()));
  }
  for (const std::string function : {"farm", "murmur64", "murmur3"}) {
    const Ids found = ids_of(step("hash", R"({"function": ")" + function + R"("})", ids(values)));
    REQUIRE(found.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      INFO(function << " of " << values[i]);
      CHECK(found[i] == id_at(cases[i], function));
    }
  }
}

TEST_CASE("hashes keep the lists and the weights of what they are made of", "[plugins]") {
  const TypedColumn made = step("hash", "{}", text_list_column({{"a", "bb"}, {}, {"", "a"}}));
  CHECK(made.type == ColumnType{.dtype = TENON_I64, .num_levels = 1});
  CHECK(offsets_of(made) == Ids{0, 2, 2, 4});
  const Ids found = ids_of(made);
  CHECK(found ==
        Ids{found[0], found[1], ids_of(step("hash", "{}", text_column({""})))[0], found[0]});
  const TypedColumn lists =
      step("hash",
           "{}",
           list_column(at::tensor(Ids{7, 8}, at::kLong), {0, 0, 2}, at::tensor({0.5F, 2.0F})));
  CHECK(offsets_of(lists) == Ids{0, 0, 2});
  CHECK(weights_of(lists) == std::vector<float>{0.5F, 2.0F});
  CHECK(ids_of(lists) == ids_of(step("hash", "{}", ids({7, 8}))));
  const TypedColumn wide =
      step("hash", "{}", fixed_column(at::tensor(Ids{7, 8, 9, 7}, at::kLong).reshape({2, 2})));
  CHECK(wide.type == ColumnType{.dtype = TENON_I64, .width = 2});
  CHECK(wide.column.values.sizes() == at::IntArrayRef{2, 2});
}

TEST_CASE("multi_hash gives four small ids of each id", "[plugins]") {
  const nlohmann::json data = golden_features();
  Ids values;
  for (const nlohmann::json& entry : data.at("integers")) {
    values.push_back(std::stoll(entry.at("value").get<std::string>()));
  }
  for (const nlohmann::json& one : data.at("multi_hashes")) {
    const std::string options = nlohmann::json{{"buckets", one.at("buckets")}}.dump();
    INFO(options);
    const std::vector<TypedColumn> made = call_feature("multi_hash", options, {ids(values)});
    REQUIRE(made.size() == 4);
    for (std::size_t output = 0; output < made.size(); ++output) {
      Ids expected;
      for (const nlohmann::json& of_value : one.at("ids")) {
        expected.push_back(of_value.at(output).get<int64_t>());
      }
      CHECK(ids_of(made[output]) == expected);
    }
  }
  // One number stands for four.
  CHECK(ids_of(call_feature("multi_hash", R"({"buckets": [10]})", {ids(values)})[3]) ==
        ids_of(call_feature("multi_hash", R"({"buckets": [10, 10, 10, 10]})", {ids(values)})[3]));
  const std::vector<TypedColumn> lists =
      call_feature("multi_hash",
                   R"({"buckets": [10]})",
                   {list_column(at::tensor(Ids{5}, at::kLong), {0, 0, 1})});
  CHECK(offsets_of(lists[2]) == Ids{0, 0, 1});
  CHECK_THAT(error_of([] { call_feature("multi_hash", R"({"buckets": [1, 2]})", {ids({1})}); }),
             contains_text("1 or 4 numbers"));
}

TEST_CASE("a cross of single ids is the hash of the pair", "[plugins]") {
  const nlohmann::json pairs = golden_features().at("pairs");
  Ids left;
  Ids right;
  Ids expected;
  for (const nlohmann::json& pair : pairs) {
    left.push_back(std::stoll(pair.at("left").get<std::string>()));
    right.push_back(std::stoll(pair.at("right").get<std::string>()));
    expected.push_back(id_at(pair, "murmur64"));
  }
  const TypedColumn made = call_feature("cross", "{}", {ids(left), ids(right)}).at(0);
  CHECK(made.type == ColumnType{.dtype = TENON_I64});
  CHECK(ids_of(made) == expected);
}

TEST_CASE("a cross of lists has each id of one with each of the other, sorted and once",
          "[plugins]") {
  const auto pair = [](int64_t a, int64_t b) {
    return ids_of(call_feature("cross", "{}", {ids({a}), ids({b})}).at(0)).front();
  };
  const TypedColumn left = list_column(
      at::tensor(Ids{3, 1, 3, 9}, at::kLong), {0, 3, 3, 4}, at::tensor({0.5F, 2.0F, 7.0F, 1.0F}));
  const TypedColumn right = list_column(at::tensor(Ids{-4, 8, 8}, at::kLong), {0, 2, 3, 3});
  const TypedColumn made = call_feature("cross", "{}", {left, right}).at(0);
  CHECK(made.type == ColumnType{.dtype = TENON_I64, .num_levels = 1, .has_weights = true});
  CHECK(offsets_of(made) == Ids{0, 4, 4, 4});
  CHECK(ids_of(made) == Ids{pair(1, -4), pair(1, 8), pair(3, -4), pair(3, 8)});
  CHECK(weights_of(made) == std::vector<float>{2.0F, 2.0F, 0.5F, 0.5F});
  // Weights of both are multiplied; a single id is a list of one.
  const TypedColumn weighted =
      list_column(at::tensor(Ids{8, 8}, at::kLong), {0, 1, 1, 2}, at::tensor({3.0F, 4.0F}));
  CHECK(weights_of(call_feature("cross", "{}", {left, weighted}).at(0)) ==
        std::vector<float>{6.0F, 1.5F, 4.0F});
  const TypedColumn mixed = call_feature("cross", "{}", {ids({7, 7, 7}), right}).at(0);
  CHECK(offsets_of(mixed) == Ids{0, 2, 3, 3});
  CHECK(ids_of(mixed) == Ids{pair(7, -4), pair(7, 8), pair(7, 8)});
  const TypedColumn rows =
      fixed_column(at::tensor(Ids{5, 6, 6, 6, 2, 1}, at::kLong).reshape({3, 2}));
  CHECK(offsets_of(call_feature("cross", "{}", {ids({7, 7, 7}), rows}).at(0)) == Ids{0, 2, 3, 5});
  CHECK_THAT(error_of([&] { call_feature("cross", "{}", {left}); }),
             contains_text("requires two columns, found 1"));
  CHECK_THAT(error_of([&] {
               call_feature("cross", "{}", {left, text_column({"a", "b", "c"})});
             }),
             contains_text("hash text first"));
}

TEST_CASE("truncate keeps heads or tails, with their weights", "[plugins]") {
  const TypedColumn lists = list_column(at::tensor(Ids{1, 2, 3, 4, 5, 6}, at::kLong),
                                        {0, 3, 3, 4, 6},
                                        at::tensor({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}));
  const TypedColumn tails = step("truncate", R"({"length": 2})", lists);
  CHECK(tails.type == lists.type);
  CHECK(offsets_of(tails) == Ids{0, 2, 2, 3, 5});
  CHECK(ids_of(tails) == Ids{2, 3, 4, 5, 6});
  CHECK(weights_of(tails) == std::vector<float>{2, 3, 4, 5, 6});
  const TypedColumn heads = step("truncate", R"({"length": 1, "keep": "head"})", lists);
  CHECK(offsets_of(heads) == Ids{0, 1, 1, 2, 3});
  CHECK(ids_of(heads) == Ids{1, 4, 5});
  const TypedColumn same = step("truncate", R"({"length": 3})", lists);
  CHECK(same.column.values.is_same(lists.column.values));
  CHECK(same.column.offsets.at(0).is_same(lists.column.offsets.at(0)));
  CHECK(ids_of(step("truncate", R"({"length": 0})", lists)).empty());
  const std::string refusal =
      error_of([&] { step("truncate", R"({"length": 2, "check_length": true})", lists); });
  CHECK_THAT(refusal, contains_text("sample 0 of the batch has 3 entries, but `length` is 2"));
  for (const at::ScalarType dtype : {at::kFloat, at::kByte, at::kInt, at::kBool}) {
    const TypedColumn other = list_column(at::tensor({1, 0, 1}, at::kLong).to(dtype), {0, 3});
    CHECK(step("truncate", R"({"length": 2})", other)
              .column.values.equal(at::tensor({0, 1}, at::kLong).to(dtype)));
  }
}

TEST_CASE("pad makes rows of lists", "[plugins]") {
  const TypedColumn lists = list_column(at::tensor(Ids{1, 2, 3, 4}, at::kLong), {0, 3, 3, 4});
  const TypedColumn rows = step("pad", R"({"length": 2, "value": -1})", lists);
  CHECK(rows.type == ColumnType{.dtype = TENON_I64, .width = 2});
  CHECK(ids_of(rows) == Ids{2, 3, -1, -1, 4, -1});
  CHECK(ids_of(step("pad", R"({"length": 2, "keep": "head", "side": "head"})", lists)) ==
        Ids{1, 2, 0, 0, 0, 4});
  CHECK(ids_of(step("pad", R"({"length": 4, "side": "head"})", lists)) ==
        Ids{0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 4});
  const TypedColumn reals = list_column(at::tensor({1.5F}), {0, 0, 1});
  CHECK(step("pad", R"({"length": 1, "value": 0.25})", reals)
            .column.values.equal(at::tensor({0.25F, 1.5F}).reshape({2, 1})));
  CHECK_THAT(error_of([&] { step("pad", R"({"length": 2, "value": 0.5})", lists); }),
             contains_text("which does not fit i64"));
  CHECK_THAT(
      error_of([&] {
        step("pad", R"({"length": 2})", list_column(at::tensor(Ids{1}), {0, 1}, at::ones({1})));
      }),
      contains_text("without weights"));
  CHECK_THAT(error_of([&] { step("pad", R"({"length": 2})", ids({1})); }),
             contains_text("requires a column of lists"));
}

TEST_CASE("log is of the value and an offset", "[plugins]") {
  const at::Tensor values = at::tensor({0.0, 1.0, 9.0}, at::kDouble);
  const TypedColumn plain = step("log", "{}", fixed_column(values));
  CHECK(plain.type == ColumnType{.dtype = TENON_F64});
  CHECK(at::allclose(plain.column.values, values.log1p(), 1e-15, 0));
  const TypedColumn narrow = step("log", "{}", fixed_column(values.to(at::kLong)));
  CHECK(narrow.type == ColumnType{.dtype = TENON_F32});
  CHECK(at::allclose(narrow.column.values, values.log1p().to(at::kFloat), 1e-7, 0));
  CHECK(step("log", R"({"offset": 0})", fixed_column(at::tensor({std::exp(2.0)}, at::kDouble)))
            .column.values.item<double>() == Approx(2).epsilon(1e-15));
  const at::Tensor below = at::tensor({-3.0, 0.0, 3.0}, at::kDouble);
  CHECK(at::allclose(step("log", R"({"below": "clip"})", fixed_column(below)).column.values,
                     at::tensor({0.0, 0.0, std::log(4.0)}, at::kDouble)));
  CHECK(at::allclose(
      step("log", R"({"below": "signed", "offset": 2})", fixed_column(below)).column.values,
      at::tensor({-std::log(2.5), 0.0, std::log(2.5)}, at::kDouble)));
  CHECK_THAT(error_of([&] {
               step("log", "{}", fixed_column(at::tensor({1.0, 2.0, 3.0, -4.0}).reshape({2, 2})));
             }),
             contains_text("sample 1 of the batch has the value -4"));
  CHECK_THAT(error_of([&] {
               step("log", R"({"offset": 0})", list_column(at::tensor({5.0, 0.0}), {0, 0, 1, 2}));
             }),
             contains_text("sample 2 of the batch has the value 0"));
}

TEST_CASE("clip moves values into an interval", "[plugins]") {
  CHECK(ids_of(step("clip", R"({"min": -2, "max": 5})", ids({-3, -2, 0, 5, 6}))) ==
        Ids{-2, -2, 0, 5, 5});
  const int64_t most = std::numeric_limits<int64_t>::max();
  CHECK(ids_of(step("clip", R"({"min": 0})", ids({-3, most}))) == Ids{0, most});
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TypedColumn reals =
      step("clip", R"({"max": 0.5})", fixed_column(at::tensor({-inf, 0.25F, inf, nan})));
  CHECK(reals.column.values.narrow(0, 0, 3).equal(at::tensor({-inf, 0.25F, 0.5F})));
  CHECK(std::isnan(reals.column.values[3].item<float>()));
  CHECK_THAT(error_of([] { step("clip", R"({"max": 0.5})", ids({1})); }),
             contains_text("`max` must be an integer"));
  CHECK_THAT(error_of([] { step("clip", "{}", ids({1})); }), contains_text("set at least one"));
  CHECK_THAT(error_of([] { step("clip", R"({"min": 2, "max": 1})", ids({1})); }),
             contains_text("`min` must not exceed `max`"));
}

TEST_CASE("cast changes the type of numbers", "[plugins]") {
  const TypedColumn cut =
      step("cast", R"({"dtype": "i64"})", fixed_column(at::tensor({1.9F, -1.9F, 0.0F})));
  CHECK(ids_of(cut) == Ids{1, -1, 0});
  CHECK(step("cast", R"({"dtype": "f32"})", ids({3, -4}))
            .column.values.equal(at::tensor({3.0F, -4.0F})));
  CHECK(step("cast", R"({"dtype": "f64"})", fixed_column(at::tensor({1, 0}).to(at::kBool)))
            .column.values.equal(at::tensor({1.0, 0.0}, at::kDouble)));
  CHECK(ids_of(step("cast", R"({"dtype": "i64"})", fixed_column(at::tensor({-5, 6}, at::kInt)))) ==
        Ids{-5, 6});
  for (const double bad :
       {std::nan(""), 9.3e18, -9.3e18, std::numeric_limits<double>::infinity()}) {
    CHECK_THAT(
        error_of([&] {
          step("cast", R"({"dtype": "i64"})", fixed_column(at::tensor({0.0, bad}, at::kDouble)));
        }),
        contains_text("sample 1 of the batch"));
  }
  // Ids that a float may have rounded.
  CHECK_THAT(error_of([] {
               step("cast", R"({"dtype": "i64"})", fixed_column(at::tensor({0x1p53}, at::kDouble)));
             }),
             contains_text("which is not exact as f64"));
  CHECK_THAT(
      error_of([] { step("cast", R"({"dtype": "i64"})", fixed_column(at::tensor({0x1p24F}))); }),
      contains_text("which is not exact as f32"));
  CHECK_THAT(error_of([] { step("cast", R"({"dtype": "f64"})", ids({(int64_t{1} << 60) + 1})); }),
             contains_text("has the value 1152921504606846977, which f64 rounds"));
}

TEST_CASE("split makes lists of texts, ids and numbers, with weights", "[plugins]") {
  const auto split = [](const std::string& options, const std::vector<std::string>& texts) {
    return step("split", options, text_column(texts));
  };
  const TypedColumn genres =
      split(R"({"separator": "|"})", {"Action|Comedy", "", "Drama", "a||b|"});
  CHECK(genres.type == ColumnType{.dtype = TENON_U8, .num_levels = 2, .is_text = true});
  CHECK(offsets_of(genres) == Ids{0, 2, 2, 3, 5});
  CHECK(offsets_of(genres, 1) == Ids{0, 6, 12, 17, 18, 19});
  const TypedColumn hashed = step("hash", "{}", genres);
  CHECK(ids_of(hashed) ==
        ids_of(step("hash", "{}", text_column({"Action", "Comedy", "Drama", "a", "b"}))));
  CHECK(offsets_of(split(R"({"separator": "|", "skip_empty": false})", {"a||b|", ""})) ==
        Ids{0, 4, 4});
  const TypedColumn weighted =
      split(R"({"separator": ",", "weights": ":", "type": "ids"})", {"7:0.5,-8:2", "", "9:1e-1"});
  CHECK(weighted.type == ColumnType{.dtype = TENON_I64, .num_levels = 1, .has_weights = true});
  CHECK(ids_of(weighted) == Ids{7, -8, 9});
  CHECK(weights_of(weighted) == std::vector<float>{0.5F, 2.0F, 0.1F});
  CHECK(offsets_of(weighted) == Ids{0, 2, 2, 3});
  CHECK(split(R"({"separator": " ", "type": "f32"})", {"1.5 -2"})
            .column.values.equal(at::tensor({1.5F, -2.0F})));
  CHECK_THAT(
      error_of([&] {
        split(R"({"separator": "|", "type": "ids"})", {"1", "2|x"});
      }),
      contains_text("sample 1 of the batch has the entry \"x\" (expected a 64-bit integer)"));
  const std::string ids_options = R"({"separator": "|", "type": "ids"})";
  CHECK(ids_of(split(ids_options, {"18446744073709551615| +9223372036854775808", "7"})) ==
        Ids{-1, std::numeric_limits<int64_t>::min(), 7});
  for (const std::string wide : {"18446744073709551616", "-9223372036854775809"}) {
    CHECK_THAT(error_of([&] {
                 split(ids_options, {"1", wide});
               }),
               contains_text("sample 1 of the batch has the entry \"" + wide + "\" (expected"));
  }
  CHECK_THAT(
      error_of([&] {
        split(ids_options, {"18446744073709551615", "", "3| -1"});
      }),
      contains_text("sample 2 of the batch has the entry \" -1\", but sample 0 has "
                    "\"18446744073709551615\"; a column cannot mix negative ids with ids of"));
  CHECK_THAT(error_of([&] { split(R"({"separator": "|", "weights": ":"})", {"k"}); }),
             contains_text("sample 0 of the batch has the entry \"k\""));
}

TEST_CASE("normalize_weights makes a weighted sum an average", "[plugins]") {
  const TypedColumn made = step("normalize_weights",
                                "{}",
                                list_column(at::tensor(Ids{1, 2, 3, 4}, at::kLong),
                                            {0, 2, 2, 3, 4},
                                            at::tensor({10.0F, 30.0F, 5.0F, 0.0F})));
  CHECK(ids_of(made) == Ids{1, 2, 3, 4});
  CHECK(weights_of(made) == std::vector<float>{0.25F, 0.75F, 1.0F, 0.0F});
  CHECK_THAT(
      error_of([] {
        step("normalize_weights",
             "{}",
             list_column(at::tensor(Ids{1, 2}, at::kLong), {0, 2}, at::tensor({1.0F, -1.0F})));
      }),
      contains_text("sample 0 of the batch has weights whose sum is 0"));
}

TEST_CASE("stack puts columns side by side", "[plugins]") {
  const TypedColumn pairs = fixed_column(at::tensor(Ids{3, 4, 5, 6}, at::kLong).reshape({2, 2}));
  const TypedColumn made = call_feature("stack", "{}", {ids({1, 2}), pairs, ids({7, 8})}).at(0);
  CHECK(made.type == ColumnType{.dtype = TENON_I64, .width = 4});
  CHECK(ids_of(made) == Ids{1, 3, 4, 7, 2, 5, 6, 8});
  CHECK(call_feature("stack", "{}", {fixed_column(at::tensor({0.5F}))})
            .at(0)
            .column.values.equal(at::tensor({0.5F}).reshape({1, 1})));
  CHECK(call_feature("stack", "{}", {ids({}), ids({})}).at(0).column.values.sizes() ==
        at::IntArrayRef{0, 2});
  CHECK_THAT(error_of([&] {
               call_feature("stack", "{}", {ids({1}), fixed_column(at::ones({1}))});
             }),
             contains_text("found i64 and f32; cast them first"));
  CHECK_THAT(error_of([&] {
               call_feature("stack", "{}", {list_column(at::tensor(Ids{1}, at::kLong), {0, 1})});
             }),
             contains_text("pad lists first"));
}

TEST_CASE("length counts the entries of lists", "[plugins]") {
  const TypedColumn lists = list_column(at::tensor(Ids{1, 2, 3, 4}, at::kLong), {0, 3, 3, 4});
  CHECK(ids_of(step("length", "{}", lists)) == Ids{3, 0, 1});
  CHECK(ids_of(step("length", R"({"max": 2})", lists)) == Ids{2, 0, 1});
  const TypedColumn real = step("length", R"({"dtype": "f32"})", lists);
  CHECK(real.type == ColumnType{.dtype = TENON_F32});
  CHECK(real.column.values.equal(at::tensor({3.0F, 0.0F, 1.0F})));
  CHECK(ids_of(step("length", "{}", text_list_column({{"a", "bb"}, {}}))) == Ids{2, 0});
  CHECK_THAT(error_of([&] { step("length", "{}", text_column({"a"})); }),
             contains_text("requires a column of lists"));
}

TEST_CASE("ngram gives the ids of a direct computation, by rows, segments and lists", "[plugins]") {
  std::ifstream file(source_dir() / "tests/parity/ngram_golden.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const auto matrix = [](const nlohmann::json& rows) {
    std::vector<at::Tensor> tensors;
    for (const nlohmann::json& row : rows) {
      tensors.push_back(at::tensor(row.get<Ids>(), at::kLong));
    }
    return fixed_column(at::stack(tensors));
  };
  Ids entries;
  Ids offsets = {0};
  for (const nlohmann::json& list : golden.at("lists")) {
    const auto more = list.get<Ids>();
    entries.insert(entries.end(), more.begin(), more.end());
    offsets.push_back(static_cast<int64_t>(entries.size()));
  }
  for (const nlohmann::json& one : golden.at("cases")) {
    const auto kind = one.at("kind").get<std::string>();
    CAPTURE(kind, one.at("options").dump());
    std::vector<TypedColumn> inputs;
    if (kind == "lists") {
      inputs = {list_column(at::tensor(entries, at::kLong), offsets)};
    } else {
      inputs = {matrix(golden.at("rows"))};
    }
    if (kind == "segments") {
      inputs.push_back(matrix(golden.at("segments")));
    }
    const std::vector<TypedColumn> made = call_feature("ngram", one.at("options").dump(), inputs);
    REQUIRE(made.size() == one.at("columns").size());
    for (std::size_t c = 0; c < made.size(); ++c) {
      CHECK(made[c].type == inputs[0].type);
      CHECK(made[c].column.values.sizes() == inputs[0].column.values.sizes());
      Ids expected;
      for (const nlohmann::json& id : one.at("columns")[c]) {
        expected.push_back(static_cast<int64_t>(std::stoull(id.get<std::string>())));
      }
      CHECK(ids_of(made[c]) == expected);
      if (kind == "lists") {
        CHECK(offsets_of(made[c]) == offsets);
      }
    }
  }
}

TEST_CASE("ngram refuses what has no sequences, and options without effect", "[plugins]") {
  const auto error = [](const std::string& options, const std::vector<TypedColumn>& inputs) {
    return error_of([&] { call_feature("ngram", options, inputs); });
  };
  const TypedColumn wide = fixed_column(at::tensor(Ids{7, 8, 9, 7}, at::kLong).reshape({2, 2}));
  CHECK_THAT(error("{}", {ids({1, 2})}), contains_text("requires sequences of i64"));
  CHECK_THAT(error("{}", {fixed_column(at::rand({2, 2}))}),
             contains_text("requires sequences of i64"));
  CHECK_THAT(error("{}", {wide, wide, wide}), contains_text("found 3 columns"));
  CHECK_THAT(error("{}", {wide, fixed_column(at::zeros({2, 3}, at::kLong))}),
             contains_text("segment numbers of the shape of the tokens"));
  CHECK_THAT(error(R"({"n": [2, 3, 2]})", {wide}), contains_text("`n` has a length twice"));
  CHECK_THAT(error(R"({"heads": 2})", {wide}), contains_text("`heads` 2 requires `buckets`"));
  CHECK_THAT(error(R"({"n": [1, 2, 3], "heads": 22, "buckets": 9})", {wide}),
             contains_text("give 66 columns (expected at most 64)"));
}

TEST_CASE("features take batches without samples", "[plugins]") {
  const TypedColumn none = list_column(at::tensor(Ids{}, at::kLong), {0});
  for (const auto& [type, options] :
       std::vector<std::pair<std::string, std::string>>{{"truncate", R"({"length": 2})"},
                                                        {"pad", R"({"length": 2})"},
                                                        {"length", "{}"},
                                                        {"log", "{}"},
                                                        {"clip", R"({"max": 2})"},
                                                        {"cast", R"({"dtype": "f32"})"},
                                                        {"multi_hash", R"({"buckets": [3]})"},
                                                        {"ngram", "{}"}}) {
    INFO(type);
    CHECK(call_feature(type, options, {none}).at(0).column.values.numel() == 0);
  }
  CHECK(offsets_of(call_feature("cross", "{}", {none, none}).at(0)) == Ids{0});
  CHECK(ids_of(call_feature("cross", "{}", {ids({}), ids({})}).at(0)).empty());

  CHECK(ids_of(step("hash", "{}", text_column({}))).empty());
  CHECK(offsets_of(step("hash", "{}", text_list_column({}))) == Ids{0});
  CHECK(ids_of(step("hash", "{}", ids({}))).empty());
  CHECK(ids_of(step("mod", R"({"buckets": 3})", ids({}))).empty());
  CHECK(ids_of(step("bucketize", R"({"boundaries": [1]})", ids({}))).empty());
}

TEST_CASE("mod takes ids as unsigned", "[plugins]") {
  const int64_t least = std::numeric_limits<int64_t>::min();
  CHECK(ids_of(step("mod", R"({"buckets": 10})", ids({0, 9, 10, 25, -1, least}))) ==
        Ids{0, 9, 0, 5, 5, 8});  // 2^64 - 1 and 2^63
  CHECK(ids_of(step("mod", R"({"buckets": 1})", ids({5, -7}))) == Ids{0, 0});
  CHECK_THAT(options_problem("feature", "mod", R"({"buckets": 0})"), contains_text("/buckets"));
}

TEST_CASE("bucketize counts the boundaries that are reached", "[plugins]") {
  const std::string ages = R"({"boundaries": [18, 25, 35, 45, 55, 65]})";
  CHECK(ids_of(step("bucketize", ages, ids({20, 30, 40, 50, 60}))) == Ids{1, 2, 3, 4, 5});
  CHECK(ids_of(step("bucketize", ages, ids({17, 18, 64, 65, 1000}))) == Ids{0, 1, 5, 6, 6});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const at::Tensor odd = at::tensor({-inf, inf, nan, 18.0, 17.999}, at::kDouble);
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    CHECK(ids_of(step("bucketize", ages, fixed_column(odd.to(dtype)))) ==
          Ids{0, 6, 6, 1, 0});  // as torch.bucketize(right=True) and numpy.digitize
  }
}

TEST_CASE("bucketize does the same with many boundaries as with few", "[plugins]") {
  std::string many = R"({"boundaries": [0)";
  for (int i = 1; i < 200; ++i) {
    many += ", " + std::to_string(i * 0.5);
  }
  const at::Tensor values = at::arange(-2.0, 120.0, 0.25, at::kDouble);
  const Ids found = ids_of(step("bucketize", many + "]}", fixed_column(values)));
  for (int64_t i = 0; i < values.size(0); ++i) {
    const double value = values[i].item<double>();
    const auto expected =
        static_cast<int64_t>(std::min(200.0, std::max(0.0, std::floor(value * 2) + 1)));
    INFO(value);
    CHECK(found[static_cast<std::size_t>(i)] == expected);
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(ids_of(step("bucketize", many + "]}", fixed_column(at::tensor({nan}, at::kDouble)))) ==
        Ids{200});
}

TEST_CASE("features refuse columns that they do not take", "[plugins]") {
  const auto refusal = [](const std::string& type,
                          const std::string& options,
                          const std::vector<TypedColumn>& inputs) {
    return error_of([&] { call_feature(type, options, inputs); });
  };
  const TypedColumn text = text_column({"a"});
  const TypedColumn one = ids({1});
  CHECK_THAT(refusal("mod", R"({"buckets": 3})", {text}), contains_text("hash text"));
  CHECK_THAT(refusal("mod", R"({"buckets": 3})", {one, one}),
             contains_text("requires one column, found 2"));
  CHECK_THAT(refusal("hash", "{}", {fixed_column(at::ones({1}))}),
             contains_text("requires a column of text or i64"));
  CHECK_THAT(refusal("bucketize", R"({"boundaries": [1]})", {text}),
             contains_text("requires a column of integers, f32, f64 or bool"));
  CHECK_THAT(refusal("bucketize", R"({"boundaries": [2, 1]})", {one}),
             contains_text("`boundaries` must be strictly increasing"));
}
