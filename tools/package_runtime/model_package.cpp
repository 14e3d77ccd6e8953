// The library libcudal1_package.so: a package's index, which variant a call runs, set-up, and operators, as
// tools/python/torch_package/runtime has them in Python.
#include "tools/python/torch_package/cpp/cudal1/model_package.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <boost/json.hpp>
#include <c10/cuda/CUDAGuard.h>
#include <dlfcn.h>
#include <torch/library.h>
#include <torch/version.h>

#include "tools/package_runtime/package_json.hpp"
#include "tools/package_runtime/packaged_program.hpp"

namespace cudal1::package {

namespace {

namespace json = boost::json;
using tensors = std::vector<at::Tensor>;

constexpr int64_t index_format = 1;
constexpr std::string_view no_variant = "no variant was made for ";
constexpr std::size_t most_states = 16;  // sets of weights whose set-up is kept, of a variant

[[noreturn]] void refuse(const std::string& why) {
  throw std::runtime_error("cudal1: " + why);
}

template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path + " cannot be read: export the package again");
  return {std::istreambuf_iterator<char>(file), {}};
}

json::value read_json(const std::string& path) {
  return json::parse(read_file(path));
}

std::vector<std::string> texts(const json::value& v) {
  std::vector<std::string> all;
  for (const auto& item : v.as_array())
    all.push_back(text(item));
  return all;
}

at::ScalarType dtype_of(const std::string& name) {
  const auto found = dtypes().find(name);
  if (found == dtypes().end()) refuse("a package has the dtype " + name + ", which its library does not know");
  return found->second;
}

struct declared_tensor {
  std::string name, dtype_name;
  at::ScalarType dtype{};
  std::vector<int64_t> shape, strides;

  std::string form() const { return join(dtype_name, '[', list(shape), ']'); }
  static std::string list(c10::IntArrayRef values) {
    std::string out;
    for (const auto n : values)
      out += (out.empty() ? "" : ", ") + std::to_string(n);
    return out;
  }
  bool has_form(const at::Tensor& t) const { return t.scalar_type() == dtype && t.sizes() == shape; }
  // Strides matter only in dimensions with more than one element.
  bool has_layout(const at::Tensor& t) const {
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (shape[i] > 1 && t.stride(static_cast<int64_t>(i)) != strides[i]) return false;
    return true;
  }
};

std::string form_of(const at::Tensor& t) {
  const auto known = std::ranges::find(dtypes(), t.scalar_type(), [](const auto& named) { return named.second; });
  return join(known != dtypes().end() ? known->first : c10::toString(t.scalar_type()), '[',
              declared_tensor::list(t.sizes()), ']');
}

std::vector<declared_tensor> declared(const json::value& listed, const json::object& types) {
  std::vector<declared_tensor> all;
  for (const auto& d : listed.as_array()) {
    declared_tensor t;
    t.name = text(d.at("name"));
    t.dtype_name = text(d.at("dtype"));
    t.dtype = dtype_of(t.dtype_name);
    t.shape = numbers<int64_t>(d.at("shape"));
    t.strides = numbers<int64_t>(types.at(t.name).at("strides"));
    all.push_back(std::move(t));
  }
  return all;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

template <class F>
F function_in(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) refuse(join("the package's library has no ", name, ": export the package again"));
  return reinterpret_cast<F>(found);
}

// What this processor lacks of a level of x86-64, as /proc/cpuinfo names it.
std::string missing_features(const std::string& level) {
  static const std::map<std::string, std::vector<std::string>> levels{
      {"x86-64", {}},
      {"x86-64-v2", {"sse4_2", "popcnt"}},
      {"x86-64-v3", {"sse4_2", "popcnt", "avx2", "fma", "bmi1", "bmi2"}}};
  const auto wanted = levels.find(level);
  if (wanted == levels.end()) return level;
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; flags.empty() && std::getline(file, line);)
    if (line.starts_with("flags")) {
      std::istringstream words(line);
      for (std::string word; words >> word;)
        flags.insert(word);
    }
  std::string missing;
  for (const auto& flag : wanted->second)
    if (!flags.contains(flag)) missing += (missing.empty() ? "" : ", ") + flag;
  return missing;
}

processor_kernels kernels_for_processor(const std::string& object, const std::string& launcher,
                                        const std::string& level) {
  if (const auto missing = missing_features(level); !missing.empty())
    refuse(join("the package's kernels were compiled for ", level, ", and this processor lacks ", missing,
                ": export the package on this machine"));
  // Objects find the functions that kernels call in it.
  void* const library = dlopen(launcher.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) refuse(join(launcher, " cannot be loaded: ", dlerror()));
  std::array<char, 2048> problem{};
  const auto load = function_in<void* (*)(const char*, char*, int)>(library, "cudal1_kernels_load");
  processor_kernels k;
  k.library = load(object.c_str(), problem.data(), static_cast<int>(problem.size()));
  if (k.library == nullptr) refuse(join(object, " cannot be loaded: ", problem.data()));
  k.find = function_in<decltype(k.find)>(library, "cudal1_kernels_find");
  k.launch = function_in<decltype(k.launch)>(library, "cudal1_kernels_launch");
  k.map = function_in<decltype(k.map)>(library, "cudal1_kernels_map");
  return k;
}

// A program whose source was compiled in pieces has several.
std::vector<std::string> cubins_in(const std::string& data) {
  constexpr std::string_view mark = "cudal1 cubins 1\n";
  constexpr std::size_t alignment = 16;
  if (!data.starts_with(mark)) return {data};
  std::size_t at = mark.size();
  const auto number = [&] {
    uint64_t n = 0;
    if (at + sizeof n > data.size()) refuse("a bundle of cubins ends early: export the package again");
    std::memcpy(&n, data.data() + at, sizeof n);
    at += sizeof n;
    return n;
  };
  std::vector<uint64_t> sizes(number());
  for (auto& size : sizes)
    size = number();
  std::vector<std::string> found;
  for (const auto size : sizes) {
    at = (at + alignment - 1) / alignment * alignment;
    if (at > data.size() || size > data.size() - at) refuse("a bundle of cubins ends early: export the package again");
    found.push_back(data.substr(at, size));
    at += size;
  }
  return found;
}

std::string architecture_of(at::Device device) {
  const auto* const properties = at::cuda::getDeviceProperties(device.index());
  return join("sm_", properties->major, properties->minor, properties->major >= 9 ? "a" : "");
}

// ---- variants -------------------------------------------------------------------------------------------------------

// What set-up steps made of one set of weights, and how to see that these are still the same.
struct weights_state {
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages;  // keep addresses from being another's
  std::vector<uint32_t> versions;
  tensors kept;
  std::unique_ptr<packaged_graph> graph;

  bool is_gone() const {
    return std::ranges::any_of(storages, [](const auto& s) { return s.expired(); });
  }
};

class variant {
 public:
  // `entry`: of the index's programs. `constants`: of its model, by name; `names`: of its weights in the model.
  variant(const std::string& folder, const json::object& entry, const std::map<std::string, at::Tensor>& constants,
          const std::vector<std::string>& names)
      : folder_(folder), entry_(entry) {
    const auto document = read_json(folder + "/" + text(entry.at("program")));
    const auto& head = document.at("head").as_object();
    const auto& types = document.at("types").as_object();
    inputs = declared(head.at("inputs"), types);
    if (const auto* w = head.if_contains("weights")) weights = declared(*w, types);
    if (const auto* execution = head.if_contains("execution"))
      if (const auto* graph = execution->as_object().if_contains("graph")) is_graph_ = graph->as_bool();
    const auto* setup = head.if_contains("setup");
    has_setup_ = setup != nullptr && !setup->as_array().empty();
    for (const auto& [place, digest] : document.at("fixed").as_object()) {
      const auto i = std::stoul(std::string(place));
      fixed_.emplace(i, constants.at(names.at(i)));
    }
    device_type = text(entry.at("device_type")) == "cpu" ? at::kCPU : at::kCUDA;
  }

  std::vector<declared_tensor> inputs, weights;
  at::DeviceType device_type{};

  std::string operator_name() const { return text(entry_.at("operator")); }
  std::string task() const { return text(entry_.at("task")); }

  // Plain tensors in the declared forms and layouts.
  tensors call(const tensors& given, const tensors& used) {
    const auto device = (given.empty() ? used : given).front().device();
    const at::NoGradGuard no_gradients;
    const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);  // as when it was measured
    const c10::cuda::OptionalCUDAGuard on(device.is_cuda() ? std::optional(device) : std::nullopt);
    auto& program = *program_on(device);
    const bool as_graph = is_graph_ && device.is_cuda() && !given.empty();
    if (!has_setup_ && fixed_.empty() && !as_graph) return program.call(given, used, {});
    const auto state = state_of(program, used, as_graph);
    if (!state->graph) return program.call(given, used, state->kept);
    return state->graph->call(given);
  }

 private:
  std::shared_ptr<packaged_program> program_on(at::Device device) {
    const std::lock_guard lock(mutex_);
    auto& found = programs_[device];
    if (!found) found = load(device);
    return found;
  }

  std::shared_ptr<packaged_program> load(at::Device device) const {
    const auto plan = read_file(folder_ + "/" + text(entry_.at("plan")));
    std::vector<std::string> cubins;
    processor_kernels processor;
    if (const auto* kernels = entry_.if_contains("kernels")) {
      auto object = text(kernels->at("object"));
      const auto architecture = text(kernels->at("architecture"));
      if (device.is_cpu()) {
        processor = kernels_for_processor(folder_ + "/" + object, folder_ + "/libcudal1_cpu_kernels.so", architecture);
      } else {
        const auto here = architecture_of(device);
        if (here != architecture) {
          const auto* const others = kernels->as_object().if_contains("others");
          const auto* const other = others != nullptr ? others->as_object().if_contains(here) : nullptr;
          if (other == nullptr)
            refuse(join(task(), " has no kernels for ", here, ", which this GPU is: export the package with --arch ",
                        here, ", or call it from Python, which compiles them once"));
          object = text(*other);
        }
        cubins = cubins_in(read_file(folder_ + "/" + object));
      }
    }
    return std::make_shared<packaged_program>(plan, cubins, device.is_cpu() ? -1 : device.index(), processor);
  }

  std::shared_ptr<weights_state> state_of(packaged_program& program, const tensors& used, bool as_graph) {
    tensors watched, addressed;
    for (std::size_t i = 0; i < used.size(); ++i)
      if (has_setup_ || fixed_.contains(i)) watched.push_back(used[i]);
    const bool counts = std::ranges::none_of(watched, [](const at::Tensor& t) { return t.is_inference(); });
    if (!counts) return made(program, used, watched, as_graph);  // PyTorch counts no versions of these
    addressed = as_graph ? used : watched;
    std::vector<const void*> key;
    for (const auto& t : addressed)
      key.push_back(t.const_data_ptr());
    const auto is_of = [&](const weights_state& s) {
      for (std::size_t i = 0; i < watched.size(); ++i)
        if (watched[i]._version() != s.versions[i]) return false;
      return !s.is_gone();
    };
    const std::lock_guard lock(mutex_);
    if (const auto found = states_.find(key); found != states_.end() && is_of(*found->second)) return found->second;
    std::erase_if(states_, [](const auto& s) { return s.second->is_gone(); });
    if (states_.size() >= most_states) states_.erase(states_.begin());
    auto state = made(program, used, watched, as_graph);
    for (const auto& t : addressed)
      state->storages.emplace_back(t.storage().getWeakStorageImpl());
    return states_[key] = state;
  }

  std::shared_ptr<weights_state> made(packaged_program& program, const tensors& used, const tensors& watched,
                                      bool as_graph) const {
    for (const auto& [i, value] : fixed_)
      if (!at::equal(used[i].to(at::kCPU), value))
        refuse(join(weights[i].name, " of ", task(),
                    " is a constant of the model, and has other values than the "
                    "measured ones: export the model with these"));
    auto state = std::make_shared<weights_state>();
    for (const auto& t : watched)
      state->versions.push_back(t.is_inference() ? 0 : t._version());
    if (has_setup_) state->kept = program.set_up(used);
    const bool on_gpu = !used.empty() && used.front().is_cuda();
    if (on_gpu) at::cuda::getCurrentCUDAStream().synchronize();  // the next call may be on another stream
    if (as_graph && std::ranges::all_of(used, is_aligned))
      state->graph = std::make_unique<packaged_graph>(program, used, state->kept);
    return state;
  }

  // Others would be copied in each call: no graph then.
  static bool is_aligned(const at::Tensor& t) {
    constexpr uintptr_t alignment = 16;
    return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % alignment == 0;
  }

  std::string folder_;
  json::object entry_;
  bool is_graph_ = false, has_setup_ = false;
  std::map<std::size_t, at::Tensor> fixed_;
  std::mutex mutex_;
  std::map<at::Device, std::shared_ptr<packaged_program>, bool (*)(const at::Device&, const at::Device&)> programs_{
      [](const at::Device& a, const at::Device& b) {
        return std::pair(a.type(), a.index()) < std::pair(b.type(), b.index());
      }};
  std::map<std::vector<const void*>, std::shared_ptr<weights_state>> states_;
};

// One tensor after the other: the length of the header, the header as JSON, and the bytes (safetensors).
std::map<std::string, at::Tensor> read_tensors(const std::string& path) {
  const auto data = read_file(path);
  uint64_t length = 0;
  if (data.size() < sizeof length) refuse(path + " ends early: export the package again");
  std::memcpy(&length, data.data(), sizeof length);
  const auto header = json::parse(std::string_view(data).substr(sizeof length, length)).as_object();
  static const std::map<std::string, at::ScalarType> short_names{
      {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
      {"I32", at::kInt},    {"I16", at::kShort}, {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool}};
  std::map<std::string, at::Tensor> all;
  for (const auto& [name, entry] : header) {
    auto t = at::empty(numbers<int64_t>(entry.at("shape")), at::TensorOptions(short_names.at(text(entry.at("dtype")))));
    const auto begin = entry.at("data_offsets").at(0).to_number<uint64_t>() + sizeof length + length;
    if (begin > data.size() || t.nbytes() > data.size() - begin) refuse(path + " ends early: export the package again");
    std::memcpy(t.mutable_data_ptr(), data.data() + begin, t.nbytes());
    all.emplace(name, std::move(t));
  }
  return all;
}

}  // namespace

struct model_entry {
  struct variant_case {
    std::shared_ptr<variant> what;
    std::vector<std::string> weights;  // names
  };
  std::string name;
  std::map<std::string, at::Tensor> constants;
  std::vector<variant_case> cases;
};

struct package_files {
  std::string folder, name;
  std::map<std::string, std::shared_ptr<model_entry>> models;
};

class packaged_model {
 public:
  packaged_model(std::shared_ptr<model_entry> entry, std::map<std::string, at::Tensor> weights)
      : entry_(std::move(entry)) {
    std::optional<at::Device> device;
    for (const auto& [name, t] : weights)
      if (!device) device = t.device();
    for (const auto& c : entry_->cases) {
      tensors used;
      for (std::size_t i = 0; i < c.weights.size(); ++i) {
        const auto& name = c.weights[i];
        const auto& wanted = c.what->weights[i];
        auto found = weights.find(name);
        if (found == weights.end()) {
          const auto constant = entry_->constants.find(name);
          if (constant == entry_->constants.end())
            refuse(join("the weights of ", entry_->name, " have no ", name, " (", wanted.form(), ")"));
          found = weights.emplace(name, constant->second.to(device.value_or(at::Device(c.what->device_type)))).first;
        }
        if (!wanted.has_form(found->second))
          refuse(join(name, " is ", form_of(found->second), ", and the variants of ", entry_->name, " were made for ",
                      wanted.form()));
        used.push_back(found->second);
      }
      weights_.push_back(std::move(used));
    }
  }

  // The number of the case; or why none fits.
  std::pair<std::size_t, std::string> choose(const tensors& inputs) const {
    std::string why;
    for (std::size_t i = 0; i < entry_->cases.size(); ++i) {
      const auto problem = problem_of(i, inputs);
      if (problem.empty()) return {i, ""};
      if (why.empty() || !problem.starts_with(no_variant)) why = problem;  // where the forms fit, that says more
    }
    return {0, why};
  }

  tensors call(const tensors& inputs) const {
    const auto [i, why] = choose(inputs);
    if (!why.empty()) refuse(join(entry_->name, ": ", why));
    return entry_->cases[i].what->call(inputs, weights_[i]);
  }

 private:
  std::string problem_of(std::size_t number, const tensors& inputs) const {
    const auto& v = *entry_->cases[number].what;
    std::string forms;
    for (const auto& t : inputs)
      forms += (forms.empty() ? "" : ", ") + form_of(t);
    auto no_such = join(no_variant, forms);
    if (inputs.size() != v.inputs.size()) return no_such;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!v.inputs[i].has_form(inputs[i])) return no_such;
    const auto check = [&](const tensors& given, const std::vector<declared_tensor>& wanted) -> std::string {
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (given[i].device().type() != v.device_type)
          return join(wanted[i].name, " is on ", given[i].device().str(), ", and the variant was made for ",
                      c10::DeviceTypeName(v.device_type, true));
        if (given[i].device() != (inputs.empty() ? given : inputs).front().device())
          return join(wanted[i].name, " is on ", given[i].device().str(), ", and the first input is not");
        if (!wanted[i].has_layout(given[i]))
          return join(wanted[i].name, " has strides [", declared_tensor::list(given[i].strides()),
                      "], and the variant was made for [", declared_tensor::list(wanted[i].strides), "]");
      }
      return "";
    };
    auto problem = check(inputs, v.inputs);
    return problem.empty() ? check(weights_[number], v.weights) : problem;
  }

  std::shared_ptr<model_entry> entry_;
  std::vector<tensors> weights_;  // by case
};

namespace {

// A variant as an operator's kernel.
class variant_kernel final : public c10::OperatorKernel {
 public:
  explicit variant_kernel(std::shared_ptr<variant> what) : what_(std::move(what)) {}

  void operator()(const c10::OperatorHandle& /*op*/, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
    const auto weights = torch::jit::pop(*stack).toTensorVector();
    const auto inputs = torch::jit::pop(*stack).toTensorVector();
    check(inputs, what_->inputs, "input");
    check(weights, what_->weights, "weight");
    stack->emplace_back(what_->call(inputs, weights));
  }

 private:
  void check(const tensors& given, const std::vector<declared_tensor>& wanted, const char* kind) const {
    if (given.size() != wanted.size())
      refuse(join(what_->task(), " takes ", wanted.size(), " ", kind, "s, and was given ", given.size()));
    for (std::size_t i = 0; i < given.size(); ++i)
      if (!wanted[i].has_form(given[i]) || !wanted[i].has_layout(given[i]))
        refuse(join(kind, " ", wanted[i].name, " is ", form_of(given[i]), " with strides [",
                    declared_tensor::list(given[i].strides()), "], and ", what_->task(), " was made for ",
                    wanted[i].form(), " with [", declared_tensor::list(wanted[i].strides), "]"));
  }

  std::shared_ptr<variant> what_;
};

std::shared_ptr<model_entry> read_model(const std::string& folder, const json::object& listed,
                                        const std::map<std::string, json::object>& programs) {
  auto model = std::make_shared<model_entry>();
  model->name = text(listed.at("name"));
  if (const auto* constants = listed.if_contains("constants"))
    model->constants = read_tensors(folder + "/" + text(*constants));
  for (const auto& c : listed.at("cases").as_array()) {
    auto names = texts(c.at("weights"));
    auto v = std::make_shared<variant>(folder, programs.at(text(c.at("task"))), model->constants, names);
    model->cases.push_back({std::move(v), std::move(names)});
  }
  return model;
}

}  // namespace

}  // namespace cudal1::package

namespace cudal1 {

#define CUDAL1_PUBLIC __attribute__((visibility("default")))

CUDAL1_PUBLIC std::vector<at::Tensor> packaged_module::forward(const std::vector<at::Tensor>& inputs) const {
  return model_->call(inputs);
}

CUDAL1_PUBLIC std::string packaged_module::reason_against(const std::vector<at::Tensor>& inputs) const {
  return model_->choose(inputs).second;
}

CUDAL1_PUBLIC model_package::model_package(const std::string& folder)
    : files_(std::make_shared<package::package_files>()) {
  const auto index = package::read_json(folder + "/index.json").as_object();
  if (index.at("format").to_number<int64_t>() != package::index_format)
    package::refuse(folder + " has another format than its library reads: export the package again");
  const auto made_for = package::text(index.at("runtime").at("torch"));
  const auto here = package::join(TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR);
  if (made_for != here) package::refuse(package::join(folder, " is for LibTorch ", made_for, ", and this is ", here));
  files_->folder = folder;
  files_->name = package::text(index.at("name"));
  std::map<std::string, boost::json::object> programs;
  for (const auto& p : index.at("programs").as_array())
    programs.emplace(package::text(p.at("task")), p.as_object());
  for (const auto& m : index.at("models").as_array())
    files_->models.emplace(package::text(m.at("name")), package::read_model(folder, m.as_object(), programs));
}

CUDAL1_PUBLIC std::vector<std::string> model_package::models() const {
  std::vector<std::string> names;
  for (const auto& [name, model] : files_->models)
    names.push_back(name);
  return names;
}

namespace {

std::shared_ptr<package::model_entry> find_model(const package::package_files& files, const std::string& name) {
  const auto found = files.models.find(name);
  if (found != files.models.end()) return found->second;
  std::string known;
  for (const auto& [other, model] : files.models)
    known += (known.empty() ? "" : ", ") + other;
  package::refuse(package::join(files.name, " has no model ", name, "; it has ", known));
}

}  // namespace

CUDAL1_PUBLIC std::vector<std::string> model_package::weight_names(const std::string& model) const {
  const auto found = find_model(*files_, model);
  std::vector<std::string> names;
  for (const auto& c : found->cases)
    for (const auto& name : c.weights)
      if (!found->constants.contains(name) && std::ranges::count(names, name) == 0) names.push_back(name);
  return names;
}

CUDAL1_PUBLIC packaged_module model_package::module(const std::string& model,
                                                    std::map<std::string, at::Tensor> weights) const {
  return packaged_module(std::make_shared<package::packaged_model>(find_model(*files_, model), std::move(weights)));
}

CUDAL1_PUBLIC void model_package::register_operators() const {
  // Not destroyed: PyTorch may end before.
  static auto* const library = new torch::Library(torch::Library::FRAGMENT, "cudal1", std::nullopt, __FILE__, __LINE__);
  static auto* const known = new std::set<std::string>;
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  for (const auto& [name, model] : files_->models)
    for (const auto& c : model->cases) {
      const auto own = c.what->operator_name();
      if (!known->insert(own).second) continue;
      library->def((own + "(Tensor[] inputs, Tensor[] weights) -> Tensor[]").c_str());
      library->impl(
          own.c_str(),
          torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                          torch::CppFunction::makeFromBoxedFunctor(std::make_unique<package::variant_kernel>(c.what))));
    }
}

}  // namespace cudal1
