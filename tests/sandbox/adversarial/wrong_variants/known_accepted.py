"""Programs that are not what the task says and that no gate can tell from it, each with the reason. They are no part of
the corpus, and are run so that this stays as it is, too."""

from __future__ import annotations

from corpus import Variant, accepted
from programs import STORE, add_source, before, edit, store
from wrong_memory import LAST_BIT



def variants() -> list[Variant]:
    return [
        accepted("rms_norm", "no_epsilon",
                 "1e-6 beside a mean square near 1 is less than gate 3 grants, and no draw has rows near zero",
                 edit("sum / columns + 1e-6", "sum / columns")),
        accepted("l2_normalize", "no_lower_bound", "no draw has a row whose norm is below 1e-12",
                 edit("fmaxf((float)sqrt(sum), 1e-12f)", "(float)sqrt(sum)")),
        accepted("gelu_by_hand", "clipped_at_a_million", "no draw has elements so large",
                 edit("v = x[i]", "v = fminf(x[i], 1e6f)")),
        accepted("hard_swish_chain", "zero_for_nan", "no draw has NaN among the inputs",
                 store("v == v ? r : 0.0f")),
        accepted("relu_of_uniform", "negative_zero", "zeros of either sign are equal", edit("v : 0.0f", "v : -0.0f")),
        accepted("softmax", "small_results_as_zero", "what is below 1e-8 is less than the gates grant beside the rest",
                 edit("expf(in[c] - top) * scale;", "large(expf(in[c] - top) * scale);"), add_source(
                     "__device__ float large(float v) {\n  return v < 1e-8f ? 0.0f : v;\n}")),
        accepted("gated_silu", "device_variable_that_is_only_written",
                 "the host compiler leaves out what nothing reads, and the object has no variable", add_source(
                     "__device__ float kept[256];"), before(STORE, "kept[threadIdx.x] = r;"),
                 devices=("cpu",)),
        accepted("gelu_by_hand", "last_bit_by_the_address",
                 "on a GPU the order of atomic sums does the same: other bits in every call, each as good an output",
                 store(LAST_BIT),
                 devices=("cuda",)),
    ]
