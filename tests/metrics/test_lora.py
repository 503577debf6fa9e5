"""PAC-S++ and DAC: LoRA tensors of a checkpoint, compared with the output of the authors' code on random weights.

``learned/pacscore_plus`` of the shared data says how its numbers were made (aimagelab/pacscore, commit bfbc488).
"""

import json
import shutil

import numpy as np
import pytest

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.models.checkpoints import fold_lora
from captious.models.loading import load

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def golden(shared_data, tmp_path):
    """Write the file as its publisher would; return its path, the captions and the authors' output."""
    source = shared_data / "learned" / "pacscore_plus"
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(source / name, tmp_path)
    state = safetensors.load_file(source / "state_dict.safetensors")
    torch.save({"state_dict": state}, tmp_path / "PAC++.pth")
    rows = json.loads((source / "inputs.json").read_text())
    captions = CaptionSet.of(
        {str(number): row["caption"] for number, row in enumerate(rows)},
        {str(number): row["references"] for number, row in enumerate(rows)},
        {"image": [str(source / row["image"]) for row in rows]},
    )
    return tmp_path / "PAC++.pth", captions, json.loads((source / "expected.json").read_text())


def values(text, captions):
    return [*parse(text).measure(captions).items.values()]


@pytest.mark.shared_data
def test_scores_are_those_of_the_authors(golden):
    path, captions, expected = golden
    for name in ("pacscore", "refpacscore"):
        ours = values(f"{name}(weights={path},plus=yes)", captions)
        assert ours == pytest.approx(expected[name], abs=1e-5)
    assert values(f"pacscore(weights={path},plus=yes,value=raw)", captions) == pytest.approx(
        expected["cosine"], abs=1e-5
    )


@pytest.mark.shared_data
def test_features_and_tokens_are_those_of_the_authors(golden):
    from PIL import Image

    path, captions, expected = golden
    encoder = load(str(path), lora="no-mlp")
    pixels = np.stack([encoder.prepare(Image.open(image)) for image in captions.images])
    assert encoder.image_features(pixels) == pytest.approx(np.array(expected["image_features"]), abs=1e-5)
    tokens = encoder.tokenize([f"A photo depicts {text}" for text in captions.candidates.values])
    assert encoder.text_features(tokens.ids) == pytest.approx(np.array(expected["caption_features"]), abs=1e-5)
    for ours, theirs in zip(tokens.ids, expected["tokens"], strict=True):
        end = theirs.index(633)
        assert ours[: end + 1].tolist() == theirs[: end + 1]


@pytest.mark.shared_data
def test_lora_all_adds_the_mlp_tensors_as_dac_does(golden):
    path, captions, expected = golden
    control = expected["control_if_mlp_lora_were_added"]
    for name in ("clipscore", "refclipscore"):
        ours = values(f"{name}(weights={path},lora=all,w=2)", captions)
        assert ours == pytest.approx(control[name.replace("clip", "pac")], abs=1e-5)
    signature = str(parse(f"clipscore(weights={path},lora=all)").measure(captions).signature)
    assert "|lora:all,rank=4|" in signature


@pytest.mark.shared_data
def test_the_label_and_the_signature_name_the_rule(golden):
    path, captions, _ = golden
    report = evaluate(captions, f"pacscore(weights={path},plus=yes),RefPAC-S++({path})")
    assert [measured.metric.label for measured in report] == ["PAC-S++", "RefPAC-S++"]
    for measured in report:
        assert "plus=yes" in str(measured.signature) and "|lora:no-mlp,rank=4|" in str(measured.signature)
    assert not any("rank" in warning for warning in report.warnings)


@pytest.mark.shared_data
def test_wrong_files_are_refused_with_the_way_to_go_on(golden, tmp_path):
    path, captions, _ = golden
    with pytest.raises(InputError, match=r"contains LoRA tensors.*pacscore\(weights=…, plus=yes\).*lora=all"):
        values(f"pacscore(weights={path})", captions)
    plain = {key: value for key, value in torch.load(path)["state_dict"].items() if "lora_" not in key}
    torch.save(plain, tmp_path / "plain.pth")
    with pytest.raises(InputError, match=r"plain.pth: contains no LoRA tensors"):
        values(f"pacscore(weights={tmp_path / 'plain.pth'},plus=yes)", captions)
    with pytest.raises(InputError, match="is not a checkpoint file with LoRA tensors"):
        values("pacscore(weights=captious-mini,plus=yes)", captions)


@pytest.mark.shared_data
def test_another_rank_is_scored_with_its_factor_and_reported(golden, tmp_path):
    """Doubling the rank by zeros halves the factor, so B has to be doubled for the same scores."""
    path, captions, expected = golden
    state = torch.load(path)["state_dict"]
    for key, value in state.items():
        if key.endswith("lora_A"):
            state[key] = torch.cat([value, torch.zeros_like(value)])
        elif key.endswith("lora_B"):
            state[key] = torch.cat([2 * value, torch.zeros_like(value)], dim=1)
    torch.save(state, tmp_path / "eight.pth")
    report = evaluate(captions, f"pacscore(weights={tmp_path / 'eight.pth'},plus=yes)")
    (measured,) = report
    assert [*measured.items.values()] == pytest.approx(expected["pacscore"], abs=1e-5)
    assert "|lora:no-mlp,rank=8|" in str(measured.signature)
    assert any("have rank 8, those of the published files 4" in warning for warning in report.warnings)


def test_plus_and_lora_are_not_for_each_other():
    with pytest.raises(InputError, match="pacscore: plus=yes says which LoRA tensors are added"):
        parse("pacscore(weights=a.pth,plus=yes,lora=all)")
    with pytest.raises(InputError, match=r"get PAC\+\+_clip_ViT-B-32.pth .*pacscore\(weights=PAC\+\+.*,plus=yes\)"):
        parse("pacscore(plus=yes)").encoder()


def lora(rank=2, width=3):
    """Return a block with LoRA tensors: ones, so that every product is the rank."""
    return {
        "t.in_proj_weight": torch.zeros(3 * width, width),
        "t.in_proj_weight_lora_A": torch.ones(rank, width),
        "t.in_proj_weight_lora_B": torch.ones(3 * width, rank),
        "t.mlp.c_fc.weight": torch.zeros(4 * width, width),
        "t.mlp.c_fc.lora_A": torch.ones(rank, width),
        "t.mlp.c_fc.lora_B": torch.ones(4 * width, rank),
    }


def test_products_are_divided_by_the_rank():
    state, rule = fold_lora(lora(rank=2), "no-mlp", "a.pth")
    assert rule.rank == 2 and set(state) == {"t.in_proj_weight", "t.mlp.c_fc.weight"}
    assert (state["t.in_proj_weight"] == 1).all()  # the sum of two ones, divided by 2
    assert (state["t.mlp.c_fc.weight"] == 0).all()
    assert (fold_lora(lora(), "all", "a.pth")[0]["t.mlp.c_fc.weight"] == 1).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"t.mlp.c_fc.lora_B": None}, "a.pth: LoRA tensors without their pair: missing t.mlp.c_fc.lora_B"),
        ({"t.mlp.c_fc.lora_B": torch.ones(5, 2)}, r"lora_B \(5, 2\) times lora_A \(2, 3\) does not fit t.mlp.c_fc.wei"),
        ({"t.mlp.c_fc.lora_A": torch.ones(3, 3)}, r"lora_B \(12, 2\) times lora_A \(3, 3\) does not fit"),
        ({"t.mlp.c_fc.weight": None}, r"does not fit t.mlp.c_fc.weight \(missing\)"),
        (
            {"t.in_proj_weight_lora_A": None, "t.in_proj_weight_lora_B": None},
            "the rank of its LoRA tensors cannot be read: no in_proj_weight_lora_A",
        ),
        ({"t.in_proj_weight": None, "t.mlp.c_fc.weight": None}, "contains only LoRA tensors"),
    ],
)
def test_tensors_that_do_not_fit_are_named(changed, message):
    state = {key: value for key, value in (lora() | changed).items() if value is not None}
    with pytest.raises(InputError, match=message):
        fold_lora(state, "no-mlp", "a.pth")
