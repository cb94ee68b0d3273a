// SPDX-License-Identifier: Apache-2.0
//
// Nodes of a template's expressions, with Jinja's meaning (template_functions.hpp). The engine asks
// nodes for their class; each is derived from the class that it replaces.
// Threads: one rendering.
#pragma once

#include "host/chat/template_budget.hpp"
#include "host/chat/template_filters.hpp"
#include "host/chat/template_functions.hpp"

#include <jinja/runtime.h>
#include <stdexcept>
#include <string>
#include <utility>

namespace tenon {

// Looks up variables only. The engine's node copies its table of functions at each lookup.
struct NameNode : jinja::identifier {
  using jinja::identifier::identifier;
  TemplateValue execute_impl(jinja::context& ctx) override { return ctx.get_val(val); }
};

inline TemplateArguments arguments_of(const jinja::statements& nodes, jinja::context& ctx) {
  TemplateArguments values;
  values.reserve(nodes.size());
  for (const jinja::statement_ptr& node : nodes) {
    values.push_back(node->execute(ctx));
  }
  return values;
}

struct OperatorNode : jinja::binary_expression {
  using jinja::binary_expression::binary_expression;
  TemplateValue execute_impl(jinja::context& ctx) override {
    TemplateValue a = left->execute(ctx);
    if (op.value == "and") {
      return is_true(a) ? right->execute(ctx) : a;
    }
    if (op.value == "or") {
      return is_true(a) ? a : right->execute(ctx);
    }
    return apply_operator(op.value, a, right->execute(ctx));
  }
};

struct NotNode : jinja::unary_expression {
  using jinja::unary_expression::unary_expression;
  TemplateValue execute_impl(jinja::context& ctx) override {
    if (op.value == "not") {
      return jinja::mk_val<jinja::value_bool>(!is_true(argument->execute(ctx)));
    }
    return apply_operator(
        op.value == "-" ? "-" : "+", jinja::mk_val<jinja::value_int>(0), argument->execute(ctx));
  }
};

// The name and the arguments of `name` or `name(...)`.
inline std::pair<std::string, TemplateArguments> call_of(const jinja::statement_ptr& node,
                                                         jinja::context& ctx) {
  if (jinja::is_stmt<jinja::identifier>(node)) {
    return {jinja::cast_stmt<jinja::identifier>(node)->val, {}};
  }
  const auto* const call = jinja::cast_stmt<jinja::call_expression>(node);
  if (call == nullptr || !jinja::is_stmt<jinja::identifier>(call->callee)) {
    throw std::runtime_error("a filter or test is not a name");
  }
  return {jinja::cast_stmt<jinja::identifier>(call->callee)->val, arguments_of(call->args, ctx)};
}

struct FilterNode : jinja::filter_expression {
  using jinja::filter_expression::filter_expression;
  TemplateValue execute_impl(jinja::context& ctx) override {
    const TemplateValue value = operand ? operand->execute(ctx) : TemplateValue(val);
    const auto [name, arguments] = call_of(filter, ctx);
    return apply_filter(name, value, arguments, ctx);
  }
};

struct TestNode : jinja::test_expression {
  using jinja::test_expression::test_expression;
  TemplateValue execute_impl(jinja::context& ctx) override {
    const TemplateValue value = operand->execute(ctx);
    const auto [name, arguments] = call_of(test, ctx);
    return jinja::mk_val<jinja::value_bool>(apply_test(name, value, arguments, ctx) != negate);
  }
};

struct MemberNode : jinja::member_expression {
  using jinja::member_expression::member_expression;
  TemplateValue execute_impl(jinja::context& ctx) override {
    const TemplateValue value = object->execute(ctx);
    if (!computed) {
      const auto* const name = jinja::cast_stmt<jinja::identifier>(property);
      if (name == nullptr) {
        throw std::runtime_error("a member is not a name");
      }
      return attribute_of(value, name->val);
    }
    if (const auto* const slice = jinja::cast_stmt<jinja::slice_expression>(property)) {
      const auto part = [&](const jinja::statement_ptr& node) {
        return node ? node->execute(ctx) : TemplateValue();
      };
      return slice_of(
          value, part(slice->start_expr), part(slice->stop_expr), part(slice->step_expr));
    }
    return item_of(value, property->execute(ctx));
  }
};

struct CallNode : jinja::call_expression {
  using jinja::call_expression::call_expression;
  TemplateValue execute_impl(jinja::context& ctx) override {
    const TemplateValue function = callee->execute(ctx);
    if (!jinja::is_val<jinja::value_func>(function)) {
      throw std::runtime_error(type_words(function) + " is called, expected a function");
    }
    jinja::func_args arguments(ctx);
    for (const jinja::statement_ptr& node : args) {
      arguments.push_back(node->execute(ctx));
    }
    TemplateValue result = function->invoke(arguments);
    TemplateBudget::charge_current(shallow_size(result));
    return result;
  }
};

struct ListNode : jinja::array_literal {
  using jinja::array_literal::array_literal;
  TemplateValue execute_impl(jinja::context& ctx) override {
    auto list = jinja::mk_val<jinja::value_array>(arguments_of(val, ctx));
    TemplateBudget::charge_current(shallow_size(list));
    check_nesting(list);
    return list;
  }
};

struct TupleNode : jinja::tuple_literal {
  using jinja::tuple_literal::tuple_literal;
  TemplateValue execute_impl(jinja::context& ctx) override {
    auto list = jinja::mk_val<jinja::value_tuple>(arguments_of(val, ctx));
    TemplateBudget::charge_current(shallow_size(list));
    check_nesting(list);
    return list;
  }
};

struct ObjectNode : jinja::object_literal {
  using jinja::object_literal::object_literal;
  TemplateValue execute_impl(jinja::context& ctx) override {
    auto object = jinja::mk_val<jinja::value_object>();
    for (const auto& [key, item] : val) {
      const TemplateValue name = key->execute(ctx);
      object->insert(name, item->execute(ctx));
    }
    TemplateBudget::charge_current(shallow_size(object));
    check_nesting(object);
    return object;
  }
};

// `a if b else c`, and `a if b`.
struct ChoiceNode : jinja::ternary_expression {
  using jinja::ternary_expression::ternary_expression;
  TemplateValue execute_impl(jinja::context& ctx) override {
    return (is_true(condition->execute(ctx)) ? true_expr : false_expr)->execute(ctx);
  }
};
struct HalfChoiceNode : jinja::select_expression {
  using jinja::select_expression::select_expression;
  TemplateValue execute_impl(jinja::context& ctx) override {
    return is_true(test->execute(ctx)) ? lhs->execute(ctx)
                                       : TemplateValue(jinja::mk_val<jinja::value_undefined>());
  }
};

}  // namespace tenon
