// What an answer of a constrained model may be, as an automaton of bytes: its three sections, and in the code block
//
//   program:   a head that can be read, whose inputs, weights and outputs are the task's, then free CUDA source (ASCII
//              without strings, characters and /* */) that has the kernels which the head launches, each at the
//              beginning of a line: `kernel`, or `first_kernel` and then `second_kernel`; or a head of `aten` steps
//              alone. Names are bound before they are used: outputs, and t0, t1, ... for what lies between.
//   tile:      a frame of the task and statements of its kernel's body, which always compile, or launches and free
//              source whose kernels have tensors as parameters and call a function of the vocabulary (tile_pattern).
//   schedule:  moves by the names and parameters that the task's program has on this target.
//
// Analysis, design and source are free text.
#pragma once

#include "config/base/error.hpp"
#include "policy/codegen/lowering_target.hpp"
#include "policy/model/constraint/byte_automaton.hpp"
#include "policy/prompt/prompt_document.hpp"
#include "sandbox/program/program.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// errc::unsupported for a task whose heads would need too many states, or that has no legal move.
expected<byte_automaton> shape_of_answer(const task& t, const lowering_target& target, answer_form form);

// A schedule alone, of moves that are legal where they stand: with as many of them as were looked at, two at least. Of
// a task with very many moves the first one alone is, and those after it have values that are candidates somewhere.
expected<byte_pattern> schedule_pattern(const task& t, const lowering_target& target);

// The program with its kernels named as a program of that shape names them, so that what is shown or learned can be
// written. Unchanged where it has more kernels than these, or uses such a name for something else.
program with_answer_names(program p);

}  // namespace cudal1
