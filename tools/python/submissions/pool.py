"""One pool: a submission, the problem's Model (eager) and the Model in float64, each in a worker of its own, on draws
that nobody has seen.

Draws for checks and draws whose calls count as time come in one random order, through the same steps; on a GPU, where
calls are timed in bursts, some checks are bursts of the same length. Every output of every call is compared in full.
"""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any

import torch

from submissions import bursts, draws, gates
from submissions.calls import Side, all_finite, differing, layout_of, same_bits
from submissions.protocol import laid_out, size_of
from submissions.spent import Spent
from submissions.workers import Died, Limits, Worker

WARM_UP = 3  # declared bursts of each side that do not count as time
KEPT = 4  # answers that a worker keeps as they were returned
KEPT_CHECKS = 0.15  # of the bursts after which these are looked at
KEPT_DRAWS, KEPT_BURSTS = 24, 4  # earlier draws, of which some come again
EXACT_DECLARED = 4  # of the declared draws are compared with float64, and the first and last ones
HANDSHAKES = 12
MODES = ({"train": False, "grad": "no_grad"}, {"train": True, "grad": "grad"}, {"train": True, "grad": "inference"})
USUAL = {"train": True, "grad": "no_grad"}


class Refused(Exception):
    """The submission is not accepted: a class, and what showed it."""

    def __init__(self, kind: str, why: str):
        super().__init__(why)
        self.kind, self.evidence, self.notes = kind, [], []


class NotJudged(Exception):
    """The problem cannot be judged here."""


@dataclasses.dataclass
class Draw:
    """A burst: the inputs of one call after another, all of one kind."""

    kind: str
    members: list[list[torch.Tensor]]
    mode: dict[str, Any]
    slots: list[int]
    late: list[bursts.Late] = dataclasses.field(default_factory=list)
    timed: bool = False
    is_first: bool = False  # of its worker
    first: Draw | None = None  # the same inputs earlier, for A/B/A
    own_first: bool = False  # in its pair
    answers: list[list[torch.Tensor]] = dataclasses.field(default_factory=list)  # of the submission
    wanted: list[list[torch.Tensor]] = dataclasses.field(default_factory=list)  # of eager
    burst_ns: dict[str, int] = dataclasses.field(default_factory=dict)
    ns: dict[str, float] = dataclasses.field(default_factory=dict)  # of a call, without what the referee takes
    # What computing a call took: of the processor, by the kernel's account; on a GPU as ns.
    used_ns: dict[str, float] = dataclasses.field(default_factory=dict)
    late_ns: dict[str, int] = dataclasses.field(default_factory=dict)  # from the answer to the end of the copy


@dataclasses.dataclass
class Found:
    """What a pool has measured and seen."""

    ratios: list[float] = dataclasses.field(default_factory=list)
    own_first: list[bool] = dataclasses.field(default_factory=list)  # in the pairs of these
    all_ratios: list[float] = dataclasses.field(default_factory=list)  # of checks of that length, too, in their order
    eager_ns: list[int] = dataclasses.field(default_factory=list)
    own_ns: list[int] = dataclasses.field(default_factory=list)
    own_burst_ns: list[int] = dataclasses.field(default_factory=list)
    eager_late_ns: list[int] = dataclasses.field(default_factory=list)
    own_late_ns: list[int] = dataclasses.field(default_factory=list)
    # Of the processor, for the same inputs at first and again.
    first_ns: list[int] = dataclasses.field(default_factory=list)
    again_ns: list[int] = dataclasses.field(default_factory=list)
    eager_first_ns: list[int] = dataclasses.field(default_factory=list)
    eager_again_ns: list[int] = dataclasses.field(default_factory=list)
    notes: set[str] = dataclasses.field(default_factory=set)
    calls: int = 0
    burst: int = 1  # calls
    taken: bursts.Taken = dataclasses.field(default_factory=bursts.Taken)
    compared_kinds: set[str] = dataclasses.field(default_factory=set)
    passing_null_models: set[str] | None = None


class Pool:
    def __init__(self, limits: Limits, problem: str, submission: str, built: str, numbers: random.Random, pairs: int,
                 turns: Any, spent: Spent):
        self.limits, self.problem, self.submission, self.built = limits, problem, submission, built
        self.numbers, self.pairs, self.turns, self.spent = numbers, pairs, turns, spent
        self.found = Found()
        self.kept: list[Draw] = []
        self.returned: list[list[torch.Tensor]] = []  # the last answers, as they were when they were returned
        self.errors: list[gates.EagerError | None] = []  # of each output, once it is known
        self.orders: list[bool] = []  # whether the submission is first in a pair: as often as not
        self.before: torch.Tensor | None = None  # the last answer, for null models

    # ---- set-up -----------------------------------------------------------------------------------------------------

    def judge(self, eager: Worker, exact: Worker, own: Worker) -> Found:
        """The workers are ready; eager's and the submission's are new."""
        self.place = eager.place
        self.generator = torch.Generator(self.place.device).manual_seed(draws.new_seed(self.numbers))
        self.eager, self.exact, self.own = (Side(w, self.numbers, flush) for w, flush in (
            (eager, self.place.flush), (exact, lambda: None), (own, self.place.flush)))
        self.seed = draws.new_seed(self.numbers)
        with self.spent.on("load eager"):
            self.load_reference()
        self.judge_submission()
        return self.found

    def judge_submission(self) -> None:
        refused: Refused | None = None
        try:
            with self.spent.on("load own"):
                self.load_submission()
            self.run()
            self.look_back()
        except Died as problem:
            refused = Refused("died", str(problem))
        except Refused as problem:
            refused = problem
            if refused.kind == "distribution" and self.is_wrong_now():
                refused.kind = "drift"
        if refused is not None:
            refused.evidence, refused.notes = self.own.worker.evidence(), sorted(self.found.notes)
            raise refused

    def is_wrong_now(self) -> bool:
        """On a declared draw, too: then it was not the kind of draw that made it wrong."""
        try:
            self.judge_draw(self.made("declared", self.draw_declared(1), USUAL), exact=False)
        except (Refused, Died):
            return True
        return False

    def ask_reference(self, side: Side, what: str, **members: Any) -> dict[str, Any]:
        try:
            reply = side.worker.ask(what, self.limits.load_s, **members)
        except Died as problem:
            raise NotJudged(f"the problem's Model: {problem}") from problem
        if "problem" in reply:
            raise NotJudged(f"the problem's Model: {reply['problem']}")
        return reply

    def load_reference(self) -> None:
        state = self.ask_reference(self.eager, "load", problem=self.problem, submission=None, seed=self.seed,
                                   double=False)["state"]
        offsets, self.weights_end = laid_out(state, 0)
        self.state = [dict(leaf, offset=offset) for leaf, offset in zip(state, offsets)]
        self.has_exact = "problem" not in self.exact.worker.ask("load", self.limits.load_s, problem=self.problem,
                                                                submission=None, seed=self.seed, double=True)
        described = self.ask_reference(self.exact, "draw", seed=draws.new_seed(self.numbers))
        self.tree, self.leaves = described["tree"], described["leaves"]
        for leaf in self.leaves:
            leaf.pop("strides", None)
        self.out_leaves: list[dict[str, Any]] = []
        self.share(self.exact, 1)
        self.share(self.eager, 1)
        self.declared = self.draw_declared(2)
        self.facts = [draws.Facts(a, b) for a, b in zip(*self.declared)]
        self.describe_outputs()
        self.choose_burst()
        self.see_that_reference_is_steady()
        self.errors = [None] * len(self.out_leaves)
        self.orders = [i % 2 == 0 for i in range(self.pairs + 3)]
        self.numbers.shuffle(self.orders)
        if state:
            self.ask_reference(self.eager, "put_state", offsets={leaf["name"]: leaf["offset"] for leaf in self.state})
            self.weights = {leaf["name"]: weight_in(self.eager, leaf).clone() for leaf in self.state}
        else:
            self.weights = {}

    def share(self, side: Side, calls: int) -> None:
        """Memory for bursts of so many calls."""
        leaves = self.out_leaves
        if side is self.exact:
            leaves = [dict(leaf, dtype="float64") if "float" in leaf["dtype"] else leaf for leaf in leaves]
        layout = layout_of(self.weights_end, self.leaves, leaves, calls, self.numbers)
        if "problem" in (reply := side.share(layout)):
            raise NotJudged(f"no memory for its inputs and outputs: {reply['problem']}")

    def draw_declared(self, count: int) -> list[list[torch.Tensor]]:
        """One after the other from a seed of the operating system."""
        with self.spent.on("draws"):
            found: list[list[torch.Tensor]] = []
            slots = self.exact.layout.slots
            while len(found) < count:
                some = range(min(count - len(found), len(slots)))
                self.ask_reference(self.exact, "draw", seed=draws.new_seed(self.numbers), offsets=[slots[i] for i in some])
                found += [[view.clone() for view in self.exact.inputs_there[i]] for i in some]
            return found

    def describe_outputs(self) -> None:
        """What eager returns, by a call that places nothing."""
        _, reply = self.eager.run(self.declared[:1], [0], self.tree, USUAL, [])
        if "problem" in reply:
            raise NotJudged(f"the problem's Model: {reply['problem']}")
        self.out_tree, self.out_leaves = reply["forms"][0]["tree"], reply["forms"][0]["leaves"]
        if not self.out_leaves:
            raise NotJudged("the problem's Model returns no tensor")

    def choose_burst(self) -> None:
        """By eager's time and the device's memory; then all have memory for it."""
        if self.place.burst_ns:
            size = sum(map(size_of, (*self.leaves, *self.out_leaves)))
            most = bursts.most_calls(size, self.place.free_bytes())
            tried = min(most, bursts.TRIED_CALLS)
            self.share(self.eager, tried)
            times: dict[int, list[int]] = {1: [], tried: []}
            with self.turns:
                for count in (tried, 1, tried, 1, tried):
                    members = [self.declared[i % 2] for i in range(count)]
                    ns, reply = self.eager.run(members, list(range(count)), self.tree, USUAL, [])
                    if "problem" in reply:
                        raise NotJudged(f"the problem's Model: {reply['problem']}")
                    times[count].append(ns)
            call_ns = bursts.call_ns(min(times[1]), min(times[tried]), tried)
            self.found.burst = bursts.calls_for(self.place.burst_ns, call_ns, most)
        self.burst = self.found.burst
        self.share(self.eager, self.burst)
        self.share(self.exact, self.burst)

    def measure_taken(self) -> None:
        """What the referee itself takes of a burst, once eager has been warmed up."""
        if not self.place.burst_ns:
            return
        with self.turns:
            times = [self.eager.run([], [], self.tree, USUAL, [])[0] for _ in range(HANDSHAKES)]
        self.found.taken.handshake_ns = bursts.low_quantile(times)
        answers = [[torch.zeros_like(t) for t in result] for result in self.eager.outputs_there]
        pairs = [(into, t) for result, answer in zip(self.eager.outputs_there, answers) for into, t in zip(result, answer)]
        self.found.taken.copy_ns = self.place.copy_ns(pairs) / len(answers)

    def see_that_reference_is_steady(self) -> None:
        answers = []
        for which in (0, 1, 0):
            draw = Draw("declared", [self.declared[which]], USUAL, [0])
            if problem := self.wanted(draw, shown=True):
                raise NotJudged(f"the problem's Model: {problem}")
            answers.append(draw.wanted[0])
        for i, (first, again) in enumerate(zip(answers[0], answers[2])):
            if gates.wrong(again, gates.Expected(first, None), True):
                raise NotJudged(f"output {i} of the problem's Model is random, or depends on earlier calls")
        self.measure_taken()

    def load_submission(self) -> None:
        worker = self.own.worker
        reply = worker.ask("load", self.limits.load_s, problem=self.problem, submission=self.submission,
                           seed=self.seed, double=False)
        if "problem" in reply:
            raise Refused("raises", f"it does not load: {reply['problem']}")
        if self.built and "problem" in (said := worker.ask("rehearse", self.limits.load_s,
                                                           seed=draws.new_seed(self.numbers))):
            raise Refused("raises", f"its first call: {said['problem']}")
        if "problem" in (shared := self.own.share(self.eager.layout)):
            raise Refused("raises", f"it leaves no memory for inputs and outputs: {shared['problem']}")
        mine = {leaf["name"]: (leaf["dtype"], leaf["shape"]) for leaf in reply["state"]}
        wanted = {leaf["name"]: (leaf["dtype"], leaf["shape"]) for leaf in self.state}
        self.same_state = mine == wanted
        if not self.same_state:
            self.found.notes.add("its state_dict is not the reference's, so its weights come from equal seeds: "
                                 + first_difference(mine, wanted))
        elif self.state:
            self.give_weights(self.weights)

    def give_weights(self, weights: dict[str, torch.Tensor]) -> None:
        for side in (self.eager, self.exact, self.own) if self.same_state else ():
            for leaf in self.state:
                weight_in(side, leaf).copy_(weights[leaf["name"]])
            reply = side.worker.ask("load_state", state=self.state)
            if "problem" in reply and side is self.own:
                raise Refused("state", f"load_state_dict with the reference's weights: {reply['problem']}")

    # ---- one burst --------------------------------------------------------------------------------------------------

    def run_on(self, side: Side, name: str, draw: Draw) -> dict[str, Any]:
        with self.spent.on(f"calls of {name}"):
            ns, reply = side.run(draw.members, draw.slots, self.tree, draw.mode, draw.late)
        count = len(draw.members)
        draw.burst_ns[name], draw.ns[name] = ns, self.found.taken.per_call(ns, count, side.copies)
        draw.used_ns[name] = draw.ns[name] if self.place.is_gpu else side.worker.used_ns
        draw.late_ns[name] = side.worker.late_ns
        return reply

    def wanted(self, draw: Draw, shown: bool) -> str:
        """Eager's answers; a reason if the draw is of no use."""
        try:
            reply = self.run_on(self.eager, "eager", draw)
        except Died as problem:
            raise NotJudged(f"the problem's Model: {problem}") from problem
        if "problem" in reply:
            return reply["problem"]
        if self.eager.changed:
            raise NotJudged("the problem's Model writes into its inputs")
        draw.wanted = self.eager.outputs
        for form in reply["forms"]:
            if form["tree"] != self.out_tree or [x["shape"] for x in form["leaves"]] != [x["shape"] for x in self.out_leaves]:
                raise NotJudged("the shape of the reference's result depends on values")
        return "" if shown or all_finite([t for result in draw.wanted for t in result]) else "it gives no finite numbers"

    def exactly(self, draw: Draw, which: list[int], moved: bool = False) -> dict[int, list[torch.Tensor]]:
        """The answers to these of its calls in float64; none where the Model has none."""
        if not self.has_exact or not which:
            return {}
        members = [draw.members[m] for m in which]
        if moved:  # by a unit in the last place of float32, each element by itself
            members = [[t * (1 + 2.0 ** -23 * torch.randint(-1, 2, t.shape, generator=self.generator,
                                                           device=self.generator.device).to(t.dtype))
                        if f.continuous else t for t, f in zip(inputs, self.facts)] for inputs in members]
        try:
            with self.spent.on("calls in float64"):
                _, reply = self.exact.run(members, list(range(len(members))), self.tree, draw.mode, [])
        except Died as problem:
            raise NotJudged(f"the problem's Model in float64: {problem}") from problem
        if "problem" in reply:
            self.has_exact = False
            self.found.notes.add(f"not compared with float64: {reply['problem']}")
            return {}
        return dict(zip(which, self.exact.outputs))

    # ---- the calls --------------------------------------------------------------------------------------------------

    def schedule(self) -> list[tuple[str, dict[str, Any]]]:
        """Declared draws that are timed, kinds of draws, twins, repeats and modes, in random order."""
        numbers = self.numbers
        plan = [("declared", USUAL)] * self.pairs + [(k, USUAL) for k in draws.KINDS] + [(k, USUAL) for k in draws.TWINS]
        plan += [("again", USUAL)] * 4 + [("declared", mode) for mode in MODES]
        numbers.shuffle(plan)
        at = numbers.randrange(len(plan) // 3, 2 * len(plan) // 3)
        plan.insert(at, ("other_weights", USUAL))
        first = [("declared", USUAL)] * (WARM_UP + 1)
        return first + [("again", USUAL)] + plan + [("declared", USUAL)] * 2

    def run(self) -> None:
        for side in (self.eager, self.own) if self.place.is_gpu else ():
            side.worker.pin()
        plan = self.schedule()
        declared = [i for i, (kind, mode) in enumerate(plan) if kind == "declared" and mode is USUAL]
        checked = set(self.numbers.sample(declared, min(EXACT_DECLARED, len(declared)))) | {0, *declared[-2:]}
        for i, (kind, mode) in enumerate(plan):
            if kind == "other_weights":
                if self.same_state and self.state:
                    self.give_weights({leaf["name"]: draws.other_weight(leaf, self.weights[leaf["name"]], self.generator)
                                       for leaf in self.state})
                self.kept.clear()  # answers with the old weights are no example of anything
                continue
            draw = self.draw_of(kind, mode)
            if draw is None:
                continue
            draw.is_first = i == 0
            draw.timed = kind == "declared" and mode is USUAL and i >= WARM_UP
            self.judge_draw(draw, exact=kind != "declared" or mode is not USUAL or i in checked)
            if i in (WARM_UP, len(plan) - 1) or self.numbers.random() < KEPT_CHECKS:
                self.look_at_returned()

    def count_of(self, kind: str, mode: dict[str, Any]) -> int:
        """Of calls in a burst. Checks are single calls, short bursts and such as are timed."""
        if self.burst == 1 or mode is not USUAL:
            return 1
        if kind == "declared":
            return self.burst
        return self.numbers.choice((1, 1, 1, self.numbers.randrange(2, self.burst + 1), self.burst))

    def draw_of(self, kind: str, mode: dict[str, Any]) -> Draw | None:
        count = self.count_of(kind, mode)
        if kind == "declared":
            return self.made(kind, self.draw_declared(count), mode)
        if kind == "again":
            if not self.kept:
                return None
            first = self.numbers.choice(self.kept)
            draw = self.made(kind, first.members, mode, first=first)
            draw.late = first.late
            return draw
        if kind in draws.TWINS:
            if not self.kept:
                return None
            first = self.kept[-1]
            members = [draws.twin(kind, inputs, self.facts, self.generator) for inputs in first.members[:count]]
            if not members[0]:
                return None
            draw = self.made(kind, members, mode)
            draw.slots = self.numbers.choice((first.slots[:count], draw.slots))
            return draw
        if not any(f.continuous for f in self.facts):
            return None
        return self.made(kind, self.members_of(kind, count, False), mode)

    def made(self, kind: str, members: list[list[torch.Tensor]], mode: dict[str, Any], first: Draw | None = None) -> Draw:
        """In slots of its own. With `first` the members are another draw's, else they get what is written late."""
        slots = self.numbers.sample(range(len(self.eager.layout.slots)), len(members))
        late = [] if first else bursts.late_writes(members, self.facts, self.numbers)
        return Draw(kind, members, mode, slots, late, first=first)

    def members_of(self, kind: str, count: int, within: bool) -> list[list[torch.Tensor]]:
        found = []
        for source in self.draw_declared(count):
            which = self.numbers.randrange(len(source))
            found.append([draws.drawn(kind if kind != "impulses" or i == which else "small_integers", t, f,
                                      within, self.generator) for i, (t, f) in enumerate(zip(source, self.facts))])
        return found

    def judge_draw(self, draw: Draw, exact: bool) -> None:
        draw.own_first = self.orders.pop() if draw.timed and self.orders else self.numbers.random() < 0.5
        reply: dict[str, Any] = {}
        if draw.kind in ("declared", "again"):
            with self.turns:  # a pair
                if draw.own_first:
                    reply = self.answer(draw)
                useless = self.wanted(draw, shown=True)
                if not draw.own_first and not useless:
                    reply = self.answer(draw)
        else:
            useless = self.wanted(draw, shown=False)
            if useless and draw.kind in draws.KINDS:
                members = self.members_of(draw.kind, len(draw.members), True)  # within the declared bounds
                draw = self.made(draw.kind, members, draw.mode)
                useless = self.wanted(draw, shown=False)
            if not useless:
                reply = self.answer(draw)
        if useless:
            if draw.kind == "declared" and draw.mode is USUAL:
                raise NotJudged(f"the problem's Model: {useless}")
            return
        with self.spent.on("comparisons"):
            if self.compare(draw, reply, exact):
                self.count(draw)
        draw.answers, draw.wanted = [], []
        if draw.kind == "declared" and draw.mode is USUAL:
            self.kept = (self.kept + [draw])[-(KEPT_DRAWS if self.burst == 1 else KEPT_BURSTS):]

    def answer(self, draw: Draw) -> dict[str, Any]:
        begin = self.found.calls
        self.found.calls += len(draw.members)
        reply = self.run_on(self.own, "own", draw)
        draw.answers = self.own.outputs
        if self.own.changed:
            call, which = self.own.changed[0]
            raise Refused("writes_inputs", f"call {begin + call + 1}: it wrote into input {which}")
        if "problem" not in reply:
            self.returned = (self.returned + draw.answers)[-KEPT:]
        return reply

    def say_where(self, draw: Draw, member: int = 0) -> str:
        mode = "" if draw.mode is USUAL else f" in mode {name_of(draw.mode)}"
        count = len(draw.members)
        burst = f", {member + 1} of a burst of {count}" if count > 1 else ""
        return f"call {self.found.calls - count + member + 1}{burst}, draw `{draw.kind}`{mode}"

    # ---- comparisons ------------------------------------------------------------------------------------------------

    def compare(self, draw: Draw, reply: dict[str, Any], exact: bool) -> bool:
        if "problem" in reply:
            if draw.mode is not USUAL:
                self.found.notes.add(f"it raises an error in mode {name_of(draw.mode)}: {reply['problem'][:120]}")
                return False
            raise Refused("raises", f"{self.say_where(draw)}: {reply['problem']}")
        forms = reply.get("forms")
        if not isinstance(forms, list) or not forms:
            raise Refused("form", f"{self.say_where(draw)}: it does not say what it returns")
        for form in forms:
            self.compare_form(form, self.say_where(draw))
        precise = self.exactly(draw, [self.numbers.randrange(len(draw.members))]) if exact else {}
        for i in range(len(self.out_leaves)):
            for m in self.doubtful(draw, i, precise):
                self.compare_output(draw, m, i, precise.get(m))
        self.found.compared_kinds.add(draw.kind if draw.mode is USUAL else name_of(draw.mode))
        self.try_null_models(draw, precise)
        return True

    def doubtful(self, draw: Draw, i: int, precise: dict[int, list[torch.Tensor]]) -> list[int]:
        """The calls whose output i is to be compared by itself. Not those with eager's bits, nor, on declared draws, those
        that are all nearer to eager's than eager is to float64."""
        declared = draw.kind in ("declared", "again")
        got, wanted = [a[i] for a in draw.answers], [w[i] for w in draw.wanted]
        for m in precise if declared and draw.mode is USUAL else ():
            self.errors[i] = gates.EagerError.worse(self.errors[i], gates.EagerError.of(wanted[m], precise[m][i]))
        rest = [m for m in differing(list(zip(got, wanted))) if m not in precise]
        if declared and len(rest) > 1 and self.errors[i] is not None:
            if gates.is_near(torch.stack([got[m] for m in rest]), torch.stack([wanted[m] for m in rest]), self.errors[i]):
                rest = []
        if declared and len(rest) > 1:
            precise.update(self.exactly(draw, rest))
        return sorted({*precise, *rest})

    def compare_output(self, draw: Draw, m: int, i: int, values: list[torch.Tensor] | None) -> None:
        got, wanted, precise = draw.answers[m][i], draw.wanted[m][i], values[i] if values else None
        declared = draw.kind in ("declared", "again")
        problem = gates.wrong(got, gates.Expected(wanted, precise), declared)
        if problem and self.has_exact:
            base = precise if precise is not None else self.exactly(draw, [m]).get(m, [None] * (i + 1))[i]
            moved = self.exactly(draw, [m], moved=True).get(m, [None] * (i + 1))[i] if base is not None else None
            if moved is not None and not torch.is_floating_point(got):
                moved = None
            problem = gates.wrong(got, gates.Expected(wanted, base, moved - base if moved is not None else None), declared)
        if problem:
            kind = "overwritten" if self.is_later_answer(draw, m, i) else self.kind_of_wrong(draw)
            raise Refused(kind, f"{self.say_where(draw, m)}: output {i} {problem}")

    def is_later_answer(self, draw: Draw, m: int, i: int) -> bool:
        """Whether it holds the answer of a later call of its burst."""
        return any(same_bits(draw.answers[m][i], draw.answers[k][i])
                   and not gates.wrong(draw.answers[k][i], gates.Expected(draw.wanted[k][i], None), True)
                   for k in range(m + 1, len(draw.members)))

    def compare_form(self, form: Any, where: str) -> None:
        if not isinstance(form, dict) or form.get("tree") != self.out_tree \
                or len(form.get("leaves", [])) != len(self.out_leaves):
            raise Refused("form", f"{where}: it does not return what the reference returns")
        for i, (got, wanted) in enumerate(zip(form["leaves"], self.out_leaves)):
            problem = gates.wrong_form(got, wanted)
            if problem:
                raise Refused("form", f"{where}: output {i} {problem}")

    def kind_of_wrong(self, draw: Draw) -> str:
        if draw.mode is not USUAL:
            return "mode"
        if draw.kind in draws.TWINS or draw.first is not None:
            return "stale"
        if draw.kind in draws.KINDS:
            return "distribution" if self.kept else "wrong_answer"
        return "drift" if self.kept else "wrong_answer"

    def try_null_models(self, draw: Draw, precise: dict[int, list[torch.Tensor]]) -> None:
        if draw.mode is not USUAL or draw.kind == "again" or self.found.passing_null_models == set():
            return
        m = next(iter(precise), 0)
        wanted, values = draw.wanted[m][0], precise.get(m)
        before, self.before = self.before, wanted
        passing = {name for name, t in gates.null_models(draw.members[m], wanted, before).items()
                   if not gates.wrong(t, gates.Expected(wanted, values[0] if values else None), draw.kind == "declared")}
        known = self.found.passing_null_models
        self.found.passing_null_models = passing if known is None else known & passing

    def count(self, draw: Draw) -> None:
        found, eager, own = self.found, draw.ns["eager"], draw.ns["own"]
        if found.calls > WARM_UP * self.burst and len(draw.members) == self.burst:
            found.all_ratios.append(eager / own)
        if draw.timed:
            found.ratios.append(eager / own)
            found.own_first.append(draw.own_first)
            found.eager_ns.append(round(eager))
            found.own_ns.append(round(own))
            found.own_burst_ns.append(draw.burst_ns["own"])
            found.eager_late_ns.append(draw.late_ns["eager"])
            found.own_late_ns.append(draw.late_ns["own"])
        if draw.first is not None and not draw.first.is_first:
            first, again = draw.first.used_ns, draw.used_ns
            for times, ns in ((found.first_ns, first["own"]), (found.again_ns, again["own"]),
                              (found.eager_first_ns, first["eager"]), (found.eager_again_ns, again["eager"])):
                times.append(round(ns))

    # ---- at the end -------------------------------------------------------------------------------------------------

    def look_at_returned(self) -> None:
        """Whether what the last calls returned is still what it was."""
        outputs = list(zip(self.out_leaves, self.own.layout.places[0]))
        for back, answer in enumerate(reversed(self.returned)):
            self.own.poison([0])
            reply = self.own.worker.ask("kept_again", back=back, outputs=outputs)
            now = self.own.outputs_there[0]
            if "problem" in reply or not all(same_bits(a, b) for a, b in zip(answer, now)):
                raise Refused("overwritten", "what a call had returned was changed by later calls")

    def look_at_evidence(self) -> None:
        said = self.own.worker.evidence()
        if said:
            raise Refused("evidence", said[0])

    def look_back(self) -> None:
        reply = self.own.worker.ask("report")
        time.sleep(0.01)  # until the thread that reads the evidence has it
        self.look_at_evidence()
        changed = reply.get("evidence", [])
        if not isinstance(changed, list) or "problem" in reply:
            raise Refused("tampering", f"its worker cannot report any more: {reply.get('problem')}")
        if changed:
            raise Refused("tampering", "; ".join(str(c)[:100] for c in changed[:4]))


def first_difference(mine: dict[str, tuple[str, list[int]]], wanted: dict[str, tuple[str, list[int]]]) -> str:
    """Between two state_dicts, as {name: (dtype, shape)}, in words."""
    for name, (dtype, shape) in wanted.items():
        if name not in mine:
            return f"it has no {name} ({dtype} {shape})"
        if mine[name] != (dtype, shape):
            return f"{name} is {mine[name][0]} {mine[name][1]}, and the reference's {dtype} {shape}"
    return f"the reference has no {next(name for name in mine if name not in wanted)}"


def name_of(mode: dict[str, Any]) -> str:
    return f"{'train' if mode['train'] else 'eval'}/{mode['grad']}"


def weight_in(side: Side, leaf: dict[str, Any]) -> torch.Tensor:
    return side.worker.arena.view(leaf, leaf["offset"])
