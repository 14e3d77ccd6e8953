// What a step `cudal1::convolution_graph` does to the elements of its convolution: a chain of functions, as text.
// "add(0) silu scale(0.5)" adds the first operand, takes the SiLU of that and halves it. Exported KernelBench files
// contain the text of this header (tools/kernelbench): C++17 that needs only the standard library.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

inline constexpr const char* convolution_graph_schema =
    "cudal1::convolution_graph(Tensor input, Tensor weight, Tensor[] operands, int[] stride, int[] padding, "
    "int[] dilation, bool transposed, int[] output_padding, int groups, str graph, int engine) -> Tensor";

// "cuDNN 9.19.0 has no engine 3 for this graph: ...": what a device lacks, and no fault of the program.
class engine_missing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
inline constexpr const char* no_engine_words = "has no engine";

enum class chain_function {
  add,         // an operand: one number a channel, or one an element of the result
  multiply,    // the same
  shift,       // adds a number
  scale,       // multiplies by a number
  relu,        //
  leaky_relu,  // its slope below 0
  clamp,       // to two limits
  elu,         // its alpha
  sigmoid,     //
  tanh,        //
  silu,        //
  gelu,        // with the error function
  gelu_tanh,   // with a tanh
  softplus,    //
  mish,        //
  hardsigmoid,
  hardswish
};

struct chain_word {
  std::string_view name;
  chain_function what;
  int operands, numbers;  // in parentheses behind the name
};

inline constexpr chain_word chain_words[] = {{"add", chain_function::add, 1, 0},
                                             {"mul", chain_function::multiply, 1, 0},
                                             {"shift", chain_function::shift, 0, 1},
                                             {"scale", chain_function::scale, 0, 1},
                                             {"relu", chain_function::relu, 0, 0},
                                             {"leaky_relu", chain_function::leaky_relu, 0, 1},
                                             {"clamp", chain_function::clamp, 0, 2},
                                             {"elu", chain_function::elu, 0, 1},
                                             {"sigmoid", chain_function::sigmoid, 0, 0},
                                             {"tanh", chain_function::tanh, 0, 0},
                                             {"silu", chain_function::silu, 0, 0},
                                             {"gelu", chain_function::gelu, 0, 0},
                                             {"gelu_tanh", chain_function::gelu_tanh, 0, 0},
                                             {"softplus", chain_function::softplus, 0, 0},
                                             {"mish", chain_function::mish, 0, 0},
                                             {"hardsigmoid", chain_function::hardsigmoid, 0, 0},
                                             {"hardswish", chain_function::hardswish, 0, 0}};

inline constexpr std::size_t longest_chain = 16;  // functions, and operands

struct chain_link {
  chain_function what = chain_function::relu;
  std::size_t operand = 0;       // of add and multiply
  double first = 0, second = 0;  // its numbers
};

struct convolution_chain {
  std::vector<chain_link> links;
  std::string problem;  // why the text is no chain; "" where it is one
};

namespace chain_parts {

inline std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = text.find(at, begin) == std::string_view::npos ? text.size() : text.find(at, begin);
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <class Number>
bool read(std::string_view text, Number& value) {
  const auto found = std::from_chars(text.data(), text.data() + text.size(), value);
  return found.ec == std::errc() && found.ptr == text.data() + text.size();
}

inline const chain_word* find_word(std::string_view name) {
  for (const chain_word& each : chain_words)
    if (each.name == name) return &each;
  return nullptr;
}

// "" or why the word is no link.
inline std::string read_link(std::string_view text, chain_link& link) {
  const std::string quoted = "\"" + std::string(text) + "\"";
  const std::size_t open = text.find('(');
  const chain_word* word = find_word(text.substr(0, open));
  if (word == nullptr) return quoted + " is no function of a chain";
  link.what = word->what;
  std::vector<std::string_view> given;
  if (open != std::string_view::npos) {
    if (text.back() != ')') return quoted + " has no closing parenthesis";
    given = split(text.substr(open + 1, text.size() - open - 2), ',');
  }
  if (given.size() != static_cast<std::size_t>(word->operands + word->numbers))
    return quoted + " should have " + std::to_string(word->operands + word->numbers) + " arguments";
  if (word->operands == 1 && !read(given[0], link.operand)) return quoted + " should name an operand by its number";
  if (word->numbers > 0 && !read(given[0], link.first)) return quoted + " should have a number";
  if (word->numbers > 1 && !read(given[1], link.second)) return quoted + " should have two numbers";
  if (link.first != link.first || link.second != link.second) return quoted + " has a number that is none";
  return "";
}

}  // namespace chain_parts

// The chain of a step with so many operands, each of which it should use. The empty text is the convolution alone.
inline convolution_chain read_chain(std::string_view text, std::size_t operands) {
  convolution_chain out;
  std::vector<bool> used(operands);
  if (text.empty()) {
    if (operands > 0) out.problem = "no function uses operand 0";
    return out;
  }
  for (const std::string_view word : chain_parts::split(text, ' ')) {
    chain_link& link = out.links.emplace_back();
    out.problem = chain_parts::read_link(word, link);
    if (!out.problem.empty()) return out;
    if (link.what != chain_function::add && link.what != chain_function::multiply) continue;
    if (link.operand >= operands) {
      out.problem = "there is no operand " + std::to_string(link.operand);
      return out;
    }
    used[link.operand] = true;
  }
  if (out.links.size() > longest_chain || operands > longest_chain) out.problem = "it is longer than 16 functions";
  for (std::size_t i = 0; i < operands; ++i)
    if (!used[i]) out.problem = "no function uses operand " + std::to_string(i);
  return out;
}

}  // namespace cudal1
