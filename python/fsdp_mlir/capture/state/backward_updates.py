"""What a backward pass writes into the tensors that a step reads, as results of the step.

AOTAutograd returns what forward writes. What backward alone writes, as the hook of a gradient does
that keeps an average of it, it leaves in the graph as a copy, which nothing reads.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._functorch._aot_autograd import descriptors as d


def return_what_backward_writes(joint: fx.GraphModule) -> None:
    """Gives the values of these copies back beside the other results, with descriptors of their own."""
    graph = joint.graph
    copies = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    if not copies:
        return
    output = graph.output_node()
    results, descriptors = list(output.args[0]), list(output.meta["desc"])
    for copy in copies:
        written, value = copy.args
        if written.op != "placeholder":
            continue
        if not isinstance(written.meta["desc"], d.TangentAOTInput):
            results.append(value)
            descriptors.append(d.InputMutationAOTOutput(written.meta["desc"]))
        copy.replace_all_uses_with(value)
        graph.erase_node(copy)
    output.args, output.meta["desc"] = (results,), descriptors
    joint.recompile()
