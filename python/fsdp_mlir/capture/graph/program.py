"""A captured program: a graph of ATen ops, and what its arguments and results are."""

from __future__ import annotations

from dataclasses import dataclass, field
from torch import fx


@dataclass
class Argument:
    """An argument of a program: what it holds, by the role and name it has in the archive."""

    node: fx.Node
    role: str
    fqn: str = ""


@dataclass
class Result:
    """A result of a program: `node` is what the graph returns there."""

    node: fx.Node
    role: str
    fqn: str = ""


@dataclass(frozen=True)
class Setting:
    """What a step sets a trained parameter to, as a function of the parameter alone.

    Attributes:
        module: the function.
        node: what the step leaves, in its own graph.
    """

    module: fx.GraphModule
    node: fx.Node


@dataclass
class Program:
    """A graph whose nodes are ATen ops, with the meaning of its arguments and results."""

    name: str
    module: fx.GraphModule  # owns the graph: without it the nodes are gone
    arguments: list[Argument] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    settings: dict[str, Setting] = field(default_factory=dict)  # by trained parameter

    @property
    def graph(self) -> fx.Graph:
        return self.module.graph
