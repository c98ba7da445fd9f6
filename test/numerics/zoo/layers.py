"""PyTorch's own layers, each in a small network."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, rnn

from entry import Entry, Tensor, classes, numbers, of_logits, of_tokens, of_values, together

WIDTH, LENGTH, LABELS, WORDS = 12, 7, 5, 30
VALUES = together(x=numbers(WIDTH), y=numbers(WIDTH))
ROWS = together(x=numbers(LENGTH, WIDTH), y=numbers(LENGTH, WIDTH))
TOKENS = together(x=classes(WORDS, LENGTH), y=classes(WORDS, LENGTH))
IMAGES = together(x=numbers(3, 12, 12), y=classes(LABELS))
VOLUMES = together(x=numbers(2, 6, 6, 6), y=classes(LABELS))
SIGNALS = together(x=numbers(3, 24), y=classes(LABELS))


def _head(features: nn.Module, *spatial: int) -> nn.Module:
    """A classifier behind channels with `spatial` dimensions."""
    return nn.Sequential(features, nn.Flatten(), nn.LazyLinear(LABELS))


def _lazy(model: nn.Module, batch: Callable[[int], dict[str, Tensor]]) -> nn.Module:
    with torch.no_grad():
        model(batch(2)["x"])
    return model


class Apply(nn.Module):
    """What `function(module, x)` gives, between two linear layers."""

    def __init__(self, module: nn.Module, function: Callable[[nn.Module, Tensor], Tensor]):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.module, self.function = module, function

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.module, self.first(x)))


class Tagger(nn.Module):
    """A recurrent layer between an embedding and a classifier of each token."""

    def __init__(self, layer: nn.Module, run: Callable[[nn.Module, Tensor], Tensor], width: int):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(WORDS, WIDTH), layer
        self.run, self.head = run, nn.Linear(width, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.run(self.layer, self.embedding(x)))


def _packed(layer: nn.Module, x: Tensor) -> Tensor:
    """All sequences of one length, packed as for lengths of their own."""
    packed = rnn.pack_padded_sequence(x, torch.full((x.shape[0],), LENGTH), batch_first=True)
    return rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)[0]


def _packed_ragged(layer: nn.Module, x: Tensor) -> Tensor:
    """Lengths that are the same in each batch: the second sequence is shorter."""
    lengths = torch.tensor([LENGTH] + [LENGTH - 2] * (x.shape[0] - 1))
    packed = rnn.pack_padded_sequence(x, lengths, batch_first=True)
    return rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)[0]


def _cell(cell: nn.Module, x: Tensor) -> Tensor:
    state, outputs = None, []
    for i in range(x.shape[1]):
        state = cell(x[:, i], state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(outputs, 1)


def _recurrent(layer: nn.Module, run: Any = None, width: int = WIDTH) -> Entry:
    run = run or (lambda layer, x: layer(x)[0])
    return Entry(Tagger(layer, run, width), TOKENS, of_tokens)


def _rows(module: nn.Module, function: Any = lambda module, x: module(x)) -> Entry:
    return Entry(Apply(module, function), ROWS, of_values)


def _picture(*layers: nn.Module, batch: Any = IMAGES) -> Entry:
    model = _head(nn.Sequential(*layers))
    return Entry(_lazy(model, batch), batch, of_logits)


def _criterion(criterion: nn.Module, target: Callable[[int], Tensor], width: int = WIDTH) -> Entry:
    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, width))
    batch = together(x=numbers(WIDTH), y=target)
    return Entry(model, batch, lambda model, x, y: criterion(model(x), y))


def _pair_criterion(criterion: nn.Module, target: Callable[[int], Tensor]) -> Entry:
    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, 8))
    batch = together(a=numbers(WIDTH), b=numbers(WIDTH), y=target)
    return Entry(model, batch, lambda model, a, b, y: criterion(model(a), model(b), y))


def _attention(module: nn.Module, x: Tensor) -> Tensor:
    return module(x, x, x, need_weights=False)[0]


def _causal(module: nn.Module, x: Tensor) -> Tensor:
    return module(x, mask=nn.Transformer.generate_square_subsequent_mask(LENGTH), is_causal=True)


def _bag() -> Entry:
    model = nn.Sequential(nn.EmbeddingBag(WORDS, WIDTH, mode="mean"), nn.Linear(WIDTH, LABELS))
    return Entry(model, together(x=classes(WORDS, LENGTH), y=classes(LABELS)), of_logits)


def _ctc() -> Entry:
    criterion = nn.CTCLoss(zero_infinity=True)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        scores = F.log_softmax(model(x), -1).transpose(0, 1)
        n = x.shape[0]
        return criterion(scores, y, torch.full((n,), LENGTH), torch.full((n,), 3))

    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, LABELS))
    return Entry(model, together(x=numbers(LENGTH, WIDTH), y=classes(LABELS, 3, first=1)), loss)


def _adaptive() -> Entry:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(WIDTH, WIDTH)
            self.head = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, WORDS, [10])

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return model.head(model.body(x), y).loss

    return Entry(Model(), together(x=numbers(WIDTH), y=classes(WORDS)), loss)


def _transformer() -> Entry:
    module = nn.Transformer(WIDTH, 2, 1, 1, 24, dropout=0.0, batch_first=True)
    return _rows(module, lambda module, x: module(x, x))


def _of(make: Callable[..., Entry], *parts: Callable[[], Any]) -> Callable[[], Entry]:
    """An entry whose parts are made when it is."""
    return lambda: make(*(part() for part in parts))


CONVOLUTIONS: dict[str, Callable[[], Entry]] = {
    "conv1d": lambda: _picture(nn.Conv1d(3, 8, 5, 2), nn.ReLU(), batch=SIGNALS),
    "conv2d-dilated": lambda: _picture(nn.Conv2d(3, 8, 3, dilation=2), nn.ReLU()),
    "conv2d-circular": lambda: _picture(nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular")),
    "conv2d-reflect": lambda: _picture(nn.Conv2d(3, 8, 3, padding="same", padding_mode="reflect")),
    "conv3d": lambda: _picture(nn.Conv3d(2, 4, 3), nn.ReLU(), batch=VOLUMES),
    "conv-transpose1d": lambda: _picture(nn.ConvTranspose1d(3, 4, 4, 2), batch=SIGNALS),
    "conv-transpose2d": lambda: _picture(nn.ConvTranspose2d(3, 4, 4, 2, 1), nn.ReLU()),
    "conv-transpose3d": lambda: _picture(nn.ConvTranspose3d(2, 4, 3, 2, 1), batch=VOLUMES),
    "max-pool": lambda: _picture(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2)),
    "avg-pool": lambda: _picture(nn.Conv2d(3, 8, 3), nn.AvgPool2d(3, 2, 1)),
    "adaptive-max-pool": lambda: _picture(nn.Conv2d(3, 8, 3), nn.AdaptiveMaxPool2d(3)),
    "adaptive-avg-pool": lambda: _picture(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d((3, 5))),
    "fractional-max-pool": lambda: _picture(nn.Conv2d(3, 8, 3), nn.FractionalMaxPool2d(3, 4)),
    "lp-pool": lambda: _picture(nn.Conv2d(3, 8, 3), nn.LPPool2d(2, 2)),
    "pixel-shuffle": lambda: _picture(nn.Conv2d(3, 8, 3), nn.PixelShuffle(2)),
    "pixel-unshuffle": lambda: _picture(nn.PixelUnshuffle(2), nn.Conv2d(12, 8, 3)),
    "channel-shuffle": lambda: _picture(nn.Conv2d(3, 8, 3), nn.ChannelShuffle(2)),
    "unfold": lambda: _picture(nn.Conv2d(3, 4, 3), nn.Unfold(3, stride=2)),
    "fold": lambda: _picture(nn.Unfold(3, stride=3), nn.Dropout1d(0.0), nn.Fold(12, 3, stride=3)),
    "upsample-nearest": lambda: _picture(nn.Conv2d(3, 4, 3), nn.Upsample(scale_factor=2)),
    "upsample-bilinear": lambda: _picture(nn.Conv2d(3, 4, 3), nn.UpsamplingBilinear2d(17)),
    "upsample-bicubic": lambda: _picture(nn.Conv2d(3, 4, 3), nn.Upsample(17, mode="bicubic")),
    "zero-pad": lambda: _picture(nn.ZeroPad2d(1), nn.Conv2d(3, 4, 3)),
    "replication-pad": lambda: _picture(nn.Conv2d(3, 4, 3), nn.ReplicationPad2d(2)),
    "batch-norm": lambda: _picture(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()),
    "batch-norm-without-statistics": lambda: _picture(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)
    ),
    "batch-norm-cumulative": lambda: _picture(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=None)),
    "group-norm": lambda: _picture(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)),
    "instance-norm": lambda: _picture(
        nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True, track_running_stats=True)
    ),
    "local-response-norm": lambda: _picture(nn.Conv2d(3, 8, 3), nn.LocalResponseNorm(3)),
    "dropout2d": lambda: _picture(nn.Conv2d(3, 8, 3), nn.Dropout2d(0.3)),
    "spectral-norm": lambda: _picture(parametrizations.spectral_norm(nn.Conv2d(3, 8, 3))),
    "old-spectral-norm": lambda: _picture(nn.utils.spectral_norm(nn.Conv2d(3, 8, 3))),
    "weight-norm": lambda: _picture(parametrizations.weight_norm(nn.Conv2d(3, 8, 3))),
    "old-weight-norm": lambda: _picture(nn.utils.weight_norm(nn.Conv2d(3, 8, 3))),
}

RECURRENT: dict[str, Callable[[], Entry]] = {
    "lstm": lambda: _recurrent(nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)),
    "lstm-dropout": lambda: _recurrent(nn.LSTM(WIDTH, WIDTH, 2, dropout=0.3, batch_first=True)),
    "lstm-both-ways": lambda: _recurrent(
        nn.LSTM(WIDTH, WIDTH, bidirectional=True, batch_first=True), width=2 * WIDTH
    ),
    "lstm-projected": lambda: _recurrent(
        nn.LSTM(WIDTH, WIDTH, proj_size=4, batch_first=True), width=4
    ),
    "lstm-packed": lambda: _recurrent(nn.LSTM(WIDTH, WIDTH, batch_first=True), _packed),
    "lstm-packed-ragged": lambda: _recurrent(
        nn.LSTM(WIDTH, WIDTH, batch_first=True), _packed_ragged
    ),
    "gru": lambda: _recurrent(nn.GRU(WIDTH, WIDTH, 2, batch_first=True)),
    "gru-dropout": lambda: _recurrent(nn.GRU(WIDTH, WIDTH, 2, dropout=0.3, batch_first=True)),
    "gru-packed": lambda: _recurrent(nn.GRU(WIDTH, WIDTH, batch_first=True), _packed),
    "rnn": lambda: _recurrent(nn.RNN(WIDTH, WIDTH, 2, batch_first=True)),
    "rnn-relu": lambda: _recurrent(nn.RNN(WIDTH, WIDTH, nonlinearity="relu", batch_first=True)),
    "lstm-cell": lambda: _recurrent(nn.LSTMCell(WIDTH, WIDTH), _cell),
    "gru-cell": lambda: _recurrent(nn.GRUCell(WIDTH, WIDTH), _cell),
    "rnn-cell": lambda: _recurrent(nn.RNNCell(WIDTH, WIDTH), _cell),
}

OTHERS: dict[str, Callable[[], Entry]] = {
    "attention": lambda: _rows(nn.MultiheadAttention(WIDTH, 2, batch_first=True), _attention),
    "attention-dropout": lambda: _rows(
        nn.MultiheadAttention(WIDTH, 2, dropout=0.2, batch_first=True), _attention
    ),
    "attention-weights": lambda: _rows(
        nn.MultiheadAttention(WIDTH, 2, batch_first=True), lambda m, x: m(x, x, x)[0]
    ),
    "attention-bias-kv": lambda: _rows(
        nn.MultiheadAttention(WIDTH, 2, add_bias_kv=True, batch_first=True), _attention
    ),
    "encoder-layer": lambda: _rows(nn.TransformerEncoderLayer(WIDTH, 2, 24, batch_first=True)),
    "encoder": lambda: _rows(
        nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 2, 24, 0.0, batch_first=True), 2),
        _causal,
    ),
    "transformer": _transformer,
    "bilinear": lambda: _rows(nn.Bilinear(WIDTH, WIDTH, WIDTH), lambda m, x: m(x, x.tanh())),
    "embedding-bag": _bag,
    "embedding-max-norm": lambda: Entry(
        nn.Sequential(nn.Embedding(WORDS, WIDTH, max_norm=1.0), nn.Linear(WIDTH, WORDS)),
        TOKENS,
        of_tokens,
    ),
    "embedding-padding": lambda: Entry(
        nn.Sequential(nn.Embedding(WORDS, WIDTH, padding_idx=0), nn.Linear(WIDTH, WORDS)),
        TOKENS,
        of_tokens,
    ),
    "layer-norm": lambda: _rows(nn.LayerNorm(WIDTH)),
    "rms-norm": lambda: _rows(nn.RMSNorm(WIDTH)),
    "alpha-dropout": lambda: _rows(nn.AlphaDropout(0.2)),
    "feature-alpha-dropout": lambda: _rows(nn.FeatureAlphaDropout(0.2)),
    "orthogonal": lambda: _rows(parametrizations.orthogonal(nn.Linear(WIDTH, WIDTH))),
    "prelu": lambda: _rows(nn.PReLU()),
    "rrelu": lambda: _rows(nn.RReLU()),
    "glu": lambda: _rows(nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GLU())),
    "activations": lambda: _rows(
        nn.Sequential(
            *(nn.ELU(), nn.SELU(), nn.CELU(), nn.GELU(), nn.SiLU(), nn.Mish(), nn.Softplus()),
            *(nn.Hardswish(), nn.Hardsigmoid(), nn.Hardtanh(), nn.LeakyReLU(), nn.LogSigmoid()),
            *(nn.Softsign(), nn.Softshrink(0.01), nn.Hardshrink(0.01), nn.Tanhshrink()),
        )
    ),
    "softmaxes": lambda: _rows(nn.Sequential(nn.Softmax(-1), nn.LogSoftmax(-1), nn.Softmin(-1))),
    "cosine-similarity": lambda: _rows(
        nn.CosineSimilarity(-1), lambda m, x: x * m(x, x.roll(1, 1)).unsqueeze(-1)
    ),
    "pairwise-distance": lambda: _rows(
        nn.PairwiseDistance(), lambda m, x: x * m(x, x.roll(1, 1)).unsqueeze(-1)
    ),
    "no-elements": lambda: _rows(
        nn.Sequential(nn.Linear(WIDTH, 2), nn.Linear(2, 0), nn.Linear(0, WIDTH))
    ),
    "unflatten": lambda: _rows(nn.Sequential(nn.Unflatten(-1, (3, 4)), nn.Flatten(-2))),
    "adaptive-softmax": _adaptive,
    "ctc": _ctc,
}

LOSSES: dict[str, Callable[[], Entry]] = {
    "label-smoothing": lambda: _criterion(
        nn.CrossEntropyLoss(label_smoothing=0.1), classes(LABELS), LABELS
    ),
    "class-weights": lambda: _criterion(
        nn.CrossEntropyLoss(weight=torch.linspace(0.5, 1.5, LABELS)), classes(LABELS), LABELS
    ),
    "bce-with-logits": lambda: _criterion(
        nn.BCEWithLogitsLoss(), lambda n: torch.randint(2, (n, WIDTH)).float()
    ),
    "huber": lambda: _criterion(nn.HuberLoss(), numbers(WIDTH)),
    "smooth-l1": lambda: _criterion(nn.SmoothL1Loss(beta=0.5), numbers(WIDTH)),
    "l1": lambda: _criterion(nn.L1Loss(), numbers(WIDTH)),
    "kl-divergence": lambda: _criterion(
        nn.KLDivLoss(reduction="batchmean"), lambda n: torch.randn(n, WIDTH).softmax(-1)
    ),
    "poisson": lambda: _criterion(nn.PoissonNLLLoss(), lambda n: torch.rand(n, WIDTH)),
    "multi-margin": lambda: _criterion(nn.MultiMarginLoss(), classes(LABELS), LABELS),
    "multi-label-margin": lambda: _criterion(
        nn.MultiLabelMarginLoss(), classes(LABELS, LABELS), LABELS
    ),
    "soft-margin": lambda: _criterion(nn.SoftMarginLoss(), lambda n: torch.randn(n, WIDTH).sign()),
    "cosine-embedding": lambda: _pair_criterion(
        nn.CosineEmbeddingLoss(0.1), lambda n: torch.randint(2, (n,)).float() * 2 - 1
    ),
    "margin-ranking": lambda: _pair_criterion(
        nn.MarginRankingLoss(0.1), lambda n: torch.randn(n, 8).sign()
    ),
    "gaussian": lambda: _pair_criterion(
        lambda a, b, y: F.gaussian_nll_loss(a, y, F.softplus(b)), numbers(8)
    ),
    "triplet": lambda: _pair_criterion(lambda a, b, y: F.triplet_margin_loss(a, b, y), numbers(8)),
}

MODELS: dict[str, Callable[[], Entry]] = {
    f"nn/{name}": make
    for table in (CONVOLUTIONS, RECURRENT, OTHERS, LOSSES)
    for name, make in table.items()
}
