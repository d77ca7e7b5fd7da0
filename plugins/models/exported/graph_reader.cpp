// SPDX-License-Identifier: MIT
#include "graph_reader.h"

#include "program_file.h"
#include "size_functions.h"

#include <ddprun/error.h>

#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <limits>
#include <set>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace ddprun::exported {
namespace {

using c10::IValue;
using c10::TypeKind;
using Json = nlohmann::json;

constexpr std::string_view kOperators = "torch.ops.", kBlocks = "torch.ops.higher_order.";

double float_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  constexpr auto kInfinity = std::numeric_limits<double>::infinity();
  return text == "Infinity" ? kInfinity : text == "-Infinity" ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
}

Argument constant(IValue value) { return {.constant = std::move(value)}; }

template <class T, class Read>
Argument constant_list(const Json& values, const Read& read) {
  c10::List<T> list;
  for (const auto& one : values) list.push_back(read(one));
  return constant(std::move(list));
}

// The type that an operator wants, or nothing that is known of it.
class Wanted {
 public:
  explicit Wanted(c10::TypePtr type = nullptr) : type_(std::move(type)) {
    if (type_ && type_->kind() == TypeKind::OptionalType) type_ = type_->castRaw<c10::OptionalType>()->getElementType();
  }

  bool is(TypeKind kind) const { return type_ && type_->kind() == kind; }
  bool is_list_of(TypeKind kind) const {
    return is(TypeKind::ListType) && type_->castRaw<c10::ListType>()->getElementType()->kind() == kind;
  }

 private:
  c10::TypePtr type_;
};

// Converts the arguments of one graph, whose values are known by name.
class ArgumentReader {
 public:
  explicit ArgumentReader(const std::map<std::string, int>& slots) : slots_(slots) {}

  Argument read(const Json& value, const Wanted& wanted) const {
    const auto kind = kind_of(value);
    const auto& content = value.begin().value();
    if (kind == "as_none") return constant({});
    if (kind == "as_tensor") return use(content.at("name"));
    if (kind == "as_tensors") return tensors(content, wanted.is_list_of(TypeKind::OptionalType));
    if (kind == "as_optional_tensor") return optional_tensor(content);
    if (kind == "as_optional_tensors")
      return list(content, c10::OptionalType::ofTensor(), [this](const Json& one) { return optional_tensor(one); });
    if (kind == "as_int") return number(content.get<int64_t>(), wanted);
    if (kind == "as_float") return number(float_of(content), wanted);
    if (kind == "as_bool") return truth(content.get<bool>(), wanted);
    if (kind == "as_complex")
      return number(c10::complex<double>(content.at("real").get<double>(), content.at("imag").get<double>()), wanted);
    if (kind == "as_string") return constant(content.get<std::string>());
    if (kind == "as_ints") return integers(content, wanted);
    if (kind == "as_floats") return constant_list<double>(content, float_of);
    if (kind == "as_bools") return constant_list<bool>(content, [](const Json& one) { return one.get<bool>(); });
    if (kind == "as_strings")
      return constant_list<std::string>(content, [](const Json& one) { return one.get<std::string>(); });
    if (kind == "as_scalar_type") return constant(static_cast<int64_t>(scalar_type_of(content.get<int64_t>())));
    if (kind == "as_memory_format") return constant(static_cast<int64_t>(memory_format_of(content.get<int64_t>())));
    if (kind == "as_layout") return constant(static_cast<int64_t>(layout_of(content.get<int64_t>())));
    if (kind == "as_device") return {.kind = Argument::Kind::kDevice};
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return symbol(content, wanted);
    if (kind == "as_sym_ints") return symbols(content, c10::IntType::get());
    if (kind == "as_sym_floats") return symbols(content, c10::FloatType::get());
    if (kind == "as_sym_bools") return symbols(content, c10::BoolType::get());
    throw UserError(c10::str("an argument of the kind ", kind, " is not understood"));
  }

 private:
  Argument use(const std::string& name) const {
    const auto found = slots_.find(name);
    if (found == slots_.end())
      throw UserError("it is damaged: " + name + " is read before it is made; export it again");
    return {.kind = Argument::Kind::kValue, .slot = found->second};
  }

  template <class Read>
  static Argument list(const Json& values, c10::TypePtr type, const Read& read) {
    Argument result{.kind = Argument::Kind::kList, .element_type = std::move(type)};
    for (const auto& one : values) result.elements.push_back(read(one));
    return result;
  }

  Argument tensors(const Json& values, bool optional) const {
    return list(values, optional ? c10::TypePtr(c10::OptionalType::ofTensor()) : c10::TypePtr(c10::TensorType::get()),
                [this](const Json& one) { return use(one.at("name")); });
  }

  Argument optional_tensor(const Json& value) const {
    return value.contains("as_tensor") ? use(value.at("as_tensor").at("name")) : constant({});
  }

  // A number is what the operator wants: in Python a 2 serves as a tensor, a float or a list of one.
  static Argument number(const at::Scalar& value, const Wanted& wanted) {
    if (wanted.is(TypeKind::TensorType)) return constant(number_as_tensor(value));
    if (wanted.is(TypeKind::FloatType)) return constant(value.toDouble());
    if (wanted.is(TypeKind::ComplexType)) return constant(value.toComplexDouble());
    if (wanted.is_list_of(TypeKind::IntType) || wanted.is_list_of(TypeKind::SymIntType))
      return constant(c10::List<int64_t>({value.toLong()}));
    if (wanted.is_list_of(TypeKind::FloatType)) return constant(c10::List<double>({value.toDouble()}));
    return constant(IValue(value));
  }

  static Argument truth(bool value, const Wanted& wanted) {
    return wanted.is(TypeKind::TensorType) ? constant(number_as_tensor(value)) : constant(value);
  }

  static Argument integers(const Json& values, const Wanted& wanted) {
    if (wanted.is_list_of(TypeKind::FloatType)) return constant_list<double>(values, float_of);
    if (wanted.is_list_of(TypeKind::NumberType)) {
      c10::impl::GenericList numbers(c10::NumberType::get());
      for (const auto& one : values) numbers.push_back(one.get<int64_t>());
      return constant(std::move(numbers));
    }
    return constant_list<int64_t>(values, [](const Json& one) { return one.get<int64_t>(); });
  }

  Argument symbol(const Json& value, const Wanted& wanted) const {
    if (value.contains("as_name")) {
      auto argument = use(value.at("as_name"));
      if (wanted.is(TypeKind::TensorType)) argument.kind = Argument::Kind::kValueAsTensor;
      return argument;
    }
    if (value.contains("as_int")) return number(value.at("as_int").get<int64_t>(), wanted);
    if (value.contains("as_bool")) return truth(value.at("as_bool").get<bool>(), wanted);
    return number(float_of(value.at("as_float")), wanted);
  }

  Argument symbols(const Json& values, c10::TypePtr type) const {
    return list(values, std::move(type), [this](const Json& one) { return symbol(one, Wanted()); });
  }

  const std::map<std::string, int>& slots_;
};

// Returns a size as it was exported: that of a dimension which may have others is a hint.
int64_t exported_size(const Json& size) {
  if (size.contains("as_int")) return size.at("as_int").get<int64_t>();
  const auto& expression = size.at("as_expr");
  const auto hint = expression.find("hint");
  const bool is_known = hint != expression.end() && hint->is_object() && hint->contains("as_int");
  return is_known ? hint->at("as_int").get<int64_t>() : 0;
}

// Returns the innermost line of a stack trace that is not torch's own: "net.py:12".
std::string python_line(const std::string& trace) {
  std::string found;
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  for (size_t at = trace.find(kFile); at != std::string::npos; at = trace.find(kFile, at + 1)) {
    const auto begin = at + kFile.size(), end = trace.find(kLine, begin);
    if (end == std::string::npos) break;
    const auto file = trace.substr(begin, end - begin);
    const auto line = trace.substr(end + kLine.size(),
                                   trace.find_first_not_of("0123456789", end + kLine.size()) - end - kLine.size());
    if (found.empty() || file.find("/torch/") == std::string::npos) found = file + ":" + line;
  }
  return found;
}

class GraphReader {
 public:
  explicit GraphReader(const Json& json) : json_(json) {}

  NamedGraph read() {
    for (const auto& input : json_.at("inputs")) graph_.inputs.push_back(define(input));
    for (const auto& node : json_.at("nodes")) add(node);
    for (const auto& output : json_.at("outputs")) graph_.outputs.push_back(arguments_.read(output, Wanted()));
    graph_.slots = slots_.size();
    graph_.bytes.resize(slots_.size());
    for (const auto& [name, slot] : slots_) graph_.bytes[static_cast<size_t>(slot)] = bytes_of(name);
    graph_.mark_last_uses();
    return {std::move(graph_), std::move(modules_)};
  }

 private:
  // Returns the slot of a value that an input or a result gives a name to; -1 if it has none.
  int define(const Json& value) {
    const auto kind = kind_of(value);
    const auto& content = value.begin().value();
    if (kind == "as_tensor") return slot(content.at("name"));
    if (kind == "as_optional_tensor") return content.contains("as_tensor") ? slot(content["as_tensor"].at("name")) : -1;
    if (kind.starts_with("as_sym_")) return content.contains("as_name") ? slot(content.at("as_name")) : -1;
    if (kind == "as_tensors" || kind == "as_optional_tensors" || kind == "as_custom_obj")
      throw UserError(c10::str("a value of the kind ", kind, " is not understood here"));
    return -1;
  }

  // Returns how much memory a tensor took when the network was exported; 0 if the file does not say it, or has a type
  // of numbers that is unknown here.
  double bytes_of(const std::string& name) const try {
    const auto tensors = json_.find("tensor_values");
    if (tensors == json_.end() || !tensors->contains(name)) return 0;
    const auto& meta = tensors->at(name);
    auto bytes = static_cast<double>(c10::elementSize(scalar_type_of(meta.at("dtype").get<int64_t>())));
    for (const auto& size : meta.at("sizes")) bytes *= static_cast<double>(exported_size(size));
    return bytes;
  } catch (const UserError&) {
    return 0;
  }

  int slot(const std::string& name) { return slots_.try_emplace(name, static_cast<int>(slots_.size())).first->second; }

  void add(const Json& json) {
    Node node{.name = json.at("target").get<std::string>()};
    const auto& metadata = json.at("metadata");
    node.place = metadata.contains("stack_trace") ? python_line(metadata.at("stack_trace").get<std::string>()) : "";
    if (node.place.empty()) node.place = "line unknown";
    if (metadata.contains("nn_module_stack"))
      node.module = note_modules(metadata.at("nn_module_stack").get<std::string>());
    try {
      read_call(node, json);
      read_results(node, json.at("outputs"));
    } catch (const UserError& error) {
      throw UserError(node.place + ": " + error.what());
    } catch (const c10::Error&) {  // of a conversion
      throw UserError(node.place + ": " + node.name + " is given an argument of another kind than it takes here");
    }
    graph_.nodes.push_back(std::move(node));
  }

  // "L__self__body,body,torch.nn.modules.container.Sequential;L__self__body.0,body.0,torch.nn.modules.conv.Conv2d"
  // Returns the path of the innermost one.
  std::string note_modules(const std::string& stack) {
    std::istringstream entries(stack);
    std::string innermost;
    for (std::string entry; std::getline(entries, entry, ';');) {
      const auto comma = entry.find(','), type = entry.rfind(',');
      if (type <= comma) continue;
      innermost = entry.substr(comma + 1, type - comma - 1);
      modules_[innermost] = entry.substr(entry.find_last_of(".,") + 1);
    }
    return innermost;
  }

  void read_call(Node& node, const Json& json) {
    if (node.name.starts_with(kBlocks)) {
      read_block(node, json);
    } else if (node.name.starts_with(kOperators)) {
      read_operator(node, json);
    } else {
      const auto function = find_size_function(node.name);
      if (!function) throw UserError("the function " + node.name + " of Python is not understood");
      node.call = [function](std::vector<IValue>& arguments, at::Device) { return std::vector{function(arguments)}; };
      for (const auto& input : json.at("inputs")) node.arguments.push_back(arguments_.read(input.at("arg"), Wanted()));
    }
  }

  void read_results(Node& node, const Json& results) {
    node.unpacks = results.size() == 1 && results[0].contains("as_tensors");
    if (node.unpacks) {
      for (const auto& one : results[0].at("as_tensors")) node.results.push_back(slot(one.at("name")));
    } else {
      for (const auto& one : results) node.results.push_back(define(one));
    }
  }

  // "torch.ops.aten.add.Tensor" is operator aten::add with the overload Tensor.
  void read_operator(Node& node, const Json& json) {
    static const std::set<std::string> kChecks{"aten::_assert_tensor_metadata", "aten::_assert_scalar",
                                               "aten::_assert_async", "aten::sym_constrain_range_for_size",
                                               "aten::sym_constrain_range"};
    const auto path = node.name.substr(kOperators.size());
    const auto first = path.find('.'), last = path.rfind('.');
    if (first == last) throw UserError("it is damaged: operator " + path + " has no overload; export it again");
    const auto overload = path.substr(last + 1);
    node.name = path.substr(0, first) + "::" + path.substr(first + 1, last - first - 1);
    node.skipped = kChecks.contains(node.name);
    node.op = c10::Dispatcher::singleton().findSchema({node.name, overload == "default" ? "" : overload});
    if (!node.op)
      throw UserError("operator " + node.name +
                      " is not in this LibTorch: a package in Python makes it, or another torch");
    read_arguments(node, json.at("inputs"));
  }

  // By name: what is not given has the schema's default.
  void read_arguments(Node& node, const Json& inputs) {
    std::unordered_map<std::string, const Json*> given;
    for (const auto& input : inputs) given[input.at("name").get<std::string>()] = &input.at("arg");
    for (const auto& formal : node.op->schema().arguments()) {
      const auto found = given.find(formal.name());
      if (found == given.end()) {
        if (!formal.default_value()) throw UserError(node.name + " is given no " + formal.name());
        node.arguments.push_back(constant(*formal.default_value()));
        continue;
      }
      const bool is_cudnn = formal.name() == "cudnn_enabled" || formal.name() == "cudnn_enable";
      node.arguments.push_back(is_cudnn ? Argument{.kind = Argument::Kind::kCudnn}
                                        : arguments_.read(*found->second, Wanted(formal.real_type())));
      given.erase(found);
    }
    if (!given.empty()) throw UserError(node.name + " takes no " + given.begin()->first + " in this LibTorch");
  }

  void read_block(Node& node, const Json& json) {
    node.name = node.name.substr(kBlocks.size());
    std::vector<Graph> bodies;
    for (const auto& input : json.at("inputs")) {
      const auto& value = input.at("arg");
      if (value.contains("as_graph")) {
        bodies.push_back(read_graph(value.at("as_graph").at("graph")).graph);
      } else {
        node.arguments.push_back(arguments_.read(value, Wanted()));
      }
    }
    if (node.name == "wrap_with_set_grad_enabled" && bodies.size() == 1) {
      node.call = grad_mode_block(std::move(bodies[0]));
    } else if (node.name == "wrap_with_autocast" && bodies.size() == 1) {
      node.call = autocast_block(std::move(bodies[0]));
    } else if (node.name == "cond" && bodies.size() == 2) {
      node.call = condition(std::move(bodies[0]), std::move(bodies[1]));
    } else {
      throw UserError("the control flow " + node.name + " of torch cannot run here");
    }
  }

  const Json& json_;
  Graph graph_;
  std::map<std::string, int> slots_;
  std::map<std::string, std::string> modules_;
  const ArgumentReader arguments_{slots_};
};

}  // namespace

std::string kind_of(const Json& value) {
  if (!value.is_object() || value.size() != 1)
    throw UserError("it is damaged: a value is not of one kind; export it again");
  return value.begin().key();
}

NamedGraph read_graph(const Json& json) { return GraphReader(json).read(); }

}  // namespace ddprun::exported
