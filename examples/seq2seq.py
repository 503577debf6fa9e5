"""Train a tiny captioner with Seq2SeqTrainer; captious scores each evaluation and chooses the best checkpoint.

The model has random weights and learns 40 drawn images, so that the script runs anywhere. What you keep of it are the
lines with ``metrics`` and ``captious/cider``. Needs: torch, transformers, accelerate
"""

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    GPT2Config,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
    ViTConfig,
)

import captious
from captious.compat.transformers import CaptionMetrics

SIDE, LONGEST = 32, 16


def words_of(text):
    return text.lower().replace(".", "")


def word_tokenizer(texts):
    words = sorted({word for text in texts for word in words_of(text).split()})
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def tiny_captioner(tokenizer):
    encoder = ViTConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        image_size=SIDE,
        patch_size=8,
    )
    special = {
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    decoder = GPT2Config(vocab_size=len(tokenizer), n_embd=64, n_layer=2, n_head=2, n_positions=32, **special)
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id = tokenizer.bos_token_id, tokenizer.pad_token_id
    model = VisionEncoderDecoderModel(config=config)
    model.generation_config.update(decoder_start_token_id=tokenizer.bos_token_id, max_length=LONGEST, **special)
    return model


def examples(captions, tokenizer):
    """Pixels of each image with one of its references as the labels."""
    rows = []
    for image, texts in zip(captions.images, captions.references, strict=True):
        pixels = np.asarray(Image.open(image).convert("RGB").resize((SIDE, SIDE)), dtype=np.float32) / 127.5 - 1
        labels = tokenizer(words_of(texts[0]), max_length=LONGEST, truncation=True).input_ids
        rows.append({"pixel_values": torch.from_numpy(pixels).permute(2, 0, 1), "labels": labels})
    return rows


def batch_of(rows):
    longest = max(len(row["labels"]) for row in rows)
    labels = [row["labels"] + [-100] * (longest - len(row["labels"])) for row in rows]
    return {"pixel_values": torch.stack([row["pixel_values"] for row in rows]), "labels": torch.tensor(labels)}


def main():
    torch.manual_seed(1)
    data = captious.demo().systems["expert"].take(range(40))
    tokenizer = word_tokenizer(text for texts in data.references for text in texts)
    rows = examples(data, tokenizer)

    metrics = CaptionMetrics("cider, rouge", tokenizer, references=[list(texts) for texts in data.references])
    arguments = Seq2SeqTrainingArguments(
        "checkpoints",
        num_train_epochs=30,
        learning_rate=3e-3,
        per_device_train_batch_size=20,
        per_device_eval_batch_size=40,
        predict_with_generate=True,
        eval_strategy="steps",
        eval_steps=20,
        save_strategy="best",
        metric_for_best_model="captious/cider",
        save_only_model=True,
        logging_steps=20,
        disable_tqdm=True,
        report_to=[],
        use_cpu=True,
        seed=1,
    )
    trainer = Seq2SeqTrainer(
        tiny_captioner(tokenizer),
        arguments,
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=batch_of,
        compute_metrics=metrics,
    )
    trainer.train()

    evaluations = [entry for entry in trainer.state.log_history if "eval_captious/cider" in entry]
    for entry in evaluations:
        low, high = entry["eval_captious/cider_low"], entry["eval_captious/cider_high"]
        print(f"step {entry['step']}: CIDEr-D {entry['eval_captious/cider']:.2f} ({low:.2f} to {high:.2f})")
    best = max(evaluations, key=lambda entry: entry["eval_captious/cider"])
    assert trainer.state.best_metric == best["eval_captious/cider"] > evaluations[0]["eval_captious/cider"]
    print(f"the highest CIDEr-D: {trainer.state.best_model_checkpoint}")
    metrics.report.worst(3).print()
    metrics.report.save("report.html", overwrite=True)


if __name__ == "__main__":
    main()
