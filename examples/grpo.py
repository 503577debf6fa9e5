"""Train a tiny captioner with TRL's GRPOTrainer; captious gives the rewards and watches for a policy that games them.

The model is a LLaVA of 150,000 random weights, so that the script runs anywhere. What you keep of it are the lines with
``rewards``. If you stop the script and start it again, it resumes from the last checkpoint.
Needs: torch, transformers, trl
"""

import logging
import sys
from pathlib import Path

import torch
from datasets import Dataset
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    PrinterCallback,
)
from trl import GRPOConfig, GRPOTrainer

import captious

SIDE, PATCH = 32, 16
TEMPLATE = (
    "{% for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %} {{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %} answer{% endif %}"
)


def tiny_processor(texts):
    """Words of the references as tokens, and images of 32 × 32 pixels in four patches."""
    words = sorted({word for text in texts for word in text.lower().replace(".", "").split()})
    special = ["<pad>", "<s>", "</s>", "<unk>", "<image>", "describe", "answer"]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys([*special, *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens={"image_token": "<image>"},
        padding_side="left",
    )
    images = CLIPImageProcessorPil(
        size={"height": SIDE, "width": SIDE}, crop_size={"height": SIDE, "width": SIDE}, do_center_crop=False
    )
    return LlavaProcessor(
        image_processor=images,
        tokenizer=fast,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )


def tiny_captioner(processor):
    tokenizer = processor.tokenizer
    vision = CLIPVisionConfig(
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=SIDE,
        patch_size=PATCH,
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=tokenizer.convert_tokens_to_ids("<image>")
    )
    return LlavaForConditionalGeneration(config)


def rows_of(captions):
    """Make a prompt for each image. The column ``image_id`` says which references are its own."""
    prompt = [{"role": "user", "content": "describe"}]
    images = [Image.open(path).convert("RGB") for path in captions.images]
    return Dataset.from_dict({"prompt": [prompt] * len(images), "image": images, "image_id": list(captions.ids)})


def main(folder="grpo", steps=20, metrics="clipscore(captious-mini), rouge"):
    torch.manual_seed(1)
    demo = captious.demo()
    data = demo.systems["expert"].take(range(40))
    processor = tiny_processor(text for texts in data.references for text in texts)

    rewards = captious.rewards(
        metrics,
        references=demo.references,
        images=demo.images,
        watch="cider, distinct_n, words",
        every=5,
        out=f"{folder}/rewards",
    )
    arguments = GRPOConfig(
        folder,
        max_steps=steps,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        per_device_train_batch_size=16,
        num_generations=4,
        max_completion_length=12,
        reward_weights=rewards.weights,
        logging_steps=1,
        save_steps=10,
        disable_tqdm=True,
        report_to=[],
        use_cpu=True,
        bf16=False,
        seed=1,
    )
    trainer = GRPOTrainer(
        tiny_captioner(processor),
        reward_funcs=rewards,
        args=arguments,
        train_dataset=rows_of(data),
        processing_class=processor,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=any(Path(folder).glob("checkpoint-*")))

    for entry in trainer.state.log_history:
        if "reward" in entry and entry["step"] % 5 == 0:
            shown = ", ".join(f"{one.__name__} {entry[f'rewards/{one.__name__}/mean']:.2f}" for one in rewards)
            print(
                f"step {entry['step']}: reward {entry['reward']:.2f}, {shown}, missing {entry['captious/missing']:.0%}"
            )
    print(f"look at it: captious view {folder}/rewards")


if __name__ == "__main__":
    logging.getLogger("trl").setLevel(logging.ERROR)
    main(*sys.argv[1:2])
