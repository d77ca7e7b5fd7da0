// SPDX-License-Identifier: MIT
#include "size_functions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>

namespace ddprun::exported {
namespace {

using c10::IValue;
using Arguments = const std::vector<IValue>&;

int64_t whole(const IValue& value) { return value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt(); }
double real(const IValue& value) { return value.isDouble() ? value.toDouble() : static_cast<double>(whole(value)); }

bool are_whole(Arguments arguments) {
  return std::ranges::all_of(arguments, [](const IValue& one) { return one.isInt() || one.isBool(); });
}

int64_t divisor(const IValue& value) {
  const auto number = whole(value);
  if (number == 0) throw std::runtime_error("division of a size by zero");
  return number;
}

// Returns an integer of two integers, else a float; a truth value for comparisons.
template <class Function>
IValue apply(Arguments arguments) {
  const Function function;
  if (are_whole(arguments)) return function(whole(arguments.at(0)), whole(arguments.at(1)));
  return function(real(arguments.at(0)), real(arguments.at(1)));
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

IValue floordiv(Arguments arguments) {
  const auto &a = arguments.at(0), &b = arguments.at(1);
  return are_whole(arguments) ? IValue(floor_divide(whole(a), divisor(b))) : IValue(std::floor(real(a) / real(b)));
}

IValue mod(Arguments arguments) {
  const auto &a = arguments.at(0), &b = arguments.at(1);
  if (are_whole(arguments)) return whole(a) - floor_divide(whole(a), divisor(b)) * whole(b);
  return real(a) - std::floor(real(a) / real(b)) * real(b);
}

IValue power(Arguments arguments) {
  const double result = std::pow(real(arguments.at(0)), real(arguments.at(1)));
  const bool is_whole = are_whole(arguments) && whole(arguments.at(1)) >= 0;
  return is_whole ? IValue(static_cast<int64_t>(result)) : IValue(result);
}

IValue negative(Arguments arguments) {
  return are_whole(arguments) ? IValue(-whole(arguments.at(0))) : IValue(-real(arguments.at(0)));
}

template <class Bits>
IValue bits(Arguments arguments) {
  const auto result = Bits()(whole(arguments.at(0)), whole(arguments.at(1)));
  return arguments[0].isBool() && arguments[1].isBool() ? IValue(result != 0) : IValue(result);
}

struct ShiftLeft {
  int64_t operator()(int64_t a, int64_t b) const { return b < 0 || b > 62 ? 0 : a << b; }
};
struct ShiftRight {
  int64_t operator()(int64_t a, int64_t b) const { return a >> std::clamp<int64_t>(b, 0, 63); }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};

IValue truncated(Arguments arguments) { return static_cast<int64_t>(std::trunc(real(arguments.at(0)))); }
IValue square_root(Arguments arguments) { return std::sqrt(real(arguments.at(0))); }

}  // namespace

SizeFunction find_size_function(const std::string& name) {
  static const std::map<std::string, SizeFunction> kFunctions{
      {"_operator.add", apply<std::plus<>>},
      {"_operator.sub", apply<std::minus<>>},
      {"_operator.mul", apply<std::multiplies<>>},
      {"_operator.eq", apply<std::equal_to<>>},
      {"_operator.ne", apply<std::not_equal_to<>>},
      {"_operator.lt", apply<std::less<>>},
      {"_operator.le", apply<std::less_equal<>>},
      {"_operator.gt", apply<std::greater<>>},
      {"_operator.ge", apply<std::greater_equal<>>},
      {"_operator.and_", bits<std::bit_and<>>},
      {"_operator.or_", bits<std::bit_or<>>},
      {"_operator.lshift", bits<ShiftLeft>},
      {"_operator.rshift", bits<ShiftRight>},
      {"_operator.floordiv", floordiv},
      {"_operator.mod", mod},
      {"_operator.pow", power},
      {"_operator.neg", negative},
      {"_operator.pos", [](Arguments arguments) { return arguments.at(0); }},
      {"_operator.truediv",
       [](Arguments arguments) -> IValue { return real(arguments.at(0)) / real(arguments.at(1)); }},
      {"math.trunc", truncated},
      {"torch.sym_int", truncated},
      {"torch.sym_float", [](Arguments arguments) -> IValue { return real(arguments.at(0)); }},
      {"torch.sym_not", [](Arguments arguments) -> IValue { return !arguments.at(0).toBool(); }},
      {"torch.sym_max", apply<Maximum>},
      {"torch.sym_min", apply<Minimum>},
      {"torch.sym_ite",
       [](Arguments arguments) { return arguments.at(0).toBool() ? arguments.at(1) : arguments.at(2); }},
      {"torch._sym_sqrt", square_root},
      {"torch.sym_sqrt", square_root},
      {"math.sqrt", square_root},
  };
  const auto found = kFunctions.find(name);
  return found == kFunctions.end() ? nullptr : found->second;
}

}  // namespace ddprun::exported
