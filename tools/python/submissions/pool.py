"""One pool: a submission, the problem's Model (eager) and the Model in float64, each in a fresh worker, on draws that
nobody has seen.

Draws for checks and draws whose calls count as time come in one random order, through the same steps: a submission
cannot tell them apart. Every output of every call is compared in full.
"""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any

import torch

from submissions import draws, gates
from submissions.protocol import laid_out
from submissions.workers import Died, Limits, Worker, Zygote

SLOTS = 3  # places for inputs, so that addresses and contents are independent
PAGE = 4096
WARM_UP = 3  # declared calls of each side that do not count as time
KEPT = 4  # answers that a worker keeps as they were returned
KEPT_CHECKS = 0.15  # of the calls after which these are looked at
EXACT_DECLARED = 4  # of the declared draws are compared with float64, and the last ones
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
    kind: str
    inputs: list[torch.Tensor]
    mode: dict[str, Any]
    slot: int = 0
    timed: bool = False
    is_first: bool = False  # of its worker
    first: Draw | None = None  # the same inputs earlier, for A/B/A
    answer: list[torch.Tensor] = dataclasses.field(default_factory=list)  # of the submission
    wanted: list[torch.Tensor] = dataclasses.field(default_factory=list)  # of eager
    ns: dict[str, int] = dataclasses.field(default_factory=dict)
    # What computing took: of the processor, by the kernel's account; on a GPU as ns.
    used_ns: dict[str, int] = dataclasses.field(default_factory=dict)
    late_ns: dict[str, int] = dataclasses.field(default_factory=dict)  # from the answer to the end of the copy


@dataclasses.dataclass
class Found:
    """What a pool has measured and seen."""

    ratios: list[float] = dataclasses.field(default_factory=list)
    all_ratios: list[float] = dataclasses.field(default_factory=list)  # of checks, too, in their order
    eager_ns: list[int] = dataclasses.field(default_factory=list)
    own_ns: list[int] = dataclasses.field(default_factory=list)
    eager_late_ns: list[int] = dataclasses.field(default_factory=list)
    own_late_ns: list[int] = dataclasses.field(default_factory=list)
    # Of the processor, for the same inputs at first and again.
    first_ns: list[int] = dataclasses.field(default_factory=list)
    again_ns: list[int] = dataclasses.field(default_factory=list)
    eager_first_ns: list[int] = dataclasses.field(default_factory=list)
    eager_again_ns: list[int] = dataclasses.field(default_factory=list)
    notes: set[str] = dataclasses.field(default_factory=set)
    calls: int = 0
    compared_kinds: set[str] = dataclasses.field(default_factory=set)
    passing_null_models: set[str] | None = None


class Pool:
    def __init__(self, zygote: Zygote, limits: Limits, problem: str, submission: str, built: str, numbers: random.Random,
                 pairs: int, turns: Any):
        self.zygote, self.limits, self.problem, self.submission, self.built = zygote, limits, problem, submission, built
        self.numbers, self.flush, self.pairs, self.turns = numbers, zygote.place.flush, pairs, turns
        self.generator = torch.Generator(zygote.place.device).manual_seed(draws.new_seed(numbers))
        self.found = Found()
        self.kept: list[Draw] = []
        self.returned: list[list[torch.Tensor]] = []  # the last answers, as they were when they were returned

    # ---- set-up -----------------------------------------------------------------------------------------------------

    def judge(self) -> Found:
        self.seed = draws.new_seed(self.numbers)
        with Worker(self.zygote, self.limits) as self.eager, Worker(self.zygote, self.limits) as self.exact:
            self.load_reference()
            with Worker(self.zygote, self.limits, built=self.built) as self.own:
                self.judge_submission()
        return self.found

    def judge_submission(self) -> None:
        refused: Refused | None = None
        try:
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
            refused.evidence, refused.notes = self.own.evidence(), sorted(self.found.notes)
            raise refused

    def is_wrong_now(self) -> bool:
        """On a declared draw, too: then it was not the kind of draw that made it wrong."""
        try:
            self.judge_draw(Draw("declared", self.draw_declared(), USUAL), exact=False)
        except (Refused, Died):
            return True
        return False

    def ask_reference(self, worker: Worker, what: str, **members: Any) -> dict[str, Any]:
        try:
            reply = worker.ask(what, self.limits.load_s, **members)
        except Died as problem:
            raise NotJudged(f"the problem's Model: {problem}") from problem
        if "problem" in reply:
            raise NotJudged(f"the problem's Model: {reply['problem']}")
        return reply

    def load_reference(self) -> None:
        state = self.ask_reference(self.eager, "load", problem=self.problem, submission=None, seed=self.seed,
                                   double=False)["state"]
        self.state = state
        self.has_exact = "problem" not in self.exact.ask("load", self.limits.load_s, problem=self.problem,
                                                         submission=None, seed=self.seed, double=True)
        described = self.ask_reference(self.exact, "draw", seed=draws.new_seed(self.numbers))
        self.tree, self.leaves = described["tree"], described["leaves"]
        for leaf in self.leaves:
            leaf.pop("strides", None)
        self.lay_out_inputs()
        self.declared = [self.draw_declared() for _ in range(2)]
        self.facts = [draws.Facts(a, b) for a, b in zip(*self.declared)]
        self.describe_outputs()
        if state:
            self.ask_reference(self.eager, "put_state", offsets={leaf["name"]: leaf["offset"] for leaf in self.state})
            self.weights = {leaf["name"]: self.eager.arena.view(leaf, leaf["offset"]).clone() for leaf in self.state}
        else:
            self.weights = {}

    def lay_out_inputs(self) -> None:
        """Weights, then several slots for inputs, then outputs (of which nothing is known yet: as much again)."""
        offsets, at = laid_out(self.state, 0)
        self.state = [dict(leaf, offset=offset) for leaf, offset in zip(self.state, offsets)]
        self.slots = []
        for _ in range(SLOTS):
            at += PAGE * self.numbers.randrange(4)
            offsets, at = laid_out(self.leaves, at)
            self.slots.append(offsets)
        self.outputs_begin = at
        self.exact.share(at)

    def draw_declared(self) -> list[torch.Tensor]:
        self.ask_reference(self.exact, "draw", seed=draws.new_seed(self.numbers), offsets=self.slots[0])
        return [self.exact.arena.view(leaf, o).clone() for leaf, o in zip(self.leaves, self.slots[0])]

    def describe_outputs(self) -> None:
        """What eager returns, by a call that places nothing; then all have memory for it."""
        self.eager.share(self.outputs_begin)
        self.out_leaves: list[dict[str, Any]] = []
        self.offsets: list[int] = []
        _, reply = self.one_call(self.eager, self.declared[0], 0, USUAL)
        if "problem" in reply:
            raise NotJudged(f"the problem's Model: {reply['problem']}")
        self.out_tree, self.out_leaves = reply["tree"], reply["leaves"]
        if not self.out_leaves:
            raise NotJudged("the problem's Model returns no tensor")
        self.offsets, end = laid_out(self.out_leaves, self.outputs_begin)
        wide = [dict(leaf, dtype="float64") if "float" in leaf["dtype"] else leaf for leaf in self.out_leaves]
        self.exact_leaves = wide
        self.exact_offsets, exact_end = laid_out(wide, self.outputs_begin)
        self.eager.share(end)
        self.exact.share(exact_end)
        self.end = end
        self.see_that_reference_is_steady()

    def see_that_reference_is_steady(self) -> None:
        answers = []
        for which in (0, 1, 0):
            draw = Draw("declared", self.declared[which], USUAL)
            if problem := self.wanted(draw, shown=True):
                raise NotJudged(f"the problem's Model: {problem}")
            answers.append(draw.wanted)
        for i, (first, again) in enumerate(zip(answers[0], answers[2])):
            if gates.wrong(again, gates.Expected(first, None), True):
                raise NotJudged(f"output {i} of the problem's Model is random, or depends on earlier calls")

    def load_submission(self) -> None:
        reply = self.own.ask("load", self.limits.load_s, problem=self.problem, submission=self.submission,
                             seed=self.seed, double=False)
        if "problem" in reply:
            raise Refused("raises", f"it does not load: {reply['problem']}")
        if self.built and "problem" in (said := self.own.ask("rehearse", self.limits.load_s,
                                                             seed=draws.new_seed(self.numbers))):
            raise Refused("raises", f"its first call: {said['problem']}")
        self.own.share(self.end)
        mine = {leaf["name"]: (leaf["dtype"], leaf["shape"]) for leaf in reply["state"]}
        wanted = {leaf["name"]: (leaf["dtype"], leaf["shape"]) for leaf in self.state}
        self.same_state = mine == wanted
        if not self.same_state:
            self.found.notes.add("its state_dict is not the reference's, so its weights come from equal seeds: "
                                 + first_difference(mine, wanted))
        elif self.state:
            self.give_weights(self.weights)

    def give_weights(self, weights: dict[str, torch.Tensor]) -> None:
        for worker in (self.eager, self.exact, self.own) if self.same_state else ():
            for leaf in self.state:
                worker.arena.view(leaf, leaf["offset"]).copy_(weights[leaf["name"]])
            reply = worker.ask("load_state", state=self.state)
            if "problem" in reply and worker is self.own:
                raise Refused("state", f"load_state_dict with the reference's weights: {reply['problem']}")

    # ---- one call ---------------------------------------------------------------------------------------------------

    def one_call(self, worker: Worker, inputs: list[torch.Tensor], slot: int,
                 mode: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Its outputs are in self.snapshot."""
        exact = worker is self.exact
        leaves, offsets = (self.exact_leaves, self.exact_offsets) if exact else (self.out_leaves, self.offsets)
        arena = worker.arena
        views = [arena.view(leaf, o) for leaf, o in zip(self.leaves, self.slots[slot])]
        outputs = [arena.view(leaf, o) for leaf, o in zip(leaves, offsets)]
        poison = self.numbers.choice((0xFF, 0x7F, self.numbers.randrange(1, 255)))

        def write() -> None:
            arena.bytes[self.outputs_begin:].fill_(poison)
            for view, t in zip(views, inputs):
                view.copy_(t)

        def read() -> None:
            self.snapshot = [t.clone() for t in outputs]

        request = {"leaves": self.leaves, "tree": self.tree, "inputs": self.slots[slot],
                   "outputs": list(zip(leaves, offsets)), **mode}
        ns, reply = worker.call(request, write, read, (lambda: None) if exact else self.flush)
        self.changed_inputs = [i for i, (view, t) in enumerate(zip(views, inputs)) if not same_bits(view, t)]
        return ns, reply

    def wanted(self, draw: Draw, shown: bool) -> str:
        """Eager's answer; a reason if the draw is of no use."""
        try:
            draw.ns["eager"], reply = self.one_call(self.eager, draw.inputs, draw.slot, draw.mode)
        except Died as problem:
            raise NotJudged(f"the problem's Model: {problem}") from problem
        draw.used_ns["eager"], draw.late_ns["eager"] = self.eager.used_ns, self.eager.late_ns
        if "problem" in reply:
            return reply["problem"]
        if self.changed_inputs:
            raise NotJudged("the problem's Model writes into its inputs")
        draw.wanted = self.snapshot
        if reply["tree"] != self.out_tree or [x["shape"] for x in reply["leaves"]] != [x["shape"] for x in self.out_leaves]:
            raise NotJudged("the shape of the reference's result depends on values")
        finite = all(bool(torch.isfinite(t).all()) for t in draw.wanted if t.is_floating_point())
        return "" if finite or shown else "it gives no finite numbers"

    def exactly(self, draw: Draw, moved: bool = False) -> list[torch.Tensor | None]:
        nothing: list[torch.Tensor | None] = [None] * len(self.out_leaves)
        if not self.has_exact:
            return nothing
        inputs = draw.inputs
        if moved:  # by a unit in the last place of float32, each element by itself
            inputs = [t * (1 + 2.0 ** -23 * torch.randint(-1, 2, t.shape, generator=self.generator,
                                                       device=self.generator.device).to(t.dtype))
                      if f.continuous else t for t, f in zip(inputs, self.facts)]
        try:
            _, reply = self.one_call(self.exact, inputs, draw.slot, draw.mode)
        except Died as problem:
            raise NotJudged(f"the problem's Model in float64: {problem}") from problem
        if "problem" in reply:
            self.has_exact = False
            self.found.notes.add(f"not compared with float64: {reply['problem']}")
            return nothing
        return list(self.snapshot)

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
        plan = self.schedule()
        declared = [i for i, (kind, mode) in enumerate(plan) if kind == "declared" and mode is USUAL]
        checked = set(self.numbers.sample(declared, min(EXACT_DECLARED, len(declared)))) | set(declared[-2:])
        self.before: Draw | None = None
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

    def draw_of(self, kind: str, mode: dict[str, Any]) -> Draw | None:
        slot = self.numbers.randrange(SLOTS)
        if kind == "declared":
            return Draw(kind, self.draw_declared(), mode, slot)
        usual = [d for d in self.kept if d.kind == "declared" and d.mode is USUAL]
        if kind == "again":
            if not usual:
                return None
            first = self.numbers.choice(usual)
            return Draw(kind, first.inputs, mode, slot, first=first)
        if kind in draws.TWINS:
            if not usual:
                return None
            first = usual[-1]
            inputs = draws.twin(kind, first.inputs, self.facts, self.generator)
            return Draw(kind, inputs, mode, self.numbers.choice((first.slot, slot))) if inputs else None
        if not any(f.continuous for f in self.facts):
            return None
        return Draw(kind, self.inputs_of(kind, False), mode, slot)

    def inputs_of(self, kind: str, within: bool) -> list[torch.Tensor]:
        source = self.draw_declared()
        which = self.numbers.randrange(len(source))
        return [draws.drawn(kind if kind != "impulses" or i == which else "small_integers", t, f,
                            within, self.generator) for i, (t, f) in enumerate(zip(source, self.facts))]

    def judge_draw(self, draw: Draw, exact: bool) -> None:
        own_first = self.numbers.random() < 0.5
        reply: dict[str, Any] = {}
        if draw.kind in ("declared", "again"):
            with self.turns:  # a pair
                if own_first:
                    reply = self.answer(draw)
                useless = self.wanted(draw, shown=True)
                if not own_first and not useless:
                    reply = self.answer(draw)
        else:
            useless = self.wanted(draw, shown=False)
            if useless and draw.kind in draws.KINDS:
                draw.inputs = self.inputs_of(draw.kind, True)  # within the declared bounds
                useless = self.wanted(draw, shown=False)
            if not useless:
                reply = self.answer(draw)
        if useless:
            if draw.kind == "declared" and draw.mode is USUAL:
                raise NotJudged(f"the problem's Model: {useless}")
            return
        if self.compare(draw, reply, exact):
            self.count(draw)
        self.kept.append(draw)
        if len(self.kept) > 24:
            self.kept.pop(0)

    def answer(self, draw: Draw) -> dict[str, Any]:
        draw.ns["own"], reply = self.one_call(self.own, draw.inputs, draw.slot, draw.mode)
        draw.used_ns["own"], draw.late_ns["own"] = self.own.used_ns, self.own.late_ns
        self.found.calls += 1
        draw.answer = self.snapshot
        if self.changed_inputs:
            raise Refused("writes_inputs", f"call {self.found.calls}: it wrote into input {self.changed_inputs[0]}")
        if "problem" not in reply:
            self.returned = (self.returned + [draw.answer])[-KEPT:]
        return reply

    def say_where(self, draw: Draw) -> str:
        mode = "" if draw.mode is USUAL else f" in mode {name_of(draw.mode)}"
        return f"call {self.found.calls}, draw `{draw.kind}`{mode}"

    def compare(self, draw: Draw, reply: dict[str, Any], exact: bool) -> bool:
        where = self.say_where(draw)
        if "problem" in reply:
            if draw.mode is not USUAL:
                self.found.notes.add(f"it raises an error in mode {name_of(draw.mode)}: {reply['problem'][:120]}")
                return False
            raise Refused("raises", f"{where}: {reply['problem']}")
        self.compare_form(reply, where)
        values = self.exactly(draw) if exact else [None] * len(draw.wanted)
        for i, (got, wanted, precise) in enumerate(zip(draw.answer, draw.wanted, values)):
            declared = draw.kind in ("declared", "again")
            problem = gates.wrong(got, gates.Expected(wanted, precise), declared)
            if problem and self.has_exact:
                base = precise if precise is not None else self.exactly(draw)[i]
                moved = self.exactly(draw, moved=True)[i] if base is not None else None
                if moved is not None and not torch.is_floating_point(got):
                    moved = None
                problem = gates.wrong(got, gates.Expected(wanted, base, moved - base if moved is not None else None),
                                      declared)
            if problem:
                raise Refused(self.kind_of_wrong(draw), f"{where}: output {i} {problem}")
        self.found.compared_kinds.add(draw.kind if draw.mode is USUAL else name_of(draw.mode))
        self.try_null_models(draw, values)
        return True

    def compare_form(self, reply: dict[str, Any], where: str) -> None:
        if reply.get("tree") != self.out_tree or len(reply.get("leaves", [])) != len(self.out_leaves):
            raise Refused("form", f"{where}: it does not return what the reference returns")
        for i, (got, wanted) in enumerate(zip(reply["leaves"], self.out_leaves)):
            problem = gates.wrong_form(got, wanted)
            if problem:
                raise Refused("form", f"{where}: output {i} {problem}")

    def kind_of_wrong(self, draw: Draw) -> str:
        before = [d for d in self.kept if d.kind == "declared" and d.mode is USUAL]
        if draw.mode is not USUAL:
            return "mode"
        if draw.kind in draws.TWINS or draw.first is not None:
            return "stale"
        if draw.kind in draws.KINDS:
            return "distribution" if before else "wrong_answer"
        return "drift" if before else "wrong_answer"

    def try_null_models(self, draw: Draw, values: list[torch.Tensor | None]) -> None:
        if draw.mode is not USUAL or draw.kind == "again" or self.found.passing_null_models == set():
            return
        wanted = draw.wanted[0]
        before = self.before.wanted[0] if self.before is not None else None
        self.before = draw
        passing = {name for name, t in gates.null_models(draw.inputs, wanted, before).items()
                   if not gates.wrong(t, gates.Expected(wanted, values[0]), draw.kind == "declared")}
        known = self.found.passing_null_models
        self.found.passing_null_models = passing if known is None else known & passing

    def count(self, draw: Draw) -> None:
        eager, own = draw.ns["eager"], draw.ns["own"]
        if self.found.calls > WARM_UP:
            self.found.all_ratios.append(eager / own)
        if draw.timed:
            self.found.ratios.append(eager / own)
            self.found.eager_ns.append(eager)
            self.found.own_ns.append(own)
            self.found.eager_late_ns.append(draw.late_ns["eager"])
            self.found.own_late_ns.append(draw.late_ns["own"])
        if draw.first is not None and not draw.first.is_first:
            first, again = draw.first.used_ns, draw.used_ns
            for times, ns in ((self.found.first_ns, first["own"]), (self.found.again_ns, again["own"]),
                              (self.found.eager_first_ns, first["eager"]), (self.found.eager_again_ns, again["eager"])):
                times.append(ns)

    # ---- at the end -------------------------------------------------------------------------------------------------

    def look_at_returned(self) -> None:
        """Whether what the last calls returned is still what it was."""
        outputs = list(zip(self.out_leaves, self.offsets))
        for back, answer in enumerate(reversed(self.returned)):
            self.own.arena.bytes[self.outputs_begin:].fill_(0xFF)
            reply = self.own.ask("kept_again", back=back, outputs=outputs)
            now = [self.own.arena.view(leaf, o) for leaf, o in outputs]
            if "problem" in reply or not all(same_bits(a, b) for a, b in zip(answer, now)):
                raise Refused("overwritten", "what a call had returned was changed by later calls")

    def look_at_evidence(self) -> None:
        said = self.own.evidence()
        if said:
            raise Refused("evidence", said[0])

    def look_back(self) -> None:
        reply = self.own.ask("report")
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


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.numel() == 0:
        return True
    return torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))
