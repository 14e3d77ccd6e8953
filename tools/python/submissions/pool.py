"""One pool: a submission, the problem's Model (eager) and the Model in float64, each in a worker of its own, on draws
that nobody has seen.

Draws for checks and draws whose calls count as time come in one random order, through the same steps; on a GPU, where
calls are timed in bursts, some checks are bursts of the same length. Every output of every call is compared in full.
"""

from __future__ import annotations

import contextlib
import random
import time
from typing import Any

import torch

from submissions import bursts, draws, gates
from submissions.calls import Side, all_finite, layout_of, same_bits
from submissions.comparisons import Comparisons
from submissions.judged import MODES, USUAL, Draw, Found, NotJudged, Refused
from submissions.protocol import laid_out, size_of
from submissions.spent import Spent
from submissions.workers import Died, Limits, Worker

WARM_UP = 3  # declared bursts of each side that do not count as time
KEPT = 4  # answers that a worker keeps as they were returned
KEPT_CHECKS = 0.15  # of the bursts after which these are looked at
KEPT_DRAWS, KEPT_BURSTS = 24, 4  # earlier draws, of which some come again
EXACT_DECLARED = 4  # of the declared draws are compared with float64, and the first and last ones
HANDSHAKES = 12


class Pool(Comparisons):
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
        self.see_what_varies(state)
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

    def see_what_varies(self, state: list[dict[str, Any]]) -> None:
        fixed = [str(i) for i, f in enumerate(self.facts) if f.is_fixed]
        if self.facts and len(fixed) == len(self.facts) and not state:
            raise NotJudged("its inputs are the same in every draw, so an answer that was kept could not be told from one "
                            "that was computed")
        if fixed:
            self.found.notes.add(f"input {', '.join(fixed)} is the same in every draw: whether the answer follows it is not "
                                 "tested")

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
                self.ask_reference(self.exact, "draw", seed=draws.new_seed(self.numbers),
                                   offsets=[slots[i] for i in some])
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
        pairs = [pair for result, answer in zip(self.eager.outputs_there, answers) for pair in zip(result, answer)]
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
        shapes = [leaf["shape"] for leaf in self.out_leaves]
        for form in reply["forms"]:
            if form["tree"] != self.out_tree or [leaf["shape"] for leaf in form["leaves"]] != shapes:
                raise NotJudged("the shape of the reference's result depends on values")
        finite = shown or all_finite([t for result in draw.wanted for t in result])
        return "" if finite else "it gives no finite numbers"

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
        for times in draws.LARGE_WEIGHTS:
            plan.insert(numbers.randrange(len(plan)), (f"large_weights {times:g}", USUAL))
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
                    self.weights = {leaf["name"]: draws.other_weight(leaf, self.weights[leaf["name"]], self.generator)
                                    for leaf in self.state}
                    self.give_weights(self.weights)
                self.kept.clear()  # answers with the old weights are no example of anything
                continue
            if kind.startswith("large_weights"):
                self.try_large_weights(float(kind.split()[1]))
                continue
            draw = self.draw_of(kind, mode)
            if draw is None:
                continue
            draw.is_first = i == 0
            draw.timed = kind == "declared" and mode is USUAL and i >= WARM_UP
            self.judge_draw(draw, exact=kind != "declared" or mode is not USUAL or i in checked)
            if i in (WARM_UP, len(plan) - 1) or self.numbers.random() < KEPT_CHECKS:
                self.look_at_returned()

    def try_large_weights(self, times: float) -> None:
        """A call with weights so many times as large, where eager's answer is finite then."""
        large = [leaf["name"] for leaf in self.state if leaf["parameter"] and "float32" == leaf["dtype"]]
        if not self.same_state or not large:
            return
        self.give_weights({name: t * times if name in large else t for name, t in self.weights.items()})
        draw = self.made("large_weights", self.draw_declared(1), USUAL)
        try:
            self.judge_draw(draw, exact=True)
        finally:
            with contextlib.suppress(Died):
                self.give_weights(self.weights)

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

    def made(self, kind: str, members: list[list[torch.Tensor]], mode: dict[str, Any],
             first: Draw | None = None) -> Draw:
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


def weight_in(side: Side, leaf: dict[str, Any]) -> torch.Tensor:
    return side.worker.arena.view(leaf, leaf["offset"])
