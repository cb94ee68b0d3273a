// SPDX-License-Identifier: Apache-2.0

#include "host/chat/template_nodes.hpp"

#include "host/chat/expression_nodes.hpp"
#include "host/chat/template_filters.hpp"
#include "host/chat/template_functions.hpp"
#include "host/text/formatted.hpp"

#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using jinja::context;
using jinja::is_val;
using jinja::mk_val;
using jinja::statement;
using jinja::statement_ptr;
using jinja::statements;

// What a statement prints goes to the output; its value is nothing, that of an expression is
// printed.

TemplateValue nothing() {
  return mk_val<jinja::value_undefined>();
}

TemplateBudget& budget() {
  return TemplateOutput::current().budget;
}

void record_print(TemplateOutput& output, size_t size) {
  if (output.depth == 0 && size > 0) {
    output.prints.push_back(output.length);
    output.length += size;
  }
}

void print(TemplateOutput& output, const TemplateString& text) {
  append_to(output.text, text);
  record_print(output, text.length());
}

void print(TemplateOutput& output, std::string_view text, Origin origin) {
  append_to(output.text, text, origin);
  record_print(output, text.size());
}

// Executes statements in order.
void run_all(const statements& body, context& ctx) {
  TemplateOutput& output = TemplateOutput::current();
  const TemplateBudget::Level level(output.budget);
  for (const statement_ptr& node : body) {
    output.budget.step(node->pos);
    if (const auto* const text = jinja::cast_stmt<jinja::string_literal>(node)) {
      print(output, text->val, Origin::kTemplate);
    } else {
      print(output, python_text(node->execute(ctx)));
    }
  }
}

// Collects what is printed while the object lives.
class Capture {
 public:
  Capture() : output_(TemplateOutput::current()) {
    std::swap(outside_, output_.text);
    ++output_.depth;
  }
  ~Capture() {
    if (!is_taken_) {
      (void)take();
    }
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Ends the collection.
  TemplateString take() {
    is_taken_ = true;
    --output_.depth;
    std::swap(outside_, output_.text);
    return std::move(outside_);
  }

 private:
  TemplateOutput& output_;
  TemplateString outside_;
  bool is_taken_ = false;
};

// The engine asks nodes for their class; a replacement is derived from the class that it replaces.

// {% filter name %}...{% endfilter %}
struct FilterBlockNode : jinja::filter_statement {
  using jinja::filter_statement::filter_statement;
  TemplateValue execute_impl(context& ctx) override {
    Capture capture;
    context scope(ctx);
    run_all(body, scope);
    const auto [name, arguments] = call_of(filter, ctx);
    return apply_filter(name, value_of_text(capture.take()), arguments, ctx);
  }
};

struct IfNode : jinja::if_statement {
  using jinja::if_statement::if_statement;
  TemplateValue execute_impl(context& ctx) override {
    run_all(is_true(test->execute(ctx)) ? body : alternate, ctx);
    return nothing();
  }
};

struct SetNode : jinja::set_statement {
  using jinja::set_statement::set_statement;
  TemplateValue execute_impl(context& ctx) override {
    if (val) {
      assign(assignee, val->execute(ctx), ctx);
    } else {
      Capture capture;
      context scope(ctx);
      run_all(body, scope);
      assign(assignee, value_of_text(capture.take()), ctx);
    }
    return nothing();
  }
  static void assign(const statement_ptr& to, const TemplateValue& value, context& ctx) {
    if (const auto* const name = jinja::cast_stmt<jinja::identifier>(to)) {
      ctx.set_val(name->val, value);
    } else if (const auto* const names = jinja::cast_stmt<jinja::tuple_literal>(to)) {
      const std::vector<TemplateValue> items = items_of(value);
      if (items.size() != names->val.size()) {
        throw std::runtime_error(
            formatted("{} names for {} values", names->val.size(), items.size()));
      }
      for (size_t i = 0; i < items.size(); ++i) {
        assign(names->val[i], items[i], ctx);
      }
    } else if (const auto* const member = jinja::cast_stmt<jinja::member_expression>(to)) {
      assign_member(*member, value, ctx);
    } else {
      throw std::runtime_error("a value is set to something that is no name");
    }
  }

 private:
  static void assign_member(const jinja::member_expression& member,
                            const TemplateValue& value,
                            context& ctx) {
    const TemplateValue object = member.object->execute(ctx);
    const auto* const name = jinja::cast_stmt<jinja::identifier>(member.property);
    if (member.computed || name == nullptr || !is_val<jinja::value_object>(object)) {
      throw std::runtime_error("only members of a namespace can be set");
    }
    const TemplateValue key = mk_val<jinja::value_string>(name->val);
    object->insert(key, value);
    if (!value->val_arr.empty() || !value->val_obj.empty()) {
      try {
        check_nesting(object);
      } catch (...) {
        object->insert(key, nothing());  // a value that contains itself would never be freed
        throw;
      }
    }
  }
};

// Each round has its own variables.
struct ForNode : jinja::for_statement {
  using jinja::for_statement::for_statement;
  bool needs_loop = true;  // the template names the variable `loop`, which takes long to make

  TemplateValue execute_impl(context& ctx) override {
    const auto* const select = jinja::cast_stmt<jinja::select_expression>(iterable);
    std::vector<TemplateValue> items =
        items_of((select != nullptr ? select->lhs : iterable)->execute(ctx));
    if (select != nullptr) {
      std::vector<TemplateValue> chosen;
      for (const TemplateValue& item : items) {
        budget().step(pos);
        context scope(ctx);
        SetNode::assign(loopvar, item, scope);
        if (is_true(select->test->execute(scope))) {
          chosen.push_back(item);
        }
      }
      items = std::move(chosen);
    }
    for (size_t i = 0; i < items.size(); ++i) {
      budget().step(pos);
      context scope(ctx);
      if (needs_loop) {
        scope.set_val("loop", loop_object(items, i));
      }
      SetNode::assign(loopvar, items[i], scope);
      TemplateOutput::current().begin_item(items[i].get());
      try {
        run_all(body, scope);
      } catch (const jinja::continue_statement::signal&) {
        continue;
      } catch (const jinja::break_statement::signal&) {
        break;
      }
    }
    if (items.empty()) {
      run_all(default_block, ctx);
    }
    return nothing();
  }

 private:
  static TemplateValue loop_object(const std::vector<TemplateValue>& items, size_t i) {
    const size_t n = items.size();
    const auto integer = [](size_t value) {
      return mk_val<jinja::value_int>(static_cast<int64_t>(value));
    };
    const auto item = [&](bool exists, size_t at) {
      return exists ? items[at] : TemplateValue(mk_val<jinja::value_undefined>("item"));
    };
    auto loop = mk_val<jinja::value_object>();
    loop->has_builtins = false;
    loop->insert("index", integer(i + 1));
    loop->insert("index0", integer(i));
    loop->insert("revindex", integer(n - i));
    loop->insert("revindex0", integer(n - i - 1));
    loop->insert("first", mk_val<jinja::value_bool>(i == 0));
    loop->insert("last", mk_val<jinja::value_bool>(i + 1 == n));
    loop->insert("length", integer(n));
    loop->insert("previtem", item(i > 0, i - 1));
    loop->insert("nextitem", item(i + 1 < n, i + 1));
    return loop;
  }
};

// Sets the parameters of a macro or of a {% call %} block.
void bind_parameters(const statements& parameters,
                     const jinja::func_args& arguments,
                     context& scope) {
  std::vector<TemplateValue> by_position;
  for (const TemplateValue& argument : arguments.get_args()) {
    if (!is_val<jinja::value_kwarg>(argument)) {
      by_position.push_back(argument);
    }
  }
  if (by_position.size() > parameters.size()) {
    throw std::runtime_error(formatted("a macro with {} parameters is called with {} arguments",
                                       parameters.size(),
                                       by_position.size()));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto* const named = jinja::cast_stmt<jinja::keyword_argument_expression>(parameters[i]);
    const auto* const name =
        jinja::cast_stmt<jinja::identifier>(named != nullptr ? named->key : parameters[i]);
    if (name == nullptr) {
      throw std::runtime_error("a parameter of a macro is not a name");
    }
    TemplateValue value = arguments.get_kwarg(name->val, nullptr);
    if (value == nullptr && i < by_position.size()) {
      value = by_position[i];
    }
    if (value == nullptr && named != nullptr) {
      value = named->val->execute(scope);
    }
    scope.set_val(name->val, value != nullptr ? value : mk_val<jinja::value_undefined>(name->val));
  }
}

struct MacroNode : jinja::macro_statement {
  using jinja::macro_statement::macro_statement;
  TemplateValue execute_impl(context& ctx) override {
    const auto* const own_name = jinja::cast_stmt<jinja::identifier>(name);
    if (own_name == nullptr) {
      throw std::runtime_error("the name of a macro is not a name");
    }
    const auto function = [this](const jinja::func_args& arguments) -> TemplateValue {
      const TemplateBudget::Level level(budget());  // default values may call macros
      Capture capture;
      context scope(arguments.ctx);
      bind_parameters(args, arguments, scope);
      run_all(body, scope);
      return value_of_text(capture.take());
    };
    ctx.set_val(own_name->val, mk_val<jinja::value_func>(own_name->val, function));
    return nothing();
  }
};

// {% call macro(...) %}...{% endcall %}
struct CallBlockNode : jinja::call_statement {
  using jinja::call_statement::call_statement;
  TemplateValue execute_impl(context& ctx) override {
    const auto caller = [this, outside = context(ctx)](const jinja::func_args& arguments) {
      const TemplateBudget::Level level(budget());
      Capture capture;
      context scope(outside);
      bind_parameters(caller_args, arguments, scope);
      run_all(body, scope);
      return value_of_text(capture.take());
    };
    context scope(ctx);
    scope.set_val("caller", mk_val<jinja::value_func>("caller", caller));
    return call->execute(scope);
  }
};

// {% generation %}...{% endgeneration %}
struct AnswerNode : statement {
  explicit AnswerNode(statements&& nodes) : body(std::move(nodes)) {}
  statements body;
  std::string type() const override { return "Generation"; }
  TemplateValue execute_impl(context& ctx) override {
    TemplateOutput& output = TemplateOutput::current();
    if (output.depth > 0) {
      throw std::runtime_error(
          "a {% generation %} tag is inside of a macro, a {% set %} block, a {% call %} block or a "
          "filter; put it around what prints the answer");
    }
    const size_t begin = output.length;
    context scope(ctx);
    run_all(body, scope);
    output.answers.push_back({begin, output.length});
    return nothing();
  }
};

// ---- replacing ----

class Replacer {
 public:
  void whole(jinja::program& program) {
    body(program.body);
    // Of the whole template: a macro sees the variables of its caller.
    for (ForNode* const loop : loops_) {
      loop->needs_loop = names_loop_;
    }
  }

  void body(statements& nodes) {
    for (statement_ptr& node : nodes) {
      one(node);
    }
  }

  void one(statement_ptr& node) {
    if (node == nullptr) {
      return;
    }
    const size_t pos = node->pos;
    statement_ptr made = replacement(*node);
    if (made != nullptr) {
      node = std::move(made);
      node->pos = pos;
    }
  }

 private:
  // The node that takes the place of `node`, whose parts it takes; null: the node stays.
  statement_ptr replacement(statement& node) {
    if (auto* const binary = as<jinja::binary_expression>(node)) {
      one(binary->left);
      one(binary->right);
      return std::make_unique<OperatorNode>(
          binary->op, std::move(binary->left), std::move(binary->right));
    }
    if (auto* const name = as<jinja::identifier>(node)) {
      names_loop_ = names_loop_ || name->val == "loop";
      return std::make_unique<NameNode>(name->val);
    }
    if (auto* const unary = as<jinja::unary_expression>(node)) {
      one(unary->argument);
      return std::make_unique<NotNode>(unary->op, std::move(unary->argument));
    }
    if (auto* const filter = as<jinja::filter_expression>(node)) {
      one(filter->operand);
      arguments_of_call(filter->filter);
      return std::make_unique<FilterNode>(std::move(filter->operand), std::move(filter->filter));
    }
    if (auto* const test = as<jinja::test_expression>(node)) {
      one(test->operand);
      arguments_of_call(test->test);
      return std::make_unique<TestNode>(
          std::move(test->operand), test->negate, std::move(test->test));
    }
    if (auto* const member = as<jinja::member_expression>(node)) {
      return member_replacement(*member);
    }
    if (auto* const call = as<jinja::call_expression>(node)) {
      one(call->callee);
      body(call->args);
      return std::make_unique<CallNode>(std::move(call->callee), std::move(call->args));
    }
    if (auto* const choice = as<jinja::ternary_expression>(node)) {
      one(choice->condition);
      one(choice->true_expr);
      one(choice->false_expr);
      return std::make_unique<ChoiceNode>(std::move(choice->condition),
                                          std::move(choice->true_expr),
                                          std::move(choice->false_expr));
    }
    if (auto* const choice = as<jinja::select_expression>(node)) {
      one(choice->lhs);
      one(choice->test);
      return std::make_unique<HalfChoiceNode>(std::move(choice->lhs), std::move(choice->test));
    }
    if (auto* const keyword = as<jinja::keyword_argument_expression>(node)) {
      one(keyword->val);
      return nullptr;
    }
    if (statement_ptr literal = literal_replacement(node)) {
      return literal;
    }
    return block_replacement(node);
  }

  statement_ptr member_replacement(jinja::member_expression& member) {
    one(member.object);
    if (auto* const slice = jinja::cast_stmt<jinja::slice_expression>(member.property)) {
      one(slice->start_expr);
      one(slice->stop_expr);
      one(slice->step_expr);
    } else if (member.computed) {
      one(member.property);
    }
    return std::make_unique<MemberNode>(
        std::move(member.object), std::move(member.property), member.computed);
  }

  statement_ptr literal_replacement(statement& node) {
    if (auto* const list = as<jinja::array_literal>(node)) {
      body(list->val);
      return std::make_unique<ListNode>(std::move(list->val));
    }
    if (auto* const tuple = as<jinja::tuple_literal>(node)) {
      body(tuple->val);
      return std::make_unique<TupleNode>(std::move(tuple->val));
    }
    if (auto* const object = as<jinja::object_literal>(node)) {
      for (auto& [key, item] : object->val) {
        one(key);
        one(item);
      }
      return std::make_unique<ObjectNode>(std::move(object->val));
    }
    return nullptr;
  }

  statement_ptr block_replacement(statement& node) {
    if (auto* const choice = as<jinja::if_statement>(node)) {
      one(choice->test);
      body(choice->body);
      body(choice->alternate);
      return std::make_unique<IfNode>(
          std::move(choice->test), std::move(choice->body), std::move(choice->alternate));
    }
    if (auto* const loop = as<jinja::for_statement>(node)) {
      one(loop->iterable);
      body(loop->body);
      body(loop->default_block);
      auto made = std::make_unique<ForNode>(std::move(loop->loopvar),
                                            std::move(loop->iterable),
                                            std::move(loop->body),
                                            std::move(loop->default_block));
      loops_.push_back(made.get());
      return made;
    }
    if (auto* const set = as<jinja::set_statement>(node)) {
      one(set->val);
      body(set->body);
      return std::make_unique<SetNode>(
          std::move(set->assignee), std::move(set->val), std::move(set->body));
    }
    if (auto* const macro = as<jinja::macro_statement>(node)) {
      keywords(macro->args);
      body(macro->body);
      return std::make_unique<MacroNode>(
          std::move(macro->name), std::move(macro->args), std::move(macro->body));
    }
    if (auto* const block = as<jinja::filter_statement>(node)) {
      arguments_of_call(block->filter);
      body(block->body);
      return std::make_unique<FilterBlockNode>(std::move(block->filter), std::move(block->body));
    }
    if (auto* const block = as<jinja::call_statement>(node)) {
      body(block->body);
      if (is_answer(*block)) {
        return std::make_unique<AnswerNode>(std::move(block->body));
      }
      keywords(block->caller_args);
      one(block->call);
      return std::make_unique<CallBlockNode>(
          std::move(block->call), std::move(block->caller_args), std::move(block->body));
    }
    return nullptr;
  }

  template <class T>
  static T* as(statement& node) {
    return dynamic_cast<T*>(&node);
  }
  static bool is_answer(const jinja::call_statement& block) {
    const auto* const call = jinja::cast_stmt<jinja::call_expression>(block.call);
    const auto* const name =
        call == nullptr ? nullptr : jinja::cast_stmt<jinja::identifier>(call->callee);
    return name != nullptr && name->val == kAnswerFunction;
  }
  // `name` or `name(...)` of a filter or test: the name is no variable.
  void arguments_of_call(statement_ptr& node) {
    if (auto* const call = jinja::cast_stmt<jinja::call_expression>(node)) {
      body(call->args);
    }
  }
  // Default values of parameters.
  void keywords(statements& parameters) {
    for (statement_ptr& parameter : parameters) {
      if (auto* const named = jinja::cast_stmt<jinja::keyword_argument_expression>(parameter)) {
        one(named->val);
      }
    }
  }

  std::vector<ForNode*> loops_;
  bool names_loop_ = false;
};

}  // namespace

void replace_nodes(jinja::program& program) {
  Replacer().whole(program);
}

void run_template(const jinja::program& program, context& ctx) {
  run_all(program.body, ctx);
}

}  // namespace tenon
