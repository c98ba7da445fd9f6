"""Tests that steps whose sizes depend on values are captured with static ones, as eager computes
them: for masks that hold for all, none and some, and with NaN where a mask does not hold."""

import pathlib
import threading

import pytest
import torch
import torch.nn.functional as F
from exporting import export
from selected_rows import MASKS, ROWS, WIDTH, LABELS, Body, Model, batch, compare, rows_of, step_of
from torch import Tensor

import fsdp_mlir


def experts(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for chosen, layer in ((m, model.layer), (~m & ~x.isnan().any(-1), model.norm)):
        rows = torch.nonzero(chosen).squeeze(-1)
        out[rows] = layer(x[rows]) * 2
    return out.square().sum()


def batch_norms(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    rows = model.layer(x[m])
    mean, variance = rows.mean(0), rows.var(0, unbiased=False)
    return ((rows - mean) / (variance + 1e-3).sqrt()).tanh().pow(3).sum()


def attends(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    rows = model.layer(x[m])
    scores = (rows @ rows.T / 2).softmax(-1)
    return (scores @ rows).sum(-1).square().sum()


def side_by_side(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    both = torch.cat((model.layer(x[m]), model.norm(x[:2]), model.layer(x[m]).neg()))
    return (both.cumsum(0) * torch.arange(WIDTH)).square().sum()


def edges(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """Messages along the edges of a graph that exist."""
    ends = torch.nonzero(m[:, None] & m[None, :])
    nodes = torch.nan_to_num(x)
    message = F.leaky_relu(model.layer(nodes[ends[:, 0]] - nodes[ends[:, 1]]))
    return torch.zeros_like(nodes).index_add(0, ends[:, 1], F.hardshrink(message)).square().mean()


def nested(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    rows = model.layer(x[m])
    return rows[rows.detach().sum(-1) > 0].square().sum() + rows[rows.detach() > 0].sum()


def integers(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """Padding may be zero, by which integers are not divided."""
    nonzero = y[y != 0]
    among = torch.isin(y, y[m]).sum() + torch.isin(y[m], y[:3], invert=True).sum()
    return among * (model.norm(torch.nan_to_num(x)).sum() * (6 // nonzero).sum()).float()


def at_places(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    out = torch.nan_to_num(x).clone()
    out[m] = model.layer(x[m])
    out[m, 1] = 0.5
    return (out * out).mean() + out[m].flatten().square().mean()


def writes_parts(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """As of boxes: of each that is chosen, columns are changed in place."""
    boxes = model.layer(x[m]).clone()
    boxes[:, 0].clamp_(0, 1)
    boxes[:, 1:3] *= 2
    boxes[..., -1] += y[m]
    boxes.T[1, :] = 0.5
    boxes[:, ::2] = boxes[:, 1::2].sigmoid()
    return boxes.square().mean() + boxes[:, 0].sum()


def writes_rows(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """As of the Jaccard index: from each row the one before it is taken."""
    rows = model.layer(x[m]).cumsum(0)
    rows[1:] = rows[1:] - rows[:-1]
    rows[: rows.shape[0]] *= 2
    rows[2:3] = rows[:1].sum().exp()
    return rows.square().sum() + rows[1:-1].sum()


def of_both(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """The gradient is taken out of a larger tensor, and views of it follow, which have its strides:
    those of the gradient that is a result are the captured ones."""
    weight = model.layer.weight.unsqueeze(-1).squeeze(-1)
    rows, columns = torch.where(m[:4, None] & (y[:4] > 0))
    return weight[rows, columns].square().sum()


def fixed_number(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """As of MAE: as many rows as the code knows, which a reshape needs."""
    scores = torch.nan_to_num(x).sum(-1)
    kept = torch.zeros(ROWS, dtype=torch.bool).index_fill(0, scores.argsort()[:4], True)
    return model.layer(torch.nan_to_num(x)[kept].reshape(2, 2, WIDTH)).square().mean(1).sum()


def repeats(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    with fsdp_mlir.at_most(ROWS * LABELS):
        rows = model.layer(torch.nan_to_num(x)).repeat_interleave(y, dim=0)
    return rows.square().mean()


def reads_a_length(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    with fsdp_mlir.at_most(ROWS * LABELS):
        n = int(y.sum().item())
    return (model.layer(torch.nan_to_num(x))[torch.arange(n) % ROWS]).sum() * n


def distinct(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    used, places, counts = torch.unique(y, return_inverse=True, return_counts=True)
    rows, runs = model.layer.weight, torch.unique_consecutive(y)
    sums = (rows[used].sum(-1) * counts).sum() + rows[places].square().sum()
    return sums + (rows[places].sum(-1) / counts[places]).sum() + rows[runs].prod(-1).sum()


def filled_up(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    rows = model.layer(x[m])
    whole = F.pad(rows, (0, 0, 0, ROWS - rows.shape[0]), value=0.5)
    both = torch.nn.utils.rnn.pad_sequence([rows.tanh(), model.layer(x[y > 0])], padding_value=0.5)
    rows = rows + rows.detach().new(len(rows), 1).zero_()
    first = F.pad(rows, (0, 0, 2, 0), value=0.5)  # as a token before all others
    ahead = first.sin().mean()
    fewer = F.pad(F.pad(first, (0, 0, -1, 0)), (0, 0, 1, 3), value=-1.0)
    whole = (whole * torch.arange(ROWS)[:, None]).square().sum() + fewer.exp().mean()
    return whole + both.mul(2).cos().sum() + ahead


def best_message(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    ends, nodes = torch.nonzero(m[:, None] & m[None]), model.layer(torch.nan_to_num(x))
    places = ends[:, :1].expand(-1, WIDTH)
    none = torch.zeros(ROWS, WIDTH)
    return none.scatter_reduce(0, places, nodes[ends[:, 1]], "amax").square().sum()


def promised(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    rows = torch.nonzero(m).squeeze(1)
    torch._check(rows.shape[0] <= ROWS)
    return model.layer(x[rows]).sum()


def checked(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    rows = torch.nonzero(m).squeeze(1)
    torch._check(rows.shape[0] <= 3)
    return model.layer(x[rows]).sum()


def not_followed(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """Dynamo follows no locks: the step is captured by running it."""
    with threading.RLock():
        rows = model.layer(x[m])
    return rows.mean() + model.layer(x[torch.nonzero(m).squeeze(1)]).sum()


def adaptive(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """PyTorch's own code leaves out clusters of which there is none."""
    return model.clusters(model.layer(torch.nan_to_num(x)), y * 8).loss


def distances(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    rows, others = model.layer(x[m]), model.layer(x[~m & ~x.isnan().any(1)])
    return torch.cdist(rows, others).sum() + torch.einsum("ij,kj->ik", rows, rows).tril().sum()


def parts(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """As experts get their tokens: side by side, each as many as it has."""
    with fsdp_mlir.at_most(ROWS):
        counts = (y[:, None] == torch.arange(LABELS)).sum(0).tolist()
    rows = model.layer(torch.nan_to_num(x))[y.argsort(stable=True)].split(counts)
    rows = [part * (i + 1) for i, part in enumerate(rows)]
    return (torch.cat(rows) * torch.arange(ROWS)[:, None]).square().sum()


def parts_of_a_part(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """As torchtitan's experts: what no expert has is zeros behind the others."""
    counts = (y[m, None] == torch.arange(LABELS)).sum(0).tolist()
    rows = model.layer(torch.nan_to_num(x))
    none = rows.shape[0] - sum(counts)
    split = torch.split(rows[: sum(counts)], counts, dim=0)
    whole = torch.cat([part * (i + 1) for i, part in enumerate(split)])
    whole = torch.vstack((whole, whole.new_zeros((none, WIDTH))))
    return (whole * torch.arange(ROWS)[:, None]).square().sum()


def at_lengths(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """Parts as long as lengths say, read and written, which are no longer than what they are part of."""
    rows, whole = torch.nan_to_num(x), torch.zeros(ROWS, ROWS, WIDTH)
    for i, n in enumerate(y.tolist()):
        whole[i, :n] = model.layer(rows[:n])
        whole[i, int(y[i]) :] *= 2
    whole[: len(x[m]), 1] = x[m]
    columns = rows[:, : int(m.sum()) : 2]
    return whole.square().sum() + columns.square().sum()


def parts_of_a_selection(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """Their gradients are as many as the selection has."""
    rows = model.layer(torch.nan_to_num(x))[:, None].expand(-1, LABELS, -1)
    words = rows[torch.arange(LABELS)[None] < y[:, None]]
    return torch.stack([part.sum() for part in words.split(y.tolist())]).square().sum()


def shares(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """How many tokens each expert has, as a tensor of what another one holds."""
    with threading.RLock():
        rows, others = model.layer(x[m]), model.layer(x[~m & ~x.isnan().any(1)])
        counts = rows.new_tensor([len(rows), len(others)]) + torch.Tensor([1, len(rows)])
        counts = counts * torch.LongTensor([len(others), 3])
        counts = counts + y.new_tensor([len(rows), 2], dtype=torch.int32)
    return (counts / counts.sum() * torch.stack([rows.sum(), others.sum()])).sum()


def clamps_places(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """As of YOLO, which keeps the cells beside a box inside of the map."""
    with threading.RLock():
        rows, columns = torch.nonzero(m[:, None] & (y > 0)).T
    chosen = model.layer(torch.nan_to_num(x))[rows.clamp_(1, 4), columns.clamp_(max=WIDTH - 1)]
    return (chosen * rows).square().sum()


def one_of_each_row(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """As of a detector's classes."""
    scores, labels = model.other(x[m]), y[m]
    wanted = torch.zeros_like(scores)
    wanted[range(len(scores)), labels] = 1
    return ((scores - wanted) ** 2).sum() + scores[range(0, labels.shape[0]), labels].exp().sum()


def rows_before(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """Before the first row is the last."""
    rows, places = model.layer(torch.nan_to_num(x)), torch.nonzero(m).squeeze(1) - 1
    filled = rows.index_fill(0, places, 0.5) * torch.arange(ROWS)[:, None]
    return rows[places].exp().sum() + filled.square().sum()


def from_the_end(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """The last rows: all of them where there are none to be taken, as Python takes -0."""
    rows, n = model.layer(torch.nan_to_num(x)) * torch.arange(ROWS)[:, None], int(m.sum())
    written = rows.clone()
    written[-n:] = 0.5
    written[: -n - 3] *= 2
    parts = rows[-n:].exp(), rows[:-n].square(), rows[-n - 1 :], rows[-2 * n : -n].cos(), written
    return sum(part.sum() for part in parts)


def pictures(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    """As of Idefics: pictures that are padding are left out, and features of those that are left take
    the places of words."""
    rows = model.layer(x[m])
    bright = torch.bucketize(rows.detach().unfold(1, 2, 2).sum(-1), torch.tensor([-1.0, 0.0]))
    rows = (rows.view(-1, 2, 2) * bright[..., None]).flatten(1)
    rows = torch.cat(rows.split(m.view(2, -1).sum(1).tolist())).reshape(-1, 2, 2)
    words = torch.ones(ROWS, WIDTH).masked_scatter(m[:, None], rows.mul(2))
    return (words * torch.arange(ROWS)[:, None]).square().sum()


CASES: dict[str, Body] = {
    "clamps-places": clamps_places,
    "one-of-each-row": one_of_each_row,
    "shares": shares,
    "rows-before": rows_before,
    "from-the-end": from_the_end,
    "pictures": pictures,
    "at-lengths": at_lengths,
    "parts-of-a-selection": parts_of_a_selection,
    "parts-of-a-part": parts_of_a_part,
    "distances": distances,
    "parts": parts,
    "fixed-number": fixed_number,
    "repeats": repeats,
    "reads-a-length": reads_a_length,
    "distinct": distinct,
    "filled-up": filled_up,
    "best-message": best_message,
    "promised": promised,
    "not-followed": not_followed,
    "adaptive": adaptive,
    "sorted": lambda s, x, m, y: (
        s.layer(x[m]).sort(0).values * x[m] + s.layer(x[m]).sort(0, descending=True)[0]
    ).sum(),
    "convolution": lambda s, x, m, y: F.conv1d(x[m][:, None], s.layer.weight[:, None, :2])
    .square()
    .sum(),
    "deviation": lambda s, x, m, y: s.layer(x[m]).std() + s.layer(x[m]).var(),
    "smoothing": lambda s, x, m, y: F.cross_entropy(
        s.other(x[m]), y[m], weight=torch.tensor([1, 2, 0.5]), label_smoothing=0.1
    ),
    "last-counted": lambda s, x, m, y: s.layer(torch.nan_to_num(x))[int(m.sum()) - 1].exp().sum(),
    "columns": lambda s, x, m, y: s.layer(x[m])[:, 1].square().sum() + s.layer(x[m])[..., 1:].sum(),
    "sum": lambda s, x, m, y: rows_of(s, x, m).sum(),
    "mean": lambda s, x, m, y: rows_of(s, x, m).mean(),
    "elements": lambda s, x, m, y: s.layer(x)[m[:, None] & (y[:, None] > 0).expand(-1, 4)].mean(),
    "masked-select": lambda s, x, m, y: s.layer(x).masked_select(m[:, None]).square().mean(),
    "log-of-negative": lambda s, x, m, y: s.norm(x[m]).log().nan_to_num(0.0, 0.0, 0.0).sum(),
    "mse": lambda s, x, m, y: F.mse_loss(rows_of(s, x, m), x[m]),
    "l1": lambda s, x, m, y: F.l1_loss(rows_of(s, x, m), x[m]),
    "huber": lambda s, x, m, y: F.huber_loss(rows_of(s, x, m), x[m], reduction="sum"),
    "smooth-l1": lambda s, x, m, y: F.smooth_l1_loss(rows_of(s, x, m), x[m]),
    "bce": lambda s, x, m, y: F.binary_cross_entropy_with_logits(s.layer(x[m]), (x[m] > 0).float()),
    "cross-entropy": lambda s, x, m, y: F.cross_entropy(s.other(x[m]), y[m]),
    "cross-entropy-sum": lambda s, x, m, y: F.cross_entropy(s.other(x[m]), y[m], reduction="sum"),
    "two-masks": lambda s, x, m, y: F.cross_entropy(s.other(x[~~m]), y[~~m])
    + F.nll_loss(s.other(x[~~m]), y[~~m], reduction="sum"),
    "kl": lambda s, x, m, y: F.kl_div(
        s.other(x[m]).log_softmax(-1), x[m][:, :3].softmax(-1), reduction="batchmean"
    ),
    "count": lambda s, x, m, y: rows_of(s, x, m).sum() / (x[m].shape[0] + 1),
    "numel": lambda s, x, m, y: rows_of(s, x, m).sum() / max(1, x.numel()) * x[m].numel(),
    "norm": lambda s, x, m, y: s.layer(x[m]).norm() + s.layer(x[m]).norm(dim=-1).sum(),
    "logsumexp": lambda s, x, m, y: s.layer(x[m]).logsumexp(0).exp().sum(),
    "prod": lambda s, x, m, y: s.layer(x[m]).tanh().prod(0).sum(),
    "one-hot": lambda s, x, m, y: (F.one_hot(y[m], LABELS) * s.other(x[m])).sum(),
    "embedding": lambda s, x, m, y: F.embedding(y[m], s.layer.weight).square().sum(),
    "gather": lambda s, x, m, y: s.other(x[m]).gather(1, y[m][:, None]).mean(),
    "norm-of-rows": lambda s, x, m, y: s.layer(s.norm(x[m])).square().sum(),
    "first-rows": lambda s, x, m, y: s.layer(x[m])[:2].sum() * 2,
    "repeated": lambda s, x, m, y: (
        s.layer(torch.ones(2, WIDTH)).repeat(y.unique().shape[0], 1).square().sum()
    ),
    "flip": lambda s, x, m, y: (s.layer(x[m]).flip(0) * s.layer(x[m])).sum(),
    "argmax": lambda s, x, m, y: (s.layer(x[m]).argmax(-1).float() * x[m].sum(-1)).sum()
    + s.norm(torch.nan_to_num(x)).sum(),
    "experts": experts,
    "batch-norm": batch_norms,
    "attention": attends,
    "side-by-side": side_by_side,
    "edges": edges,
    "nested": nested,
    "integers": integers,
    "at-places": at_places,
    "writes-parts": writes_parts,
    "writes-rows": writes_rows,
    "of-both": of_both,
}


@pytest.mark.parametrize("name", CASES)
def test_selections(tmp_path: pathlib.Path, name: str) -> None:
    step = step_of(CASES[name])
    exported = export(step, tmp_path)
    for mask in MASKS:
        compare(step, exported, batch(mask))


# What eager refuses where a mask holds for none, or for fewer than are wanted.
OF_SOME: dict[str, Body] = {
    "last": lambda s, x, m, y: s.layer(x[m])[-1].sum(),
    "first": lambda s, x, m, y: s.layer(x[torch.where(m)[0][0]]).sum(),
    "largest": lambda s, x, m, y: s.layer(x[m]).max(0).values.sum() + s.layer(x[m]).amax(),
    "largest-norm": lambda s, x, m, y: s.layer(x[m]).norm(float("inf")),
    "best": lambda s, x, m, y: s.layer(x[m])[s.layer(x[m])[:, 0].argmax()].sum(),
    "first-in-order": lambda s, x, m, y: s.layer(x[m]).sum(-1).sort().values[0],
    "topk": lambda s, x, m, y: s.layer(x[m]).sum(-1).topk(1, largest=False).values.sum(),
    "at-places": lambda s, x, m, y: s.layer(x[m])[torch.tensor([0, -1])].sum(),
    "at-a-place": lambda s, x, m, y: s.layer(x[m])[y.argmin() * 0].sum(),
    "index-select": lambda s, x, m, y: s.layer(x[m]).index_select(0, y.new_zeros(2)).sum(),
    "masked-scatter": lambda s, x, m, y: torch.zeros(WIDTH)
    .masked_scatter(torch.arange(WIDTH) >= 0, s.layer(x[m]))
    .sum(),
}


@pytest.mark.parametrize("name", OF_SOME)
def test_selections_that_need_an_element(tmp_path: pathlib.Path, name: str) -> None:
    step = step_of(OF_SOME[name])
    exported = export(step, tmp_path)
    for mask in MASKS.keys() - {"none"}:
        compare(step, exported, batch(mask))
    exported.weights["fsdp.input.m"] = batch("none")["m"]
    with pytest.raises(RuntimeError, match=r"test_static_sizes.py:\d+: "):
        exported.run()


def one_class_of_each_row(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    wanted = torch.zeros(len(x[m]), LABELS)
    wanted[range(len(wanted)), y[m]] = 1
    return F.mse_loss(model.other(x[m]), wanted)


def rows_of_a_selection(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    rows = model.layer(x[m]).clone()
    rows[y[:2]] = 0.5
    return rows.sum()


def sums_of_classes(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    return torch.zeros(LABELS, WIDTH).index_add(0, y[m], model.layer(x[m])).exp().sum()


@pytest.mark.parametrize(
    "body, there, behind",
    [
        (one_class_of_each_row, [0, 1, 2, -1, -3], [LABELS, LABELS + 1, -LABELS - 1]),
        (rows_of_a_selection, [0, 1, -2], [2, 3, ROWS, -3]),
        (sums_of_classes, [0, 1, 2], [LABELS, LABELS + 1, -1]),
    ],
)
def test_a_write_at_a_place_that_is_not_there_ends_the_run(
    tmp_path: pathlib.Path, body: Body, there: list[int], behind: list[int]
) -> None:
    """As it ends eager's step: padding's places are none of the step's."""
    step, two = step_of(body), batch("first")
    two["m"][4] = True
    exported = export(step, tmp_path)
    for label in there:
        compare(step, exported, {**two, "y": torch.full_like(two["y"], label)})
    for label in behind:
        exported.weights["fsdp.input.y"] = torch.full_like(two["y"], label)
        with pytest.raises(RuntimeError, match="that is not there|out of (range|bounds)"):
            exported.run()


def test_an_element_that_only_one_way_has(tmp_path: pathlib.Path) -> None:
    def body(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
        rows, place = model.layer(x[m]), 2 * int(m.sum())
        if len(rows) == 0 or place >= ROWS:
            return model.layer(torch.nan_to_num(x)).sum()
        return rows.max() * rows[-1].sum() * model.layer(torch.nan_to_num(x))[place].sum()

    step = step_of(body)
    exported = export(step, tmp_path)
    for mask in MASKS:
        compare(step, exported, batch(mask))


def test_a_bound_is_the_size(tmp_path: pathlib.Path) -> None:
    """Tests that nothing is computed for more elements than `at_most` says, and that more of them
    are an error with the line."""

    def bounded(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
        with fsdp_mlir.at_most(3):
            rows = torch.nonzero(m).squeeze(-1)
        return model.layer(x[rows]).sum()

    step = step_of(bounded)
    exported = export(step, tmp_path)
    assert [3, WIDTH] in [value["shape"] for value in exported.program()["values"].values()]
    for mask in ("some", "none", "last"):
        compare(step, exported, batch(mask))
    with pytest.raises(RuntimeError, match=r"test_static_sizes.py:\d+: more than at_most\(3\)"):
        compare(step, exported, batch("all"))


@pytest.mark.parametrize(
    "body, needs",
    (
        (lambda s, x, m, y: s.layer(x[m].reshape(3, WIDTH)).sum(), "3 elements"),
        (
            lambda s, x, m, y: s.layer.weight[0, :3] @ torch.arange(int(m.sum().item())).float(),
            "the number 3",
        ),
        (
            lambda s, x, m, y: F.cross_entropy(
                s.other(torch.nan_to_num(x)[m]), y[torch.arange(ROWS) < 3 + 0 * y[0]]
            ),
            "sizes to be equal",
        ),
        (checked, "3 elements"),
    ),
    ids=("elements", "number", "rows-of-a-loss", "bound-of-the-code"),
)
def test_a_number_that_the_code_needs_is_checked(
    tmp_path: pathlib.Path, body: Body, needs: str
) -> None:
    step = step_of(body)
    exported = export(step, tmp_path)
    compare(step, exported, batch("some"))
    with pytest.raises(RuntimeError, match=rf"sizes.py:\d+: the step needs {needs} here"):
        exported.weights["fsdp.input.m"] = batch("all")["m"]
        exported.run()
