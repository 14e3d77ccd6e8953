// Every message of every interface, with every member filled, survives CAF's serializer unchanged. Members are found by
// their description, so new ones are tested automatically; a member without a description does not compile.
#include <array>
#include <map>
#include <optional>
#include <set>

#include <boost/core/demangle.hpp>
#include <boost/pfr.hpp>
#include <gtest/gtest.h>

#include "actors/messages/interfaces.hpp"

namespace cudal1 {
namespace {

constexpr const char* task_text = R"({"format": 1, "name": "twice", "summary": "s", "family": "pointwise",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 8]}],
  "steps": [{"aten": "aten::add.Tensor", "args": {"self": "x", "other": "x"}, "out": ["y"]}], "outputs": ["y"]})";

template <class T>
using members_of = boost::describe::describe_members<std::remove_const_t<T>, boost::describe::mod_public>;

template <class T>
constexpr bool is_set = false;
template <class T>
constexpr bool is_set<std::set<T>> = true;

// How many members an aggregate has. Boost.PFR counts those of types without a base; those of a type derived from
// measured_score are counted by the number of initialisers it takes.
struct anything {
  template <class U>
  operator U() const;  // NOLINT(google-explicit-constructor): that is its purpose
};
template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires {
    T{measured_score{}, (static_cast<void>(I), anything{})...};
  };
}
template <class T, std::size_t N = 64>
constexpr std::size_t members_beside_score() {
  if constexpr (N == 0 || takes<T>(std::make_index_sequence<N>()))
    return N;
  else
    return members_beside_score<T, N - 1>();
}
template <class T>
constexpr std::size_t member_count() {
  if constexpr (std::is_base_of_v<measured_score, T>)
    return boost::pfr::tuple_size_v<measured_score> + members_beside_score<T>();
  else
    return boost::pfr::tuple_size_v<T>;
}

// Calls visit(name, member of a, the same member of b), and checks that the type describes all its members.
template <class T, class F>
void for_each_member(T& a, T& b, F visit) {
  static_assert(member_count<std::remove_const_t<T>>() == boost::mp11::mp_size<members_of<T>>::value,
                "BOOST_DESCRIBE_STRUCT leaves a member out");
  boost::mp11::mp_for_each<members_of<T>>([&](auto d) { visit(std::string(d.name), a.*d.pointer, b.*d.pointer); });
}

// Gives every member a value other than its default and those of the other members.
class filler {
 public:
  template <class T>
  void fill(T& x) {
    ++last_;
    if constexpr (std::is_same_v<T, bool>) {
      x = !x;
    } else if constexpr (std::is_arithmetic_v<T>) {
      x = static_cast<T>(static_cast<T>(last_) + static_cast<T>(0.1));
    } else if constexpr (std::is_same_v<T, std::string>) {
      x = "text " + std::to_string(last_);
    } else if constexpr (std::is_same_v<T, json>) {
      x = json::make_object({{"number", json(last_)}});
    } else if constexpr (described_enum<T>) {
      const T before = x;
      boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>([&](auto d) {
        if (d.value != before) x = d.value;
      });
    } else if constexpr (std::is_same_v<T, shared_task>) {
      x = shared_task(read_task(task_text, "cpu").value());
    } else if constexpr (std::is_same_v<T, shared_program>) {
      x = shared_program(read_task(task_text, "cpu").value().reference);
    } else if constexpr (std::is_same_v<T, shared_code>) {
      compiled_code code;
      fill(code);
      code.object += std::string("\x7f\0ELF\xff", 6);  // not text
      x = shared_code(code);
    } else if constexpr (described_struct<T>) {
      for_each_member(x, x, [&](const std::string&, auto& member, auto&) { fill(member); });
    } else {
      fill_container(x);
    }
  }

 private:
  template <class T>
  void fill_container(std::optional<T>& x) {
    fill(x.emplace());
  }
  template <class T>
  void fill_container(std::vector<T>& x) {
    x.resize(2);
    for (auto& item : x)
      fill(item);
  }
  template <class T, std::size_t N>
  void fill_container(std::array<T, N>& x) {
    for (auto& item : x)
      fill(item);
  }
  template <class T>
  void fill_container(std::set<T>& x) {
    T item{};
    fill(item);
    x.insert(std::move(item));
  }
  template <class T>
  void fill_container(std::map<std::string, T>& x) {
    fill(x["a"]);
    fill(x["b"]);
  }

  int64_t last_ = 100;  // above the defaults
};

// The paths of the members that differ.
class comparison {
 public:
  template <class T>
  void compare(const std::string& path, const T& a, const T& b) {
    if constexpr (std::is_same_v<T, shared_task> || std::is_same_v<T, shared_program>) {
      note(path, a && b && a->id == b->id && wire_text(*a) == wire_text(*b));
    } else if constexpr (std::is_same_v<T, shared_code>) {
      note(path, a && b);
      if (a && b) compare(path, *a, *b);
    } else if constexpr (std::is_same_v<T, json> || std::is_same_v<T, std::string> || std::is_arithmetic_v<T> ||
                         std::is_enum_v<T> || is_set<T>) {
      note(path, a == b);
    } else if constexpr (described_struct<T>) {
      for_each_member(a, b, [&](const std::string& name, const auto& of_a, const auto& of_b) {
        compare(path.empty() ? name : path + "." + name, of_a, of_b);
      });
    } else {
      compare_container(path, a, b);
    }
  }
  const std::vector<std::string>& differences() const { return differences_; }

 private:
  void note(const std::string& path, bool same) {
    if (!same) differences_.push_back(path);
  }
  template <class T>
  void compare_container(const std::string& path, const std::optional<T>& a, const std::optional<T>& b) {
    note(path, a.has_value() == b.has_value());
    if (a && b) compare(path, *a, *b);
  }
  template <class T>
  void compare_container(const std::string& path, const T& a, const T& b) {  // vectors and arrays
    note(path, a.size() == b.size());
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      compare(path + "[" + std::to_string(i) + "]", a[i], b[i]);
  }
  template <class T>
  void compare_container(const std::string& path, const std::map<std::string, T>& a,
                         const std::map<std::string, T>& b) {
    note(path, a.size() == b.size());
    for (const auto& [key, value] : a)
      if (const auto there = b.find(key); there != b.end()) compare(path + "." + key, value, there->second);
  }

  std::vector<std::string> differences_;
};

template <class T>
std::vector<std::string> differences_of(const T& a, const T& b) {
  comparison c;
  c.compare("", a, b);
  return c.differences();
}

// A message whose inspection leaves a member out.
struct forgetful {
  int64_t kept = 0, dropped = 0;
};
BOOST_DESCRIBE_STRUCT(forgetful, (), (kept, dropped))
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, forgetful& x) {
  return f(x.kept);
}

class round_trip : public testing::Test {
 protected:
  round_trip() : system_(prepare(config_)) {}
  static caf::actor_system_config& prepare(caf::actor_system_config& c) {
    register_messages(c);
    return c;
  }
  template <class T>
  T cross(T value) {
    std::vector<char> bytes;
    caf::binary_serializer sink(system_, bytes);
    EXPECT_FALSE(sink(value));
    caf::binary_deserializer source(system_, bytes);
    T back;
    const auto problem = source(back);
    EXPECT_FALSE(problem) << from_caf(problem).message;
    EXPECT_EQ(source.remaining(), 0U);
    return back;
  }

  caf::actor_system_config config_;
  caf::actor_system system_;
};

TEST_F(round_trip, every_message_keeps_every_member) {
  std::size_t members = 0;
  boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, message_types>>([&](auto type) {
    using message_type = typename decltype(type)::type;
    const std::string name = boost::core::demangle(typeid(message_type).name());
    message_type value;
    filler().fill(value);
    if constexpr (described_struct<message_type>) {
      const message_type unfilled;
      const auto filled = differences_of(value, unfilled);
      for_each_member(value, value, [&](const std::string& member, const auto&, const auto&) {
        ++members;
        const auto is_of_it = [&](const std::string& path) { return path.starts_with(member); };
        EXPECT_TRUE(std::any_of(filled.begin(), filled.end(), is_of_it)) << name << "." << member << " is not filled";
      });
    }
    EXPECT_EQ(differences_of(value, cross(value)), std::vector<std::string>()) << name;
  });
  EXPECT_GT(boost::mp11::mp_size<message_types>::value, 60U);
  std::printf("%zu types, %zu members of their own\n", boost::mp11::mp_size<message_types>::value, members);
}

TEST_F(round_trip, a_member_that_is_left_out_is_found) {
  forgetful value;
  filler().fill(value);
  EXPECT_EQ(differences_of(value, cross(value)), std::vector<std::string>{"dropped"});
}

TEST_F(round_trip, empty_shared_values_stay_empty) {
  EXPECT_FALSE(cross(shared_code()));
  EXPECT_FALSE(cross(shared_program()));
  EXPECT_FALSE(cross(shared_task()));
}

}  // namespace
}  // namespace cudal1
