"""A step that decides at many places, each of which stands apart: what it changes is the same however
the step decides elsewhere. Layers of a network decide so, each of what it gives itself.

So each place is traced with the others as they are in one way, the first. Then all places are put
together (`changes`). No trace is proof that they stand apart: Python may remember how it went. So
some ways that part at many places are traced as well, and have to be what the changes say: any two
places are seen to go either way together.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Iterator, Optional, Sequence

import torch
from torch._functorch._aot_autograd.descriptors import GradAOTOutput, PlainAOTOutput

from ...errors import E, ExportError
from ..graph.joint_graph import HasGradient
from ..values.decisions import MOST_DECISIONS, ValuesDecide
from .chains import settle
from .changes import Change, Changed, Told
from .chosen_values import all_hold, checked
from .shared_values import Cycle, Results, Value, reached
from .ways import MOST_WAYS, Way, Ways, complete, require_alike

# So many places are traced: each takes the time of two captures or more.
_MOST_PLACES = 24
_aten = torch.ops.aten


def too_many(line: str) -> ExportError:
    return ValuesDecide(
        E.VALUE_DEPENDENT,
        f"{line}: the step decides by values so often that there are more than {MOST_WAYS} ways "
        "through it, each of which a plan would compute, and what one decision changes cannot be told "
        "apart from what others do; choose by torch.where. A branch that skips what has no elements, "
        "as an expert without tokens, can be left out, and a loop over nonzero() can be one over all",
    )


@dataclasses.dataclass
class _Place:
    """Where the first way decides, once or several times, and other ways go on otherwise.

    Attributes:
        begin, end: the first way's decisions here, by number.
        behind: how many decisions of each way come behind it, which are the first way's.
        others: the ways that part here alone and give a loss.
        errors: those that do not.
    """

    begin: int
    end: int
    behind: int
    others: list[Way]
    errors: list[Way]

    def of(self, way: Way) -> slice:
        """The way's own decisions here."""
        return slice(self.begin, len(way.told) - self.behind)


class Apart:
    """The ways through a step that parts at several places.

    Args:
        first: a way through it.

    Raises:
        ExportError: its places do not stand apart, or are too many.
    """

    def __init__(self, ways: Ways, first: Way) -> None:
        self._ways = ways
        self._known: dict[tuple[bool, ...], Way] = {}
        if len(first.told) > MOST_DECISIONS:
            raise too_many(first.lines[-1])
        self._first = self._fullest(self._with_loss(first))
        self._places = list(self._found())
        self._parting = [(place, way) for place in self._places for way in place.others]
        complete(ways.values, self._first.results, *(way.results for _, way in self._parting))
        for place, way in self._parting:
            require_alike(self._line(place), self._first.results, way.results)
        self._changes = [self._change(place, way) for place, way in self._parting]
        settle(self._changes)
        self._require_apart()

    @property
    def without_loss(self) -> list[str]:
        """Where it may part to end in an error."""
        return [self._line(place) for place in self._places if place.errors]

    @property
    def parting(self) -> Iterator[tuple[str, Results, Results]]:
        """For each way that parts from the first one: where, what the first gives, and what it does."""
        for place, way in self._parting:
            yield self._line(place), self._first.results, way.results

    def whole(self) -> Way:
        """The step, whatever it decides."""
        told = [self._told(place, way) for place, way in self._parting]
        changed = self._changed(self._changes, told)
        try:
            results = {key: changed.result(key) for key in self._first.results}
            has = {
                key.grad_of: changed.has(key) for key in results if isinstance(key, GradAOTOutput)
            }
            results |= {HasGradient(of): value for of, value in has.items() if value is not True}
            for place, way in ((p, way) for p in self._places for way in p.errors):
                results = self._checked(changed, place, way, results)
        except Cycle:
            raise too_many(self._line(self._places[-1])) from None
        return dataclasses.replace(self._first, results=results)

    def _line(self, place: _Place) -> str:
        return self._first.lines[place.begin]

    def _way(self, given: Sequence[bool]) -> Way:
        given = tuple(given)
        if given not in self._known:
            way = self._ways.way(given)
            self._known[given] = self._known[way.told] = way
        return self._known[given]

    def _with_loss(self, way: Way) -> Way:
        """The way where a decision that ends it falls otherwise."""
        while way.results is None and way.told and way.told[-1]:
            self._ways.usual[way.lines[-1]] = False
            way = self._ways.way(())
        if way.error is not None:
            raise way.error
        return way

    def _fullest(self, way: Way) -> Way:
        """The way on which each line decides as it does where more is computed: changes leave summands
        out of a gradient, and add none."""
        for line in dict.fromkeys(way.lines):
            usual = dict(self._ways.usual)
            other = self._turned(line)
            if other.results is not None and _size(other) > _size(way):
                way = other
            else:
                self._ways.usual = usual
        return way

    def _turned(self, line: str) -> Way:
        """The way on which a line decides otherwise than is usual, but for those of several times that
        would end it in an error, as a number that stands for no expert does."""
        answer = self._ways.usual.get(line, True)
        self._ways.usual[line] = not answer
        while True:
            way = self._ways.way(())
            last = line, way.lines.count(line) - 1
            may_turn = way.lines[-1:] == (line,) and last[1] > 0 and last not in self._ways.usual
            if way.results is not None or not may_turn:
                return way
            self._ways.usual[last] = answer

    def _found(self) -> Iterator[_Place]:
        begin = 0
        for _ in range(_MOST_PLACES):
            if begin == len(self._first.told):
                return
            place = self._place(begin)
            yield place
            begin = place.end
        raise too_many(self._first.lines[begin])

    def _place(self, begin: int) -> _Place:
        """The place that begins with this decision, with all ways through it."""
        behind = len(self._first.told) - begin - 1
        while True:
            ways = self._ways_through(begin, behind)
            met = min((self._met(begin, way) for way in ways if way.results), default=behind)
            if met >= behind:
                break
            behind = met
        good = [way for way in ways if way.results is not None]
        errors = [way for way in ways if way.results is None]
        return _Place(begin, len(self._first.told) - behind, behind, good, errors)

    def _met(self, begin: int, way: Way) -> int:
        """How many decisions at the ends of the first way and of another one are on the same lines."""
        return _common(self._first.lines[:begin:-1], way.lines[:begin:-1])

    def _ways_through(self, begin: int, behind: int) -> list[Way]:
        """All ways but the first that part from it at a decision with this number or behind it, in
        front of the last `behind`."""
        found: list[Way] = []
        waiting = [(self._first, begin)]
        while waiting:
            way, given = waiting.pop(0)
            stop = len(way.told) - (behind if way.results is not None else 0)
            for number in range(given, stop):
                if len(found) == MOST_WAYS - 1:
                    raise too_many(self._first.lines[begin])
                other = self._way((*way.told[:number], not way.told[number]))
                found.append(other)
                waiting.append((other, number + 1))
        return found

    def _extended(self, way: Way, behind: int) -> Results:
        """What a way gives, and its last conditions, which those of the first way are."""
        conditions = way.conditions[len(way.conditions) - behind :]
        assert way.results is not None
        return {**way.results, **{("asked", k): c for k, c in enumerate(reversed(conditions))}}

    def _change(self, place: _Place, way: Way) -> Change:
        places = self._first.places
        asked = [places[condition] for condition in self._first.conditions]
        begin = asked[place.begin]
        end = min((at for at in asked[place.end :] if at > begin), default=1 << 62)
        one, other = (self._extended(w, place.behind) for w in (self._first, way))
        return Change(self._ways.values, one, other, places, range(begin + 1, end))

    def _changed(
        self, changes: Sequence[Change], told: Optional[Sequence[Sequence[Told]]] = None
    ) -> Changed:
        first = self._extended(self._first, len(self._first.told))
        return Changed(self._ways.values, first, changes, told)

    def _told(self, place: _Place, way: Way) -> list[Told]:
        own = place.of(way)
        return list(zip(way.conditions[own], way.told[own], strict=True))

    def _checked(self, changed: Changed, place: _Place, way: Way, results: Results) -> Results:
        """`results`, whose loss is given where the step does not go a way that ends in an error."""
        assert way.error is not None
        values = self._ways.values
        # The way with a loss that parts from it last has asked the same until then.
        known = [(None, self._first)]
        known += [(k, other) for k, (p, other) in enumerate(self._parting) if p is place]
        number, near = max(known, key=lambda pair: _common(pair[1].told, way.told))
        conditions = near.conditions[place.begin : _common(near.told, way.told) + 1]
        told = way.told[place.begin : place.begin + len(conditions)]
        whole = all_hold(values, [changed.of(c, number) for c in conditions], told)
        passes = values.call(whole, _aten.logical_not.default, whole)
        text = f"{self._line(place)}: by what values decide here, {way.error.message}"
        loss = PlainAOTOutput(0)
        return {**results, loss: checked(values, passes, text, results[loss])}

    def _require_apart(self) -> None:
        """Raises ExportError where ways that part at several places are not what the changes say, or do
        not end in an error that a place alone leads to."""
        numbers: dict[int, list[Optional[int]]] = {id(place): [None] for place in self._places}
        for number, (place, _) in enumerate(self._parting):
            numbers[id(place)].append(number)
        for taken in _samples([numbers[id(place)] for place in self._places]):
            if not self._is_way(taken):
                raise too_many(self._line(self._places[-1]))
        for number, place in enumerate(self._places):
            for way in place.errors:
                if not self._ends_always(way, place, self._places[:number]):
                    raise too_many(self._line(place))

    def _ends_always(self, way: Way, place: _Place, before: Sequence[_Place]) -> bool:
        """Whether what ends in an error at a place does so where the step parts before it, too: at all
        places, once with each of their ways."""
        for number in range(max((len(other.others) for other in before), default=0)):
            given: list[bool] = []
            for other in before:
                taken = [*other.others, self._first][min(number, max(0, len(other.others) - 1))]
                given += taken.told[other.of(taken)]
            end = self._way((*given, *way.told[place.begin :]))
            if end.results is not None or end.told != (*given, *way.told[place.begin :]):
                return False
        return True

    def _is_way(self, taken: Sequence[Optional[int]]) -> bool:
        """Whether the step goes a way with the named changes as they say."""
        expected: list[tuple[Value, Optional[int]]] = []
        given: list[bool] = []
        lines: list[str] = []
        active = [number for number in taken if number is not None]
        for place, number in zip(self._places, taken):
            way = self._first if number is None else self._parting[number][1]
            own = place.of(way)
            given += way.told[own]
            lines += way.lines[own]
            within = None if number is None else active.index(number)
            expected += [(condition, within) for condition in way.conditions[own]]
        way = self._way(given)
        if (way.told, way.lines) != (tuple(given), tuple(lines)) or way.results is None:
            return False
        complete(self._ways.values, self._first.results, way.results)
        try:
            changed = self._changed([self._changes[number] for number in active])
            found = {key: changed.result(key) for key in self._first.results}
            conditions = [changed.of(condition, within) for condition, within in expected]
        except Cycle:
            return False
        return found == way.results and conditions == way.conditions


def _size(way: Way) -> int:
    """Of how many calls a way is."""
    return len(reached(value for value in (way.results or {}).values() if value is not None))


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many members at their beginnings are the same."""
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other))))


def _samples(options: Sequence[Sequence[Optional[int]]]) -> Iterator[list[Optional[int]]]:
    """Choices of one option for each place, None first: each option alone; the last ones together; and
    such that of any two places one takes an option where the other takes none."""
    none: list[Optional[int]] = [None] * len(options)
    for place, own in enumerate(options):
        for option in own[1:]:
            yield [*none[:place], option, *none[place + 1 :]]
    yield [own[-1] for own in options]
    for bit in range((len(options) - 1).bit_length()):
        for side in (0, 1):
            yield [
                own[1 + bit % (len(own) - 1)] if len(own) > 1 and place >> bit & 1 == side else None
                for place, own in enumerate(options)
            ]
