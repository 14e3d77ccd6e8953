namespace {

// One call, step by step, on the current stream.
std::vector<at::Tensor> run(values& v, const std::vector<at::Tensor>& inputs) {
  struct at_end {
    values& v;
    ~at_end() {
#ifdef PROGRAM_LANES
      try {
        v.lanes->join();
      } catch (const std::exception&) {  // the steps' own error is already propagating
      }
#endif
      v.clear();
    }
  } const end{v};
  set_inputs(v, inputs);
  run_steps(v);
  return outputs_of(v);
}

[[maybe_unused]] std::string name_of(const values&) {
  return program_name;
}
[[maybe_unused]] std::string input_name(const values&, std::size_t input) {
  return input_types()[input].name;
}

}  // namespace
