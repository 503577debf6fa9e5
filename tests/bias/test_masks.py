from captious.bias.masks import (
    Mask,
    as_text,
    as_words,
    choose_vocabulary,
    mask_captions,
    measure_unknown_share,
    tokenize_captions,
    tokenize_treebank,
)

AGE = Mask.from_name("age")


def test_masking_goes_before_alignment_and_only_people_are_aligned():
    human = tokenize_captions(["A young man, on a unicycle."])
    assert mask_captions(human, AGE, {"a", "on"}) == [("a", "<mask>", "<mask>", "on", "a", "<unk>")]
    assert mask_captions(human, AGE) == [("a", "<mask>", "<mask>", "on", "a", "unicycle")]


def test_default_words_reach_mask_words_behind_hyphens_and_clitics():
    assert mask_captions(tokenize_captions(["A 12-year-old boy's hat"]), AGE)[0].count("<mask>") == 2


def test_the_originals_tokens():
    # NLTK's word_tokenize gives these; spaCy then cuts the hyphen and <unk>.
    tokens = tokenize_treebank("A man's \"t-shirt\" (red), isn't it? 3:30 a.m. here.")
    assert tokens[:9] == ["a", "man", "'s", '"', "t-shirt", '"', "(", "red", ")"]
    assert tokens[-1] == "." and "3:30" in tokens and "n't" in tokens
    assert as_words(("a", "<mask>", "t-shirt", "<unk>"), "genderword", "treebank") == [
        *("a", "genderword", "t", "-", "shirt", "<", "unk", ">")
    ]


def test_bert_reads_its_own_symbols():
    assert as_text(("<mask>", "rides", "<unk>")) == "[MASK] rides [UNK]"


def test_vocabulary_between_spaces_counts_glued_forms_apart():
    # Model: "a", "field." and "field" are three words between spaces, two by the tokenizer.
    raw = (["A field.", "a field"], ["the the the cat cat sat field. field"])
    model, human = tokenize_captions(raw[0]), tokenize_captions(raw[1])
    assert choose_vocabulary("human", "m", model, human) == {"the", "cat"}
    # Of the words that occur once, the first in the alphabet.
    assert choose_vocabulary("human", "m", model, human, raw) == {"the", "cat", "field"}


def test_vocabulary_file_by_model(tmp_path):
    (tmp_path / "sat.txt").write_text("<unk>\na\ndog\n")
    assert choose_vocabulary(str(tmp_path / "{model}.txt"), "sat", [], []) == {"<unk>", "a", "dog"}


def test_unknown_share_leaves_masked_words_aside():
    # Four words: one masked, one unknown.
    assert measure_unknown_share(mask_captions([("a", "man", "rides", "unicycles")], AGE, {"a", "rides"})) == 0.25
