"""Programs that differ from the task's, but that no gate can distinguish from it, each with the reason. They do not
count as wrong variants; they are run so that a change of their verdicts is noticed."""

from __future__ import annotations

from corpus import Variant, accepted
from programs import STORE, add_source, before, edit, store
from wrong_memory import LAST_BIT



def variants() -> list[Variant]:
    return [
        accepted("rms_norm", "no_epsilon",
                 "1e-6 added to a mean square near 1 is less than gate 3 allows, and no draw has rows near zero",
                 edit("sum / columns + 1e-6", "sum / columns")),
        accepted("l2_normalize", "no_lower_bound", "no draw has a row whose norm is below 1e-12",
                 edit("fmaxf((float)sqrt(sum), 1e-12f)", "(float)sqrt(sum)")),
        accepted("gelu_by_hand", "clipped_at_a_million", "no draw has elements so large",
                 edit("v = x[i]", "v = fminf(x[i], 1e6f)")),
        accepted("hard_swish_chain", "zero_for_nan", "no draw has NaN among the inputs",
                 store("v == v ? r : 0.0f")),
        accepted("relu_of_uniform", "negative_zero", "zeros of either sign are equal", edit("v : 0.0f", "v : -0.0f")),
        accepted("softmax", "small_results_as_zero", "values below 1e-8 are less than the error that the gates allow",
                 edit("expf(in[c] - top) * scale;", "large(expf(in[c] - top) * scale);"), add_source(
                     "__device__ float large(float v) {\n  return v < 1e-8f ? 0.0f : v;\n}")),
        accepted("gated_silu", "device_variable_that_is_only_written",
                 "the host compiler removes a variable that is never read, so the object has none", add_source(
                     "__device__ float kept[256];"), before(STORE, "kept[threadIdx.x] = r;"),
                 devices=("cpu",)),
        accepted("gelu_by_hand", "last_bit_by_the_address",
                 "on a GPU the order of atomic sums does the same: different bits of equal accuracy in every call",
                 store(LAST_BIT),
                 devices=("cuda",)),
    ]
