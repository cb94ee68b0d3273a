// SPDX-License-Identifier: Apache-2.0

#include "host/chat/template_arguments.hpp"

#include "host/chat/code_points.hpp"

namespace tenon {

std::vector<TemplateValue> items_of(const TemplateValue& value) {
  std::vector<TemplateValue> items;
  TemplateBudget::work_current(value->val_arr.size() + value->val_obj.size());
  if (is_list(value)) {
    items = value->as_array();
  } else if (is_object(value)) {
    for (const auto& [key, item] : value->as_ordered_object()) {
      items.push_back(key);
    }
  } else if (is_text(value)) {
    const std::vector<size_t> points = code_points(value->val_str.str());
    TemplateBudget::charge_current(points.size() * 400);
    for (size_t i = 0; i + 1 < points.size(); ++i) {
      items.push_back(value_of_text(part_of(value->val_str, points[i], points[i + 1])));
    }
  } else if (!value->is_undefined()) {
    throw std::runtime_error("cannot loop over " + type_words(value));
  }
  return items;
}

}  // namespace tenon
