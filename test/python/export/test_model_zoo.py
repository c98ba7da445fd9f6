"""Tests that models of well-known libraries export as they are, bitwise eager PyTorch's."""

import pathlib

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export

from fsdp_mlir import ExportError, TrainingStep

transformers = pytest.importorskip("transformers")
torchvision = pytest.importorskip("torchvision")


def language_model(model: torch.nn.Module):
    torch.manual_seed(0)
    tokens = torch.randint(50, (2, 12))
    return classify(
        model.train(),
        # labels are the very same tensor, as Hugging Face's users give them.
        inputs={"input_ids": tokens, "labels": tokens},
        loss=lambda model, **inputs: model(**inputs).loss,
        metrics=lambda model, **inputs: {"logit": model(**inputs).logits.mean()},
    )


def test_gpt2(tmp_path: pathlib.Path) -> None:
    config = transformers.GPT2Config(
        vocab_size=50,
        n_positions=16,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config)
    exported = assert_same_as_eager(language_model(model), tmp_path)
    assert exported.notes == []  # Dynamo follows an output that metrics read by name.
    (tied,) = [p for p in exported.metadata["parameters"] if p["aliases"]]
    assert (tied["fqn"], tied["aliases"]) == ("transformer.wte.weight", ["lm_head.weight"])
    assert "transformer.h.1.attn" in {node["module"] for node in exported.program()["nodes"]}


def llama():
    """With fewer heads of keys than heads."""
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return transformers.LlamaForCausalLM(config)


def test_llama(tmp_path: pathlib.Path) -> None:
    """Its attention repeats keys by its kernel where there is no mask, and by copies under one."""
    assert_same_as_eager(language_model(llama()), tmp_path)


def test_llama_with_padding(tmp_path: pathlib.Path) -> None:
    step = language_model(llama())
    step.inputs["attention_mask"] = torch.tensor([[0] * 3 + [1] * 9, [1] * 12])
    assert_same_as_eager(step, tmp_path)


def test_a_mask_by_which_attention_is_causal_or_not(tmp_path: pathlib.Path) -> None:
    """As of ColPali: without padding, Transformers leave out the mask, which alone is causal."""
    config = transformers.GemmaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        use_bidirectional_attention=True,
    )
    step = language_model(transformers.GemmaForCausalLM(config))
    assert_same_as_eager(step, tmp_path)
    step.inputs["attention_mask"] = torch.ones(2, 12, dtype=torch.long)
    with pytest.raises(ExportError, match=r"test_model_zoo.py:\d+, in .* leave out attention_mask"):
        export(step, tmp_path)


def test_resnet(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    step = classify(
        torchvision.models.resnet18(num_classes=5),
        inputs={"x": torch.randn(2, 3, 32, 32), "y": torch.tensor([1, 3])},
        loss=lambda model, x, y: F.cross_entropy(model(x), y),
    )
    exported = assert_same_as_eager(step, tmp_path)
    assert len(exported.results("buffer_update")) == 60


def mixture_of_experts() -> TrainingStep:
    config = transformers.MixtralConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_local_experts=4,
    )
    return language_model(transformers.MixtralForCausalLM(config))


def test_experts(tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(mixture_of_experts(), tmp_path)
    assert "aten::_grouped_mm" in exported.ops()
    assert not exported.notes


def test_experts_one_after_the_other(tmp_path: pathlib.Path) -> None:
    """A loop over experts has shapes that depend on values."""
    step = mixture_of_experts()
    step.model.set_experts_implementation("eager")
    exported = export(step, tmp_path)
    (said,) = exported.notes
    assert "experts_implementation=grouped_mm, where the model has eager" in said
    assert step.model.config._experts_implementation == "eager"
    assert "aten::_grouped_mm" in exported.ops()
